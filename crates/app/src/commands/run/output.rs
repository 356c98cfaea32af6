//! What `convoke run` prints: JSON lines for programs, or the answer on stdout and progress on stderr for people.

use crate::home::Home;
use crate::screen::Screen;
use crate::show::progress::{Look, Progress};
use crate::show::{self, Line};
use crate::terminal;
use proto::entry::{On, Waiting};
use proto::event::Seen;
use proto::methods::{Accepted, WaitStatus, Waited};
use proto::{Entry, Error, SessionId};
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::time::Instant;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// The answer alone
    Text,
    /// One JSON object a line
    Json,
}

pub(in crate::commands) struct Output {
    format: Format,
    progress: Progress,
    screen: Screen,
    begun: Instant,
}

impl Output {
    /// For a session whose words somebody else shows.
    pub(in crate::commands) fn beside(format: Format, home: &Home) -> Self {
        let look = if std::io::stderr().is_terminal() { Look::Others } else { Look::Brief };
        Self::new(format, home, look, "")
    }

    /// For a run that was started here, in this directory.
    pub(super) fn of_run(format: Format, home: &Home, dir: &str) -> Self {
        let look = match (std::io::stderr().is_terminal(), std::io::stdout().is_terminal()) {
            (true, true) => Look::Live,
            (true, false) => Look::Whole,
            (false, _) => Look::Brief,
        };
        Self::new(format, home, look, dir)
    }

    fn new(format: Format, home: &Home, look: Look, dir: &str) -> Self {
        let screen = Screen::new(home.plain(), home.dumb());
        Self { format, progress: Progress::new(look, dir), screen, begun: Instant::now() }
    }

    /// Lines of this session stand for themselves; those of others say whose they are.
    pub(in crate::commands) fn watch(&mut self, root: &SessionId) {
        self.progress.watch(root);
    }

    /// Who a session is.
    pub(in crate::commands) fn introduce(&mut self, session: &SessionId, name: Option<&str>, agent: &str) {
        self.progress.introduce(session, name, agent);
    }

    /// Who a session runs as, as far as it was seen.
    pub(in crate::commands) fn agent(&self, session: &SessionId) -> &str {
        self.progress.called(session).unwrap_or("agent")
    }

    /// Sessions that an event tells of and that were not introduced, where lines say whose they are.
    pub(super) fn strangers(&self, seen: &Seen) -> Vec<SessionId> {
        if self.format == Format::Json {
            return Vec::new();
        }
        let waited_for = match seen.entry() {
            Some(Entry::Waiting(Waiting { on: On::Run { session, .. }, .. })) => Some(session),
            _ => None,
        };
        let sessions = seen.session().cloned().into_iter().chain(waited_for);
        sessions.filter(|session| !self.progress.knows(session)).collect()
    }

    /// What is going on while nothing is shown of it.
    pub(super) fn status(&mut self) {
        if self.format == Format::Text {
            self.screen.status(self.progress.status(Instant::now()).as_ref());
        }
    }

    /// Something else is written next, on a line of its own.
    pub(in crate::commands) fn rest(&mut self) {
        if self.format == Format::Text {
            self.screen.end();
        }
    }

    /// The gateway is another one: what streamed from the last one does not go on.
    pub(super) fn lost(&mut self) {
        self.screen.end();
        self.progress.lost();
    }

    /// First of all: which session it is.
    pub(super) fn session(&mut self, accepted: &Accepted) {
        self.watch(&accepted.session_id);
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
    pub(super) fn note(&mut self, text: &str) {
        self.screen.line(&Line::dim(text));
    }

    /// Last of all: how it ended.
    pub(super) fn run(&mut self, waited: &Waited, text: &str) {
        match self.format {
            Format::Json => {
                if let Some(error) = &waited.error {
                    print_error(error);
                }
                terminal::print_json(&run_line(waited, text));
            }
            Format::Text => {
                self.screen.end();
                if !text.is_empty() && !self.progress.has_said(text) {
                    terminal::print_answer(text);
                }
                if let Some(error) = &waited.error {
                    crate::failure::Failure { error: error.clone(), exit: 0 }.print();
                }
                self.footer(&waited.session_id);
            }
        }
    }

    /// For somebody who looks on.
    fn footer(&mut self, session: &SessionId) {
        if std::io::stderr().is_terminal() {
            let lines = show::footer(self.progress.used(), self.begun.elapsed(), session.as_str());
            lines.iter().for_each(|line| self.screen.line(line));
        }
    }

    fn progress(&mut self, seen: &Seen) {
        match seen {
            Seen::Ask(ask) if ask.to.is_some() => {
                self.line(&ask.session_id, "? puts its plan to the session that started it");
            }
            Seen::Ask(ask) => self.say_all(&show::ask::lines(ask)),
            Seen::Question(asked) => {
                let who = show::ask::session(&asked.path, &asked.agent);
                asked.questions.iter().for_each(|question| self.say_all(&show::ask::question(&who, question)));
            }
            Seen::Settled { session_id, by, reply, .. } => {
                let line = show::ask::settled(self.agent(session_id), *by, *reply);
                self.screen.line(&line);
            }
            _ => {
                for shown in self.progress.see(seen, Instant::now()) {
                    self.screen.show(&shown);
                }
            }
        }
    }

    fn line(&mut self, session: &SessionId, text: &str) {
        let line = self.progress.of(session, Line::dim(text));
        self.screen.line(&line);
    }

    /// Lines that say for themselves whose they are.
    fn say_all(&mut self, lines: &[Line]) {
        lines.iter().for_each(|line| self.screen.line(line));
    }
}

fn typed(what: &str, mut line: Value) -> Value {
    line["type"] = json!(what);
    line
}

/// An event as a line of JSON, unless it is nobody's business.
pub(in crate::commands) fn event_line(seen: &Seen) -> Option<Value> {
    Some(match seen {
        Seen::Entry { session_id, seq, entry, .. } => {
            json!({ "type": "entry", "sessionId": session_id, "seq": seq, "entry": entry })
        }
        Seen::Delta { session_id, text } => json!({ "type": "delta", "sessionId": session_id, "text": text }),
        Seen::Reasoning { session_id, text } => json!({ "type": "reasoning", "sessionId": session_id, "text": text }),
        Seen::Call { session_id, tool } => json!({ "type": "call", "sessionId": session_id, "tool": tool }),
        Seen::Ask(ask) => typed("ask", json!(ask)),
        Seen::Settled { ask_id, session_id, by, reply } => json!({
            "type": "settled", "askId": ask_id, "sessionId": session_id, "by": by, "reply": reply,
        }),
        Seen::Output { session_id, call_id, text, dropped } => json!({
            "type": "output", "sessionId": session_id, "callId": call_id, "text": text, "dropped": dropped,
        }),
        Seen::Question(asked) => typed("question", json!(asked)),
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
