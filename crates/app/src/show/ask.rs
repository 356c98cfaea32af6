//! A permission request or a question as lines: who asks, all of what would happen, why it is asked, and what became of
//! it. What is in a request is the gateway's to say; nothing is found out here.

use super::text::{flat, one_line};
use super::{Line, Style};
use proto::event::SettledBy;
use proto::letter::AskReply;
use proto::methods::{AskInfo, AskReason};
use proto::{Question, Rule};
use serde_json::Value;

/// What stands before everything that belongs to a request, and before what follows a line break in it.
const IN: &str = "    ";
const FURTHER_IN: &str = "      ";

/// The session that asks: where it stands in its tree, and what it runs as.
pub(crate) fn session(path: &str, agent: &str) -> String {
    if path.is_empty() { flat(agent) } else { format!("{} ({})", flat(path), flat(agent)) }
}

pub(crate) fn who(ask: &AskInfo) -> String {
    session(&ask.about.path, &ask.agent)
}

/// All that a person has to see before they answer.
pub(crate) fn lines(ask: &AskInfo) -> Vec<Line> {
    let mut lines = head(ask);
    lines.extend(what(ask));
    lines.extend(further(ask));
    lines.extend(ask.about.reason.as_ref().map(because));
    lines
}

/// The same with every field of the call, however long: for a pager.
pub(crate) fn whole(ask: &AskInfo) -> Vec<Line> {
    let mut lines = head(ask);
    lines.extend(ask.about.reason.as_ref().map(because));
    lines.extend(further(ask));
    lines.push(Line::dim(format!("  the call of `{}`:", flat(&ask.tool))));
    lines.extend(fields(&ask.about.input, &[]));
    if let Some(diff) = &ask.about.diff {
        lines.push(Line::dim("  what it would make of files:"));
        lines.extend(diff.lines().map(coloured));
    }
    lines.extend(cut(ask));
    lines
}

fn head(ask: &AskInfo) -> Vec<Line> {
    let tool = if ask.tool.is_empty() || ask.tool == ask.permission {
        String::new()
    } else {
        format!(" to use `{}`", flat(&ask.tool))
    };
    let mut lines = vec![Line::new(Style::Bold, format!("? {} asks for `{}`{tool}:", who(ask), flat(&ask.permission)))];
    if ask.about.may_be_denied && ask.about.reason.is_some() {
        let doubt = "  a rule that denies might match this, which is known only when it runs";
        lines.push(Line::new(Style::Error, doubt));
    }
    lines
}

/// What would happen: a diff where there is one, else the call.
fn what(ask: &AskInfo) -> Vec<Line> {
    let about = &ask.about;
    let mut lines = match (&about.diff, about.input.get("command").and_then(Value::as_str)) {
        (Some(diff), _) => diff.lines().map(coloured).collect(),
        (None, Some(command)) => {
            let mut lines = text(command, Style::Plain);
            lines.extend(fields(&about.input, &["command"]));
            lines
        }
        // What an older program asked names its patterns alone.
        (None, None) if about.input.is_null() => {
            ask.patterns.iter().flat_map(|pattern| text(pattern, Style::Plain)).collect()
        }
        (None, None) => fields(&about.input, &[]),
    };
    lines.extend(cut(ask));
    lines
}

/// A text in full, each of its lines on one.
fn text(text: &str, style: Style) -> Vec<Line> {
    let indent = |at: usize| if at == 0 { IN } else { FURTHER_IN };
    let lines = text.split('\n').enumerate();
    lines.map(|(at, line)| Line::new(style, format!("{}{line}", indent(at)))).collect()
}

fn fields(input: &Value, without: &[&str]) -> Vec<Line> {
    let Value::Object(fields) = input else {
        return if input.is_null() { Vec::new() } else { text(&input.to_string(), Style::Plain) };
    };
    let fields = fields.iter().filter(|(name, _)| !without.contains(&name.as_str()));
    let field = |(name, value): (&String, &Value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        text(&format!("{}: {value}", flat(name)), Style::Plain)
    };
    fields.flat_map(field).collect()
}

fn coloured(line: &str) -> Line {
    let style = match line.as_bytes() {
        [b'-', b'-', b'-', b' ', ..] | [b'+', b'+', b'+', b' ', ..] => Style::Bold,
        [b'+', ..] => Style::Added,
        [b'-', ..] => Style::Removed,
        [b'@', b'@', ..] => Style::Place,
        _ => Style::Plain,
    };
    Line::new(style, format!("{IN}{line}"))
}

fn cut(ask: &AskInfo) -> Option<Line> {
    let about = &ask.about;
    if !(about.input_cut || about.diff_cut) {
        return None;
    }
    let id = &ask.ask_id;
    let words =
        format!("NOT ALL IS SHOWN: the call has {} bytes; `convoke approve {id}` shows them", about.input_bytes);
    Some(Line::new(Style::Error, format!("{IN}{words}")))
}

/// What it needs beside the permission that it is named by.
fn further(ask: &AskInfo) -> Vec<Line> {
    let pairs = ask.rules.iter().zip(&ask.patterns);
    let other = pairs.filter(|(rule, _)| rule.permission != ask.permission || ask.permission == "external_directory");
    let mut told: Vec<String> = Vec::new();
    for (rule, pattern) in other {
        let line = format!("  needs `{}` of `{}`", flat(&rule.permission), flat(pattern));
        if !told.contains(&line) {
            told.push(line);
        }
    }
    told.into_iter().map(Line::dim).collect()
}

