//! A call in a few words: the tool, and what of its input tells most. Read from the names of the fields, so that tools
//! of others are told as well.

use super::text::one_line;
use proto::entry::{Call, CallResult};
use serde_json::Value;

/// Characters of what a call is given.
const LONGEST: usize = 120;

/// `bash cargo test`.
pub(crate) fn words(call: &Call, dir: &str) -> String {
    told(&call.tool, call.given().get(), dir)
}

/// What was changed is known when it is done: such a call is told with its result, as `edit src/main.rs +2 −1`.
pub(crate) fn is_told_at_its_end(call: &Call) -> bool {
    let fields: Value = serde_json::from_str(call.given().get()).unwrap_or_default();
    ["oldString", "old_string"].iter().any(|name| fields.get(*name).is_some())
}

/// How many lines came and went, where a result says so.
pub(crate) fn changed(result: &CallResult) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Facts {
        added: u64,
        removed: u64,
    }
    let facts: Facts = serde_json::from_str(result.data.as_ref()?.get()).ok()?;
    Some(format!("+{} −{}", facts.added, facts.removed))
}

fn told(tool: &str, input: &str, dir: &str) -> String {
    let tool = one_line(tool, 60);
    let fields: Value = serde_json::from_str(input).unwrap_or_default();
    let about = match &fields {
        Value::Object(fields) if fields.is_empty() => String::new(),
        Value::Object(_) => about(&Fields(&fields, dir)).unwrap_or_else(|| input.to_owned()),
        _ => input.to_owned(),
    };
    format!("{tool} {}", one_line(&about, LONGEST)).trim_end().to_owned()
}

/// What tells most. Commands come before what they are said to be for: that is the model's word.
fn about(fields: &Fields<'_>) -> Option<String> {
    if let Some(text) = fields.any(&["command", "url", "query"]) {
        return Some(text.to_owned());
    }
    if let Some(patch) = fields.any(&["patch"]) {
        return Some(patched(patch));
    }
    let path = fields.path();
    if let Some(pattern) = fields.any(&["pattern"]) {
        return Some(path.map_or_else(|| pattern.to_owned(), |path| format!("{pattern} in {path}")));
    }
    if let Some(path) = path {
        return Some(match fields.any(&["content", "contents"]) {
            Some(content) => format!("{path} ({})", lines(content)),
            None => path.to_owned(),
        });
    }
    fields.to_somebody().or_else(|| fields.list())
}

fn lines(text: &str) -> String {
    match text.lines().count() {
        1 => "1 line".to_owned(),
        count => format!("{count} lines"),
    }
}

/// The files of a patch, and how many lines come and go.
fn patched(patch: &str) -> String {
    let (mut files, mut added, mut removed) = (Vec::new(), 0, 0);
    for line in patch.lines() {
        if let Some(file) = line.strip_prefix("*** ").and_then(|line| Some(line.split_once(" File: ")?.1)) {
            files.push(file.trim());
        }
        added += usize::from(line.starts_with('+'));
        removed += usize::from(line.starts_with('-'));
    }
    format!("{} +{added} −{removed}", files.join(", "))
}

/// The input of a call, and the directory that paths are shown from.
struct Fields<'a>(&'a Value, &'a str);

impl Fields<'_> {
    /// The first of these fields that says something.
    fn any(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.0.get(*name)?.as_str()).filter(|text| !text.trim().is_empty())
    }

    fn path(&self) -> Option<&str> {
        let path = self.any(&["filePath", "file_path", "path"])?;
        let inside = path.strip_prefix(self.1).and_then(|rest| rest.strip_prefix('/'));
        Some(inside.filter(|rest| !rest.is_empty()).unwrap_or(path))
    }

    /// Who it goes to, or who is started, and what for.
    fn to_somebody(&self) -> Option<String> {
        let whom = self.any(&["to", "name", "label", "subagent_type", "agentId", "sessionKey", "target"]);
        let what = self.any(&["summary", "description", "message", "task", "prompt", "title"]);
        let what = what.or_else(|| self.0.get("message")?.get("type")?.as_str());
        match (self.any(&["action"]), whom, what) {
            (Some(action), whom, what) => {
                Some([Some(action), whom, what].into_iter().flatten().collect::<Vec<_>>().join(" "))
            }
            (None, Some(whom), Some(what)) => Some(format!("{whom}: {what}")),
            (None, one, other) => one.or(other).map(str::to_owned),
        }
    }

    /// A list that the input is all about.
    fn list(&self) -> Option<String> {
        let (name, items) = self.0.as_object()?.iter().find_map(|(name, value)| Some((name, value.as_array()?)))?;
        match items.as_slice() {
            [one] => one.get("question")?.as_str().map(str::to_owned),
            several => Some(format!("{} {name}", several.len())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_call_is_told_by_what_it_is_about() {
        for (tool, input, expected) in [
            ("bash", json!({ "command": "cargo test", "description": "Run the tests" }), "bash cargo test"),
            ("bash", json!({ "command": "cd a &&\n  make" }), "bash cd a && make"),
            ("read", json!({ "filePath": "/p/src/main.rs", "offset": 3 }), "read src/main.rs"),
            ("read", json!({ "filePath": "/other/main.rs" }), "read /other/main.rs"),
            ("edit", json!({ "filePath": "a.rs", "oldString": "x", "newString": "y" }), "edit a.rs"),
            (
                "apply_patch",
                json!({ "patch": "*** Begin Patch\n*** Update File: a.rs\n@@\n-x\n+y\n+z\n*** Add File: b.rs\n+1\n*** End Patch" }),
                "apply_patch a.rs, b.rs +3 −1",
            ),
            ("write", json!({ "filePath": "notes.txt", "content": "one\ntwo\n" }), "write notes.txt (2 lines)"),
            ("grep", json!({ "pattern": "fn main", "path": "src" }), "grep fn main in src"),
            ("glob", json!({ "pattern": "**/*.md" }), "glob **/*.md"),
            ("list", json!({ "path": "." }), "list ."),
            ("list_peers", json!({}), "list_peers"),
            ("webfetch", json!({ "url": "https://a.example/b", "format": "text" }), "webfetch https://a.example/b"),
            ("agent", json!({ "name": "writer", "description": "Write it", "prompt": "…" }), "agent writer: Write it"),
            ("task", json!({ "subagent_type": "explore", "description": "Look", "prompt": "…" }), "task explore: Look"),
            ("send_message", json!({ "to": "tester", "message": "Is it green?" }), "send_message tester: Is it green?"),
            (
                "send_message",
                json!({ "to": "tester", "message": { "type": "shutdown_request" } }),
                "send_message tester: shutdown_request",
            ),
            ("subagents", json!({ "action": "kill", "target": "writer" }), "subagents kill writer"),
            ("todowrite", json!({ "todos": [{ "content": "a" }, { "content": "b" }] }), "todowrite 2 todos"),
            ("question", json!({ "questions": [{ "question": "Which one?" }] }), "question Which one?"),
            ("other", json!({ "x": 1 }), r#"other {"x":1}"#),
            ("bash", json!("no object"), r#"bash "no object""#),
            ("bash\n\x1b[2J", json!({ "command": "\x1b[2J" }), r"bash \u{1b}[2J \u{1b}[2J"),
        ] {
            assert_eq!(told(tool, &input.to_string(), "/p"), expected, "{input}");
        }
    }
}
