//! The model that needs no network: built in, deterministic, and honest about what it is.
//!
//! It is a [`Provider`] like any other, and nothing else in the program knows it. It looks only at what came since the
//! newest prompt, so a long history costs it nothing.
//!
//! # `offline/plain`
//!
//! Follows plain instructions by calling the tools it is offered, one step at a time, and then answers from what they
//! returned. Instructions stand on lines of their own or are joined by `then` or `;`:
//!
//! ```text
//! read FILE                   list [DIR]              glob PATTERN
//! find where WORDS [in DIR]   fetch URL               run `COMMAND`
//! write FILE: TEXT            edit FILE replace A with B
//! ask AGENT to ...            call TOOL {"json": "input"}
//! ```
//!
//! # `offline/<script>`
//!
//! Plays a file: an absolute path, or a name in the scripts folder of the config; `.script` may be left out.
//!
//! ```text
//! # A line that starts with # is a comment.
//! say: played when no section below matches
//!
//! when: tidy                       a section: its steps are played when the newest prompt contains these words
//! think: what is there to tidy?
//! call list {"path": "."}          several calls in one step run in parallel
//! ---                              the next step, played once the results are there
//! say: I found this:
//!   {{last}}                       an indented line goes on with the line above
//! ```
//!
//! A section that begins with `on: WORDS` instead of `when:` is for letters: it is played beside the one under way, for
//! every letter that contains the words, also when several come at once.
//!
//! The step played is the number of assistant messages since the newest prompt (a mention's dispatch is one of them);
//! past the last step the script says `(end of script)`. Lines of a step: `say:`, `think:`, `call TOOL {json}`,
//! `wait: 50ms` (before answering), `fail: network|auth|overflow|rate`, `usage: IN OUT` (tokens). In texts and in JSON
//! strings `{{prompt}}` is the newest prompt, `{{last}}` the newest tool result, `{{last.a.0.b}}` a field of it if it is
//! JSON; a JSON string that is nothing but such a field takes the field's own type.

mod answer;
mod instruction;
mod plain;
mod script;
mod tail;
mod words;

use crate::{Delta, Error, Message, Model, Part, Provider, Reply, Request, ToolSpec, estimate};
use async_trait::async_trait;
use bytes::Bytes;
use proto::Usage;
use proto::entry::Finish;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tail::Turn;

/// The one model that is no script.
pub const PLAIN: &str = "plain";

/// Into about how many deltas a text is cut.
const DELTAS: usize = 6;

/// A larger script is not one.
const LARGEST_SCRIPT: u64 = 1024 * 1024;

/// What this model is taken to be able to hold.
pub fn model(name: &str) -> Model {
    Model::new(name, 200_000, 8_000)
}

pub struct Offline {
    scripts: PathBuf,
}

/// What the model does next.
#[derive(Debug, Default)]
struct Play {
    wait: Duration,
    parts: Vec<Part>,
    usage: Option<(u64, u64)>,
}

impl Play {
    fn say(text: impl Into<String>) -> Self {
        Self { parts: vec![Part::Text(text.into())], ..Self::default() }
    }

    fn call(tool: &str, input: &serde_json::Value) -> Self {
        let call = Part::Call { id: None, tool: tool.to_owned(), input: input.to_string() };
        Self { parts: vec![call], ..Self::default() }
    }
}

impl Offline {
    pub fn new(scripts_dir: PathBuf) -> Self {
        Self { scripts: scripts_dir }
    }

    /// Whether `offline/<name>` is something.
    pub fn has(&self, name: &str) -> bool {
        name == PLAIN || self.find(name).is_some()
    }

    /// `plain`, and the scripts of the folder.
    pub fn names(&self) -> Vec<String> {
        let mut names = vec![PLAIN.to_owned()];
        let files = std::fs::read_dir(&self.scripts).into_iter().flatten().flatten();
        let scripts = files.filter_map(|file| {
            let path = file.path();
            let is_script = path.extension().is_some_and(|extension| extension == "script");
            path.file_stem().filter(|_| is_script)?.to_str().map(str::to_owned)
        });
        names.extend(scripts);
        names[1..].sort();
        names
    }

