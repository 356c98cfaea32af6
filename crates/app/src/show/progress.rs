//! Follows a tree of sessions event by event, and says what a person is shown of each. Time is told by the caller.

use super::doing::Doing;
use super::text::one_line;
use super::{Line, Style, call};
use proto::entry::{Call, CallResult, CompactionState, Ended, Finish, Input, On, Reply, State};
use proto::event::Seen;
use proto::letter::InputPart;
use proto::{CallId, Entry, Outcome, SessionId, Todo, TodoStatus, Usage};
use std::collections::HashMap;
use std::time::Instant;

/// Lines that are shown of what a command prints at one moment.
const TAIL: usize = 5;

/// Characters that are shown of what another session says.
const SAID: usize = 200;

/// Lines of others that may wait for the end of a line of text.
const MOST_WAITING: usize = 100;

/// How much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Look {
    /// What is done, and what goes wrong.
    Brief,
    /// What is said besides, by all but the root.
    Others,
    /// The root's words as well, when a step is done.
    Whole,
    /// The root's words and thoughts as they come.
    Live,
}

/// Something to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shown {
    Line(Line),
    /// Text that goes on where the last piece ended.
    Piece(Style, String),
    /// Text that was begun is at its end.
    Break,
}

pub(crate) struct Progress {
    look: Look,
    root: Option<SessionId>,
    /// Where the person works, for the names of files.
    dir: String,
    /// What the others are called.
    who: HashMap<SessionId, String>,
    calls: HashMap<CallId, Told>,
    speech: Speech,
    /// The root's last words that were shown whole.
    said: Option<String>,
    doing: Doing,
    used: Usage,
    out: Vec<Shown>,
    /// Lines of others that came while a line of text was open.
    waiting: Vec<Line>,
}

/// A call that is under way.
struct Told {
    tool: String,
    words: String,
    /// Its line comes with its result.
    at_its_end: bool,
}

/// The root's reply while it streams.
#[derive(Default)]
struct Speech {
    text: String,
    /// Something of a line is shown, and not its end.
    open: bool,
    thinking: bool,
    /// Only line breaks came so far, or nothing.
    blank: bool,
    /// A carriage return that may be half of a line break.
    half: bool,
}

