//! What happens, as lines for a person: pure functions from entries and events, which know no terminal.
//!
//! [`crate::terminal`] writes the lines. A front end that fills the screen would draw the same ones.

pub(crate) mod call;
pub(crate) mod line;
pub(crate) mod text;

pub(crate) use line::{Line, Style};
