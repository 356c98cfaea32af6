//! The person at the terminal: what is asked on stderr, one question at a time, and what they type about it.

use super::keys::Keys;
use super::pager::Pager;
use crate::show;
use crate::terminal::{self, Paint, Text};
use proto::event::SettledBy;
use proto::letter::AskReply;
use proto::methods::{AskInfo, QuestionAnswer, QuestionInfo};
use proto::{AskId, Question};
use std::collections::VecDeque;
use std::io::IsTerminal;

/// Somebody who can be asked, one question after the other.
pub(crate) struct Person {
    paint: Paint,
    /// The user's own.
    pager: Option<String>,
    /// A question may be left open: they only look on.
    looks_on: bool,
    open: VecDeque<Open>,
    /// The number under which the first of them stands on the screen.
    shown: Option<u64>,
    /// Started with the first question, so that a run without one leaves the input alone.
    keys: Option<Keys>,
    paging: Option<(Pager, Vec<terminal::Painted>)>,
}

/// What waits for their word.
enum Open {
    /// Something wants to be done.
    Leave(Box<AskInfo>),
    /// Something wants to be known; what was said to its first questions.
    Questions(Box<QuestionInfo>, Vec<Vec<String>>),
}

/// What they said.
#[derive(Debug)]
pub(crate) enum Said {
    Leave {
        ask: AskId,
        reply: AskReply,
        keep: Option<u32>,
        message: Option<String>,
    },
    Answers(QuestionAnswer),
    /// They want to see all of it.
    Whole(AskId),
    /// They leave it to somebody else.
    Later,
}

/// What a line means.
#[derive(Debug, PartialEq, Eq)]
enum Meant {
    Leave(AskReply, Option<u32>, Option<String>),
    Whole,
    Later,
    /// No answer yet; a word about why, if there is one.
    Nothing(Option<&'static str>),
}

impl Person {
    /// Somebody is there when both the input and stderr are a terminal.
    pub(crate) fn at_terminal(plain: bool, pager: Option<&str>) -> Option<Self> {
        let there = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        let pager = pager.map(str::to_owned);
        let (open, paint) = (VecDeque::new(), Paint::stderr(plain));
        there.then(|| Self { paint, pager, looks_on: false, open, shown: None, keys: None, paging: None })
    }

    /// For one who only looks on, and need not answer.
    #[must_use]
    pub(crate) fn looking_on(mut self) -> Self {
        self.looks_on = true;
        self
    }

    pub(super) fn ask(&mut self, ask: Box<AskInfo>) {
        self.open.push_back(Open::Leave(ask));
    }

    pub(super) fn wonder(&mut self, asked: Box<QuestionInfo>) {
        self.open.push_back(Open::Questions(asked, Vec::new()));
    }

    /// Whether a question stands on the screen, or the pager: nothing else may be written then.
    pub(super) fn is_asked(&self) -> bool {
        self.shown.is_some() || self.paging.is_some()
    }

    pub(super) fn has_next(&self) -> bool {
        !self.is_asked() && !self.open.is_empty()
    }

    /// Shows the next question, unless one stands there.
    pub(super) fn show_next(&mut self) {
        if self.has_next() {
            self.question(true);
        }
    }

    /// Somebody else settled it. True when it waited here.
    pub(super) fn settled(&mut self, ask: &AskId, by: SettledBy, reply: Option<AskReply>) -> bool {
        let Some(at) = self.open.iter().position(|open| open.id() == ask) else { return false };
        if at == 0 && self.shown.is_some() {
            self.close();
            // What stands there was not answered here.
            if self.paging.is_none() {
                terminal::prompt("\n");
            }
            terminal::say(&self.paint.line(&self.open[0].settled(by, reply)));
        }
        self.open.remove(at);
        true
    }

    /// Forgets what is asked no more.
    pub(super) fn keep_only(&mut self, open: &[AskId]) {
        let gone: Vec<AskId> = self.open.iter().map(|open| open.id().clone()).filter(|id| !open.contains(id)).collect();
        for id in gone {
            self.settled(&id, SettledBy::Unknown, None);
        }
    }

    /// Nothing is asked any more: the run is over.
    pub(super) fn leave(&mut self) {
        if self.shown.is_some() {
            self.close();
            terminal::prompt("\n");
        }
        self.open.clear();
    }

