//! A home of its own for a binary under test, with a config that points at the fake model.

use crate::FakeModel;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The model every session of a [`TempHome`] uses unless a test says otherwise.
pub const MODEL: &str = "fake/test";

/// A directory that is deleted when the test ends.
pub struct TempHome {
    dir: tempfile::TempDir,
    config: Value,
}

impl TempHome {
    /// With the fake as its only model.
    pub fn new(fake: &FakeModel) -> Self {
        Self::with_config(json!({
            "model": MODEL,
            "provider": {
                "fake": {
                    "wire": "openai-chat",
                    "base_url": fake.base_url(),
                    "api_key": "test-key",
                    "models": { "test": { "context": 200_000, "output": 8_000 } }
                }
            }
        }))
    }

    /// With nothing configured at all.
    pub fn bare() -> Self {
        Self::with_config(json!({}))
    }

    fn with_config(config: Value) -> Self {
        // Unix socket paths are short, so the directory's name is too.
        let dir = tempfile::Builder::new().prefix("cvk").tempdir().expect("a temporary directory");
        let home = Self { dir, config };
        home.save();
        home
    }

    /// Merges `extra` into the config: objects key by key, anything else replaced.
    #[must_use]
    pub fn config_json(mut self, extra: Value) -> Self {
        merge(&mut self.config, extra);
        self.save();
        self
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn config_file(&self) -> PathBuf {
        self.path().join("config").join("convoke.jsonc")
    }

    /// Puts a script for the offline model where `offline/<name>` finds it.
    pub fn script(&self, name: &str, text: &str) {
        write(&self.path().join("config").join("scripts").join(name), text);
    }

    /// The binary in this home, with nothing of the caller's environment but where programs and words are found.
    pub fn command(&self, bin: impl AsRef<Path>) -> Command {
        let mut command = Command::new(bin.as_ref());
        command.env_clear();
        for name in ["PATH", "LANG", "TMPDIR", "RUST_BACKTRACE", "LLVM_PROFILE_FILE"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.env("HOME", self.path()).env("CONVOKE_HOME", self.path());
        // A model server of the person who runs the tests is none of theirs.
        command.env("OLLAMA_HOST", "127.0.0.1:1").env("LLAMA_ARG_PORT", "1");
        command
    }

    fn save(&self) {
        let text = serde_json::to_string_pretty(&self.config).expect("a JSON value is JSON");
        write(&self.config_file(), &text);
    }
}

fn merge(into: &mut Value, extra: Value) {
    match (into, extra) {
        (Value::Object(into), Value::Object(extra)) => {
            for (key, value) in extra {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, extra) => *into = extra,
    }
}

pub(crate) fn write(path: &Path, text: &str) {
    let folder = path.parent().expect("a file in a temporary directory has a folder");
    std::fs::create_dir_all(folder).expect("a folder in a temporary directory");
    std::fs::write(path, text).expect("a file in a temporary directory");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_settings_are_merged_into_the_file() {
        let home = TempHome::bare()
            .config_json(json!({ "limits": { "calls": 2, "steps": 1 } }))
            .config_json(json!({ "limits": { "calls": 3 } }));
        let kept: Value = serde_json::from_str(&std::fs::read_to_string(home.config_file()).unwrap()).unwrap();
        assert_eq!(kept, json!({ "limits": { "calls": 3, "steps": 1 } }));
    }

    #[test]
    fn a_command_sees_this_home_and_not_the_callers_secrets() {
        let home = TempHome::bare();
        let command = home.command("env");
        let names: Vec<_> = command.get_envs().filter_map(|(name, _)| name.to_str()).collect();
        assert!(names.contains(&"CONVOKE_HOME") && names.contains(&"HOME"), "{names:?}");
        assert!(!names.iter().any(|name| name.ends_with("_KEY")), "{names:?}");
    }
}
