//! For tests and benches: a scripted model server, temporary homes and temporary projects.
//!
//! Nothing here knows the runtime's own crates, so what is tested is reached the way a user reaches it.

mod fake;
mod home;
mod reply;
mod repo;

pub use fake::{FakeModel, Options, Received, Timing};
pub use home::{MODEL, TempHome};
pub use reply::{Gate, Reply};
pub use repo::RepoDir;
