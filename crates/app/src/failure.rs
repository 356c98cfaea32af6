//! Why a command did not do what it was asked, told once, with what to do about it.

use crate::home::is_plain;
use crate::show::{Line, Style};
use crate::terminal::{self, Paint};
use proto::Error;

/// Something was wrong before a run existed.
pub(crate) const UNUSABLE: u8 = 2;

/// The run failed, or what was looked at is damaged.
pub(crate) const FAILED: u8 = 1;

/// Stopped by a signal.
pub(crate) const INTERRUPTED: u8 = 130;

#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    pub(crate) exit: u8,
}

impl Failure {
    /// For people, on stderr.
    pub(crate) fn print(&self) {
        // What follows a line break stands further in: a name in it must not look like a word of ours.
        let told = |kind: &str, text: &str| format!("{kind}: {}", text.replace('\n', "\n  "));
        // It may be printed before anything else is known.
        let paint = Paint::stderr(is_plain(&config::Environment::capture()));
        terminal::say(&paint.line(&Line::new(Style::Error, told("error", &self.error.message))));
        if let Some(hint) = &self.error.hint {
            terminal::say(&told("hint", hint));
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, exit: UNUSABLE }
    }
}

impl From<client::Error> for Failure {
    fn from(error: client::Error) -> Self {
        Error::from(error).into()
    }
}

impl From<config::Error> for Failure {
    fn from(error: config::Error) -> Self {
        Error::invalid(error.message).hint(error.hint).into()
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Self {
        from_store(&error).into()
    }
}

/// A locked home is the one refusal that passes by itself: whoever holds it will answer, or end.
pub(crate) fn from_store(error: &store::Error) -> Error {
    let retryable = matches!(error, store::Error::Locked { .. });
    Error { hint: error.hint(), retryable, ..Error::new(proto::Code::Unavailable, error.to_string()) }
}

/// Something the program cannot do without.
pub(crate) fn cannot(what: &str, error: &std::io::Error) -> Failure {
    Error::internal(format!("cannot {what}: {error}")).into()
}
