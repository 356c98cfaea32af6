//! What strangers left: files and texts that are measured before anybody reads them.
//!
//! A repository, a page and a model's reply are written by somebody else. Whoever opens a file of one does it here: a
//! plain file and nothing that waits, no more of it than is asked for, and where that matters nothing outside of a
//! folder. What parses foreign text either has a limit of its own or is asked [`text`] first.

mod handle;
mod plain;
pub mod text;

pub use handle::{Folder, look, open, pin, replace};
pub use plain::{file, open_plain, read, read_link_within, read_text, read_within};

/// The longest path that the kernel takes, with the NUL at its end (`PATH_MAX`). A longer one names nothing.
pub const LONGEST_PATH: usize = 4096;
