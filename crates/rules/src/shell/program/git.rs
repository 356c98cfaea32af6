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

/// What git itself knows, so that no alias can stand in for it; and `lfs`, which is everywhere.
const KNOWN: &[&str] = &[
    "add",
    "am",
    "annotate",
    "apply",
    "archive",
    "bisect",
    "blame",
    "branch",
    "bugreport",
    "bundle",
    "cat-file",
    "check-attr",
    "check-ignore",
    "check-mailmap",
    "check-ref-format",
    "checkout",
    "checkout-index",
    "cherry",
    "cherry-pick",
    "clean",
    "clone",
    "column",
    "commit",
    "commit-graph",
    "commit-tree",
    "config",
    "count-objects",
    "describe",
    "diagnose",
    "diff",
    "diff-files",
    "diff-index",
    "diff-tree",
    "fast-export",
    "fast-import",
    "fetch",
    "fetch-pack",
    "fmt-merge-msg",
    "for-each-ref",
    "format-patch",
    "fsck",
    "gc",
    "get-tar-commit-id",
    "grep",
    "hash-object",
    "help",
    "http-fetch",
    "http-push",
    "index-pack",
    "init",
    "interpret-trailers",
    "lfs",
    "log",
    "ls-files",
    "ls-remote",
    "ls-tree",
    "mailinfo",
    "mailsplit",
    "merge",
    "merge-base",
    "merge-file",
    "merge-tree",
    "mktag",
    "mktree",
    "multi-pack-index",
    "mv",
    "name-rev",
    "notes",
    "pack-objects",
    "pack-refs",
    "patch-id",
    "prune",
    "prune-packed",
    "pull",
    "push",
    "range-diff",
    "read-tree",
    "rebase",
    "reflog",
    "refs",
    "remote",
    "repack",
    "replace",
    "replay",
    "request-pull",
    "rerere",
    "reset",
    "restore",
    "rev-list",
    "rev-parse",
    "revert",
    "rm",
    "send-pack",
    "shortlog",
    "show",
    "show-branch",
    "show-index",
    "show-ref",
    "sparse-checkout",
    "stage",
    "stash",
    "status",
    "stripspace",
    "submodule",
    "subtree",
    "switch",
    "symbolic-ref",
    "tag",
    "unpack-file",
    "unpack-objects",
    "update-index",
    "update-ref",
    "update-server-info",
    "var",
    "verify-commit",
    "verify-pack",
    "verify-tag",
    "version",
    "whatchanged",
    "worktree",
    "write-tree",
];

pub(super) fn check(rest: &[Word]) -> Result<(), Opaque> {
    let Some(at) = subcommand(rest)? else { return Ok(()) };
    let (name, rest) = (rest[at].text.as_str(), &rest[at + 1..]);
    if RUNNERS.contains(&name) {
        return Err("a git command that runs what it is told");
    }
    // An alias may be any of them, or a script.
    if !KNOWN.contains(&name) {
        return Err("a git command that may be an alias");
    }
    // A message in quotes stays one word, whatever is in it.
    let message = |at: usize| {
        let option = at.checked_sub(1).map(|at| rest[at].text.as_str());
        rest[at].quoted && matches!(option, Some("-m" | "-am" | "--message"))
    };
    if (0..rest.len()).any(|at| rest[at].open && !message(at)) {
        return Err("a word that is not known could be an option that runs something");
    }
    let said = |words: &[&str]| rest.iter().any(|word| words.contains(&word.text.as_str()));
    let short = |letter: &str| rest.iter().any(|word| is(letter, &word.text));
    let runs = match name {
        "config" => !only_reads(rest),
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

/// Options of `git config` that say what is read and how, some with a value as the next word.
const CONFIG: &[&str] = &[
    "--bool",
    "--bool-or-int",
    "--bool-or-str",
    "--expiry-date",
    "--global",
    "--includes",
    "--int",
    "--local",
    "--name-only",
    "--no-includes",
    "--null",
    "--path",
    "--show-origin",
    "--show-scope",
    "--system",
    "--worktree",
    "-z",
];
const CONFIG_VALUED: &[&str] = &["--file", "--type", "-f"];

/// Whether `git config` changes nothing for sure. Options end with the first word that is none: what follows a name is
/// what it is set to, whatever it looks like.
fn only_reads(rest: &[Word]) -> bool {
    let (mut at, mut asks) = (0, false);
    while let Some(text) = rest.get(at).map(|word| word.text.as_str()).filter(|text| text.starts_with('-')) {
        let valued = CONFIG_VALUED.contains(&text);
        let read = matches!(text, "--get" | "--get-all" | "--get-regexp" | "--get-urlmatch" | "--list" | "-l");
        let together = text.starts_with("--file=") || text.starts_with("--type=");
        if !(valued || read || together || CONFIG.contains(&text)) {
            return false;
        }
        asks |= read;
        at += if valued { 2 } else { 1 };
    }
    let operands = rest.get(at..).unwrap_or_default();
    match operands.first().map(|word| word.text.as_str()) {
        _ if asks => true,
        Some("get" | "list") => at == 0,
        // A name alone is looked up.
        Some(name) => operands.len() == 1 && name.contains('.') && !operands[0].glob,
        None => false,
    }
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

/// A call of git by a word that is not its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alias {
    pub name: String,
    /// Directories that `-C` leads to.
    pub dirs: Vec<String>,
    /// What the call itself sets it to, by `-c`.
    pub set: Vec<String>,
    before: String,
    behind: String,
}

impl Alias {
    pub(in super::super) fn of(words: &[Word]) -> Option<Self> {
        let rest = words.get(1..).filter(|_| super::base(&words[0].text) == "git")?;
        let at = skip_options(rest);
        let word = rest.get(at).filter(|word| !word.open && !KNOWN.contains(&word.text.as_str()))?;
        let (name, before) = (word.text.clone(), &rest[..at]);
        let after = |option: &'static str| {
            let pairs = before.windows(2).filter(move |pair| pair[0].text == option);
            pairs.map(|pair| pair[1].text.clone())
        };
        let named = |text: String| {
            let (key, value) = text.split_once('=')?;
            key.strip_prefix("alias.").filter(|key| key.eq_ignore_ascii_case(&name)).map(|_| value.to_owned())
        };
        let joined = |words: &[Word]| words.iter().map(|word| format!(" {}", word.shown())).collect::<String>();
        let (dirs, set) = (after("-C").collect(), after("-c").filter_map(named).collect());
        Some(Self { dirs, set, before: joined(before), behind: joined(&rest[at + 1..]), name })
    }

    /// The line that git runs when this is what the alias is set to.
    pub fn stands_for(&self, value: &str) -> String {
        match value.strip_prefix('!') {
            Some(script) => format!("{}{}", script.trim(), self.behind),
            None => format!("git{} {value}{}", self.before, self.behind),
        }
    }
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
