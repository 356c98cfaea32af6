//! Model replies of all three API formats: where the bytes are cut does not matter, and nothing grows past its input.

use super::{Target, Trial, signature};
use llm::{Error, Part, Reply, Wire};
use std::path::Path;

pub(super) const TARGET: Target = Target {
    name: "replies",
    words: &[
        "data: ",
        "event: ",
        "\n\n",
        "[DONE]",
        "{\"type\":",
        "\"index\":",
        "\"delta\":",
        "\"content\":",
        "\"tool_calls\":",
        "\"function\":",
        "\"arguments\":",
        "\"finish_reason\":",
        "\"usage\":",
        "\"message_start\"",
        "\"content_block_delta\"",
        "\"message_stop\"",
        "\"response.completed\"",
        "\"response.output_item.added\"",
        "\"error\":",
        "\"name\":\"",
        "\"id\":\"",
        "18446744073709551615",
        "-1",
        "1e400",
        "null",
    ],
    folders: &[
        "crates/llm/fixtures/anthropic",
        "crates/llm/fixtures/openai_chat",
        "crates/llm/fixtures/openai_responses",
    ],
    open,
};

fn open(_: &Path) -> anyhow::Result<Trial> {
    Ok(Box::new(|input| {
        let mut ways = Vec::new();
        for wire in Wire::ALL {
            let whole = wire.read([input]);
            let size = if input.len() < 2_000 { 7 } else { 509 };
            let cut = wire.read(input.chunks(size));
            let (whole, cut) = (noted(&whole), noted(&cut));
            if whole != cut {
                return Err(format!(
                    "{}: `{}` in one piece, `{}` when cut",
                    wire.as_str(),
                    head(&whole.0),
                    head(&cut.0)
                ));
            }
            // A character that is no text becomes three bytes, an escape of one at most six.
            if whole.1 > 8 * input.len() + 4_096 {
                return Err(format!("{}: a reply of {} bytes from {}", wire.as_str(), whole.1, input.len()));
            }
            ways.push(whole.0.chars().filter(char::is_ascii_alphabetic).take(24).collect::<String>());
        }
        Ok(signature(ways))
    }))
}

/// A reply in words, and its size.
fn noted(reply: &Result<Reply, Error>) -> (String, usize) {
    match reply {
        Err(error) => (format!("error {error}"), 0),
        Ok(reply) => {
            let kind = |part: &Part| match part {
                Part::Text(text) => format!("text {text}"),
                Part::Reasoning(thought) => format!("thought {}", thought.text),
                Part::Call { tool, input, .. } => format!("call {tool} {input}"),
                Part::Block(block) => format!("block {}", block.raw.get()),
            };
            let parts: Vec<String> = reply.parts.iter().map(kind).collect();
            let size = reply.parts.iter().map(Part::size).sum();
            (format!("{:?} {} {:?}", reply.finish, parts.join(" "), reply.usage), size)
        }
    }
}

fn head(text: &str) -> String {
    text.chars().take(200).collect()
}