impl Progress {
    pub(crate) fn new(look: Look, dir: &str) -> Self {
        Self {
            look,
            root: None,
            dir: dir.to_owned(),
            who: HashMap::new(),
            calls: HashMap::new(),
            speech: Speech::default(),
            said: None,
            doing: Doing::default(),
            used: Usage::default(),
            out: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// Lines of this session stand for themselves; those of others say whose they are.
    pub(crate) fn watch(&mut self, root: &SessionId) {
        self.root = Some(root.clone());
    }

    /// What a session is called: its name, or the agent it runs as. Of two without a name, each has the end of its id.
    pub(crate) fn introduce(&mut self, session: &SessionId, name: Option<&str>, agent: &str) {
        let other = |(known, called): (&SessionId, &String)| known != session && called == agent;
        let called = match name {
            Some(name) => name.to_owned(),
            None if self.who.iter().any(other) => {
                let id = session.as_str();
                format!("{agent} …{}", &id[id.len().saturating_sub(6)..])
            }
            None => agent.to_owned(),
        };
        self.who.insert(session.clone(), called);
    }

    pub(crate) fn knows(&self, session: &SessionId) -> bool {
        self.is_root(session) || self.who.contains_key(session)
    }

    /// What a session is called, as far as it was seen.
    pub(crate) fn called(&self, session: &SessionId) -> Option<&str> {
        self.who.get(session).map(String::as_str)
    }

    /// All that was used, by every session that was seen.
    pub(crate) fn used(&self) -> Usage {
        self.used
    }

    /// Whether these are the words that were shown last.
    pub(crate) fn has_said(&self, text: &str) -> bool {
        self.said.as_deref() == Some(text)
    }

    /// What everybody does, while nothing is shown of it.
    pub(crate) fn status(&self, now: Instant) -> Option<Line> {
        self.doing.status(now, |session| if self.is_root(session) { None } else { self.called(session) })
    }

    /// Pieces that come next do not go on where the last one ended.
    pub(crate) fn lost(&mut self) {
        self.speech = Speech::default();
        self.doing = Doing::default();
    }

    /// What is shown for an event. Questions are shown by `asking`.
    pub(crate) fn see(&mut self, seen: &Seen, now: Instant) -> Vec<Shown> {
        match seen {
            Seen::Entry { session_id, seq, .. } => {
                if let Some(entry) = seen.entry() {
                    self.entry(session_id, *seq, &entry, now);
                }
            }
            Seen::Delta { session_id, text } => {
                self.doing.speaks(session_id, now);
                if self.streams(session_id) {
                    self.say(text);
                }
            }
            Seen::Reasoning { session_id, text } => {
                self.doing.speaks(session_id, now);
                if self.streams(session_id) {
                    self.think(text);
                }
            }
            Seen::Call { session_id, tool } => {
                self.doing.writes(session_id, &one_line(tool, 60), now);
                if self.streams(session_id) {
                    self.end_line();
                }
            }
            Seen::Output { session_id, text, .. } if self.look > Look::Brief => {
                self.doing.speaks(session_id, now);
                let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
                for line in &lines[lines.len().saturating_sub(TAIL)..] {
                    self.line(session_id, &format!("  | {}", one_line(line, 160)));
                }
            }
            Seen::Retry { session_id, after_ms, message, .. } => {
                if self.is_root(session_id) {
                    self.end_line();
                    self.speech = Speech::default();
                }
                let seconds = after_ms.div_ceil(1000);
                self.line(session_id, &format!("… trying again in {seconds} s: {}", one_line(message, 160)));
            }
            Seen::Hook { session_id, event, command, error } => {
                let (command, error) = (one_line(command, 60), one_line(error, 160));
                self.styled(session_id, Style::Error, format!("! the hook `{command}` on {event} failed: {error}"));
            }
            Seen::Board { session_id, task } => {
                let title = one_line(&task.title, 80);
                self.line(session_id, &format!("□ task {} {}: {title}", task.number, task.state.as_str()));
            }
            Seen::Output { .. }
            | Seen::Ask(_)
            | Seen::Question(_)
            | Seen::Settled { .. }
            | Seen::Status { .. }
            | Seen::Resync {}
            | Seen::Unknown => {}
        }
        std::mem::take(&mut self.out)
    }

    /// A line that says whose it is.
    pub(crate) fn of(&self, session: &SessionId, line: Line) -> Line {
        match self.called(session).filter(|_| !self.is_root(session)) {
            Some(called) => line.behind(Style::Dim, format!("  [{}] ", one_line(called, 40))),
            None => line,
        }
    }

    fn entry(&mut self, session: &SessionId, seq: u64, entry: &Entry, now: Instant) {
        match entry {
            Entry::Input(input) => self.input(session, seq, input, now),
            Entry::Reply(reply) => self.reply(session, reply, now),
            Entry::Started(started) => self.doing.starts(session, &started.call, now),
            Entry::Waiting(waiting) => {
                if let On::Run { session: child, .. } = &waiting.on {
                    let child = self.called(child).map_or_else(|| child.to_string(), |called| one_line(called, 40));
                    self.line(session, &format!("↳ waits for {child}"));
                }
            }
            Entry::Result(result) => self.result(session, result, now),
            Entry::Notice(notice) => self.line(session, &format!("! {}", one_line(&notice.text, 160))),
            Entry::Compaction(compaction) => {
                self.used += compaction.usage;
                if compaction.state == CompactionState::Pending {
                    self.line(session, "~ makes room in its context");
                }
            }
            Entry::Todo(list) => self.todo(session, &list.items),
            Entry::Undo(undone) if undone.refused.is_some() => {}
            Entry::Undo(undone) if undone.redoes.is_some() => self.line(session, "~ what was undone is back"),
            Entry::Undo(undone) => self.line(session, &format!("~ undone back to entry {}", undone.to)),
            Entry::Ended(ended) => self.ended(session, ended),
            Entry::Switch(_) | Entry::ToolsLoaded(_) => {}
        }
    }

    /// Words of another session. What a session is started with was told with the call that starts it.
    fn input(&mut self, session: &SessionId, seq: u64, input: &Input, now: Instant) {
        if self.is_root(session) || !self.knows(session) {
            self.introduce(session, input.name.as_deref(), &input.agent);
        }
        self.doing.thinks(session, now);
        let Some(from) = &input.provenance else { return };
        if self.look == Look::Brief || seq == 1 || from.kind != "inter_session" {
            return;
        }
        let by_id = from.source_session_id.as_ref();
        let lead = by_id.filter(|id| self.is_root(id)).map(|_| "lead");
        let called = by_id.and_then(|id| self.called(id)).or(from.source_name.as_deref());
        let who = lead.or(called).or(from.source_session_key.as_deref()).unwrap_or("another session");
        let texts = input.parts.iter().filter_map(|part| match part {
            InputPart::Text { text } => Some(text.as_str()),
            InputPart::File { .. } | InputPart::Subtask { .. } => None,
        });
        // The end of a session was told in its own line.
        let is_notice = |text: &str| text.starts_with("[notice from the runtime");
        if input.parts.iter().any(|part| matches!(part, InputPart::Text { text } if is_notice(text))) {
            return;
        }
        let said = one_line(bare(&texts.collect::<Vec<_>>().join("\n")), SAID);
        self.line(session, &format!("← {}: {said}", one_line(who, 40)));
    }

    fn reply(&mut self, session: &SessionId, reply: &Reply, now: Instant) {
        self.used += reply.usage;
        self.doing.replied(session, now);
        self.words(session, reply);
        reply.calls().for_each(|call| self.call(session, call, now));
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

    fn words(&mut self, session: &SessionId, reply: &Reply) {
        let text = reply.text();
        if self.streams(session) {
            match text.strip_prefix(self.speech.text.as_str()).map(str::to_owned) {
                Some(rest) => self.say(&rest),
                // Pieces were missed: all of it, once.
                None => {
                    self.end_line();
                    self.speech = Speech::default();
                    self.say(&text);
                }
            }
            self.end_line();
            self.speech = Speech::default();
            self.said = Some(text);
        } else if self.is_root(session) {
            // An answer is printed at the end, and is told before calls only.
            if self.look >= Look::Whole && reply.calls().next().is_some() && !text.trim().is_empty() {
                self.out.push(Shown::Line(Line::new(Style::Plain, text.trim())));
            }
        } else if self.look > Look::Brief && !text.trim().is_empty() {
            self.styled(session, Style::Plain, one_line(&text, SAID));
        }
    }

    fn call(&mut self, session: &SessionId, call: &Call, now: Instant) {
        let (words, at_its_end) = (call::words(call, &self.dir), call::is_told_at_its_end(call));
        if !at_its_end {
            self.line(session, &format!("• {words}"));
        }
        self.doing.calls(session, &call.id, &words, now);
        self.calls.insert(call.id.clone(), Told { tool: call.tool.clone(), words, at_its_end });
    }

    fn result(&mut self, session: &SessionId, result: &CallResult, now: Instant) {
        self.doing.done(session, &result.call, now);
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
        self.styled(session, Style::Error, format!("✗ {what} {word}: {}", one_line(&result.output, 120)));
    }

    /// A call that is told when it is done.
    fn done(&mut self, session: &SessionId, told: Option<&Told>, result: &CallResult) {
        let Some(told) = told.filter(|told| told.at_its_end) else { return };
        let changed = call::changed(result).map(|changed| format!(" {changed}")).unwrap_or_default();
        self.line(session, &format!("• {}{changed}", told.words));
    }

    /// How far it is, and what it works on.
    fn todo(&mut self, session: &SessionId, items: &[Todo]) {
        let left = items.iter().filter(|item| item.is_open()).count();
        let now = items.iter().find(|item| item.status == TodoStatus::InProgress);
        let now = now.map(|item| format!(": {}", one_line(&item.content, 80))).unwrap_or_default();
        self.line(session, &format!("☐ {left} of {} left{now}", items.len()));
    }

    /// The end of another session's run; the root's is told last of all.
    fn ended(&mut self, session: &SessionId, ended: &Ended) {
        self.doing.ends(session);
        if self.is_root(session) {
            self.end_line();
        } else if self.look > Look::Brief {
            let why = ended.message.as_ref().map(|why| format!(": {}", one_line(why, 160))).unwrap_or_default();
            match ended.outcome {
                Outcome::Ok => self.line(session, "✓ done"),
                Outcome::Cancelled => self.line(session, &format!("■ stopped{why}")),
                Outcome::Error => self.styled(session, Style::Error, format!("✗ failed{why}")),
            }
        }
    }

    fn is_root(&self, session: &SessionId) -> bool {
        self.root.as_ref() == Some(session)
    }

    fn streams(&self, session: &SessionId) -> bool {
        self.look == Look::Live && self.is_root(session)
    }

    fn line(&mut self, session: &SessionId, text: &str) {
        self.styled(session, Style::Dim, text.to_owned());
    }

    /// Lines of others do not break into a line of the root's text.
    fn styled(&mut self, session: &SessionId, style: Style, text: String) {
        let line = self.of(session, Line::new(style, text));
        if self.is_root(session) {
            self.end_line();
        } else if self.speech.open && self.waiting.len() < MOST_WAITING {
            return self.waiting.push(line);
        }
        self.out.push(Shown::Line(line));
    }

    fn say(&mut self, text: &str) {
        if std::mem::take(&mut self.speech.thinking) {
            self.end_line();
            self.speech.blank = true;
        }
        if self.speech.text.is_empty() {
            self.speech.blank = true;
        }
        self.speech.text.push_str(text);
        self.piece(Style::Plain, text);
    }

    fn think(&mut self, text: &str) {
        if !std::mem::replace(&mut self.speech.thinking, true) {
            self.end_line();
            self.speech.blank = true;
        }
        self.piece(Style::Dim, text);
    }

    fn piece(&mut self, style: Style, text: &str) {
        let mut text = if self.speech.half { format!("\r{text}") } else { text.to_owned() };
        self.speech.half = text.ends_with('\r');
        if self.speech.half {
            text.pop();
        }
        // Empty lines before the first word are dropped.
        let mut rest = if self.speech.blank { text.trim_start_matches(['\r', '\n']) } else { text.as_str() };
        if rest.is_empty() {
            return;
        }
        self.speech.blank = false;
        if let Some(end) = rest.rfind('\n').filter(|_| !self.waiting.is_empty()) {
            self.out.push(Shown::Piece(style, rest[..=end].to_owned()));
            self.out.extend(self.waiting.drain(..).map(Shown::Line));
            rest = &rest[end + 1..];
        }
        if !rest.is_empty() {
            self.out.push(Shown::Piece(style, rest.to_owned()));
        }
        self.speech.open = !rest.is_empty() && !rest.ends_with('\n');
    }

    fn end_line(&mut self) {
        if std::mem::take(&mut self.speech.open) {
            self.out.push(Shown::Break);
        }
        self.out.extend(self.waiting.drain(..).map(Shown::Line));
    }
}

/// A message without what the model is told around it.
fn bare(text: &str) -> &str {
    let opened = text.strip_prefix("<cross-session-message ").and_then(|rest| Some(rest.split_once(">\n")?.1));
    opened.and_then(|rest| rest.strip_suffix("\n</cross-session-message>")).unwrap_or(text)
}

#[cfg(test)]
mod tests;
