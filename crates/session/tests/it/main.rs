//! Whole sessions: a script goes in at the model's end, what a person would see comes out.

mod children;
mod crashes;
mod letters;
mod pauses;
mod turns;
mod world;
