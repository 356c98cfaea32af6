//! What file tools share: resolving paths, what was read when, and writing atomically.

mod diff;
mod hands;
mod paths;
mod save;
mod seen;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use diff::unified;
pub(crate) use foreign::pin;
pub use hands::Hands;
pub(crate) use hands::blocking;
pub use paths::{
    Inside, Purpose, access, accesses, below_name, by_name, changes, outside, protected, relative, resolve,
};
pub(crate) use paths::{contents, found, is_text, missing, open, open_known, permitted, regular};
pub(crate) use save::{Draft, missing_folders, remove, save, save_as};
pub use seen::{Seen, Stamp, State};
pub(crate) use text::Text;

/// The largest file that is edited or replaced: all of it is held in memory, several times over.
pub(crate) const MAX_EDITED: u64 = 32 << 20;
