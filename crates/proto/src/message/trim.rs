//! Makes messages fit for a reader (S5): tools stripped, long texts cut, the whole below a size.

use super::project::{content, shown, text};
use super::{Message, Part, Role};
use serde_json::{Value, json};

/// The most bytes of JSON that one page of messages may have.
pub const MAX_BYTES: usize = 80 * 1024;

/// The longest text, in UTF-16 units.
const MAX_TEXT: usize = 4000;

const CUT: &str = "\n…(truncated)…";

const PLACEHOLDER: &str = "[sessions_history omitted: message too large]";

/// Messages below the size limit, the newest of what was given.
#[derive(Debug)]
pub struct Capped {
    pub messages: Vec<Message>,
    pub bytes: usize,
    pub dropped: usize,
}

/// Makes a message readable; `None` when nothing is left of it. The flag says whether a text was cut.
///
/// Without tools only what was said stays, in `content`; with them `parts` holds everything but the costs.
pub fn readable(mut message: Message, include_tools: bool) -> Option<(Message, bool)> {
    let mut shortened = false;
    if !include_tools {
        let said = cut(text(&message.parts), &mut shortened);
        message.content = with_files(said, &message.parts);
        message.parts.clear();
        return (!is_blank(&message.content)).then_some((message, shortened));
    }
    message.parts.retain(|part| !matches!(part, Part::Step { .. }));
    for part in &mut message.parts {
        shorten(part, &mut shortened);
    }
    message.content = match content(&message.parts) {
        Value::String(said) => Value::String(cut(said, &mut shortened)),
        blocks => blocks,
    };
    let left = !message.parts.is_empty() && !is_blank(&message.content);
    left.then_some((message, shortened))
}

/// What was said; in blocks where there is something to look at as well.
fn with_files(said: String, parts: &[Part]) -> Value {
    let files = parts.iter().filter_map(|part| if let Part::File(file) = part { Some(shown(file)) } else { None });
    let files: Vec<Value> = files.collect();
    if files.is_empty() {
        return Value::String(said);
    }
    let said = (!said.trim().is_empty()).then(|| json!({ "type": "text", "text": said }));
    said.into_iter().chain(files).collect()
}

/// Drops the oldest until the rest fits; a last one that does not fit alone gives way to a placeholder.
pub fn cap(mut messages: Vec<Message>) -> Capped {
    let (mut bytes, mut kept) = (2, 0);
    for message in messages.iter().rev() {
        let more = json_len(message) + usize::from(kept > 0);
        if bytes + more > MAX_BYTES {
            break;
        }
        bytes += more;
        kept += 1;
    }
    let dropped = messages.len() - kept;
    if kept > 0 || messages.is_empty() {
        return Capped { messages: messages.split_off(dropped), bytes, dropped };
    }
    let last = messages.pop().map(placeholder);
    let bytes = 2 + last.as_ref().map_or(0, json_len);
    Capped { messages: last.into_iter().collect(), bytes, dropped }
}

fn placeholder(message: Message) -> Message {
    let content = Value::String(PLACEHOLDER.into());
    Message { role: Role::Assistant, content, parts: Vec::new(), ..message }
}

fn json_len(message: &Message) -> usize {
    serde_json::to_vec(message).map_or(MAX_BYTES, |json| json.len())
}

fn is_blank(content: &Value) -> bool {
    content.as_str().is_some_and(|said| said.trim().is_empty())
}

fn shorten(part: &mut Part, shortened: &mut bool) {
    let mut cut_in = |text: &mut String| *text = cut(std::mem::take(text), shortened);
    match part {
        Part::Text { text } | Part::Reasoning { text } => cut_in(text),
        Part::Subtask { prompt, .. } => cut_in(prompt),
        Part::Tool { input, output, .. } => {
            output.as_mut().map(&mut cut_in);
            each_string(input, &mut cut_in);
        }
        Part::File(_) | Part::Agent { .. } | Part::Compaction { .. } | Part::Step { .. } => {}
    }
}

