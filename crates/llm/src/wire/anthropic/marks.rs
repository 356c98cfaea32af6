//! Marks that say up to where a request is worth caching.
//!
//! One stands behind the system part and never moves: tools and system are cached for all sessions of an agent. One
//! stands behind the newest message and moves on with each step. It is the last thing in its message, so that all bytes
//! before it are those of the request before.
//!
//! From a mark the server looks back twenty blocks for something it has cached. A reply with many calls is longer than
//! that, and its results would be read at the full price: then one more mark stands where the request before ended.

use bytes::{Bytes, BytesMut};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Mark {
    r#type: &'static str,
}

pub(super) const MARK: Mark = Mark { r#type: "ephemeral" };

const MARKED: &[u8] = br#","cache_control":{"type":"ephemeral"}}]}"#;

/// How a user's message ends: its last block, its content, itself. An assistant's ends with its role.
const USER_END: &[u8] = b"}]}";

/// A call and its result are two blocks; beyond so many results the server might not look back far enough.
const MANY_RESULTS: usize = 8;

/// Quotes inside a text are escaped, so this is only found where a block begins.
const RESULT: &[u8] = br#"{"type":"tool_result","#;

/// The messages with their marks.
pub(super) fn set(messages: &[Bytes]) -> Vec<Bytes> {
    let mut messages = messages.to_vec();
    let Some(last) = messages.len().checked_sub(1) else { return messages };
    if has_many_results(&messages[last])
        && let Some(before) = messages[..last].iter().rposition(|message| message.ends_with(USER_END))
    {
        messages[before] = marked(&messages[before]);
    }
    messages[last] = marked(&messages[last]);
    messages
}

fn marked(message: &Bytes) -> Bytes {
    let Some(start) = message.strip_suffix(USER_END) else { return message.clone() };
    let mut marked = BytesMut::with_capacity(start.len() + MARKED.len());
    marked.extend_from_slice(start);
    marked.extend_from_slice(MARKED);
    marked.freeze()
}

fn has_many_results(message: &[u8]) -> bool {
    memchr::memmem::find_iter(message, RESULT).nth(MANY_RESULTS).is_some()
}
