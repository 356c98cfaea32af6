//! The environment of a git call: which settings hold, whatever the repository says.

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

/// What of the settings is carried over: it says which files count and what they look like, and starts nothing.
const CARRIED: &[&str] = &[
    "core.excludesfile",
    "core.autocrlf",
    "core.eol",
    "core.filemode",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.symlinks",
    "safe.directory",
];

/// For the one call that lists the settings: the user's own are still seen.
pub(super) fn asking(base: &[(String, String)]) -> Vec<(String, String)> {
    let mut env: Vec<(String, String)> = base.iter().filter(|(name, _)| name != "LC_ALL").cloned().collect();
    env.extend(VARIABLES.iter().map(pair));
    env
}

/// For a question that runs no filter: what is known to start programs is off, and the user's own settings are seen.
pub(super) fn looking(base: &[(String, String)]) -> Vec<(String, String)> {
    with_settings(asking(base), FIXED.iter().map(pair).collect())
}

/// For every other call. `listed` is what `git config --null --list` said.
pub(super) fn environment(base: &[(String, String)], listed: &str) -> Vec<(String, String)> {
    let mut env = asking(base);
    for name in ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"] {
        env.push((name.into(), "/dev/null".into()));
    }
    env.push(("GIT_CONFIG_NOSYSTEM".into(), "1".into()));
    with_settings(env, settings(listed))
}

fn with_settings(mut env: Vec<(String, String)>, settings: Vec<(String, String)>) -> Vec<(String, String)> {
    env.push(("GIT_CONFIG_COUNT".into(), settings.len().to_string()));
    for (at, (key, value)) in settings.into_iter().enumerate() {
        env.push((format!("GIT_CONFIG_KEY_{at}"), key));
        env.push((format!("GIT_CONFIG_VALUE_{at}"), value));
    }
    env
}

fn settings(listed: &str) -> Vec<(String, String)> {
    let lines = listed.split('\0').map(|line| line.split_once('\n').unwrap_or((line, "true")));
    let carried = lines.filter(|(key, _)| CARRIED.contains(key)).map(|(key, value)| (key.to_owned(), value.to_owned()));
    carried.chain(FIXED.iter().map(pair)).collect()
}

fn pair((name, value): &(&str, &str)) -> (String, String) {
    ((*name).to_owned(), (*value).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_harmless_is_carried_over_and_our_settings_come_last() {
        let listed = "core.excludesfile\n~/ignored\0filter.a=b.smudge\nevil\0core.filemode\0core.fsmonitor\nevil\0";
        let settings = settings(listed);
        let has = |key: &str, value: &str| settings.contains(&(key.into(), value.into()));
        assert!(
            has("core.excludesfile", "~/ignored") && has("core.filemode", "true") && has("core.fsmonitor", "false")
        );
        assert_eq!(settings.last().unwrap().0, "core.fsyncMethod");
        assert!(!settings.iter().any(|(_, value)| value == "evil"));
    }
}
