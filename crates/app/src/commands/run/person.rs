//! The person at the terminal: questions on stderr, answers from what they type.

use crate::terminal::{self, Paint};
use proto::AskId;
use proto::letter::AskReply;
use std::collections::VecDeque;
use std::io::{BufRead, IsTerminal, Write};
use tokio::sync::mpsc;

/// Somebody who can be asked, one question after the other.
pub(super) struct Person {
    paint: Paint,
    open: VecDeque<AskId>,
    /// Lines they typed; started with the first question, so that a run without one leaves the input alone.
    lines: Option<mpsc::Receiver<String>>,
}

impl Person {
    /// Somebody is there when both the input and stderr are a terminal.
    pub(super) fn at_terminal(plain: bool) -> Option<Self> {
        let there = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        there.then(|| Self { paint: Paint::stderr(plain), open: VecDeque::new(), lines: None })
    }

    /// Asks, now or when those before it are answered.
    pub(super) fn ask(&mut self, ask: AskId) {
        self.open.push_back(ask);
        if self.open.len() == 1 {
            self.question();
        }
    }

    /// What they said to the oldest question. Waits for ever while nothing is asked; safe to drop.
    pub(super) async fn answer(&mut self) -> (AskId, AskReply, Option<String>) {
        loop {
            let (Some(ask), Some(lines)) = (self.open.front().cloned(), &mut self.lines) else {
                return std::future::pending().await;
            };
            // The end of the input is nobody's yes.
            let line = lines.recv().await.unwrap_or_else(|| "no".into());
            let Some((reply, message)) = understood(line.trim()) else {
                self.question();
                continue;
            };
            self.open.pop_front();
            if !self.open.is_empty() {
                self.question();
            }
            return (ask, reply, message);
        }
    }

    fn question(&mut self) {
        self.lines.get_or_insert_with(typed);
        let text = self.paint.bold("  allow it? y once, a always in this project, n no; or say why not: ");
        let mut stderr = std::io::stderr().lock();
        let _ = write!(stderr, "{text}").and_then(|()| stderr.flush());
    }
}

/// `None` for an empty line: a key that was hit too early is no answer.
fn understood(line: &str) -> Option<(AskReply, Option<String>)> {
    Some(match line.to_ascii_lowercase().as_str() {
        "" => return None,
        "y" | "yes" | "once" => (AskReply::Once, None),
        "a" | "always" => (AskReply::Always, None),
        "n" | "no" | "reject" => (AskReply::Reject, None),
        _ => (AskReply::Reject, Some(terminal::harmless(line))),
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
}
