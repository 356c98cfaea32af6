//! The person at the terminal: questions on stderr, answers from what they type.

use crate::terminal::{self, Paint};
use proto::letter::AskReply;
use proto::methods::QuestionAnswer;
use proto::{AskId, Question};
use std::collections::VecDeque;
use std::io::{BufRead, IsTerminal};
use tokio::sync::mpsc;

/// Somebody who can be asked, one question after the other.
pub(super) struct Person {
    paint: Paint,
    open: VecDeque<Open>,
    /// Lines they typed; started with the first question, so that a run without one leaves the input alone.
    lines: Option<mpsc::Receiver<String>>,
}

/// What waits for their word.
enum Open {
    /// Something wants to be done; what `always` would keep.
    Leave(AskId, Option<String>),
    /// Something wants to be known; what was said to its first questions.
    Questions(AskId, Vec<Question>, Vec<Vec<String>>),
}

/// What they said.
pub(super) enum Said {
    Leave(AskId, AskReply, Option<String>),
    Answers(QuestionAnswer),
}

impl Person {
    /// Somebody is there when both the input and stderr are a terminal.
    pub(super) fn at_terminal(plain: bool) -> Option<Self> {
        let there = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        there.then(|| Self { paint: Paint::stderr(plain), open: VecDeque::new(), lines: None })
    }

    /// Asks for leave, now or when those before it are answered.
    pub(super) fn ask(&mut self, ask: AskId, kept: Option<String>) {
        self.add(Open::Leave(ask, kept));
    }

    /// Asks what somebody wants to know.
    pub(super) fn wonder(&mut self, ask: AskId, questions: Vec<Question>) {
        self.add(Open::Questions(ask, questions, Vec::new()));
    }

    /// Whether something waits for their word.
    pub(super) fn is_asked(&self) -> bool {
        !self.open.is_empty()
    }

    fn add(&mut self, open: Open) {
        self.open.push_back(open);
        if self.open.len() == 1 {
            self.question();
        }
    }

    /// What they said to the oldest question. Waits for ever while nothing is asked; safe to drop.
    pub(super) async fn answer(&mut self) -> Said {
        loop {
            let (Some(open), Some(lines)) = (self.open.front_mut(), &mut self.lines) else {
                return std::future::pending().await;
            };
            let line = lines.recv().await;
            let Some(said) = open.take(line.as_deref().map(str::trim)) else {
                self.question();
                continue;
            };
            self.open.pop_front();
            if !self.open.is_empty() {
                self.question();
            }
            return said;
        }
    }

    fn question(&mut self) {
        self.lines.get_or_insert_with(typed);
        let Some(open) = self.open.front() else { return };
        terminal::prompt(&self.paint.bold(&open.prompt()));
    }
}

impl Open {
    fn prompt(&self) -> String {
        match self {
            Self::Leave(_, kept) => {
                let always = kept.as_ref().map(|kept| format!("  a  always, in this project: {kept}\n"));
                format!("  y  once\n{}  n  no; or say why not\n  allow it? ", always.unwrap_or_default())
            }
            Self::Questions(_, questions, said) => {
                let question = &questions[said.len()];
                let how = if question.options.is_empty() { "in your words" } else { "a number, or your own words" };
                format!("  {} ({how}; - for no answer): ", terminal::one_line(&question.question, 120))
            }
        }
    }

    /// What a line means, unless it is no answer yet. The end of the input is nobody's yes.
    fn take(&mut self, line: Option<&str>) -> Option<Said> {
        match self {
            Self::Leave(ask, _) => {
                let (reply, message) = line.map_or(Some((AskReply::Reject, None)), understood)?;
                Some(Said::Leave(ask.clone(), reply, message))
            }
            Self::Questions(id, questions, said) => {
                let Some(line) = line.filter(|line| *line != "-") else {
                    let message = Some("The person gave no answer.".to_owned());
                    let (id, answers) = (id.clone(), Vec::new());
                    return Some(Said::Answers(QuestionAnswer { id, answers, reject: true, message }));
                };
                let answer = questions[said.len()].understood(&terminal::typed(line));
                if answer.is_empty() {
                    return None;
                }
                said.push(answer);
                let whole = said.len() == questions.len();
                let answers = || QuestionAnswer { id: id.clone(), answers: said.clone(), reject: false, message: None };
                whole.then(|| Said::Answers(answers()))
            }
        }
    }
}

/// `None` for an empty line: a key that was hit too early is no answer.
fn understood(line: &str) -> Option<(AskReply, Option<String>)> {
    Some(match line.to_ascii_lowercase().as_str() {
        "" => return None,
        "y" | "yes" | "once" => (AskReply::Once, None),
        "a" | "always" => (AskReply::Always, None),
        "n" | "no" | "reject" => (AskReply::Reject, None),
        _ => (AskReply::Reject, Some(terminal::typed(line))),
    })
}

/// Reading a terminal cannot be stopped, so a thread of its own does it, and ends with the process.
fn typed() -> mpsc::Receiver<String> {
    let (send, lines) = mpsc::channel(8);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if send.blocking_send(line).is_err() {
                break;
            }
        }
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_an_answer_or_a_reason_against_it() {
        for (line, expected) in [
            ("y", Some((AskReply::Once, None))),
            ("Yes", Some((AskReply::Once, None))),
            ("a", Some((AskReply::Always, None))),
            ("n", Some((AskReply::Reject, None))),
            ("use make instead", Some((AskReply::Reject, Some("use make instead".into())))),
            ("", None),
        ] {
            assert_eq!(understood(line), expected, "{line}");
        }
    }

    #[test]
    fn questions_are_answered_one_line_each() {
        let question = |options: &[&str]| Question {
            question: "Which?".into(),
            header: None,
            options: options.iter().map(|label| proto::Choice { label: (*label).into(), description: None }).collect(),
            multiple: false,
        };
        let open = || Open::Questions(AskId::new(), vec![question(&["red", "blue"]), question(&[])], Vec::new());
        let mut asked = open();
        assert!(asked.take(Some("")).is_none() && asked.take(Some("2")).is_none());
        let Some(Said::Answers(said)) = asked.take(Some("as it was")) else { panic!("answers") };
        assert_eq!((said.answers, said.reject), (vec![vec!["blue".to_owned()], vec!["as it was".to_owned()]], false));
        for line in [Some("-"), None] {
            assert!(matches!(open().take(line), Some(Said::Answers(said)) if said.reject && said.answers.is_empty()));
        }
    }
}
