//! Words of a sentence: tokens, paths among them, and the ones worth searching for.

/// A word, or what stood between quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) text: String,
    pub(super) quoted: bool,
}

const QUOTES: &[(char, char)] = &[('`', '`'), ('"', '"'), ('\'', '\''), ('“', '”'), ('‘', '’'), ('「', '」')];

/// Words that say how to search, not what for.
const STOP_WORDS: &[&str] = &[
    "a",
    "about",
    "all",
    "an",
    "and",
    "any",
    "anything",
    "are",
    "at",
    "be",
    "been",
    "being",
    "by",
    "called",
    "calls",
    "can",
    "code",
    "codebase",
    "contain",
    "containing",
    "contains",
    "could",
    "define",
    "defined",
    "definition",
    "do",
    "does",
    "done",
    "each",
    "every",
    "everything",
    "file",
    "files",
    "find",
    "for",
    "from",
    "function",
    "get",
    "gets",
    "has",
    "have",
    "here",
    "how",
    "i",
    "implement",
    "implementation",
    "implemented",
    "implements",
    "in",
    "inside",
    "is",
    "it",
    "its",
    "line",
    "lines",
    "locate",
    "located",
    "look",
    "me",
    "mention",
    "mentioned",
    "mentions",
    "my",
    "occurrences",
    "of",
    "on",
    "or",
    "our",
    "out",
    "part",
    "parts",
    "place",
    "places",
    "please",
    "project",
    "reference",
    "references",
    "repo",
    "repository",
    "search",
    "show",
    "string",
    "text",
    "that",
    "the",
    "their",
    "them",
    "there",
    "these",
    "thing",
    "things",
    "this",
    "to",
    "under",
    "up",
    "us",
    "usage",
    "usages",
    "use",
    "used",
    "uses",
    "using",
    "was",
    "we",
    "were",
    "what",
    "when",
    "where",
    "which",
    "who",
    "whose",
    "why",
    "with",
    "within",
    "word",
    "words",
    "you",
    "your",
];

const KNOWN_FILES: &[&str] = &["readme", "license", "makefile", "dockerfile", "changelog", "justfile"];

pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        if let Some((inside, after)) = quoted(rest) {
            tokens.push(Token { text: inside.to_owned(), quoted: true });
            rest = after.trim_start();
            continue;
        }
        // A quote may also open in the middle of a run of characters, as it does where words are not spaced.
        let end =
            rest.char_indices().skip(1).find(|(at, c)| c.is_whitespace() || (is_open(*c) && opens(rest, *at, first)));
        let (word, after) = rest.split_at(end.map_or(rest.len(), |(at, _)| at));
        let word = word.trim_end_matches([',', ';', ':', '!', '?', '。', '，', '？']);
        let word = if word.len() > 1 { word.strip_suffix('.').unwrap_or(word) } else { word };
        if !word.is_empty() {
            tokens.push(Token { text: word.to_owned(), quoted: false });
        }
        rest = after.trim_start();
    }
    tokens
}

/// What stands between the quotes that `text` starts with, and what follows them.
pub(super) fn quoted(text: &str) -> Option<(&str, &str)> {
    let first = text.chars().next()?;
    let (open, close) = QUOTES.iter().find(|(open, _)| *open == first)?;
    let inside = &text[open.len_utf8()..];
    let end = inside.find(*close).filter(|end| *end > 0)?;
    Some((&inside[..end], &inside[end + close.len_utf8()..]))
}

fn is_open(c: char) -> bool {
    QUOTES.iter().any(|(open, _)| *open == c)
}

/// An apostrophe inside a word is none of ours.
fn opens(text: &str, at: usize, first: char) -> bool {
    !first.is_ascii() && quoted(&text[at..]).is_some()
}

/// Looks like a file or folder rather than a word.
pub(super) fn is_path(token: &Token) -> bool {
    let text = token.text.as_str();
    if text.contains("://") || text.contains(char::is_whitespace) {
        return false;
    }
    if token.quoted || text.contains('/') || text.starts_with('~') {
        return true;
    }
    let dotted = text.len() > 1 && !text.ends_with('.') && text.contains('.');
    let number = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    (dotted && !number) || text == "." || KNOWN_FILES.contains(&text.to_lowercase().as_str())
}

