//! What `convoke run` prints: JSON lines for programs, or the answer on stdout and progress on stderr for people.

use crate::commands::asked;
use crate::show::{self, Line, Style};
use crate::terminal::{self, Paint, one_line};
use proto::entry::{Call, CallResult, CompactionState, Finish, On, State};
use proto::event::Seen;
use proto::methods::{Accepted, WaitStatus, Waited};
use proto::{CallId, Entry, Error, Question, SessionId, Todo, TodoStatus};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::IsTerminal;

/// Lines that are shown of what a command prints at one moment.
const TAIL: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// The answer alone
    Text,
    /// One JSON object a line
    Json,
}

pub(in crate::commands) struct Output {
    format: Format,
    paint: Paint,
    /// Somebody looks at what passes by.
    watched: bool,
    root: Option<SessionId>,
    /// What each session is called, or which agent it runs as, for the words before its lines.
    agents: HashMap<SessionId, String>,
    /// Calls under way, for the words of their results.
    calls: HashMap<CallId, Told>,
    /// Where the command works, for the names of files.
    dir: String,
}

/// A call that was told.
struct Told {
    tool: String,
    words: String,
    /// Its line comes with its result.
    at_its_end: bool,
}

impl Output {
    pub(in crate::commands) fn new(format: Format, plain: bool) -> Self {
        let paint = Paint::stderr(plain);
        let watched = std::io::stderr().is_terminal();
        let (agents, calls) = (HashMap::new(), HashMap::new());
        Self { format, paint, watched, root: None, agents, calls, dir: String::new() }
    }

    /// Files in this directory are called by their names there.
    pub(super) fn works_in(mut self, dir: &str) -> Self {
        dir.clone_into(&mut self.dir);
        self
    }

    /// Lines of this session stand for themselves; those of others say whose they are.
    pub(in crate::commands) fn watch(&mut self, root: &SessionId) {
        self.root = Some(root.clone());
    }

    /// A session was seen to run as this agent.
    pub(in crate::commands) fn runs_as(&mut self, session: &SessionId, agent: &str) {
        self.agents.insert(session.clone(), agent.to_owned());
    }

    /// Who a session runs as, as far as it was seen.
    pub(in crate::commands) fn agent(&self, session: &SessionId) -> &str {
        self.agents.get(session).map_or("agent", String::as_str)
    }

    /// First of all: which session it is.
    pub(super) fn session(&mut self, accepted: &Accepted) {
        self.root = Some(accepted.session_id.clone());
        if self.format == Format::Json {
            terminal::print_json(&json!({
                "type": "session",
                "sessionId": accepted.session_id,
                "sessionKey": accepted.session_key,
                "agent": accepted.agent,
                "model": accepted.model,
            }));
        }
    }

    pub(in crate::commands) fn event(&mut self, seen: &Seen) {
        match self.format {
            Format::Json => {
                if let Some(line) = event_line(seen) {
                    terminal::print_json(&line);
                }
            }
            Format::Text => self.progress(seen),
        }
    }

    /// Something worth knowing that is no event.
    pub(super) fn note(&self, text: &str) {
        terminal::say(&self.paint.dim(text));
    }

    /// Last of all: how it ended.
    pub(super) fn run(&self, waited: &Waited, text: &str) {
        match self.format {
            Format::Json => {
                if let Some(error) = &waited.error {
                    print_error(error);
                }
                terminal::print_json(&run_line(waited, text));
            }
            Format::Text => {
                if !text.is_empty() {
                    terminal::print_answer(text);
                }
                if let Some(error) = &waited.error {
                    crate::failure::Failure { error: error.clone(), exit: 0 }.print();
                }
            }
        }
    }

