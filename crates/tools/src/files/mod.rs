//! What file tools share: resolving paths, what was read when, and writing atomically.

mod handle;
mod paths;
mod save;
mod seen;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use handle::pin;
pub use paths::{Inside, Purpose, accesses, changes, outside, protected, relative, resolve};
pub(crate) use paths::{contents, found, is_text, missing, open, open_known, permitted, regular};
pub(crate) use save::{missing_folders, remove, save, save_as};
pub use seen::{Seen, Stamp, State};
pub(crate) use text::Text;

use crate::Error;

/// The largest file that is edited or replaced: all of it is held in memory, several times over.
pub(crate) const MAX_EDITED: u64 = 32 << 20;

/// Runs file work where it may block. A panic in it is that tool's, and nobody else's.
pub(crate) async fn blocking<T: Send + 'static>(
    tool: &'static str,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(source) => Err(Error::Broken { tool, source: Box::new(source) }),
    }
}
