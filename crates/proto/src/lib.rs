//! What is said: the data that goes over a wire or onto a disk, and nothing else.
//!
//! No runtime, no I/O, no clock but the one that stamps a fresh id. Whatever is neither sent nor stored lives with its
//! owner in another crate.

pub mod board;
pub mod entry;
pub mod error;
pub mod event;
pub mod ids;
pub mod job;
pub mod key;
pub mod letter;
pub mod message;
pub mod methods;
pub mod model;
pub mod nearest;
pub mod question;
pub mod rule;
pub mod run;
mod shape;
pub mod sse;
mod tagged;
pub mod todo;
pub mod undo;
pub mod worktree;

pub use board::{BoardTask, Holder, TaskState};
pub use entry::{Call, Entry, Stored};
pub use error::{Code, Error};
pub use event::Event;
pub use ids::{AskId, CallId, JobId, LetterId, RunId, SessionId};
pub use job::{Job, JobNews};

pub use key::{AgentId, Key, Kind, Reference};
pub use letter::{Body, Class, Letter};
pub use question::{Choice, Question};
pub use rule::{Action, Rule};
pub use run::{Outcome, Status, Usage};
pub use todo::{Priority, Todo, TodoStatus};
pub use undo::{FileState, FileUndone, NotUndone};
pub use worktree::Worktree;

/// Milliseconds since the epoch: how every time is sent and stored.
pub type Millis = i64;
