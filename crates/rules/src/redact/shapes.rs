//! Rules for what secrets look like: keys with a vendor's prefix, headers, assignments, addresses with a password.
//!
//! In each rule a group is the secret and what precedes it stays, so that a reader sees what was there. No rule may look
//! further ahead than a few dozen characters before it knows, except where nothing else could match in between: a
//! search that looks far and then gives up, at every place, takes the square of the text.

use std::sync::LazyLock;

use regex::Regex;

use super::spans::Spans;
use super::{MASK, SHORTEST, names};

struct Rule {
    regex: Regex,
    /// In characters. A shorter find is looked at again from where its value starts.
    shortest: usize,
}

static RULES: LazyLock<[Rule; 5]> = LazyLock::new(|| {
    let rule =
        |pattern: &str, shortest| Rule { regex: Regex::new(pattern).expect("the patterns are tested"), shortest };
    [
        rule(&format!(r"(?-u:\b)(?:{})", PREFIXES.join("|")), SHORTEST),
        rule(SIGNED, SHORTEST),
        rule(HEADER, SHORTEST),
        rule(&assignment(), SHORTEST),
        rule(ADDRESS, 4),
    ]
});

/// Keys that can be told by how they begin.
const PREFIXES: &[&str] = &[
    // Without a digit or a capital it is more likely a word such as `sk-learn-compatible`.
    r"sk-([A-Za-z0-9]{16,}[A-Za-z0-9_-]*|[a-z_-]{0,24}[A-Z0-9][A-Za-z0-9_-]{7,})",
    r"(?:sk|rk|pk)_(?:live|test)_([A-Za-z0-9]{12,})",
    r"gh[pousr]_([A-Za-z0-9]{16,})",
    r"github_pat_([A-Za-z0-9_]{16,})",
    r"glpat-([A-Za-z0-9_.-]{16,})",
    r"xox[abeoprs]-([A-Za-z0-9-]{8,})",
    r"xapp-([A-Za-z0-9-]{10,})",
    r"(?:AKIA|ASIA)([A-Z0-9]{12,})",
    r"AIza([A-Za-z0-9_-]{16,})",
    r"ya29\.([A-Za-z0-9_-]{20,})",
    r"npm_([A-Za-z0-9]{16,})",
    r"hf_([A-Za-z0-9]{20,})",
    r"gsk_([A-Za-z0-9]{20,})",
    r"pplx-([A-Za-z0-9]{20,})",
    r"SG\.([A-Za-z0-9_.-]{32,})",
    r"dop_v1_([a-f0-9]{32,})",
    r"(?:bot)?[0-9]{8,10}:([A-Za-z0-9_-]{35})",
];

/// A signed token: base64 of `{"`, a dot, more of it.
const SIGNED: &str = r"(?-u:\b)eyJ([A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?)";

/// After `Authorization:` and a scheme anything is a secret; after `Bearer` alone, what does not look like a word.
const HEADER: &str = r#"(?i-u:\bauthorization["'`]?[ \t]{0,8}[:=][ \t]{0,8}["'`]?(?:bearer|basic|token|digest|negotiate|apikey)[ \t]{1,8})([^\s"'`,;<>\\]{8,})|(?i-u:\bbearer[ \t]{1,8})([A-Za-z._~+/-]{0,64}[0-9][A-Za-z0-9._~+/=-]*|[A-Za-z0-9._~+/-]{24,}=*)"#;

/// `scheme://user:password@host`.
const ADDRESS: &str = r#"://[^\s/:@"'`\\]{0,64}:([^\s/@"'`\\]{4,})@"#;

/// A secret's name and its value: in quotes, right after `=`, or with a digit in it. The last is for `password: hunter22`
/// in a list of settings, which must not take the next word of a sentence.
fn assignment() -> String {
    let name = names::pattern();
    let quoted = r#""((?:[^"\\\n]|\\.){8,})|'((?:[^'\\\n]|\\.){8,})|`([^`\n]{8,})"#;
    // A backslash that begins an escape ends the value: what follows it is another line or a closing quote.
    let tight = r#"((?:[^\s"'`&;,<>\\]|\\[^nrtbfu"\\/\s]){8,})"#;
    let loose = r#"([^\s"'`,;<>\\0-9]{0,64}[0-9][^\s"'`,;<>\\]*)"#;
    let sign = r"[ \t]{0,8}(?::=|=>|[:=])[ \t]{0,8}";
    let flag = format!(r"--[A-Za-z0-9_-]{{0,32}}{name}[ \t]{{1,4}}(?:{quoted}|{loose})");
    format!(r#"{flag}|{name}(?:["'`]?{sign}(?:{quoted})|={tight}|["'`]?{sign}{loose})"#)
}

pub(super) fn find(text: &str, spans: &mut Spans) {
    RULES.iter().for_each(|rule| rule.find(text, spans));
}

impl Rule {
    fn find(&self, text: &str, spans: &mut Spans) {
        let mut from = 0;
        while let Some(found) = self.regex.captures_at(text, from) {
            let Some(value) = found.iter().skip(1).flatten().next() else { break };
            // What begins with a mask was cut off there by an earlier pass: the rest is somebody else's.
            let long = value.as_str().chars().nth(self.shortest - 1).is_some();
            if long && !value.as_str().starts_with(MASK) {
                spans.push(value.range());
                from = value.end();
            } else {
                from = value.start();
            }
        }
    }
}