    /// What they say to the question that stands there. Waits for ever while there is none; safe to drop.
    pub(crate) async fn answer(&mut self) -> Said {
        loop {
            if let Some((pager, lines)) = &mut self.paging {
                if !pager.closed().await {
                    lines.iter().for_each(terminal::say);
                }
                self.paging = None;
                if self.shown.is_none() {
                    // It was settled elsewhere meanwhile.
                    return Said::Later;
                }
                self.question(true);
            }
            let (Some(number), Some(open), Some(keys)) = (self.shown, self.open.front_mut(), &mut self.keys) else {
                return std::future::pending().await;
            };
            let line = keys.line(number).await;
            let several = matches!(open, Open::Questions(..));
            match open.take(line.as_deref(), self.looks_on) {
                Ok(Said::Whole(ask)) => {
                    keys.rest();
                    return Said::Whole(ask);
                }
                Ok(said) => {
                    self.close();
                    self.open.pop_front();
                    return said;
                }
                Err(why) => {
                    why.iter().for_each(|why| terminal::say(&self.paint.dim(&format!("  {why}"))));
                    // Of several questions the next one is shown.
                    self.question(several);
                }
            }
        }
    }

    /// Shows all of it in the pager, and then the question again.
    pub(super) fn page(&mut self, ask: &AskInfo) {
        let lines: Vec<_> = show::ask::whole(ask).iter().map(|line| self.paint.line(line)).collect();
        let text: Vec<String> = lines.iter().map(Text::shown).collect();
        match Pager::open(self.pager.as_deref(), &text.join("\n")) {
            Ok(pager) => self.paging = Some((pager, lines)),
            Err(_) => {
                lines.iter().for_each(terminal::say);
                self.question(true);
            }
        }
    }

    /// The question stands there again, with a word about what was wrong.
    pub(super) fn again(&mut self, why: &str) {
        terminal::say(&self.paint.dim(&format!("  {why}")));
        self.question(false);
    }

    fn close(&mut self) {
        self.shown = None;
        self.keys.iter().for_each(Keys::rest);
    }

    /// Shows the first question, all of it or only what is typed behind.
    fn question(&mut self, all: bool) {
        let keys = self.keys.get_or_insert_with(Keys::start);
        let Some(open) = self.open.front() else { return };
        let (paint, others, looks_on) = (self.paint, self.open.len() - 1, self.looks_on);
        self.shown = Some(keys.ask(|| {
            if all {
                open.lines().iter().for_each(|line| terminal::say(&paint.line(line)));
            }
            if all && others > 0 {
                terminal::say(&paint.dim(&format!("  {others} more after this one")));
            }
            terminal::prompt(&paint.bold(&open.prompt(looks_on)));
        }));
    }
}

impl Open {
    fn id(&self) -> &AskId {
        match self {
            Self::Leave(ask) => &ask.ask_id,
            Self::Questions(asked, _) => &asked.id,
        }
    }

    /// What became of it elsewhere.
    fn settled(&self, by: SettledBy, reply: Option<AskReply>) -> show::Line {
        match (self, reply) {
            (Self::Leave(ask), _) => show::ask::settled(&show::ask::who(ask), by, reply),
            (Self::Questions(asked, _), Some(AskReply::Once)) => {
                let who = show::ask::session(&asked.path, &asked.agent);
                show::Line::dim(format!("  {who}: the question was answered elsewhere"))
            }
            (Self::Questions(asked, _), _) => {
                show::ask::settled(&show::ask::session(&asked.path, &asked.agent), by, reply)
            }
        }
    }

    fn lines(&self) -> Vec<show::Line> {
        match self {
            Self::Leave(ask) => show::ask::lines(ask),
            Self::Questions(asked, said) => {
                show::ask::question(&show::ask::session(&asked.path, &asked.agent), &asked.questions[said.len()])
            }
        }
    }

    fn prompt(&self, looks_on: bool) -> String {
        let later = if looks_on { "  l  later: leave it open\n" } else { "" };
        match self {
            Self::Leave(ask) => {
                let always: String = ask.keeps.iter().zip(1..).map(|(keep, at)| choice(ask, keep, at)).collect();
                format!("  y  once\n{always}  n  no; or say why not\n  v  show all of it\n{later}  allow it? ")
            }
            Self::Questions(asked, said) => {
                let question = &asked.questions[said.len()];
                let how = if question.options.is_empty() { "in your words" } else { "a number, or your own words" };
                let text = terminal::one_line(&question.question, 120);
                format!("{later}  {text} ({how}; - for no answer): ")
            }
        }
    }

    /// What a line means, unless it is no answer yet. The end of the input is not a yes.
    fn take(&mut self, line: Option<&str>, looks_on: bool) -> Result<Said, Option<&'static str>> {
        match self {
            Self::Leave(ask) => {
                let ended = Meant::Leave(AskReply::Reject, None, None);
                let ask_id = ask.ask_id.clone();
                match line.map_or(ended, |line| understood(line, ask.keeps.len(), looks_on)) {
                    Meant::Leave(reply, keep, message) => Ok(Said::Leave { ask: ask_id, reply, keep, message }),
                    Meant::Whole => Ok(Said::Whole(ask_id)),
                    Meant::Later => Ok(Said::Later),
                    Meant::Nothing(why) => Err(why),
                }
            }
            Self::Questions(_, _) if looks_on && line == Some("l") => Ok(Said::Later),
            Self::Questions(asked, said) => answered(asked, said, line).ok_or(None),
        }
    }
}

