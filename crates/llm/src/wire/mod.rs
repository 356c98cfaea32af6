//! The formats models are spoken to in, one folder each, and what they share.

mod body;
mod endpoint;
mod mask;
pub mod openai_chat;

pub use endpoint::Endpoint;