pub(super) fn is_wildcard(token: &Token) -> bool {
    token.text.contains('*') && !token.text.contains(char::is_whitespace)
}

/// An identifier: written as code is, so it is searched for as it stands.
pub(super) fn is_identifier(word: &str) -> bool {
    let inner_capital = word.chars().skip(1).any(char::is_uppercase);
    word.chars().any(|c| c.is_ascii_alphabetic())
        && (word.contains('_') || word.contains("::") || word.ends_with("()") || inner_capital)
}

/// The words worth searching for, as they were written.
pub(super) fn telling(tokens: &[Token]) -> Vec<String> {
    let letters = |token: &Token| token.text.trim_matches(|c: char| !c.is_alphanumeric() && c != '_').to_owned();
    let words = tokens.iter().map(letters).filter(|word| word.chars().count() > 1);
    words.filter(|word| !STOP_WORDS.contains(&word.to_lowercase().as_str())).collect()
}

/// The word without its ending, so that `claimed` finds `claim` and `claims`.
pub(super) fn stem(word: &str) -> String {
    let word = word.to_lowercase();
    for (ending, shortest) in [("ies", 6), ("ing", 6), ("ed", 5), ("es", 6), ("s", 4)] {
        let long_enough = word.len() >= shortest && !word.ends_with("ss");
        if let Some(stem) = word.strip_suffix(ending).filter(|_| long_enough) {
            return without_doubling(stem);
        }
    }
    word
}

/// `running` is made of `run`.
fn without_doubling(stem: &str) -> String {
    let mut last = stem.chars().rev();
    match (last.next(), last.next()) {
        (Some(a), Some(b)) if a == b && "bdgmnprt".contains(a) => stem[..stem.len() - a.len_utf8()].to_owned(),
        _ => stem.to_owned(),
    }
}

/// Verbs in their past or running form say what is done, and name functions; then longer words say more.
pub(super) fn by_weight(words: &[String]) -> Vec<String> {
    let mut ranked = words.to_vec();
    let is_deed = |word: &str| word.ends_with("ed") || word.ends_with("ing");
    ranked.sort_by_key(|word| (!is_deed(word), std::cmp::Reverse(word.len())));
    ranked
}

/// For a regular expression that means the text itself.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_words_together() {
        let texts = |text| tokens(text).into_iter().map(|t| (t.text, t.quoted)).collect::<Vec<_>>();
        assert_eq!(
            texts("read `a b.txt`, please."),
            [("read".into(), false), ("a b.txt".into(), true), ("please".into(), false)]
        );
        assert_eq!(texts("it's here"), [("it's".into(), false), ("here".into(), false)]);
        assert_eq!(texts("所有包含'Agent'的文件")[1], ("Agent".into(), true));
    }

    #[test]
    fn a_path_is_told_from_a_word() {
        let path = |text: &str| is_path(&Token { text: text.into(), quoted: false });
        for yes in ["Cargo.toml", "src/main.rs", "README", ".env", "~/x", "./a", "src/"] {
            assert!(path(yes), "{yes}");
        }
        for no in ["word", "3.5", "http://x.org/a", "end."] {
            assert!(!path(no), "{no}");
        }
    }

    #[test]
    fn words_lose_their_endings() {
        for (word, expected) in [
            ("claimed", "claim"),
            ("sessions", "session"),
            ("running", "run"),
            ("entries", "entr"),
            ("class", "class"),
            ("need", "need"),
            ("Store", "store"),
            ("processes", "process"),
        ] {
            assert_eq!(stem(word), expected, "{word}");
        }
    }

    #[test]
    fn a_deed_weighs_most() {
        let words = telling(&tokens("find where the sessions are claimed"));
        assert_eq!(words, ["sessions", "claimed"]);
        assert_eq!(by_weight(&words)[0], "claimed");
    }
}
