//! Arguments as models send them: numbers and truths as text, `10.0` for `10`, an empty text for nothing.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
#[serde(untagged)]
enum Loose {
    Bool(bool),
    Whole(u64),
    Float(f64),
    Text(String),
}

/// A whole number of at least zero, or nothing.
pub(crate) fn number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let bad = || D::Error::custom("expected a whole number of at least 0");
    match Option::<Loose>::deserialize(from).map_err(|_| bad())? {
        None => Ok(None),
        Some(Loose::Whole(number)) => Ok(Some(number)),
        Some(Loose::Float(number)) => whole(number).map(Some).ok_or_else(bad),
        Some(Loose::Text(text)) if text.trim().is_empty() => Ok(None),
        Some(Loose::Text(text)) => text.trim().parse().ok().and_then(whole).map(Some).ok_or_else(bad),
        Some(Loose::Bool(_)) => Err(bad()),
    }
}

/// A list of whole numbers, or nothing. One number alone is a list of one.
pub(crate) fn numbers<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<u64>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum List {
        Many(Vec<One>),
        One(One),
    }
    #[derive(Deserialize)]
    struct One(#[serde(deserialize_with = "number")] Option<u64>);
    let bad = |_| D::Error::custom("expected a list of whole numbers of at least 0");
    Ok(match Option::<List>::deserialize(from).map_err(bad)? {
        None => None,
        Some(List::Many(many)) => Some(many.into_iter().filter_map(|One(number)| number).collect()),
        Some(List::One(One(one))) => one.map(|one| vec![one]),
    })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked before")]
fn whole(number: f64) -> Option<u64> {
    // Up to here every whole number is exact.
    (number.fract() == 0.0 && (0.0..=9e15).contains(&number)).then_some(number as u64)
}

/// Yes or no; nothing is no.
pub(crate) fn truth<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    let bad = || D::Error::custom("expected true or false");
    match Option::<Loose>::deserialize(from).map_err(|_| bad())? {
        None => Ok(false),
        Some(Loose::Bool(truth)) => Ok(truth),
        Some(Loose::Text(text)) => match text.trim().to_lowercase().as_str() {
            "true" | "yes" | "1" => Ok(true),
            "false" | "no" | "0" | "" => Ok(false),
            _ => Err(bad()),
        },
        Some(Loose::Whole(0)) => Ok(false),
        Some(Loose::Whole(1)) => Ok(true),
        Some(Loose::Whole(_) | Loose::Float(_)) => Err(bad()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Args {
        #[serde(default, deserialize_with = "number")]
        number: Option<u64>,
        #[serde(default, deserialize_with = "truth")]
        truth: bool,
        #[serde(default, deserialize_with = "numbers")]
        numbers: Option<Vec<u64>>,
    }

    fn parse(json: &str) -> Result<(Option<u64>, bool), String> {
        serde_json::from_str::<Args>(json).map(|args| (args.number, args.truth)).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_meant_is_taken() {
        assert_eq!(parse("{}"), Ok((None, false)));
        assert_eq!(parse(r#"{"number": null, "truth": null}"#), Ok((None, false)));
        assert_eq!(parse(r#"{"number": 10, "truth": true}"#), Ok((Some(10), true)));
        assert_eq!(parse(r#"{"number": 10.0, "truth": "True"}"#), Ok((Some(10), true)));
        assert_eq!(parse(r#"{"number": " 10 ", "truth": "false"}"#), Ok((Some(10), false)));
        assert_eq!(parse(r#"{"number": "", "truth": ""}"#), Ok((None, false)));
    }

    #[test]
    fn a_list_of_numbers_may_be_loose() {
        let parse = |json: &str| serde_json::from_str::<Args>(json).map(|args| args.numbers).ok();
        assert_eq!(parse("{}"), Some(None));
        assert_eq!(parse(r#"{"numbers": null}"#), Some(None));
        assert_eq!(parse(r#"{"numbers": []}"#), Some(Some(vec![])));
        assert_eq!(parse(r#"{"numbers": [1, "2", 3.0]}"#), Some(Some(vec![1, 2, 3])));
        assert_eq!(parse(r#"{"numbers": 4}"#), Some(Some(vec![4])));
        assert_eq!(parse(r#"{"numbers": ["x"]}"#), None);
    }

    #[test]
    fn what_is_not_clear_is_refused() {
        for json in [r#"{"number": -1}"#, r#"{"number": 1.5}"#, r#"{"number": "ten"}"#, r#"{"number": [1]}"#] {
            assert!(parse(json).unwrap_err().contains("whole number"), "{json}");
        }
        assert!(parse(r#"{"truth": "maybe"}"#).unwrap_err().contains("true or false"));
    }
}
