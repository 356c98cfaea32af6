//! The environment, read once: the only door to it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use crate::hash::Hasher;
use crate::section::called_like_a_key;

/// A snapshot of the environment's variables. Those that are not Unicode are left out; values are never printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The variables of this process, now.
    pub fn capture() -> Self {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect()
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// All variables, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The user's home directory, where one is set.
    pub fn home(&self) -> Option<PathBuf> {
        self.filled("HOME").map(PathBuf::from).filter(|home| home.is_absolute())
    }

    /// A hash over everything that could change what a gateway does: the variables that are read here, those called
    /// like a key, and those that others say matter. Two shells of one user agree on it.
    pub fn fingerprint(&self, matters: impl Fn(&str) -> bool) -> String {
        let mut hasher = Hasher::default();
        let matters = |name: &str| is_read(name) || (!is_volatile(name) && (called_like_a_key(name) || matters(name)));
        for (name, value) in self.iter().filter(|(name, _)| matters(name)) {
            hasher.add(name.as_bytes());
            hasher.add(value.as_bytes());
        }
        hasher.finish()
    }

    /// A variable that is set to something. An empty one counts as unset, as everywhere in a shell.
    pub(crate) fn filled(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Environment({} variables)", self.0.len())
    }
}

/// Variables that say where a home is, and all of ours.
fn is_read(name: &str) -> bool {
    matches!(name, "HOME" | "XDG_CONFIG_HOME" | "XDG_STATE_HOME" | "XDG_RUNTIME_DIR") || name.starts_with("CONVOKE_")
}

/// Variables that say where a command was typed and not how it should behave.
const VOLATILE: &[&str] = &[
    // How much memory a gateway keeps, not what it does: it is set for itself.
    "MALLOC_MMAP_THRESHOLD_",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "_",
    "COLUMNS",
    "LINES",
    "WINDOWID",
    "STY",
    "WINDOW",
    "PS1",
    "PS2",
    "PROMPT_COMMAND",
    "HISTFILE",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "DESKTOP_STARTUP_ID",
    "XDG_ACTIVATION_TOKEN",
    "STARSHIP_SESSION_KEY",
    "XAUTHORITY",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "SYSTEMD_EXEC_PID",
    "MANAGERPID",
    "NOTIFY_SOCKET",
    "MAIL",
];

/// The same for whole families: terminals, multiplexers, remote logins, and what `cargo run` adds.
const VOLATILE_PREFIXES: &[&str] =
    &["TERM", "SSH_", "TMUX", "XDG_SESSION_", "CARGO_", "RUST_", "RUSTUP_", "VSCODE_", "KITTY_", "ITERM_", "WEZTERM_"];

fn is_volatile(name: &str) -> bool {
    VOLATILE.contains(&name) || VOLATILE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(variables: &[(&str, &str)]) -> String {
        variables.iter().copied().collect::<Environment>().fingerprint(|name| matches!(name, "PATH" | "A" | "B"))
    }

    #[test]
    fn two_terminals_of_one_user_have_one_fingerprint() {
        let one = fingerprint(&[("PATH", "/bin"), ("PWD", "/a"), ("TERM", "xterm"), ("SSH_TTY", "1"), ("SHLVL", "1")]);
        let two = fingerprint(&[
            ("PATH", "/bin"),
            ("PWD", "/b"),
            ("TMUX_PANE", "%1"),
            ("CARGO_PKG_NAME", "x"),
            ("LS_COLORS", "y"),
        ]);
        assert_eq!(one, two);
        assert_eq!(one.len(), 64);
    }

    #[test]
    fn a_variable_that_matters_changes_the_fingerprint() {
        let before = fingerprint(&[("PATH", "/bin"), ("API_KEY", "a")]);
        assert_ne!(before, fingerprint(&[("PATH", "/bin"), ("API_KEY", "b")]));
        assert_ne!(before, fingerprint(&[("PATH", "/bin")]));
        // A value must not be able to pose as the next variable.
        assert_ne!(fingerprint(&[("A", "1"), ("B", "2")]), fingerprint(&[("A", "1B2")]));
    }

    #[test]
    fn values_are_not_printed() {
        let environment: Environment = [("API_KEY", "hunter2")].into_iter().collect();
        assert_eq!(format!("{environment:?}"), "Environment(1 variables)");
    }
}
