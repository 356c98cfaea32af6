//! A provider's key: where it comes from, and a type that cannot be printed.

use crate::Error;
use secrecy::SecretString;
use std::time::Duration;
use tokio::process::Command;

/// A password manager may ask the person first.
const PATIENCE: Duration = Duration::from_secs(30);

/// No key is longer; a command that prints more printed something else.
const LONGEST: usize = 16 * 1024;

/// Where a key comes from. Prints as `***`.
#[derive(Clone, Default)]
pub enum Key {
    /// None is needed, or the headers have it.
    #[default]
    None,
    Given(SecretString),
    /// A shell command that prints it.
    Command(String),
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if matches!(self, Self::None) { "none" } else { "***" })
    }
}

impl From<&str> for Key {
    fn from(key: &str) -> Self {
        Self::Given(key.into())
    }
}

impl Key {
    pub(crate) async fn read(&self) -> Result<Option<SecretString>, Error> {
        match self {
            Self::None => Ok(None),
            Self::Given(key) => Ok(Some(key.clone())),
            Self::Command(command) => run(command).await.map(Some),
        }
    }
}

/// What the command prints, without the line end. What it says about a failure is not passed on: it may quote the key.
async fn run(command: &str) -> Result<SecretString, Error> {
    let failed = |why: String| Error::NoKey(format!("`api_key_command` {why}"));
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).stdin(std::process::Stdio::null()).kill_on_drop(true);
    let ended = tokio::time::timeout(PATIENCE, shell.output()).await;
    let ended = ended.map_err(|_| failed(format!("did not end within {} s", PATIENCE.as_secs())))?;
    let output = ended.map_err(|error| failed(format!("cannot be run: {error}")))?;
    if !output.status.success() {
        return Err(failed(format!("failed ({})", output.status)));
    }
    let text = String::from_utf8(output.stdout).map_err(|_| failed("printed something that is not text".to_owned()))?;
    let key = text.trim();
    if key.is_empty() || key.len() > LONGEST || key.contains(['\n', '\r']) {
        return Err(failed("did not print one line with the key".to_owned()));
    }
    Ok(key.to_owned().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret;

    async fn printed(command: &str) -> String {
        match Key::Command(command.to_owned()).read().await {
            Ok(key) => key.unwrap().expose_secret().to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[tokio::test]
    async fn a_command_prints_the_key_and_its_failure_does_not() {
        assert_eq!(printed("echo '  sk-1  '").await, "sk-1");
        for (command, words) in [
            ("echo sk-secret >&2; exit 3", "failed (exit status: 3)"),
            ("true", "did not print one line"),
            ("printf 'a\\nb'", "did not print one line"),
        ] {
            let said = printed(command).await;
            assert!(said.contains(words) && !said.contains("sk-secret"), "{said}");
        }
    }

    #[test]
    fn a_key_is_not_printed() {
        let (given, command) = (Key::from("sk-secret"), Key::Command("echo sk-secret".into()));
        assert_eq!(format!("{given:?} {command:?} {:?}", Key::None), "*** *** none");
    }
}
