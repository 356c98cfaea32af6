//! What holds for any text and any secrets.

use std::borrow::Cow;

use proptest::prelude::*;
use serde_json::Value;

use super::{MASK, Redactor};

/// A text as a JSON string, each character written in one of the ways JSON has for it.
fn literal(text: &str, ways: &[u8]) -> String {
    let mut ways = ways.iter().cycle();
    let mut written = String::from('"');
    for character in text.chars() {
        written.push_str(&spelled(character, ways.next().copied().unwrap_or_default()));
    }
    written + "\""
}

fn spelled(character: char, way: u8) -> String {
    let mut units = [0; 2];
    let units = character.encode_utf16(&mut units).iter();
    match (way % 4, character) {
        (0, _) => units.map(|unit| format!("\\u{unit:04x}")).collect(),
        (1, _) => units.map(|unit| format!("\\u{unit:04X}")).collect(),
        (2, '/') => "\\/".into(),
        (_, '"' | '\\') => format!("\\{character}"),
        (_, '\0'..' ') => units.map(|unit| format!("\\u{unit:04x}")).collect(),
        _ => character.into(),
    }
}

fn ways() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 1..12)
}

/// Long enough to count. Quotes are left out: at the edge of a literal they belong to it or to the secret.
fn secret() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c/_.+-]{8,14}", "[a-cé/😀\\\\-]{8,14}", "[a-z0-9]{8,30}"]
}

/// The meaning of a literal of a literal of …
fn meaning(text: &str, depth: usize) -> String {
    (0..depth).fold(text.to_owned(), |text, _| serde_json::from_str(&text).expect("a string stays a string"))
}

fn texts() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        any::<String>(),
        "[a-z ]{0,12}",
        prop::sample::select(vec![
            "password=",
            "\"token\": \"",
            "sk-",
            "Bearer ",
            "\\u002d",
            "\\\"",
            "\\",
            "\\n",
            "***",
            "-----BEGIN PRIVATE KEY-----",
            "-----END PRIVATE KEY-----",
            "ghp_0123456789abcdef",
            "://a:",
            "@",
            "hunter22",
            "correct horse",
            "é",
            "\"",
            " ",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

fn known() -> impl Strategy<Value = Vec<String>> {
    let odd = prop::sample::select(vec![
        "correct horse",
        "hunter22",
        "a***b***",
        "********",
        "\\u002d\\\"\\",
        "x y\"zzzzz",
        "sk-***sk-",
    ]);
    prop::collection::vec(prop_oneof![secret(), odd.prop_map(str::to_owned)], 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_known_value_survives_however_it_is_spelled(
        secret in secret(), before in "[a-c /\\\\é]{0,10}", after in "[a-c /\\\\é]{0,10}",
        spellings in prop::collection::vec(ways(), 0..4),
    ) {
        let redactor = Redactor::new([secret.clone()]);
        let plain = format!("{before}{secret}{after}");
        let written = spellings.iter().fold(plain, |text, ways| literal(&text, ways));
        let masked = redactor.redact(&written).into_owned();
        let meant = meaning(&masked, spellings.len());
        prop_assert!(!masked.contains(&secret) && !meant.contains(&secret), "{masked}");
        prop_assert!(meant.contains(MASK), "{masked}");
    }

    #[test]
    fn no_known_value_survives_in_data(secret in secret(), key in "[a-z ]{0,6}", ways in ways(), depth in 0..3_usize) {
        let redactor = Redactor::new([secret.clone()]);
        let mut value = serde_json::json!({ key.clone(): [format!("{key}{secret}"), literal(&secret, &ways)], secret.clone(): 1 });
        for _ in 0..depth {
            value = serde_json::json!([value.to_string(), value]);
        }
        prop_assert!(redactor.redact_json(&mut value));
        prop_assert!(!holds(&value, &secret), "{value}");
        prop_assert!(!redactor.redact_json(&mut value));
    }

    #[test]
    fn twice_is_once(text in texts(), known in known()) {
        let redactor = Redactor::new(known.clone());
        let once = redactor.redact(&text).into_owned();
        prop_assert_eq!(redactor.redact(&once), once.as_str());
        prop_assert!(known.iter().filter(|value| value.chars().count() >= 8).all(|value| !once.contains(value.as_str())));
    }

    #[test]
    fn any_text_is_read_without_a_panic(text in any::<String>(), known in prop::collection::vec(any::<String>(), 0..4)) {
        let redactor = Redactor::new(known);
        let _ = redactor.redact(&text);
        let _ = redactor.redact_json(&mut serde_json::json!({ text.clone(): text }));
    }

    #[test]
    fn prose_is_untouched(
        words in prop::collection::vec("[a-zA-Z]{1,12}|password|token|secret|bearer|api key|é[а-я]{1,6}", 0..40),
        marks in prop::collection::vec("[,;.!?]? |: |\n| — | \\(|\\) ", 1..10),
    ) {
        let text: String = words.iter().zip(marks.iter().cycle()).flat_map(|(word, mark)| [word.as_str(), mark]).collect();
        prop_assert!(matches!(Redactor::new([]).redact(&text), Cow::Borrowed(same) if same == text), "{text}");
    }

    #[test]
    fn a_prefixed_key_never_survives(
        prefix in prop::sample::select(vec!["sk-", "sk-ant-", "ghp_", "gho_", "github_pat_", "xoxb-", "AIza", "glpat-", "npm_"]),
        body in "[a-z][A-Z0-9][a-zA-Z0-9]{20,40}", ways in ways(), before in "[a-z]{0,5}[ :(]", after in "[ )]?",
    ) {
        let redactor = Redactor::new([]);
        let key = format!("{prefix}{body}");
        let text = format!("{before}{key}{after}");
        prop_assert!(!redactor.redact(&text).contains(&body));
        let masked = redactor.redact(&literal(&text, &ways)).into_owned();
        prop_assert!(!meaning(&masked, 1).contains(&body), "{masked}");
    }
}

fn holds(value: &Value, secret: &str) -> bool {
    match value {
        Value::String(text) => {
            text.contains(secret)
                || serde_json::from_str(text).is_ok_and(|inner: Value| !inner.is_number() && holds(&inner, secret))
        }
        Value::Array(items) => items.iter().any(|item| holds(item, secret)),
        Value::Object(fields) => fields.iter().any(|(key, value)| key.contains(secret) || holds(value, secret)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