fn because(reason: &AskReason) -> Line {
    let rule = reason.rule.as_ref().map(|rule| format!(": {} `{}`", flat(&rule.permission), flat(&rule.pattern)));
    let place = match (&reason.file, reason.line) {
        (Some(file), Some(line)) => format!(" ({}:{line})", flat(file)),
        (Some(file), None) => format!(" ({})", flat(file)),
        (None, _) => String::new(),
    };
    Line::dim(format!("  because {}{}{place}", reason.text, rule.unwrap_or_default()))
}

/// What a choice of `always` keeps. Rules of other permissions say which.
pub(crate) fn kept(permission: &str, rules: &[Rule]) -> String {
    let text = |rule: &Rule| match rule.permission == permission {
        true => format!("`{}`", flat(&rule.pattern)),
        false => format!("`{}` for `{}`", flat(&rule.permission), flat(&rule.pattern)),
    };
    rules.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// What became of one that stood on the screen, or waited.
pub(crate) fn settled(who: &str, by: SettledBy, reply: Option<AskReply>) -> Line {
    let what = match reply {
        Some(AskReply::Once) => "answered: allowed once",
        Some(AskReply::Always) => "answered: always allowed",
        Some(AskReply::Reject) => "answered: rejected",
        None => "not asked any more",
    };
    let by = match by {
        SettledBy::Person if reply.is_some() => ", from another terminal or program",
        SettledBy::Session => ", by the session it was put to",
        SettledBy::Timeout => ": no answer came in time",
        SettledBy::Stopped => ": the call was stopped",
        SettledBy::Person | SettledBy::Unknown => "",
    };
    Line::dim(format!("  {who}: {what}{by}"))
}

/// A question with what there is to choose from.
pub(crate) fn question(who: &str, question: &Question) -> Vec<Line> {
    let header = question.header.as_ref().map(|header| format!("{}: ", one_line(header, 40))).unwrap_or_default();
    let several = if question.multiple && !question.options.is_empty() { " (several can be chosen)" } else { "" };
    let asks = if who.is_empty() { String::new() } else { format!("{who} asks: ") };
    let mut lines =
        vec![Line::new(Style::Bold, format!("? {asks}{header}{}{several}", one_line(&question.question, 400)))];
    for (option, at) in question.options.iter().zip(1..) {
        let about = option.description.as_ref().map(|about| format!(": {}", one_line(about, 200))).unwrap_or_default();
        lines.push(Line::new(Style::Plain, format!("{IN}{at} {}{about}", one_line(&option.label, 200))));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::methods::AskAbout;
    use proto::{Action, AskId, SessionId};
    use serde_json::json;

    fn ask(permission: &str, input: Value) -> AskInfo {
        AskInfo {
            ask_id: AskId::new(),
            session_id: SessionId::new(),
            agent: "general".into(),
            call_id: None,
            tool: "bash".into(),
            permission: permission.into(),
            patterns: vec!["/etc/*".into()],
            always: Vec::new(),
            keeps: Vec::new(),
            rules: vec![Rule::new("external_directory", "/etc/*", Action::Allow)],
            about: AskAbout { path: "build/writer".into(), input, ..AskAbout::default() },
            created_at: 0,
            until: 0,
            to: None,
            reply: None,
        }
    }

    fn texts(lines: &[Line]) -> Vec<String> {
        lines.iter().map(|line| line.pieces().map(|(_, text)| text).collect()).collect()
    }

    #[test]
    fn a_request_tells_who_asks_and_the_whole_command() {
        let long = format!("echo {} && rm -rf here", "x ".repeat(200));
        let asked = ask("external_directory", json!({ "command": format!("{long}\nls"), "timeout": 5 }));
        assert_eq!(
            texts(&lines(&asked)),
            [
                "? build/writer (general) asks for `external_directory` to use `bash`:",
                &format!("    {long}"),
                "      ls",
                "    timeout: 5",
                "  needs `external_directory` of `/etc/*`",
            ]
        );
    }

    #[test]
    fn a_change_is_told_as_its_diff_and_a_cut_one_says_so() {
        let mut asked = ask("edit", json!({ "filePath": "a" }));
        asked.about.diff = Some("--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n".into());
        asked.about.diff_cut = true;
        let lines = lines(&asked);
        let styles: Vec<Style> = lines.iter().map(|line| line.pieces().next().unwrap().0).collect();
        assert_eq!(styles[1..6], [Style::Bold, Style::Bold, Style::Place, Style::Removed, Style::Added]);
        assert!(texts(&lines)[6].contains("NOT ALL IS SHOWN"), "{lines:?}");
    }

    #[test]
    fn a_request_of_an_older_program_tells_its_patterns() {
        let asked = ask("external_directory", Value::Null);
        assert_eq!(texts(&lines(&asked))[1], "    /etc/*");
    }

    #[test]
    fn what_always_keeps_is_said_with_its_permission() {
        let rule = |permission: &str, pattern: &str| Rule::new(permission, pattern, Action::Allow);
        let rules = [rule("bash", "uname *"), rule("external_directory", "/x/*")];
        assert_eq!(kept("bash", &rules), "`uname *`, `external_directory` for `/x/*`");
    }
}
