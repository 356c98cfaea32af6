//! Ids: strings of a bounded alphabet with a prefix that says what they name.
//!
//! Fresh ones are uuid v7, so that they sort by birth. A run's id may also be a caller's own idempotency key, which is
//! why the type promises an alphabet and a length, not a uuid.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::sync::Arc;

/// The longest id anyone may choose (P1: idempotency keys).
const MAX_CHOSEN: usize = 128;
/// The longest id that may come from another gateway, where it was made from a chosen one and a session's.
pub const MAX_FOREIGN: usize = 200;
/// The longest id there is: one made from another, and one made from that, have prefixes more.
const MAX_LEN: usize = 240;

/// True for 1–240 characters of `[A-Za-z0-9_.:-]`.
pub fn is_valid(text: &str) -> bool {
    (1..=MAX_LEN).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b':' | b'-'))
}

/// True for an id that somebody outside may choose, such as an idempotency key.
pub fn is_chosen(text: &str) -> bool {
    is_valid(text) && text.len() <= MAX_CHOSEN
}

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an id: 1 to 240 of letters, digits, `_`, `.`, `:` and `-`")]
pub struct Invalid(String);

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            pub const PREFIX: &'static str = $prefix;

            /// A fresh id.
            #[expect(clippy::new_without_default, reason = "every call differs, so there is no default")]
            pub fn new() -> Self {
                Self(format!(concat!($prefix, "{}"), uuid::Uuid::now_v7().simple()).into())
            }

            /// An id given from outside, whatever its prefix.
            pub fn parse(text: &str) -> Result<Self, Invalid> {
                if is_valid(text) { Ok(Self(text.into())) } else { Err(Invalid(text.chars().take(80).collect())) }
            }

            pub fn as_str(&self) -> &str { &self.0 }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(&self.0) }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(&self.0) }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> { s.serialize_str(&self.0) }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
                Self::parse(&text).map_err(serde::de::Error::custom)
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> { stringify!($name).into() }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": "string", "minLength": 1, "maxLength": 240, "pattern": "^[A-Za-z0-9_.:-]+$"})
            }
        }
    )*};
}

ids! {
    /// Names a session for its whole life.
    SessionId "ses_";
    /// Names a letter, for as long as its receiver exists.
    LetterId "ltr_";
    /// Names the handling of one request; the same id as the letter that asked.
    RunId "run_";
    /// Names one tool call. Ours: the provider's own id is kept beside it for the wire only.
    CallId "call_";
    /// Names a question to a person.
    AskId "ask_";
    /// Names a command in the background.
    JobId "job_";
}

impl SessionId {
    /// True when `text` has the shape of a session id, so that a label may not look like one.
    pub fn looks_like(text: &str) -> bool {
        text.strip_prefix(Self::PREFIX).is_some_and(is_valid)
    }
}

impl RunId {
    /// The letter that opens this run.
    pub fn letter(&self) -> LetterId {
        LetterId(self.0.clone())
    }
}

impl LetterId {
    /// A letter that follows from something else: the same cause can never post it twice.
    pub fn derived(prefix: &str, cause: &str) -> Self {
        let id = format!("{prefix}{cause}");
        debug_assert!(is_valid(&id), "{id}");
        Self(id.into())
    }

    /// The run that handles this letter, when it opens one.
    pub fn run(&self) -> RunId {
        RunId(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_ids_carry_their_prefix_and_sort_by_birth() {
        let (a, b) = (SessionId::new(), SessionId::new());
        assert!(a.as_str().starts_with("ses_") && a < b);
        assert!(SessionId::looks_like(a.as_str()));
    }

    #[test]
    fn a_run_and_its_letter_share_an_id() {
        let run = RunId::new();
        assert_eq!(run.letter().run(), run);
    }

    #[test]
    fn foreign_text_is_refused_outside_the_alphabet() {
        for bad in ["", "a b", "ü", &"x".repeat(241)] {
            assert!(RunId::parse(bad).is_err(), "{bad}");
        }
        assert!(RunId::parse("my:key-1.2_3").is_ok());
    }

    #[test]
    fn what_follows_from_the_longest_ids_is_an_id() {
        let mail = LetterId::derived("mail_", &format!("{}_{}", "x".repeat(MAX_CHOSEN), uuid::Uuid::now_v7().simple()));
        assert!(mail.as_str().len() <= MAX_FOREIGN);
        let far = LetterId::derived("far_", &"x".repeat(MAX_FOREIGN));
        LetterId::derived("talk_", &format!("{far}_a99"));
        LetterId::derived("interrupt_", LetterId::derived("end_", far.as_str()).as_str());
    }
}
