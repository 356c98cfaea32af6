//! For tests and benches: a scripted model server, temporary homes and temporary projects.
//!
//! Nothing here knows the runtime's own crates, so what is tested is reached the way a user reaches it.

mod fake;
mod home;
mod received;
mod reply;
mod repo;
mod wires;

pub use fake::{FakeModel, Options, Timing};
pub use home::{MODEL, TempHome};
pub use received::{Line, Received, Wire};
pub use reply::{Gate, Reply};
pub use repo::RepoDir;
