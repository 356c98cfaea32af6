//! The heart: the pure turn machine, and the actor around it.
//!
//! `view` folds a log, `decide` says what comes next, `actor` does it and commits, `runtime` is how others reach it. No
//! socket, no SQL, no terminal and no vendor's name is known here.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests know what they wrote"))]

mod actor;
pub mod agents;
pub mod asked;
mod board;
mod brake;
mod budget;
mod chain;
pub mod clock;
mod command;
mod compaction;
pub mod courier;
pub mod decide;
pub mod directory;
mod doom;
mod doors;
mod fork;
mod grant;
mod hidden;
mod hooks;
pub mod hub;
mod identity;
mod jobs;
mod mention;
mod messages;
mod patch;
mod registry;
mod resolve;
mod retire;
mod runtime;
mod settings;
pub mod shown;
mod slots;
mod stop;
mod summary;
mod sweep;
mod toolbox;
mod transcript;
mod undo;
pub mod view;
mod waiters;
mod why;
mod worktrees;

pub use actor::may_read;
pub use agents::{Agents, Profile, permissions};
pub use board::Board;
pub use courier::Courier;
pub use hub::{Hub, Seen};
pub use runtime::{Arriving, Between, Bounds, Deps, Inbound, NewPrompt, NewSession, Posted, Runtime, Target};
pub use settings::{Fixed, Here, Place, Settings, around, wanted};

pub(crate) use clock::{due, now, steady};
