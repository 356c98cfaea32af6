//! How each row of the table is answered: one file for each resource.

mod agent;
mod agents;
mod board;
mod chat;
mod config;
mod gateway;
mod hooks;
mod messages;
mod permissions;
mod questions;
mod sessions;
mod spawn;
mod subagents;
mod tools;
mod undo;
mod worktrees;
