//! `git`: options and settings by which it runs other programs.

use super::super::read::Opaque;
use super::super::word::Word;
use super::options::is;

/// Before the subcommand, and harmless. Those with a value have it as the next word.
const BEFORE: &[&str] = &[
    "--no-pager",
    "-P",
    "--version",
    "-v",
    "--help",
    "-h",
    "--bare",
    "--no-optional-locks",
    "--literal-pathspecs",
    "--no-replace-objects",
];
const BEFORE_VALUED: &[&str] = &["-C", "--namespace"];

/// Subcommands that run what they are told, or serve others.
const RUNNERS: &[&str] = &[
    "daemon",
    "difftool",
    "filter-branch",
    "instaweb",
    "for-each-repo",
    "http-backend",
    "imap-send",
    "merge-index",
    "mergetool",
    "submodule--helper",
    "send-email",
    "shell",
    "upload-pack",
    "receive-pack",
    "remote-ext",
    "web--browse",
    "credential",
    "gui",
    "citool",
    "p4",
    "svn",
    "cvsserver",
    "hook",
    "maintenance",
];

/// Anywhere behind it. Long ones may be cut short.
const TRAPS: &[&str] = &[
    "--upload-pack",
    "--receive-pack",
    "--exec",
    "--ext-diff",
    "--open-files-in-pager",
    "--config",
    "--template",
    "--separate-git-dir",
    "--output",
    "--output-directory",
    "--extcmd",
    "--tool",
    "--textconv",
    "--git-dir",
    "--config-env",
    "--work-tree",
];

pub(super) fn check(rest: &[Word]) -> Result<(), Opaque> {
    let Some(at) = subcommand(rest)? else { return Ok(()) };
    let (name, rest) = (rest[at].text.as_str(), &rest[at + 1..]);
    if RUNNERS.contains(&name) {
        return Err("a git command that runs what it is told");
    }
    if rest.iter().any(|word| word.open) {
        return Err("a word that is not known could be an option that runs something");
    }
    let said = |words: &[&str]| rest.iter().any(|word| words.contains(&word.text.as_str()));
    let short = |letter: &str| rest.iter().any(|word| is(letter, &word.text));
    let runs = match name {
        "config" => {
            !said(&["--get", "--get-all", "--list", "-l", "list", "get", "--get-regexp"])
                || said(&["--edit", "-e", "edit", "set"])
        }
        "bisect" => said(&["run", "view", "visualize"]),
        "submodule" => said(&["foreach", "update", "add"]),
        "rebase" => short("-x") || short("-i"),
        "clone" => short("-c") || short("-u"),
        "grep" => short("-O"),
        "archive" | "format-patch" | "bundle" => short("-o"),
        "ls-remote" | "fetch" | "pull" | "push" => said(&["-u"]) && name == "ls-remote",
        "remote" => said(&["add", "set-url"]) && rest.iter().any(|word| word.text.contains("::")),
        "worktree" | "stash" | "commit" | "add" | "status" | "log" | "diff" | "show" => false,
        _ => false,
    };
    if runs || rest.iter().any(|word| TRAPS.iter().any(|trap| trapped(name, trap, &word.text))) {
        return Err("a git option that runs something or writes a file");
    }
    // `ext::` and other helpers run a program to reach the other side.
    let helper = |word: &Word| {
        word.text.split_once("::").is_some_and(|(scheme, _)| scheme.bytes().all(|b| b.is_ascii_alphanumeric()))
    };
    if rest.iter().any(helper) { Err("an address that runs something") } else { Ok(()) }
}

/// What the options of some subcommands mean elsewhere.
fn trapped(name: &str, trap: &str, word: &str) -> bool {
    if name == "diff" && word == "--textconv" {
        return false;
    }
    is(trap, word)
}

/// Where the subcommand is.
fn subcommand(rest: &[Word]) -> Result<Option<usize>, Opaque> {
    let mut at = 0;
    while let Some(word) = rest.get(at) {
        if word.open || word.glob {
            return Err("a git command that is not known");
        }
        let text = word.text.as_str();
        at += if BEFORE.contains(&text) {
            1
        } else if BEFORE_VALUED.contains(&text) {
            2
        } else if text.starts_with('-') {
            return Err("a git option that can run something");
        } else {
            return Ok(Some(at));
        };
    }
    Ok(None)
}

/// `git push` for `git -C x push`, for `git-push` and for what it runs by itself.
pub(super) fn in_other_words(name: &str, words: &[Word]) -> Vec<String> {
    let at = 1 + skip_options(&words[1..]);
    let said = words.get(at..).unwrap_or_default().iter().map(|word| word.text.as_str());
    let words: Vec<&str> = name.strip_prefix("git-").into_iter().chain(said).collect();
    let pushes = match words.first() {
        Some(&"send-pack" | &"http-push") => true,
        Some(&"subtree") => words.contains(&"push"),
        Some(_) => false,
        None => return Vec::new(),
    };
    let also = pushes.then(|| format!("git push {}", words[1..].join(" ")));
    [format!("git {}", words.join(" "))].into_iter().chain(also).collect()
}

/// Words before the subcommand, taking any option with a separate value that git knows as one.
fn skip_options(rest: &[Word]) -> usize {
    let valued =
        ["-C", "-c", "--namespace", "--git-dir", "--work-tree", "--exec-path", "--config-env", "--super-prefix"];
    let mut at = 0;
    while let Some(word) = rest.get(at).filter(|word| word.text.starts_with('-')) {
        at += if valued.contains(&word.text.as_str()) { 2 } else { 1 };
    }
    at
}
