//! What happens, as lines for a person: pure functions from entries and events, which know no terminal.
//!
//! [`crate::screen`] writes the lines. A front end that fills the screen would draw the same ones.

pub(crate) mod ask;
pub(crate) mod call;
mod doing;
mod footer;
pub(crate) mod line;
pub(crate) mod progress;
pub(crate) mod text;

pub(crate) use footer::footer;
pub(crate) use line::{Line, Style};
pub(crate) use progress::Shown;
