//! Writing JSON: what every wire needs of it.

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

pub(crate) fn json(value: &impl Serialize) -> Bytes {
    Bytes::from(serde_json::to_vec(value).expect("strings, numbers and raw JSON always serialise"))
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
    fn an_input_that_is_no_object_is_wrapped_in_one() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        assert_eq!(arguments(&raw(r#""{broken""#)), r#"{"input":"{broken"}"#);
        assert_eq!(arguments(&raw(r#"{"a":  1.0}"#)), r#"{"a":  1.0}"#);
    }
}
