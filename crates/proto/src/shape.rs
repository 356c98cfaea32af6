//! Shapes of what callers write into methods, for the schemas: each says what the check behind it takes, so that a
//! client can check before it sends. The tests hold both against each other.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

macro_rules! shapes {
    ($($(#[$doc:meta])+ $name:ident $schema:tt;)*) => {$(
        $(#[$doc])+
        pub(crate) struct $name;

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )*};
}

shapes! {
    /// What [`crate::Reference::parse`] takes, but for `current`: nobody outside has a session of their own.
    Ref {
        "type": "string",
        "description": "An id or at least its last 4 characters, a key (`agent:<agent>:<rest>`), `main`, an agent's name or a label",
        "pattern": r"^\s*([Aa][Gg][Ee][Nn][Tt]:\s*[A-Za-z0-9][A-Za-z0-9_-]{0,63}\s*(:[^:\s\x00-\x1f\x7f-\x9f]+)+|subagent:[A-Za-z0-9_.:-]{0,236}|ses_[A-Za-z0-9_.:-]{1,236}|[^:\x00-\x1f\x7f-\x9f]*[^:\s\x00-\x1f\x7f-\x9f][^:\x00-\x1f\x7f-\x9f]*)\s*$",
        "maxLength": 512,
        "not": { "pattern": r"^\s*(current|ses_[A-Za-z0-9_.:-]{237,240})\s*$" },
    };
    /// What [`crate::key::label`] takes.
    Label {
        "type": "string",
        "pattern": r"^\s*[^:\x00-\x1f\x7f-\x9f]*[^:\s\x00-\x1f\x7f-\x9f][^:\x00-\x1f\x7f-\x9f]*\s*$",
        "maxLength": 512,
        "not": { "pattern": r"^\s*(main|current|global|unknown|ses_[A-Za-z0-9_.-]{1,240})\s*$" },
    };
    /// What [`crate::key::title`] takes.
    Title {
        "type": "string",
        "pattern": r"^\s*[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*\s*$",
        "maxLength": 512,
    };
    /// What [`crate::AgentId::parse`] takes.
    AgentName { "type": "string", "pattern": r"^\s*[A-Za-z0-9][A-Za-z0-9_-]{0,63}\s*$" };
    /// What [`crate::letter::says_something`] takes.
    Words { "type": "string", "pattern": r"[^\s\x00-\x1f\x7f-\x9f]" };
    /// Words to a child, which have an end.
    ShortWords { "type": "string", "pattern": r"[^\s\x00-\x1f\x7f-\x9f]", "maxLength": 4000 };
    /// What `send_message` takes: words, or one of the formal questions and answers.
    MailWords {
        "anyOf": [
            { "type": "string", "pattern": r"[^\s\x00-\x1f\x7f-\x9f]" },
            { "type": "object", "properties": { "type": { "const": "shutdown_request" } }, "required": ["type"] },
            {
                "type": "object",
                "properties": {
                    "type": { "enum": ["shutdown_response", "plan_approval_response"] },
                    "request_id": { "type": "string", "pattern": r"[^\s\x00-\x1f\x7f-\x9f]" },
                    "approve": { "type": "boolean" },
                },
                "required": ["type", "request_id", "approve"],
            },
        ],
    };
    /// An idempotency key: what [`crate::ids::is_chosen`] takes.
    Chosen { "type": "string", "pattern": r"^[A-Za-z0-9_.:-]+$", "minLength": 1, "maxLength": 128 };
    /// An id from another gateway.
    Foreign { "type": "string", "pattern": r"^[A-Za-z0-9_.:-]+$", "minLength": 1, "maxLength": 200 };
    /// The path of a socket, as an address shows it.
    SocketPath { "type": "string", "pattern": "^/[^\"<>#\\x00-\\x1f\\x7f-\\x9f]*$", "maxLength": 200 };
    /// A directory; whether it is there is another question.
    Directory { "type": "string", "pattern": r"^/[^\x00]*$" };
    /// The title of a task, which has an end.
    TaskTitle { "type": "string", "pattern": r"[^\s\x00-\x1f\x7f-\x9f]", "maxLength": 500 };
    /// Whose a task can be.
    TaskOwner { "type": "string", "pattern": r"^\s*[A-Za-z0-9_.:-]{1,240}\s*$" };
    /// What a letter can be that is kept here.
    KeptMail { "type": "string", "enum": ["queued", "delivered", "held", "refused", "expired", "unreachable"] };
    /// The `nextCursor` of a page of tasks: the last one's number.
    TaskCursor { "type": "string", "pattern": r"^[0-9]{1,18}$" };
    /// The `nextCursor` of a page.
    PageCursor { "type": "string", "pattern": r"^[0-9]{1,18}\.[A-Za-z0-9_.:-]{1,240}$" };
}

/// At least one of the fields of an object is given and not `null`, and no second one.
pub(crate) fn exactly_one(fields: &[&str]) -> Vec<serde_json::Value> {
    fields.iter().map(|field| given(&[field])).collect()
}

/// These fields are given and not `null`.
pub(crate) fn given(fields: &[&str]) -> serde_json::Value {
    let properties: serde_json::Map<_, _> =
        fields.iter().map(|field| ((*field).to_owned(), serde_json::json!({ "type": "string" }))).collect();
    serde_json::json!({ "required": fields, "properties": properties })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AgentId, Reference, ids, key, letter};
    use proptest::prelude::*;
    use regex::Regex;
    use std::sync::LazyLock;

    /// A schema as far as schemas go here, with the check it stands for.
    struct Pair {
        name: Cow<'static, str>,
        pattern: Regex,
        most: Option<usize>,
        not: Option<Regex>,
        check: fn(&str) -> bool,
    }

    fn pair<S: JsonSchema>(check: fn(&str) -> bool) -> Pair {
        let schema = S::json_schema(&mut SchemaGenerator::default());
        let schema = schema.as_value();
        let regex = |at: &str| schema.pointer(at).map(|pattern| Regex::new(pattern.as_str().unwrap()).unwrap());
        Pair {
            name: S::schema_name(),
            pattern: regex("/pattern").unwrap(),
            most: schema["maxLength"].as_u64().map(|most| most as usize),
            not: regex("/not/pattern"),
            check,
        }
    }

    static PAIRS: LazyLock<[Pair; 6]> = LazyLock::new(|| {
        [
            pair::<Ref>(is_reference),
            pair::<Label>(|text| key::label(text).is_ok()),
            pair::<Title>(|text| key::title(text).is_ok()),
            pair::<AgentName>(|text| AgentId::parse(text).is_ok()),
            pair::<Words>(letter::says_something),
            pair::<Chosen>(ids::is_chosen),
        ]
    });

    fn is_reference(text: &str) -> bool {
        // One that can only be missing is well written.
        let known = matches!(text.trim(), "global" | "unknown");
        known || Reference::parse(text).is_ok_and(|reference| reference != Reference::Current)
    }

    #[track_caller]
    fn all_agree(text: &str) {
        for Pair { name, pattern, most, not, check } in PAIRS.iter() {
            let fits = pattern.is_match(text)
                && most.is_none_or(|most| text.chars().count() <= most)
                && not.as_ref().is_none_or(|not| !not.is_match(text));
            assert_eq!(fits, check(text), "{name} {text:?}");
        }
    }

    #[test]
    fn schemas_and_checks_agree_where_it_is_close() {
        let mut long = vec!["x".repeat(128), "x".repeat(129), "ü".repeat(512), "ü".repeat(513)];
        long.extend([236, 237, 240, 241].map(|length| format!("ses_{}", "x".repeat(length))));
        let words = [
            "",
            " ",
            "\0",
            "\t",
            "\u{85}",
            "a\0",
            "main",
            " main ",
            "current",
            "global",
            "ses_",
            "ses_1",
            "a:b",
            "agent:",
            "agent:build",
            "agent:build:",
            "agent:build:main",
            "AGENT:build:x",
            "agent:build:a b",
            "agent:build:a::b",
            "agent:-x:a",
            "agent:build:a:b",
            "subagent:",
            "subagent:1",
            "subagent:a b",
            "😀",
            "a b",
            "x\u{3000}",
            "\u{3000}",
            ":",
            "ses_ü",
        ];
        words.into_iter().chain(long.iter().map(String::as_str)).for_each(all_agree);
    }

    proptest! {
        #[test]
        fn schemas_and_checks_agree(text in "[\\x00-\\x20a-cA:_.ü\u{a0}\u{2003}-]{0,12}") {
            all_agree(&text);
        }

        #[test]
        fn schemas_and_checks_agree_on_what_looks_like_a_key(text in "(agent|subagent|ses|chat)[:_ ][a-b: ü-]{0,8}") {
            all_agree(&text);
        }
    }
}
