//! A value that must not be printed.

use std::fmt;

use serde::{Serialize, Serializer};

/// Prints and serialises as `***`; only [`Secret::expose`] gives it away.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself. For the one place that sends it, never for a message or a log.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_shown_to_nobody() {
        let secret = Secret::new("hunter2");
        let shown = format!("{secret} {secret:?} {}", serde_json::to_string(&secret).unwrap());
        assert_eq!(shown, "*** *** \"***\"");
        assert_eq!(secret.expose(), "hunter2");
    }
}
