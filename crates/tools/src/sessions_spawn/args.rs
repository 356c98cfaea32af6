//! What `sessions_spawn` is asked, checked in the order of the contract.

use crate::doors::{Attachment, Spawn};
use crate::tolerant;
use proto::letter::Allotment;
use proto::{AgentId, Code, Error};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::time::Duration;

const MAX_ATTACHMENTS: usize = 50;
const MAX_FILE: usize = 1 << 20;
const MAX_ALL: usize = 5 << 20;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Args {
    /// The whole brief: the session knows nothing else.
    #[serde(default, deserialize_with = "tolerant::text")]
    task: Option<String>,
    #[serde(default, deserialize_with = "tolerant::text")]
    #[schemars(skip)]
    prompt: Option<String>,
    /// A name to reach it by; unique among your agent's live sessions.
    #[serde(default, deserialize_with = "tolerant::text")]
    label: Option<String>,
    /// What runs it: `subagent` (one of ours) or `acp` (another vendor's agent).
    #[serde(default, deserialize_with = "tolerant::or_default")]
    runtime: Runtime,
    /// The agent it runs as; your own without it.
    #[serde(default, deserialize_with = "tolerant::text", alias = "agent_id")]
    agent_id: Option<String>,
    /// Only with `runtime: "acp"`.
    #[serde(default, deserialize_with = "tolerant::text", alias = "resume_session_id")]
    resume_session_id: Option<String>,
    /// `provider/model`; the agent's or yours without it.
    #[serde(default, deserialize_with = "tolerant::text")]
    model: Option<String>,
    /// How hard it is to think, where the model can be told.
    #[serde(default, deserialize_with = "tolerant::text")]
    thinking: Option<String>,
    /// Its directory; yours without it.
    #[serde(default, deserialize_with = "tolerant::text")]
    cwd: Option<String>,
    /// Ends its run after so long.
    #[serde(default, deserialize_with = "tolerant::number", alias = "run_timeout_seconds")]
    #[schemars(with = "Option<u64>")]
    run_timeout_seconds: Option<u64>,
    // Other names for the same: the first that has a value wins, in this order.
    #[serde(default, deserialize_with = "tolerant::number", alias = "timeout_seconds")]
    #[schemars(skip)]
    timeout_seconds: Option<u64>,
    #[serde(default, deserialize_with = "tolerant::number")]
    #[schemars(skip)]
    timeout: Option<u64>,
    /// Needs a channel with threads.
    #[serde(default, deserialize_with = "tolerant::truth")]
    thread: bool,
    /// `run`: done after its answer, though mail can resume it; `session`: stays open.
    #[serde(default)]
    mode: Option<Mode>,
    /// `delete` hides it once its answer is delivered.
    #[serde(default, deserialize_with = "tolerant::or_default")]
    cleanup: Cleanup,
    /// `require`: it reaches no sessions but those it starts, and its commands run only inside the sandbox.
    #[serde(default, deserialize_with = "tolerant::or_default")]
    sandbox: Sandbox,
    /// Only with `runtime: "acp"`.
    #[serde(default, deserialize_with = "tolerant::text", alias = "stream_to")]
    stream_to: Option<String>,
    /// Files it gets, at most 50: 1 MiB each, 5 MiB in all.
    #[serde(default, deserialize_with = "tolerant::list")]
    attachments: Vec<File>,
    /// Only these tools, of those it would have.
    #[serde(default, deserialize_with = "tolerant::or_default")]
    tools: Vec<String>,
    /// True, as by default: you go on, and its answer comes as a message. False: you wait for it here.
    #[serde(default, deserialize_with = "tolerant::maybe_truth")]
    background: Option<bool>,
    /// `fresh`: it knows only its task.
    #[serde(default, deserialize_with = "tolerant::or_default")]
    context: Context,
    /// What it and all it starts may spend, taken out of what is left of yours; the rest comes back at its end.
    #[serde(default)]
    budget: Option<Budget>,
    /// Where the files are to appear, as a hint to the session.
    #[serde(default, alias = "attach_as")]
    attach_as: Option<AttachAs>,
    // What belongs to channels is known here only to be refused by its name.
    #[serde(rename = "target", default, deserialize_with = "present")]
    #[schemars(skip)]
    target: bool,
    #[serde(rename = "transport", default, deserialize_with = "present")]
    #[schemars(skip)]
    transport: bool,
    #[serde(rename = "channel", default, deserialize_with = "present")]
    #[schemars(skip)]
    channel: bool,
    #[serde(rename = "to", default, deserialize_with = "present")]
    #[schemars(skip)]
    to: bool,
    #[serde(rename = "threadId", default, deserialize_with = "present")]
    #[schemars(skip)]
    thread_id_camel: bool,
    #[serde(rename = "thread_id", default, deserialize_with = "present")]
    #[schemars(skip)]
    thread_id: bool,
    #[serde(rename = "replyTo", default, deserialize_with = "present")]
    #[schemars(skip)]
    reply_to_camel: bool,
    #[serde(rename = "reply_to", default, deserialize_with = "present")]
    #[schemars(skip)]
    reply_to: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Budget {
    /// Tokens, read and written.
    #[serde(default, deserialize_with = "tolerant::number")]
    #[schemars(with = "Option<u64>")]
    tokens: Option<u64>,
    /// US dollars.
    #[serde(default, deserialize_with = "tolerant::amount", alias = "cost_usd")]
    #[schemars(with = "Option<f64>")]
    cost_usd: Option<f64>,
    /// Sessions it may start.
    #[serde(default, deserialize_with = "tolerant::number")]
    #[schemars(with = "Option<u64>")]
    agents: Option<u64>,
}

impl Budget {
    /// One that says nothing is none.
    fn allotment(&self) -> Option<Allotment> {
        let asked = Allotment { cost_usd: self.cost_usd, tokens: self.tokens, agents: self.agents };
        Some(asked).filter(|asked| *asked != Allotment::default())
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct AttachAs {
    /// A path for the files, which the session is told.
    #[serde(default, deserialize_with = "tolerant::text", alias = "mount_path")]
    mount_path: Option<String>,
}

fn present<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    Value::deserialize(from).map(|_| true)
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Runtime {
    #[default]
    Subagent,
    Acp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Mode {
    Run,
    Session,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Cleanup {
    #[default]
    Keep,
    Delete,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Sandbox {
    #[default]
    Inherit,
    Require,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Context {
    #[default]
    Fresh,
    Fork,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct File {
    name: String,
    content: String,
    #[serde(default, deserialize_with = "tolerant::or_default")]
    encoding: Encoding,
    #[serde(default, alias = "mime_type")]
    mime_type: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    #[default]
    Utf8,
    Base64,
}

/// What is wrong with a request: the model sent something else than asked for, or asked for what it cannot have.
pub(super) enum Problem {
    Malformed(String),
    Refused(Error),
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl Args {
    pub(super) fn agent(&self) -> Option<String> {
        self.agent_id.as_deref().map(str::to_ascii_lowercase)
    }

    pub(super) fn cwd(&self) -> Option<&str> {
        self.cwd.as_deref()
    }

    pub(super) fn mode(&self) -> Mode {
        self.mode.unwrap_or(if self.thread { Mode::Session } else { Mode::Run })
    }

    /// The request, or the first thing that is wrong with it.
    pub(super) fn request(self) -> Result<Spawn, Problem> {
        if let Some(key) = self.channel_key() {
            let why = format!("`{key}` is not for spawning: a child answers its parent, not a channel");
            return Err(Error::invalid(why).hint("leave it out; use sessions_send for messages").into());
        }
        let Some(task) = self.task.clone().or_else(|| self.prompt.clone()) else {
            return Err(Problem::Malformed("`task` is missing: say what the session is to do".into()));
        };
        self.check_runtime()?;
        if let Some(agent) = self.agent() {
            AgentId::parse(&agent)?;
        }
        if let Some(why) = self.label.as_deref().and_then(crate::label_is_too_long) {
            return Err(Problem::Malformed(why));
        }
        Ok(Spawn {
            fork: self.context == Context::Fork,
            agent: self.agent(),
            prompt: task,
            label: self.label.clone(),
            model: proto::model::choice(self.model.clone(), self.thinking.as_deref()),
            cwd: self.cwd.clone(),
            timeout: self.timeout().filter(|seconds| *seconds > 0).map(Duration::from_secs),
            stays: self.mode() == Mode::Session,
            cleanup: self.cleanup == Cleanup::Delete,
            waits: self.background == Some(false),
            thread: self.thread,
            sandboxed: self.sandbox == Sandbox::Require,
            tools: self.tools.clone(),
            attachments: files(&self.attachments)?,
            budget: self.budget.as_ref().and_then(Budget::allotment),
            mount: self.attach_as.as_ref().and_then(|attach| attach.mount_path.clone()),
            tool: "sessions_spawn",
            ..Spawn::default()
        })
    }

    /// No limit of its own counts as said: 0 under the first name wins over a number under the next.
    fn timeout(&self) -> Option<u64> {
        self.run_timeout_seconds.or(self.timeout_seconds).or(self.timeout)
    }

    /// A child answers its parent, not a channel.
    fn channel_key(&self) -> Option<&'static str> {
        let keys = [
            ("target", self.target),
            ("transport", self.transport),
            ("channel", self.channel),
            ("to", self.to),
            ("threadId", self.thread_id_camel),
            ("thread_id", self.thread_id),
            ("replyTo", self.reply_to_camel),
            ("reply_to", self.reply_to),
        ];
        keys.into_iter().find(|(_, present)| *present).map(|(key, _)| key)
    }

    /// What only one of the two runtimes takes. The words are the contract's.
    fn check_runtime(&self) -> Result<(), Error> {
        if self.runtime == Runtime::Acp {
            if !self.attachments.is_empty() {
                return Err(Error::invalid(
                    "attachments are currently unsupported for runtime=acp; use runtime=subagent or remove attachments",
                ));
            }
            return Err(unavailable("no agent that speaks ACP can be started yet: use runtime=subagent"));
        }
        if self.stream_to.is_some() {
            return Err(Error::invalid("streamTo is only supported for runtime=acp; got runtime=subagent"));
        }
        if self.resume_session_id.is_some() {
            return Err(Error::invalid("resumeSessionId is only supported for runtime=acp; got runtime=subagent"));
        }
        Ok(())
    }
}

fn unavailable(why: &str) -> Error {
    Error::new(Code::Unavailable, why)
}

fn files(files: &[File]) -> Result<Vec<Attachment>, Error> {
    if files.len() > MAX_ATTACHMENTS {
        return Err(Error::invalid(format!("{} attachments are too many: {MAX_ATTACHMENTS} at most", files.len())));
    }
    let mut names = std::collections::BTreeSet::new();
    let mut all = 0;
    let mut out = Vec::with_capacity(files.len());
    for file in files {
        let name = file.name.trim();
        let bad = name.is_empty() || name.len() > 255 || name == "." || name == "..";
        if bad || name.contains(['/', '\\']) || name.chars().any(char::is_control) || !names.insert(name.to_owned()) {
            return Err(Error::invalid(format!("`{}` cannot name an attachment", name.escape_debug()))
                .hint("names are unique, without separators and control characters"));
        }
        let bytes = match file.encoding {
            Encoding::Utf8 => file.content.clone().into_bytes(),
            Encoding::Base64 => {
                base64(&file.content).ok_or_else(|| Error::invalid(format!("the content of `{name}` is not base64")))?
            }
        };
        all += bytes.len();
        if bytes.len() > MAX_FILE || all > MAX_ALL {
            return Err(Error::invalid(format!("`{name}` is too large")).hint("1 MiB a file, 5 MiB in all"));
        }
        out.push(Attachment { name: name.to_owned(), bytes, mime: file.mime_type.clone() });
    }
    Ok(out)
}

/// Standard base64, with or without padding; white space is passed over.
fn base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut held, mut bits) = (0u32, 0);
    for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=') {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        held = (held << 6) | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push((held >> bits) as u8);
            held &= (1 << bits) - 1;
        }
    }
    // What is left over is padding, and padding is nothing.
    (held == 0).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn refused(input: Value, expected: &str) {
        let args: Args = serde_json::from_value(input.clone()).unwrap();
        match args.request() {
            Err(Problem::Refused(error)) => assert!(error.message.contains(expected), "{input}: {error}"),
            Err(Problem::Malformed(why)) => assert!(why.contains(expected), "{input}: {why}"),
            Ok(request) => panic!("{input} became {request:?}"),
        }
    }

    #[test]
    fn checks_come_in_the_order_of_the_contract() {
        refused(json!({"to": "x", "task": ""}), "`to` is not for spawning");
        refused(json!({"task": " ", "streamTo": "parent"}), "`task` is missing");
        refused(
            json!({"task": "t", "streamTo": "parent", "agentId": "?"}),
            "streamTo is only supported for runtime=acp; got runtime=subagent",
        );
        refused(
            json!({"task": "t", "resumeSessionId": "x"}),
            "resumeSessionId is only supported for runtime=acp; got runtime=subagent",
        );
        let file = json!({"name": "a", "content": "b"});
        refused(
            json!({"task": "t", "runtime": "acp", "attachments": [file]}),
            "attachments are currently unsupported for runtime=acp",
        );
        refused(json!({"task": "t", "runtime": "acp"}), "ACP");
        refused(json!({"task": "t", "agentId": "a b", "label": "x".repeat(513)}), "not an agent's name");
        refused(json!({"task": "t", "label": "x".repeat(513)}), "`label` has 513 characters");
    }

    #[test]
    fn null_and_attachments_that_are_no_list_say_nothing() {
        let nulls = json!({
            "task": "t", "prompt": null, "label": null, "runtime": null, "agentId": null, "resumeSessionId": null,
            "model": null, "thinking": null, "cwd": null, "runTimeoutSeconds": null, "timeoutSeconds": null,
            "timeout": null, "thread": null, "mode": null, "cleanup": null, "sandbox": null, "streamTo": null,
            "attachments": null, "tools": null, "background": null, "context": null, "budget": null, "attachAs": null,
        });
        let plain = serde_json::from_value::<Args>(json!({ "task": "t" })).unwrap().request();
        let (Ok(plain), Ok(nulls)) = (plain, serde_json::from_value::<Args>(nulls).unwrap().request()) else {
            panic!("both are accepted")
        };
        assert_eq!(format!("{plain:?}"), format!("{nulls:?}"));
        for odd in [json!("notes.txt"), json!({ "name": "a", "content": "b" }), json!(7), json!(true)] {
            let args: Args = serde_json::from_value(json!({ "task": "t", "attachments": odd })).unwrap();
            assert!(args.request().is_ok_and(|request| request.attachments.is_empty()), "{odd}");
        }
        assert!(serde_json::from_value::<Args>(json!({ "task": "t", "attachments": [1] })).is_err());
    }

    #[test]
    fn the_first_name_of_the_time_limit_wins() {
        let limit = |input: Value| {
            let args: Args = serde_json::from_value(input).unwrap();
            args.request().ok().and_then(|request| request.timeout).map(|limit| limit.as_secs())
        };
        assert_eq!(limit(json!({ "task": "t", "timeoutSeconds": 5, "runTimeoutSeconds": 9 })), Some(9));
        assert_eq!(limit(json!({ "task": "t", "timeout": 3, "timeoutSeconds": 5 })), Some(5));
        assert_eq!(limit(json!({ "task": "t", "runTimeoutSeconds": null, "timeoutSeconds": 5 })), Some(5));
        assert_eq!(limit(json!({ "task": "t", "runTimeoutSeconds": 0, "timeoutSeconds": 5 })), None);
        assert_eq!(limit(json!({ "task": "t", "timeout": 2 })), Some(2));
    }

    #[test]
    fn attachments_are_checked_and_decoded() {
        let ok = json!({"task": "t", "attachments": [
            {"name": "a.txt", "content": "hello"},
            {"name": "b.bin", "content": "aGVs\nbG8=", "encoding": "base64"},
        ]});
        let args: Args = serde_json::from_value(ok).unwrap();
        let Ok(request) = args.request() else { panic!("accepted") };
        assert!(request.attachments.iter().all(|file| file.bytes == b"hello"));
        for name in ["", "a/b", "..", "x\ny"] {
            refused(json!({"task": "t", "attachments": [{"name": name, "content": ""}]}), "cannot name");
        }
        let twice = json!([{"name": "a", "content": ""}, {"name": "a", "content": ""}]);
        refused(json!({"task": "t", "attachments": twice}), "cannot name");
        refused(
            json!({"task": "t", "attachments": [{"name": "a", "content": "?", "encoding": "base64"}]}),
            "not base64",
        );
        let large = "x".repeat(MAX_FILE + 1);
        refused(json!({"task": "t", "attachments": [{"name": "a", "content": large}]}), "too large");
    }
}
