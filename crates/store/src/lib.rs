//! What is kept: the `Store` door, and the backends behind it.
//!
//! Only this crate knows SQL. A session's log, inbox, runs, asks and waits change through [`Store::commit`] and
//! [`Store::deliver`] and in no other way, and a tree's board through [`Store::change_board`]; each is one transaction, and
//! answers only when it is on disk.

mod board;
mod commits;
mod door;
pub mod memory;
mod messages;
mod outbox;
#[cfg(feature = "power")]
mod power;
mod purse;
mod ready;
pub mod sqlite;

#[doc(hidden)]
pub mod conformance;

pub use board::{
    BoardChange, BoardQuery, BoardWork, MAX_BLOCKERS, MAX_DESCRIPTION, MAX_NOTE, MAX_TASKS, MAX_TITLE, NewTask,
    Refused, TaskUpdate,
};
pub use commits::Commits;
pub use door::*;
pub use memory::Memory;
pub use messages::*;
pub use outbox::{Fate, OutboxQuery, Parcel};
pub use purse::{DUST, Purse, Used};
pub use sqlite::Sqlite;
