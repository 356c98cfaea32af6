//! Secrets in structured data: arguments and results of tools.

use std::mem;

use serde_json::{Map, Value};

use super::{MASK, Redactor, names};

impl Redactor {
    /// Masks every secret of a value and says whether there was one. What stands under a secret's name is masked
    /// whole; every other text, keys too, is read as text.
    pub fn redact_json(&self, value: &mut Value) -> bool {
        match value {
            Value::Null | Value::Bool(_) => false,
            Value::Number(number) => {
                let known = self.knows_part_of(&number.to_string());
                if known {
                    *value = Value::from(MASK);
                }
                known
            }
            Value::String(text) => self.redact_text(text),
            Value::Array(items) => items.iter_mut().fold(false, |changed, item| self.redact_json(item) | changed),
            Value::Object(fields) => self.redact_fields(fields),
        }
    }

    fn redact_text(&self, text: &mut String) -> bool {
        let masked = self.redact(text);
        // A text that is given up is borrowed as well, so what counts is whether it differs.
        let masked = (*masked != **text).then(|| masked.into_owned());
        masked.map(|masked| *text = masked).is_some()
    }

    fn redact_fields(&self, fields: &mut Map<String, Value>) -> bool {
        let mut changed = false;
        for (key, value) in fields.iter_mut() {
            changed |= if names::is_secret(key) { self.mask_strings(value) } else { self.redact_json(value) };
        }
        self.redact_keys(fields) | changed
    }

    /// What a secret's name stands for: a text, or a list of them. An object has names of its own.
    fn mask_strings(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) if text.is_empty() || text == MASK => false,
            Value::String(text) => {
                *text = MASK.to_owned();
                true
            }
            Value::Array(items) => items.iter_mut().fold(false, |changed, item| self.mask_strings(item) | changed),
            other => self.redact_json(other),
        }
    }

    fn redact_keys(&self, fields: &mut Map<String, Value>) -> bool {
        if !fields.keys().any(|key| *self.redact(key) != **key) {
            return false;
        }
        for (key, value) in mem::take(fields) {
            let masked = self.redact(&key).into_owned();
            // Two secrets may look the same without what made them secret; neither value is lost for that.
            let mut free = masked.clone();
            let mut number = 1;
            while fields.contains_key(&free) {
                number += 1;
                free = format!("{masked} ({number})");
            }
            fields.insert(free, value);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(mut value: Value, expected: &Value) {
        let redactor = Redactor::new(["correct horse".to_owned(), "4815162342".to_owned()]);
        let changes = value != *expected;
        assert_eq!(redactor.redact_json(&mut value), changes, "{expected}");
        assert_eq!(value, *expected);
        assert!(!redactor.redact_json(&mut value), "twice is once: {value}");
        assert_eq!(value, *expected);
    }

    #[test]
    fn what_a_secrets_name_stands_for_is_masked_whole() {
        check(
            json!({"password": "short", "headers": {"Authorization": "Bearer x", "accept": "text/html"}}),
            &json!({"password": "***", "headers": {"Authorization": "***", "accept": "text/html"}}),
        );
        check(
            json!({"api_keys": ["one", "two", 3], "tokens": 512, "token": "", "secret": null}),
            &json!({"api_keys": ["***", "***", 3], "tokens": 512, "token": "", "secret": null}),
        );
    }

    #[test]
    fn an_object_under_such_a_name_has_names_of_its_own() {
        check(
            json!({"properties": {"token": {"type": "string", "default": "correct horse"}}}),
            &json!({"properties": {"token": {"type": "string", "default": "***"}}}),
        );
    }

    #[test]
    fn text_is_read_as_text_and_json_in_it_too() {
        check(
            json!({"command": "curl -H 'x-api-key: abc12345678' https://example.org"}),
            &json!({"command": "curl -H 'x-api-key: ***' https://example.org"}),
        );
        check(
            json!({"body": r#"{"api_key": "whatever it is", "cut": {"password": "half of it is mi"#}),
            &json!({"body": r#"{"api_key": "***", "cut": {"password": "***"#}),
        );
        check(json!(["say correct horse twice", 7]), &json!(["say *** twice", 7]));
    }

    #[test]
    fn keys_and_numbers_are_looked_at() {
        check(
            json!({"ghp_0123456789abcdef0123": 1, "ghp_abcdef0123456789abcd": 2, "pin": 4815162342_u64}),
            &json!({"ghp_***": 1, "ghp_*** (2)": 2, "pin": "***"}),
        );
    }

    #[test]
    fn ordinary_data_is_left_alone() {
        let value =
            json!({"path": "src/lib.rs", "limit": 20, "sessionKey": "agent:build:main", "flag": true, "none": null});
        check(value.clone(), &value);
    }
}