    fn progress(&mut self, seen: &Seen) {
        match seen {
            Seen::Entry { session_id, .. } => {
                if let Some(entry) = seen.entry() {
                    self.entry(session_id, &entry);
                }
            }
            Seen::Ask { session_id, to: Some(_), .. } => {
                self.line(session_id, "? puts its plan to the session that started it");
            }
            Seen::Ask { session_id, permission, patterns, .. } => {
                self.line(session_id, &format!("? asks for `{}`:", terminal::flat(permission)));
                for line in asked::wanted(patterns) {
                    self.line(session_id, &line);
                }
            }
            Seen::Question { session_id, questions, .. } => {
                for line in questions.iter().flat_map(lines) {
                    self.line(session_id, &line);
                }
            }
            Seen::Output { session_id, text, .. } if self.watched => {
                let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
                for line in &lines[lines.len().saturating_sub(TAIL)..] {
                    self.line(session_id, &format!("  | {}", one_line(line, 160)));
                }
            }
            Seen::Retry { session_id, after_ms, message, .. } => {
                let seconds = after_ms.div_ceil(1000);
                self.line(session_id, &format!("… trying again in {seconds} s: {}", one_line(message, 160)));
            }
            Seen::Hook { session_id, event, command, error } => {
                let (command, error) = (one_line(command, 60), one_line(error, 160));
                self.line(session_id, &format!("! the hook `{command}` on {event} failed: {error}"));
            }
            Seen::Board { session_id, task } => {
                let title = one_line(&task.title, 80);
                self.line(session_id, &format!("□ task {} {}: {title}", task.number, task.state.as_str()));
            }
            Seen::Delta { .. } | Seen::Output { .. } | Seen::Status { .. } | Seen::Resync {} | Seen::Unknown => {}
        }
    }

    fn entry(&mut self, session: &SessionId, entry: &Entry) {
        match entry {
            Entry::Input(input) => {
                let name = input.name.as_ref().unwrap_or(&input.agent);
                self.agents.insert(session.clone(), name.clone());
            }
            Entry::Reply(reply) => {
                reply.calls().for_each(|call| self.call(session, call));
                match reply.finish {
                    Finish::Length => {
                        self.line(
                            session,
                            "! the answer is cut off: the model may say no more at once (`output` of the model)",
                        );
                    }
                    Finish::ContentFilter => {
                        self.line(session, "! the model's server cut the answer off: its filter objected");
                    }
                    Finish::Stop | Finish::ToolCalls | Finish::Unknown => {}
                }
            }
            Entry::Waiting(waiting) => {
                if let On::Run { session: child, .. } = &waiting.on {
                    self.line(session, &format!("↳ waits for {child}"));
                }
            }
            Entry::Result(result) => self.result(session, result),
            Entry::Notice(notice) => self.line(session, &format!("! {}", one_line(&notice.text, 160))),
            Entry::Compaction(compaction) => {
                if compaction.state == CompactionState::Pending {
                    self.line(session, "~ makes room in its context");
                }
            }
            Entry::Todo(list) => self.todo(session, &list.items),
            Entry::Undo(undone) if undone.refused.is_some() => {}
            Entry::Undo(undone) if undone.redoes.is_some() => self.line(session, "~ what was undone is back"),
            Entry::Undo(undone) => self.line(session, &format!("~ undone back to entry {}", undone.to)),
            Entry::Started(_) | Entry::Ended(_) | Entry::Switch(_) | Entry::ToolsLoaded(_) => {}
        }
    }

    /// How far it is, and what it works on.
    fn todo(&self, session: &SessionId, items: &[Todo]) {
        let left = items.iter().filter(|item| item.is_open()).count();
        let now = items.iter().find(|item| item.status == TodoStatus::InProgress);
        let now = now.map(|item| format!(": {}", one_line(&item.content, 80))).unwrap_or_default();
        self.line(session, &format!("☐ {left} of {} left{now}", items.len()));
    }

    fn call(&mut self, session: &SessionId, call: &Call) {
        let (words, at_its_end) = (show::call::words(call, &self.dir), show::call::is_told_at_its_end(call));
        if !at_its_end {
            self.line(session, &format!("• {words}"));
        }
        self.calls.insert(call.id.clone(), Told { tool: call.tool.clone(), words, at_its_end });
    }

    fn result(&mut self, session: &SessionId, result: &CallResult) {
        let told = self.calls.remove(&result.call);
        let word = match result.state {
            State::Ok => return self.done(session, told.as_ref(), result),
            State::Error => "failed",
            State::Denied => "denied",
            State::Interrupted => "interrupted",
        };
        let what = match &told {
            Some(told) if told.at_its_end => told.words.clone(),
            Some(told) => one_line(&told.tool, 60),
            None => String::new(),
        };
        let line = Line::new(Style::Error, format!("✗ {what} {word}: {}", one_line(&result.output, 120)));
        self.styled(session, line);
    }