    fn find(&self, name: &str) -> Option<PathBuf> {
        let given = Path::new(name);
        let leaves = given.components().any(|part| part == std::path::Component::ParentDir);
        if leaves && !given.is_absolute() {
            return None;
        }
        let path = self.scripts.join(given);
        let longer = path.with_file_name(format!("{}.script", path.file_name()?.to_str()?));
        [path, longer].into_iter().find(|path| path.is_file())
    }

    async fn play(&self, request: &Request) -> Result<Play, Error> {
        if request.model.name == PLAIN {
            return Ok(plain::next(&Turn::read(&request.messages), request));
        }
        let name = &request.model.name;
        let path = self.find(name).ok_or_else(|| Error::Refused(format!("there is no script `{name}`")))?;
        script::parse(&read(&path).await?, &path.display().to_string())?.play(&request.messages)
    }
}

async fn read(path: &Path) -> Result<String, Error> {
    let failed = |reason: String| Error::Refused(format!("script `{}`: {reason}", path.display()));
    let size = tokio::fs::metadata(path).await.map_err(|error| failed(error.to_string()))?.len();
    if size > LARGEST_SCRIPT {
        return Err(failed(format!("larger than {LARGEST_SCRIPT} bytes")));
    }
    tokio::fs::read_to_string(path).await.map_err(|error| failed(error.to_string()))
}

#[async_trait]
impl Provider for Offline {
    fn encode(&self, message: &Message<'_>) -> Bytes {
        tail::encode(message)
    }

    fn encode_tools(&self, tools: &[ToolSpec]) -> Bytes {
        plain::encode_tools(tools)
    }

    /// A script that fails means it.
    fn retries(&self) -> u32 {
        0
    }

    async fn stream(&self, request: Request, seen: &mut (dyn FnMut(Delta) + Send)) -> Result<Reply, Error> {
        let play = self.play(&request).await?;
        if !play.wait.is_zero() {
            tokio::time::sleep(play.wait).await;
        }
        for part in &play.parts {
            show(part, seen).await;
        }
        let said = play.parts.iter().map(Part::size).sum();
        let (input, output) = play.usage.unwrap_or_else(|| (estimate(request.size()), estimate(said)));
        let calls = play.parts.iter().any(|part| matches!(part, Part::Call { .. }));
        let finish = if calls { Finish::ToolCalls } else { Finish::Stop };
        Ok(Reply { parts: play.parts, usage: Usage { input, output, ..Usage::default() }, finish })
    }
}

async fn show(part: &Part, seen: &mut (dyn FnMut(Delta) + Send)) {
    match part {
        Part::Block(_) => {}
        Part::Call { tool, .. } => seen(Delta::Call(tool.clone())),
        Part::Reasoning(thought) => seen(Delta::Reasoning(thought.text.clone())),
        Part::Text(text) => {
            for piece in pieces(text) {
                seen(Delta::Text(piece.to_owned()));
                // Whoever shows them gets to run in between, as with a model that takes time.
                tokio::task::yield_now().await;
            }
        }
    }
}

/// A few pieces, cut behind spaces where there are some.
fn pieces(text: &str) -> Vec<&str> {
    let size = text.len().div_ceil(DELTAS).max(12);
    let mut pieces = Vec::new();
    let mut rest = text;
    while rest.len() > size {
        let from = rest.ceil_char_boundary(size);
        let cut = rest[from..].find(' ').map_or(from, |space| from + space + 1);
        let (piece, later) = rest.split_at(cut);
        pieces.push(piece);
        rest = later;
    }
    if !rest.is_empty() {
        pieces.push(rest);
    }
    pieces
}

#[cfg(test)]
mod tests;