/// `a` keeps the first choice, `a2` the second.
fn choice(ask: &AskInfo, keep: &[proto::Rule], at: usize) -> String {
    let key = if at == 1 { "a".to_owned() } else { format!("a{at}") };
    format!("  {key:<2} always, in this project: {}\n", show::ask::kept(&ask.permission, keep))
}

/// The answers, once there is one for each question.
fn answered(asked: &QuestionInfo, said: &mut Vec<Vec<String>>, line: Option<&str>) -> Option<Said> {
    let id = asked.id.clone();
    let Some(line) = line.filter(|line| *line != "-") else {
        let message = Some("The person gave no answer.".to_owned());
        return Some(Said::Answers(QuestionAnswer { id, answers: Vec::new(), reject: true, message }));
    };
    let question: &Question = &asked.questions[said.len()];
    let answer = question.understood(&terminal::typed(line));
    if answer.is_empty() {
        return None;
    }
    said.push(answer);
    let whole = said.len() == asked.questions.len();
    let answers = || QuestionAnswer { id, answers: said.clone(), reject: false, message: None };
    whole.then(|| Said::Answers(answers()))
}

/// An empty line is no answer: a key that was hit too early.
fn understood(line: &str, choices: usize, looks_on: bool) -> Meant {
    let word = line.to_ascii_lowercase();
    let always = word.strip_prefix("always").or(word.strip_prefix('a')).map(str::trim);
    if let Some(at) = always.filter(|at| at.chars().all(|c| c.is_ascii_digit())) {
        let at: usize = if at.is_empty() { 1 } else { at.parse().unwrap_or(usize::MAX) };
        return match at.checked_sub(1).filter(|at| *at < choices).and_then(|at| u32::try_from(at).ok()) {
            Some(keep) => Meant::Leave(AskReply::Always, Some(keep), None),
            None if choices == 0 => Meant::Nothing(Some("this cannot be allowed for good: answer y or n")),
            None => Meant::Nothing(Some("there is no such choice")),
        };
    }
    match word.as_str() {
        "" => Meant::Nothing(None),
        "y" | "yes" | "once" => Meant::Leave(AskReply::Once, None, None),
        "n" | "no" | "reject" => Meant::Leave(AskReply::Reject, None, None),
        "v" | "view" => Meant::Whole,
        "l" | "later" if looks_on => Meant::Later,
        _ => Meant::Leave(AskReply::Reject, None, Some(terminal::typed(line))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_an_answer_or_a_reason_against_it() {
        let always = |keep| Meant::Leave(AskReply::Always, Some(keep), None);
        for (line, expected) in [
            ("y", Meant::Leave(AskReply::Once, None, None)),
            ("Yes", Meant::Leave(AskReply::Once, None, None)),
            ("a", always(0)),
            ("always", always(0)),
            ("a2", always(1)),
            ("A 2", always(1)),
            ("a3", Meant::Nothing(Some("there is no such choice"))),
            ("n", Meant::Leave(AskReply::Reject, None, None)),
            ("v", Meant::Whole),
            ("l", Meant::Leave(AskReply::Reject, None, Some("l".into()))),
            ("use make instead", Meant::Leave(AskReply::Reject, None, Some("use make instead".into()))),
            ("a list would do", Meant::Leave(AskReply::Reject, None, Some("a list would do".into()))),
            ("", Meant::Nothing(None)),
        ] {
            assert_eq!(understood(line, 2, false), expected, "{line}");
        }
        assert!(matches!(understood("a", 0, false), Meant::Nothing(Some(_))));
        assert_eq!(understood("l", 0, true), Meant::Later);
    }

    #[test]
    fn questions_are_answered_one_line_each() {
        let question = |options: &[&str]| Question {
            question: "Which?".into(),
            header: None,
            options: options.iter().map(|label| proto::Choice { label: (*label).into(), description: None }).collect(),
            multiple: false,
        };
        let open = || {
            let questions = vec![question(&["red", "blue"]), question(&[])];
            let (id, session_id) = (AskId::new(), proto::SessionId::new());
            let (agent, path, name) = ("build".into(), String::new(), None);
            let asked = QuestionInfo { id, session_id, agent, path, name, questions, created_at: 0, until: 0 };
            Open::Questions(Box::new(asked), Vec::new())
        };
        let mut asked = open();
        assert!(asked.take(Some(""), false).is_err() && asked.take(Some("2"), false).is_err());
        let Ok(Said::Answers(said)) = asked.take(Some("as it was"), false) else { panic!("answers") };
        assert_eq!((said.answers, said.reject), (vec![vec!["blue".to_owned()], vec!["as it was".to_owned()]], false));
        for line in [Some("-"), None] {
            let said = open().take(line, false);
            assert!(matches!(said, Ok(Said::Answers(said)) if said.reject && said.answers.is_empty()));
        }
    }
}
