//! Whole sessions: a script goes in at the model's end, what a person would see comes out.

mod board;
mod children;
mod crashes;
mod letters;
mod mail;
mod turns;
mod world;
