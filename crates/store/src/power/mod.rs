//! A disk that loses power, for crash tests: what was not synced dies with the process, and some of it only half.
//!
//! Killing a process is too kind a test of a store: the kernel still has every write, synced or not, and hands them to
//! whoever opens the file next. With the cargo feature `power`, and a whole number in the environment as [`SEED`], the
//! database's connections go through a VFS that keeps writes in memory until SQLite syncs their file. A `SIGKILL` then
//! is a power cut.
//!
//! Between two syncs nothing is promised about order or wholeness, and nothing is given: the number decides which of
//! the waiting writes reach the file early, and how much of each. What the model leaves out: creating and deleting a
//! file are durable at once, and no byte is harmed that was not being written.
//!
//! The waiting writes are this process's own. Another one that reads the database meanwhile sees an index of pages that
//! are not in the files yet, so it must wait until this one is gone.

mod cache;
mod dice;
mod vfs;

#[cfg(test)]
mod tests;

use crate::Error;
use std::ffi::CStr;
use std::sync::OnceLock;

/// Set to a whole number to turn the disk on.
pub(crate) const SEED: &str = "CONVOKE_POWER_SEED";

/// The VFS to open the database with; `None` is SQLite's own. Settled by the first call.
pub(crate) fn vfs() -> Result<Option<&'static CStr>, Error> {
    static CHOICE: OnceLock<Result<Option<&'static CStr>, Error>> = OnceLock::new();
    CHOICE.get_or_init(choose).clone()
}

fn choose() -> Result<Option<&'static CStr>, Error> {
    let Some(text) = std::env::var_os(SEED) else { return Ok(None) };
    let seed = text.to_str().and_then(|text| text.parse().ok()).ok_or_else(|| {
        Error::Internal(format!("{SEED} is `{}`: make it a whole number, or unset it", text.display()))
    })?;
    let name = vfs::register(seed).map_err(|code| Error::Internal(format!("cannot set up {SEED}: code {code}")))?;
    tracing::warn!(seed, "the store is on a disk that loses power: whatever is not synced dies with this process");
    Ok(Some(name))
}
