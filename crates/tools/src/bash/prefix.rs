//! What an "always" for a command allows.

/// Programs whose first word after the name says what they do.
const WITH_SUBCOMMANDS: &[&str] = &[
    "apt",
    "aws",
    "brew",
    "bun",
    "cargo",
    "composer",
    "deno",
    "docker",
    "dotnet",
    "gcloud",
    "gh",
    "git",
    "go",
    "gradle",
    "helm",
    "kubectl",
    "mvn",
    "npm",
    "npx",
    "pip",
    "pnpm",
    "podman",
    "poetry",
    "rustup",
    "systemctl",
    "terraform",
    "uv",
    "yarn",
];

/// Of these, subcommands that only say that the next word does.
const NESTED: &[&str] = &["compose", "exec", "run", "tool"];

/// Programs that run other programs, other machines or whatever they are told, and those that destroy: "always" is for
/// exactly this command.
const EXACT: &[&str] = &[
    "bash", "busybox", "chmod", "chown", "command", "curl", "dash", "dd", "doas", "env", "exec", "find", "ionice",
    "ksh", "mv", "nice", "node", "nohup", "perl", "php", "python", "python3", "rm", "rsync", "ruby", "setsid", "sh",
    "ssh", "stdbuf", "su", "sudo", "tee", "time", "timeout", "watch", "wget", "xargs", "zsh",
];

/// What an "always" for this command allows: its stable beginning, such as `git status *`. Nothing where that would be
/// exactly this command and it has wildcards of its own: as a rule they would allow more than was asked.
pub(super) fn prefix(command: &str) -> String {
    let prefix = beginning(command);
    let exact = prefix == command.trim();
    if exact && prefix.contains(['*', '?']) { String::new() } else { prefix }
}

fn beginning(command: &str) -> String {
    let whole = command.trim().to_owned();
    let words: Vec<&str> = whole.split_whitespace().collect();
    let Some(name) = words.first() else { return whole };
    if !is_plain(command) || name.contains('=') || EXACT.contains(name) {
        return whole;
    }
    if !WITH_SUBCOMMANDS.contains(name) {
        return format!("{name} *");
    }
    let nested = words.get(1).is_some_and(|word| NESTED.contains(word));
    let count = if nested { 2 } else { 1 };
    let said: Vec<&str> = words.iter().skip(1).take(count).copied().collect();
    // A flag before the subcommand hides it.
    if said.len() < count || said.iter().any(|word| word.starts_with('-')) {
        return whole;
    }
    format!("{name} {} *", said.join(" "))
}

/// Nothing in it that a shell would read as more than words.
fn is_plain(command: &str) -> bool {
    !command.contains([';', '|', '&', '<', '>', '$', '(', ')', '{', '}', '`', '\n', '\\', '"', '\''])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn always_means_the_stable_beginning() {
        for (text, expected) in [
            ("git status -s", "git status *"),
            ("git -C x push", "git -C x push"),
            ("npm run build --x", "npm run build *"),
            ("npm", "npm"),
            ("ls -la", "ls *"),
            ("rm -rf x", "rm -rf x"),
            ("sudo ls", "sudo ls"),
            ("X=1 make", "X=1 make"),
            ("git status; rm x", "git status; rm x"),
            ("ls *.rs", "ls *"),
            ("rm -rf *", ""),
            ("find . -name '?.o'", ""),
        ] {
            assert_eq!(prefix(text), expected, "{text}");
        }
    }
}