fn each_string(value: &mut Value, change: &mut impl FnMut(&mut String)) {
    match value {
        Value::String(text) => change(text),
        Value::Array(items) => items.iter_mut().for_each(|item| each_string(item, change)),
        Value::Object(fields) => fields.values_mut().for_each(|field| each_string(field, change)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Counts as the seed's runtime does, in UTF-16 units; a pair is never split, for a char is never split.
fn cut(mut text: String, shortened: &mut bool) -> String {
    let mut units = 0;
    let end = text.char_indices().find_map(|(at, char)| {
        units += char.len_utf16();
        (units > MAX_TEXT).then_some(at)
    });
    if let Some(end) = end {
        text.truncate(end);
        text.push_str(CUT);
        *shortened = true;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::ToolState;
    use crate::{CallId, Usage};
    use proptest::prelude::*;

    fn said(seq: u64, said: &str) -> Message {
        message(seq, vec![Part::Text { text: said.into() }, Part::Step { usage: Usage::default(), cost: 0.0 }])
    }

    fn message(seq: u64, parts: Vec<Part>) -> Message {
        Message {
            id: format!("msg_{seq}"),
            seq,
            role: Role::Assistant,
            sender: "build".into(),
            agent: "build".into(),
            model: "p/m".into(),
            mode: None,
            finish: None,
            timestamp: 1,
            content: content(&parts),
            parts,
        }
    }

    fn tool(output: &str) -> Part {
        let input = serde_json::json!({"content": output});
        Part::Tool {
            call_id: CallId::new(),
            tool: "write".into(),
            state: ToolState::Completed,
            input,
            output: Some(output.into()),
            title: None,
            files: Vec::new(),
        }
    }

    #[test]
    fn a_long_text_is_cut_with_the_marker_and_never_inside_a_pair() {
        let (message, shortened) = readable(said(1, &"x".repeat(4001)), false).unwrap();
        assert!(shortened);
        assert_eq!(message.content, format!("{}\n…(truncated)…", "x".repeat(4000)));
        // 3,999 units and then a pair that would end at 4,001.
        let (message, _) = readable(said(1, &format!("{}😀", "x".repeat(3999))), false).unwrap();
        assert_eq!(message.content, format!("{}\n…(truncated)…", "x".repeat(3999)));
        let (message, shortened) = readable(said(1, &"x".repeat(4000)), false).unwrap();
        assert!(!shortened && message.parts.is_empty());
    }

    #[test]
    fn without_tools_a_message_of_tools_is_nothing() {
        assert!(readable(message(1, vec![tool("x")]), false).is_none());
        let (message, shortened) = readable(message(1, vec![tool(&"x".repeat(5000))]), true).unwrap();
        let Part::Tool { input, output, .. } = &message.parts[0] else { panic!("a tool") };
        assert!(shortened && input["content"].as_str().unwrap().ends_with("…(truncated)…"));
        assert!(output.as_ref().unwrap().ends_with("…(truncated)…"));
    }

    #[test]
    fn images_are_shown_as_images_without_what_they_hold() {
        let image = || super::super::FilePart {
            filename: "a.png".into(),
            mime: "image/png".into(),
            omitted: true,
            bytes: 1024,
        };
        let block = json!({"type": "image", "filename": "a.png", "mime": "image/png", "omitted": true, "bytes": 1024});
        let looked = || vec![Part::Text { text: "look".into() }, Part::File(image())];
        for include_tools in [false, true] {
            let (read, _) = readable(message(1, looked()), include_tools).unwrap();
            assert_eq!(read.content, json!([{"type": "text", "text": "look"}, block]));
            let (read, _) = readable(message(1, vec![Part::File(image())]), include_tools).unwrap();
            assert_eq!(read.content, json!([block]), "an image alone is a message");
        }
        let mut read = tool("what the file shows");
        if let Part::Tool { files, .. } = &mut read {
            files.push(image());
        }
        let (read, _) = readable(message(1, vec![read]), true).unwrap();
        assert_eq!(read.content[1], block);
    }

    #[test]
    fn costs_are_not_shown() {
        let (message, _) = readable(said(1, "x"), true).unwrap();
        let text = serde_json::to_string(&message).unwrap();
        assert!(!text.contains("usage") && !text.contains("cost"), "{text}");
    }

    #[test]
    fn a_message_too_large_alone_gives_way_to_the_placeholder() {
        let capped = cap(vec![said(1, "small"), message(2, (0..30).map(|_| tool(&"y".repeat(3900))).collect())]);
        assert_eq!(capped.messages.len(), 1);
        assert_eq!(capped.messages[0].content, "[sessions_history omitted: message too large]");
        assert_eq!((capped.messages[0].seq, capped.dropped), (2, 2));
        assert_eq!(capped.bytes, serde_json::to_vec(&capped.messages).unwrap().len());
    }

    proptest! {
        #[test]
        fn the_newest_that_fit_are_kept_and_counted(lengths in prop::collection::vec(0usize..9000, 0..30)) {
            let messages: Vec<_> = lengths.iter().zip(1..).map(|(n, seq)| said(seq, &"é".repeat(*n))).collect();
            let before = messages.len();
            let capped = cap(messages);
            prop_assert!(capped.bytes <= MAX_BYTES);
            prop_assert_eq!(capped.bytes, serde_json::to_vec(&capped.messages).unwrap().len());
            prop_assert_eq!(capped.messages.len() + capped.dropped, before);
            prop_assert_eq!(capped.messages.last().map(|m| m.seq), (before > 0).then_some(before as u64));
        }
    }
}
