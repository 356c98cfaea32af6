//! Names of things that are secret, in keys and assignments.

/// Endings of such names; `_` is where a separator may stand.
const ENDINGS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "api_key",
    "access_key",
    "secret_key",
    "private_key",
    "signing_key",
    "encryption_key",
    "credential",
];

/// Secret as the value of a key. As words of a text they are too ordinary.
const ONLY_KEYS: &[&str] = &["authorization", "cookie"];

/// Whether a key of structured data says that its value is a secret: `password`, `X-Api-Key`, `accessToken`, `DB_PASS`.
pub(super) fn is_secret(key: &str) -> bool {
    let lower = key.to_ascii_lowercase();
    let bare: String = lower.chars().filter(char::is_ascii_alphanumeric).collect();
    // Several tokens are what a model used, not what it logged in with.
    let one = bare.strip_suffix('s').filter(|one| !one.ends_with("token")).unwrap_or(&bare);
    let ends = |ending: &&str| one.ends_with(&ending.replace('_', ""));
    lower == "pass" || lower.ends_with("_pass") || ENDINGS.iter().chain(ONLY_KEYS).any(ends)
}

/// The same endings as a pattern, for text.
pub(super) fn pattern() -> String {
    let endings: Vec<String> = ENDINGS.iter().map(|ending| ending.replace('_', "[_. -]?")).collect();
    format!("(?i-u:{}|credentials|_pass)", endings.join("|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_however_they_are_written() {
        for key in [
            "password",
            "Password",
            "DB_PASSWORD",
            "api_key",
            "apiKey",
            "X-Api-Key",
            "accessToken",
            "client-secret",
            "Authorization",
            "proxy-authorization",
            "Set-Cookie",
            "aws_secret_access_key",
            "secrets",
            "DB_PASS",
            "apiKeys",
        ] {
            assert!(is_secret(key), "{key}");
        }
    }

    #[test]
    fn names_that_only_look_alike_are_not() {
        for key in [
            "tokens",
            "totalTokens",
            "tokenizer",
            "secretary",
            "sessionKey",
            "key",
            "idempotencyKey",
            "bypass",
            "author",
            "password_hint",
            "",
            "é",
        ] {
            assert!(!is_secret(key), "{key}");
        }
    }
}
