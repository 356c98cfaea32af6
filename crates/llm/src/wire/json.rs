//! Writing JSON: what every wire needs of it.

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

pub(crate) fn json(value: &impl Serialize) -> Bytes {
    Bytes::from(serde_json::to_vec(value).expect("strings, numbers and raw JSON always serialise"))
}

/// Fields that carry the conversation, or say how the answer comes: ours alone to set.
const OURS: [&str; 10] =
    ["model", "messages", "input", "tools", "system", "instructions", "stream", "stream_options", "store", "include"];

/// The options of a request, with the user's own laid over them.
pub(crate) fn with_options(ours: &impl Serialize, own: &Map<String, Value>) -> Bytes {
    let mut all = match serde_json::to_value(ours) {
        Ok(Value::Object(all)) if !own.is_empty() => all,
        _ => return json(ours),
    };
    all.extend(
        own.iter().filter(|(name, _)| !OURS.contains(&name.as_str())).map(|(name, it)| (name.clone(), it.clone())),
    );
    json(&all)
}

/// The raw text of a call's input. Servers insist on an object, so what a model once sent that was none is wrapped in
/// one.
pub(crate) fn arguments(input: &RawValue) -> String {
    let raw = input.get();
    if raw.trim_start().starts_with('{') { raw.to_owned() } else { format!("{{\"input\":{raw}}}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_user_are_laid_over_ours_but_for_the_conversation() {
        let own = |text: &str| serde_json::from_str::<Map<String, Value>>(text).unwrap();
        let ours = serde_json::json!({ "model": "m", "max_tokens": 5, "stream": true });
        let sent =
            with_options(&ours, &own(r#"{ "seed": 1, "max_tokens": 9, "model": "x", "messages": [], "stream": 0 }"#));
        let sent: Value = serde_json::from_slice(&sent).unwrap();
        assert_eq!(sent, serde_json::json!({ "model": "m", "max_tokens": 9, "stream": true, "seed": 1 }));
        assert_eq!(with_options(&ours, &Map::new()), json(&ours));
    }

    #[test]
    fn an_input_that_is_no_object_is_wrapped_in_one() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        assert_eq!(arguments(&raw(r#""{broken""#)), r#"{"input":"{broken"}"#);
        assert_eq!(arguments(&raw(r#"{"a":  1.0}"#)), r#"{"a":  1.0}"#);
    }
}