    /// A call that is told when it is done.
    fn done(&self, session: &SessionId, told: Option<&Told>, result: &CallResult) {
        let Some(told) = told.filter(|told| told.at_its_end) else { return };
        let changed = show::call::changed(result).map(|changed| format!(" {changed}")).unwrap_or_default();
        self.line(session, &format!("• {}{changed}", told.words));
    }

    fn line(&self, session: &SessionId, text: &str) {
        self.styled(session, Line::dim(text));
    }

    /// A line that says whose it is.
    fn styled(&self, session: &SessionId, line: Line) {
        let below = self.root.as_ref() != Some(session);
        let line = match self.agents.get(session).filter(|_| below) {
            Some(agent) => line.behind(Style::Dim, format!("  [{}] ", one_line(agent, 40))),
            None => line,
        };
        terminal::say(&self.paint.line(&line));
    }
}

/// A question with what there is to choose from.
pub(in crate::commands) fn lines(question: &Question) -> Vec<String> {
    let header = question.header.as_ref().map(|header| format!("{}: ", one_line(header, 40))).unwrap_or_default();
    let several = if question.multiple && !question.options.is_empty() { " (several can be chosen)" } else { "" };
    let mut lines = vec![format!("? {header}{}{several}", one_line(&question.question, 400))];
    for (option, at) in question.options.iter().zip(1..) {
        let about = option.description.as_ref().map(|about| format!(": {}", one_line(about, 200))).unwrap_or_default();
        lines.push(format!("    {at} {}{about}", one_line(&option.label, 200)));
    }
    lines
}

/// An event as a line of JSON, unless it is nobody's business.
pub(in crate::commands) fn event_line(seen: &Seen) -> Option<Value> {
    Some(match seen {
        Seen::Entry { session_id, seq, entry, .. } => {
            json!({ "type": "entry", "sessionId": session_id, "seq": seq, "entry": entry })
        }
        Seen::Delta { session_id, text } => json!({ "type": "delta", "sessionId": session_id, "text": text }),
        Seen::Ask { ask_id, session_id, agent, permission, patterns, rules, to } => json!({
            "type": "ask",
            "askId": ask_id,
            "sessionId": session_id,
            "agent": agent,
            "permission": permission,
            "patterns": patterns,
            "rules": rules,
            "to": to,
        }),
        Seen::Output { session_id, call_id, text, dropped } => json!({
            "type": "output", "sessionId": session_id, "callId": call_id, "text": text, "dropped": dropped,
        }),
        Seen::Question { id, session_id, agent, questions } => json!({
            "type": "question", "id": id, "sessionId": session_id, "agent": agent, "questions": questions,
        }),
        Seen::Retry { session_id, attempt, after_ms, message } => json!({
            "type": "retry",
            "sessionId": session_id,
            "attempt": attempt,
            "afterMs": after_ms,
            "message": message,
        }),
        Seen::Hook { session_id, event, command, error } => json!({
            "type": "hook", "sessionId": session_id, "event": event, "command": command, "error": error,
        }),
        Seen::Board { session_id, task } => json!({ "type": "board", "sessionId": session_id, "task": task }),
        Seen::Status { .. } | Seen::Resync {} | Seen::Unknown => return None,
    })
}

pub(super) fn print_error(error: &Error) {
    let mut line = json!({ "type": "error", "code": error.code, "message": error.message });
    if let Some(hint) = &error.hint {
        line["hint"] = json!(hint);
    }
    terminal::print_json(&line);
}

fn run_line(waited: &Waited, text: &str) -> Value {
    let mut line = json!({
        "type": "run",
        // A wait that never ended is no success.
        "status": if waited.status == WaitStatus::Timeout { WaitStatus::Error } else { waited.status },
        "runId": waited.run_id,
        "sessionKey": waited.session_key,
        "sessionId": waited.session_id,
        "text": text,
        "usage": waited.usage,
    });
    if let Some(error) = &waited.error {
        line["error"] = json!(error);
    }
    line
}
