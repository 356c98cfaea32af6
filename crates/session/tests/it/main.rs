//! Whole sessions: a script goes in at the model's end, what a person would see comes out.

#![allow(clippy::disallowed_methods, reason = "tests know what they wrote")]

mod access;
mod board;
mod children;
mod circles;
mod compaction;
mod crashes;
mod hooks;
mod jobs;
mod letters;
mod limits;
mod live;
mod mail;
mod outbox;
mod pauses;
mod questions;
mod retire;
mod spawns;
mod summaries;
mod team;
mod titles;
mod todo;
mod tool_search;
mod turns;
mod undo;
mod wires;
mod world;
