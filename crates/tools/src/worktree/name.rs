//! Names of worktrees: part of a path and of a branch, so neither may be surprised by one.

use proto::Error;

/// The longest name.
const MAX: usize = 64;

/// A name that is safe as a path below a folder and as a part of a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(String);

impl Name {
    /// Segments of letters, digits, `.`, `_` and `-`, with `/` between them.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let shown: String = text.chars().take(80).collect();
        let bad = |why: &str| {
            Error::invalid(format!("`{shown}` cannot be the name of a worktree: {why}"))
                .hint("use letters, digits, `.`, `_` and `-`, with `/` between segments, such as `fix/login`")
        };
        if text.is_empty() || text.len() > MAX {
            return Err(bad(&format!("it has to have 1 to {MAX} characters")));
        }
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
        if !text.chars().all(fits) {
            return Err(bad("it holds other characters"));
        }
        for segment in text.split('/') {
            if segment.is_empty() {
                return Err(bad("a segment is empty"));
            }
            // What git refuses in a branch, and what a path would take for a way up.
            if segment.starts_with('.') || segment.ends_with('.') || segment.contains("..") {
                return Err(bad("a segment may not begin or end with a dot, nor hold two in a row"));
            }
            if segment.to_ascii_lowercase().ends_with(".lock") {
                return Err(bad("git keeps names that end in `.lock` for itself"));
            }
        }
        Ok(Self(text.to_owned()))
    }

    /// One that nobody has to think of.
    pub fn random() -> Self {
        let id = proto::CallId::new();
        // The tail of an id is random; its head is the time.
        let tail = &id.as_str()[id.as_str().len() - 8..];
        let number = u32::from_str_radix(tail, 16).unwrap_or_default() as usize;
        let (first, second) = (FIRST[number % FIRST.len()], SECOND[number / FIRST.len() % SECOND.len()]);
        Self(format!("{first}-{second}-{}", &tail[4..]))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its branch, without `refs/heads/`.
    pub fn branch(&self) -> String {
        format!("convoke/{}", self.0)
    }
}

const FIRST: &[&str] =
    &["amber", "brisk", "calm", "clear", "eager", "early", "fair", "keen", "lucid", "quiet", "sunny"];
const SECOND: &[&str] = &["birch", "brook", "cedar", "cliff", "field", "grove", "heath", "marsh", "ridge", "shore"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_as_paths_and_as_branches() {
        for good in ["x", "fix-1", "a.b_c", "fix/login", &"a".repeat(64)] {
            assert_eq!(Name::parse(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            "..",
            "a/../b",
            "../x",
            "a..b",
            ".git",
            "a/.b",
            "a.",
            "x.lock",
            "a//b",
            "/a",
            "a/",
            "a b",
            "ü",
            "a\0b",
            "a~1",
            "a:b",
            "a\\b",
            &"a".repeat(65),
        ] {
            let error = Name::parse(bad).unwrap_err();
            assert!(error.hint.is_some() && error.message.contains("name of a worktree"), "{bad}: {error}");
        }
    }

    #[test]
    fn random_names_are_names_and_differ() {
        let (one, two) = (Name::random(), Name::random());
        assert_ne!(one, two);
        assert_eq!(Name::parse(one.as_str()).unwrap(), one);
    }
}
