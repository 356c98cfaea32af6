//! Arguments as models send them: numbers and truths as text, `10.5` for `10`, blanks around words, an empty text for
//! nothing.

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

/// A whole number of at least zero, or nothing. What is below is zero, what is between two is the lower one.
pub(crate) fn number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let bad = || D::Error::custom("expected a whole number of at least 0");
    match Option::<Loose>::deserialize(from).map_err(|_| bad())? {
        None => Ok(None),
        Some(Loose::Whole(number)) => Ok(Some(number)),
        Some(Loose::Float(number)) => Ok(Some(floor(number))),
        Some(Loose::Text(text)) if text.trim().is_empty() => Ok(None),
        Some(Loose::Text(text)) => {
            let number: Option<f64> = text.trim().parse().ok();
            number.filter(|number| number.is_finite()).map(floor).map(Some).ok_or_else(bad)
        }
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

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, which is what is meant"
)]
fn floor(number: f64) -> u64 {
    number.floor() as u64
}

/// An amount of at least zero, or nothing.
pub(crate) fn amount<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    let bad = || D::Error::custom("expected a number of at least 0");
    let number = match Option::<Loose>::deserialize(from).map_err(|_| bad())? {
        None => return Ok(None),
        #[expect(clippy::cast_precision_loss, reason = "nobody has that much money")]
        Some(Loose::Whole(number)) => Some(number as f64),
        Some(Loose::Float(number)) => Some(number),
        Some(Loose::Text(text)) if text.trim().is_empty() => return Ok(None),
        Some(Loose::Text(text)) => text.trim().parse().ok(),
        Some(Loose::Bool(_)) => None,
    };
    number.filter(|number| number.is_finite()).map(|number| Some(number.max(0.0))).ok_or_else(bad)
}

/// Words without the blanks around them; none are nothing.
pub(crate) fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    Ok(text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()))
}

/// Yes or no; nothing is no.
pub(crate) fn truth<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    Ok(maybe_truth(from)?.unwrap_or(false))
}

/// Yes, no or nothing.
pub(crate) fn maybe_truth<'de, D: Deserializer<'de>>(from: D) -> Result<Option<bool>, D::Error> {
    let bad = || D::Error::custom("expected true or false");
    match Option::<Loose>::deserialize(from).map_err(|_| bad())? {
        None => Ok(None),
        Some(Loose::Bool(truth)) => Ok(Some(truth)),
        Some(Loose::Text(text)) => match text.trim().to_lowercase().as_str() {
            "true" | "yes" | "1" => Ok(Some(true)),
            "false" | "no" | "0" => Ok(Some(false)),
            "" => Ok(None),
            _ => Err(bad()),
        },
        Some(Loose::Whole(0)) => Ok(Some(false)),
        Some(Loose::Whole(1)) => Ok(Some(true)),
        Some(Loose::Whole(_) | Loose::Float(_)) => Err(bad()),
    }
}

/// The default for `null`: models that have to name every field send that for those they do not mean.
pub(crate) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

/// A list; anything else says nothing.
pub(crate) fn list<'de, D: Deserializer<'de>, T: serde::de::DeserializeOwned>(from: D) -> Result<Vec<T>, D::Error> {
    match serde_json::Value::deserialize(from)? {
        list @ serde_json::Value::Array(_) => serde_json::from_value(list).map_err(D::Error::custom),
        _ => Ok(Vec::new()),
    }
}

/// The path of a file. One that the kernel would not take is refused here, before anybody goes along it.
pub(crate) fn path<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let path = String::deserialize(from)?;
    match foreign::text::path_is_wrong(&path) {
        Some(why) => Err(D::Error::custom(format!("not a path: {why}"))),
        None => Ok(path),
    }
}

/// The same, or nothing.
pub(crate) fn maybe_path<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    struct One(#[serde(deserialize_with = "path")] String);
    Ok(Option::<One>::deserialize(from)?.map(|One(path)| path))
}

/// An address of the web. No server takes a longer one.
pub(crate) fn address<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    const LONGEST: usize = 16 << 10;
    let address = String::deserialize(from)?;
    if address.len() > LONGEST {
        let length = address.len();
        return Err(D::Error::custom(format!("an address of {length} bytes, and {LONGEST} is the most")));
    }
    Ok(address)
}

/// A pattern of names that can be taken apart.
pub(crate) fn pattern<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let pattern = String::deserialize(from)?;
    match foreign::text::pattern_is_too_much(&pattern) {
        Some(why) => Err(D::Error::custom(format!("bad pattern: {why}"))),
        None => Ok(pattern),
    }
}

/// Words that have to be there.
pub(crate) fn required<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    text(from)?.ok_or_else(|| D::Error::custom("expected words, not nothing"))
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
        #[serde(default, deserialize_with = "text")]
        text: Option<String>,
        #[serde(default, deserialize_with = "amount")]
        amount: Option<f64>,
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
    fn numbers_are_floored_and_kept_in_range() {
        for (json, expected) in [("-1", 0), ("-0.5", 0), ("1.9", 1), ("\" 2.7 \"", 2), ("1e300", u64::MAX)] {
            assert_eq!(parse(&format!("{{\"number\": {json}}}")).unwrap().0, Some(expected), "{json}");
        }
    }

    #[test]
    fn words_are_trimmed_and_amounts_are_not_negative() {
        let read = |json: &str| serde_json::from_str::<Args>(json).unwrap();
        assert_eq!(read(r#"{"text": "  a b "}"#).text.as_deref(), Some("a b"));
        assert_eq!((read(r#"{"text": "  "}"#).text, read(r#"{"text": null}"#).text), (None, None));
        assert_eq!(read(r#"{"amount": "0.5"}"#).amount, Some(0.5));
        assert_eq!((read(r#"{"amount": -2}"#).amount, read(r#"{"amount": ""}"#).amount), (Some(0.0), None));
    }

    #[test]
    fn what_is_not_clear_is_refused() {
        for json in [r#"{"number": "ten"}"#, r#"{"number": [1]}"#, r#"{"number": "inf"}"#, r#"{"number": true}"#] {
            assert!(parse(json).unwrap_err().contains("whole number"), "{json}");
        }
        assert!(parse(r#"{"truth": "maybe"}"#).unwrap_err().contains("true or false"));
    }
}
