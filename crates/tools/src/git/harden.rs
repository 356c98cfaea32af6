//! The environment of a git call: which settings hold, whatever the repository says.

use proto::{Code, Error};

/// Settings that start programs or reach out, and what they are instead. Ours come last, so they win.
const FIXED: &[(&str, &str)] = &[
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.pager", "cat"),
    ("core.editor", ":"),
    ("core.sshCommand", "false"),
    ("core.askPass", ""),
    ("core.alternateRefsCommand", ""),
    ("core.safecrlf", "false"),
    ("credential.helper", ""),
    ("gpg.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.x509.program", "false"),
    ("commit.gpgSign", "false"),
    ("log.showSignature", "false"),
    ("protocol.allow", "never"),
    ("submodule.recurse", "false"),
    ("branch.autoSetupMerge", "false"),
    ("worktree.guessRemote", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    // A snapshot that is named in an answer must survive a power cut.
    ("core.fsync", "all"),
    ("core.fsyncMethod", "batch"),
];

/// Variables of every call.
const VARIABLES: &[(&str, &str)] = &[
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "false"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", ":"),
    ("GIT_SSH_COMMAND", "false"),
    ("GIT_ALLOW_PROTOCOL", ""),
    ("GIT_NO_LAZY_FETCH", "1"),
    // A question must not wait for, or write, an index that somebody else works with.
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_LITERAL_PATHSPECS", "1"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_ADVICE", "0"),
    ("LC_ALL", "C"),
];

/// What of the user's own settings is carried over: it says which files count, and starts nothing.
const CARRIED: &[&str] = &["core.excludesfile", "core.autocrlf", "core.eol", "safe.directory"];

/// For the one call that lists the settings: the user's own are still seen.
pub(super) fn asking(base: &[(String, String)]) -> Vec<(String, String)> {
    let mut env: Vec<(String, String)> = base.iter().filter(|(name, _)| name != "LC_ALL").cloned().collect();
    env.extend(VARIABLES.iter().map(pair));
    env
}

/// For every other call. `listed` is what `git config --null --list` said.
pub(super) fn environment(base: &[(String, String)], listed: &str) -> Result<Vec<(String, String)>, Error> {
    let mut env = asking(base);
    for name in ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"] {
        env.push((name.into(), "/dev/null".into()));
    }
    env.push(("GIT_CONFIG_NOSYSTEM".into(), "1".into()));
    // By variables and not by `-c`: the name of a filter may hold a `=`.
    let settings = settings(listed)?;
    env.push(("GIT_CONFIG_COUNT".into(), settings.len().to_string()));
    for (at, (key, value)) in settings.into_iter().enumerate() {
        env.push((format!("GIT_CONFIG_KEY_{at}"), key));
        env.push((format!("GIT_CONFIG_VALUE_{at}"), value));
    }
    Ok(env)
}

fn settings(listed: &str) -> Result<Vec<(String, String)>, Error> {
    let mut out = Vec::new();
    let mut filters: Vec<&str> = Vec::new();
    for line in listed.split('\0') {
        let (key, value) = line.split_once('\n').unwrap_or((line, "true"));
        if CARRIED.contains(&key) {
            out.push((key.to_owned(), value.to_owned()));
        }
        let filter = key.strip_prefix("filter.").and_then(|rest| rest.rsplit_once('.'));
        filters.extend(filter.map(|(name, _)| name).filter(|name| !filters.contains(name)));
    }
    for name in filters {
        // What is no text was replaced when it was read: the filter is called something else.
        if name.contains(char::REPLACEMENT_CHARACTER) {
            let why = "the settings of the repository name a filter in a way that cannot be turned off";
            return Err(Error::new(Code::Conflict, why).hint("look at `git config --list` in it"));
        }
        for (key, value) in [("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")] {
            out.push((format!("filter.{name}.{key}"), value.to_owned()));
        }
    }
    out.extend(FIXED.iter().map(pair));
    Ok(out)
}

fn pair((name, value): &(&str, &str)) -> (String, String) {
    ((*name).to_owned(), (*value).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_emptied_whatever_they_are_called_and_our_settings_come_last() {
        let listed = "core.excludesfile\n~/ignored\0filter.a=b.smudge\nevil\0filter.a=b.clean\nevil\0core.bare\0";
        let settings = settings(listed).unwrap();
        let has = |key: &str, value: &str| settings.contains(&(key.into(), value.into()));
        assert!(has("core.excludesfile", "~/ignored") && has("filter.a=b.smudge", "") && has("filter.a=b.process", ""));
        assert_eq!(settings.iter().filter(|(key, _)| key == "filter.a=b.clean").count(), 1);
        assert_eq!(settings.last().unwrap().0, "core.fsyncMethod");
        assert!(!settings.iter().any(|(key, _)| key == "core.bare"));
    }

    #[test]
    fn a_filter_whose_name_cannot_be_repeated_is_an_error() {
        let listed = String::from_utf8_lossy(b"filter.\xff.clean\nevil\0").into_owned();
        assert!(settings(&listed).unwrap_err().message.contains("filter"));
    }
}
