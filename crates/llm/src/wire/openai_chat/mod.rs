//! OpenAI Chat Completions, and the many servers that speak it more or less.
//!
//! `encode` makes fragments and requests, `parser` reads answers, `refusal` sorts errors, `provider` does the talking.

mod encode;
mod parser;
mod provider;
mod refusal;
#[cfg(test)]
mod tests;

pub use parser::Parser;
pub use provider::OpenAiChat;
