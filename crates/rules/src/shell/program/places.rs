//! Words of a command that may be another command. Which programs run their words, nobody can list; so every word may be
//! one, but for words in places where a program is known to take them as what they are: what `echo` prints, what `grep`
//! looks for, the message of a commit, the package that is installed.
//!
//! Such a word is no command of the line, so no rule has to allow it; but a rule that forbids it is a doubt (`judge.rs`).

use super::super::read::Opaque;
use super::super::word::{ITEM, Word};
use super::{base, compilers, interpreters, launchers, shells, wrappers};

/// Words among which a command may begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Inside {
    pub(in super::super) words: Vec<Word>,
    /// It may begin with any of them, not with the first alone.
    pub(in super::super) anywhere: bool,
}

/// Take all their words as words, or run them in ways that are known elsewhere.
const WORDS: &[&str] = &[
    "cp",
    "install",
    "ln",
    "mv",
    "[",
    "[[",
    ":",
    "7z",
    "ack",
    "addr2line",
    "ag",
    "alembic",
    "apropos",
    "apt-cache",
    "apt-mark",
    "ar",
    "asciidoctor",
    "autopep8",
    "awk",
    "base32",
    "base64",
    "basename",
    "bat",
    "bc",
    "bg",
    "biome",
    "black",
    "break",
    "bsdtar",
    "bzip2",
    "cal",
    "cat",
    "cd",
    "chgrp",
    "chmod",
    "chown",
    "cksum",
    "clang-format",
    "clang-tidy",
    "clear",
    "cloc",
    "cmp",
    "column",
    "comm",
    "continue",
    "convert",
    "cpio",
    "csplit",
    "csvtool",
    "ctags",
    "ctest",
    "curl",
    "cut",
    "date",
    "dd",
    "deptry",
    "df",
    "dig",
    "diff",
    "diff3",
    "difft",
    "dirname",
    "dirs",
    "disown",
    "dmesg",
    "dot",
    "doxygen",
    "dpkg",
    "dpkg-query",
    "du",
    "echo",
    "egrep",
    "eslint",
    "exit",
    "expand",
    "expr",
    "eza",
    "false",
    "fc-list",
    "fg",
    "fgrep",
    "ffmpeg",
    "ffprobe",
    "file",
    "fgrep",
    "flake8",
    "fmt",
    "fold",
    "free",
    "gawk",
    "getconf",
    "getent",
    "getfacl",
    "gofmt",
    "goimports",
    "golangci-lint",
    "gpg",
    "grep",
    "groups",
    "gsed",
    "gtar",
    "gunzip",
    "gzip",
    "hadolint",
    "head",
    "help",
    "hexdump",
    "history",
    "host",
    "hostname",
    "iconv",
    "id",
    "identify",
    "info",
    "isort",
    "jest",
    "jobs",
    "join",
    "journalctl",
    "jq",
    "kill",
    "killall",
    "ktlint",
    "last",
    "latex",
    "ldconfig",
    "less",
    "link",
    "locale",
    "locate",
    "logger",
    "logname",
    "look",
    "ls",
    "lsblk",
    "lscpu",
    "lsof",
    "man",
    "mariadb",
    "markdownlint",
    "mawk",
    "md5sum",
    "mkdir",
    "mkfifo",
    "mktemp",
    "mocha",
    "more",
    "mount",
    "mypy",
    "mysql",
    "mysqldump",
    "nawk",
    "nc",
    "netstat",
    "nl",
    "nm",
    "nproc",
    "nslookup",
    "objdump",
    "od",
    "openssl",
    "pandoc",
    "paste",
    "patch",
    "pdflatex",
    "pg_dump",
    "pgrep",
    "phpunit",
    "ping",
    "pkg-config",
    "pkill",
    "popd",
    "prettier",
    "printenv",
    "printf",
    "protoc",
    "ps",
    "psql",
    "pushd",
    "pwd",
    "pyflakes",
    "pylint",
    "pyright",
    "pytest",
    "read",
    "readelf",
    "readlink",
    "realpath",
    "redis-cli",
    "return",
    "rev",
    "rg",
    "rm",
    "rmdir",
    "rpm",
    "rspec",
    "rsync",
    "rubocop",
    "ruff",
    "rustc",
    "rustfmt",
    "scc",
    "scp",
    "sdiff",
    "sed",
    "seq",
    "set",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "shasum",
    "shellcheck",
    "shfmt",
    "shift",
    "shopt",
    "shred",
    "shuf",
    "size",
    "sleep",
    "sort",
    "split",
    "sqlite3",
    "ss",
    "stat",
    "strings",
    "strip",
    "stty",
    "stylelint",
    "sum",
    "sync",
    "tac",
    "tail",
    "tar",
    "tee",
    "test",
    "times",
    "tldr",
    "tokei",
    "top",
    "touch",
    "tput",
    "tr",
    "traceroute",
    "tree",
    "true",
    "truncate",
    "tsc",
    "tsort",
    "tty",
    "type",
    "ulimit",
    "umask",
    "umount",
    "uname",
    "unexpand",
    "uniq",
    "unlink",
    "unset",
    "unxz",
    "unzip",
    "uptime",
    "users",
    "vdir",
    "vitest",
    "vulture",
    "wait",
    "wc",
    "wget",
    "whatis",
    "whereis",
    "which",
    "who",
    "whoami",
    "whois",
    "xelatex",
    "xmllint",
    "xxd",
    "xz",
    "yamllint",
    "yes",
    "yq",
    "zcat",
    "zgrep",
    "zip",
    "zstd",
];

/// Build what is named by their words, with variables that may hold commands.
const TARGETS: &[&str] = &[
    "ant", "bazel", "cmake", "declare", "export", "gmake", "gradle", "gradlew", "invoke", "just", "local", "make",
    "meson", "mvn", "mvnw", "ninja", "nox", "rake", "readonly", "task", "tox", "typeset",
];

/// Have commands of their own, of which those in [`NAMES`] are followed by names.
const SUBCOMMANDS: &[&str] = &[
    "apk",
    "apt",
    "apt-get",
    "aptitude",
    "aws",
    "az",
    "brew",
    "bun",
    "bundle",
    "cargo",
    "choco",
    "code",
    "composer",
    "conda",
    "deno",
    "dnf",
    "docker",
    "dotnet",
    "flatpak",
    "flutter",
    "gcloud",
    "gem",
    "gh",
    "glab",
    "go",
    "gsutil",
    "helm",
    "hg",
    "jj",
    "kubectl",
    "mamba",
    "mix",
    "nix",
    "npm",
    "pacman",
    "pdm",
    "pip",
    "pipenv",
    "pipx",
    "pixi",
    "pnpm",
    "podman",
    "poetry",
    "port",
    "pre-commit",
    "rclone",
    "rustup",
    "rye",
    "snap",
    "stack",
    "svn",
    "swift",
    "systemctl",
    "terraform",
    "tofu",
    "uv",
    "vagrant",
    "winget",
    "yarn",
    "yum",
    "zypper",
];

/// What follows such a command of another program is what it is about, and is not run.
const NAMES: &[&str] = &[
    "nextest",
    "-Q",
    "-Qi",
    "-R",
    "-S",
    "-Ss",
    "-Sy",
    "-Syu",
    "add",
    "api",
    "apply",
    "audit",
    "bench",
    "branch",
    "browse",
    "build",
    "cat",
    "check",
    "checks",
    "ci",
    "clean",
    "clippy",
    "clone",
    "close",
    "comment",
    "commit",
    "completion",
    "cordon",
    "cp",
    "create",
    "daemon-reload",
    "delete",
    "describe",
    "destroy",
    "diff",
    "disable",
    "doc",
    "down",
    "download",
    "drain",
    "du",
    "edit",
    "enable",
    "env",
    "events",
    "explain",
    "export",
    "expose",
    "fetch",
    "fix",
    "fmt",
    "fork",
    "format",
    "generate",
    "get",
    "graph",
    "help",
    "history",
    "i",
    "images",
    "import",
    "info",
    "init",
    "inspect",
    "install",
    "is-active",
    "is-enabled",
    "kill",
    "label",
    "lint",
    "list",
    "load",
    "lock",
    "log",
    "login",
    "logout",
    "logs",
    "ls",
    "merge",
    "metadata",
    "mkdir",
    "mod",
    "move",
    "mv",
    "new",
    "outdated",
    "output",
    "owner",
    "pack",
    "package",
    "patch",
    "ping",
    "plan",
    "port",
    "ps",
    "publish",
    "pull",
    "purge",
    "push",
    "ready",
    "rebase",
    "refresh",
    "reinstall",
    "reload",
    "remove",
    "rename",
    "reopen",
    "repl",
    "replace",
    "rerun",
    "restart",
    "restore",
    "review",
    "rm",
    "rmi",
    "rollback",
    "rollout",
    "save",
    "scale",
    "search",
    "set-url",
    "show",
    "squash",
    "start",
    "stat",
    "state",
    "stats",
    "status",
    "stop",
    "switch",
    "sync",
    "tag",
    "template",
    "test",
    "tidy",
    "top",
    "tree",
    "un",
    "uninstall",
    "unlink",
    "untap",
    "up",
    "update",
    "upgrade",
    "validate",
    "verify",
    "version",
    "versions",
    "vet",
    "view",
    "wait",
    "why",
    "workspace",
    "yank",
];

/// Of these programs a name may come first, of what the command is about: `aws s3 rm`, `gh pr create`, `uv pip install`.
const NOUNS: &[&str] = &[
    "aws",
    "az",
    "conda",
    "docker",
    "dotnet",
    "gcloud",
    "gh",
    "glab",
    "go",
    "helm",
    "kubectl",
    "nix",
    "npm",
    "podman",
    "rustup",
    "terraform",
    "uv",
];

/// Never a name of that kind: a command follows.
const RUN: &[&str] = &[
    "debug",
    "develop",
    "dlx",
    "exec",
    "explore",
    "run",
    "run-script",
    "sh",
    "shell",
    "ssh",
    "tool",
    "toolchain",
    "x",
];

/// Run what they are told on another machine, where other programs are.
const ELSEWHERE: &[&str] = &["docker", "kubectl", "podman", "vagrant"];

/// Hand what follows `--` to a program or a script of the project, as they hand over all their words.
const OWN: &[&str] = &["bun", "cargo", "deno", "dotnet", "go", "mix", "npm", "pnpm", "swift", "yarn"];

/// Of options that are followed by text for people, or for a machine elsewhere.
const TEXTS: &[&str] = &[
    "--features",
    "-F",
    "-b",
    "-d",
    "-f",
    "-m",
    "-n",
    "-q",
    "-t",
    "--arg",
    "--body",
    "--comment",
    "--data",
    "--description",
    "--field",
    "--filter",
    "--format",
    "--grep",
    "--jq",
    "--label",
    "--message",
    "--notes",
    "--query",
    "--raw-field",
    "--reason",
    "--search",
    "--subject",
    "--template",
    "--title",
];

/// Parts of the names of options that are followed by a program.
const PROGRAMS: &[&str] = &[
    "browser", "call", "cmd", "command", "compiler", "editor", "exec", "hook", "launcher", "linker", "pager",
    "program", "rsh", "runner", "script", "shell", "tool", "viewer", "wrapper",
];

/// Words behind the value of an option that may belong to its command; rules name fewer.
const MOST_BEHIND: usize = 8;

/// Every program that is known here.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    [WORDS, TARGETS, SUBCOMMANDS].into_iter().flatten().copied()
}

/// Where a command may be among the words of another one.
pub(in super::super) fn inside(words: &[Word]) -> Vec<Inside> {
    let rest = &words[1..];
    if is_set(&words[0]) {
        let sets = words.iter().take_while(|word| is_set(word));
        return sets.flat_map(set).collect();
    }
    let Some(name) = super::known(&words[0].text) else { return anywhere(rest) };
    // Through one launcher: a line may have any number of them.
    if let Some(Ok(inner)) = launchers::command(name, rest)
        && super::known(&inner[0].text).is_some_and(|name| !launchers::is_one(name))
    {
        return std::iter::once(one(inner.to_vec())).chain(inside(inner)).collect();
    }
    // Through one module.
    if let Some(inner) = interpreters::as_module(name, rest)
        && super::known(&inner[0].text).is_none_or(|name| interpreters::find(name).is_none())
    {
        return inside(inner);
    }
    match name {
        // A copy of a program does what the program does.
        "cp" | "install" | "ln" | "mv" => {
            rest.iter().filter(|word| is_program(word)).map(|word| one(vec![word.clone()])).collect()
        }
        "ssh" => rest.iter().flat_map(|word| script(&word.text, &[])).chain(anywhere(rest)).collect(),
        _ if TARGETS.contains(&name) => values(rest).into_iter().chain(programs(rest)).collect(),
        _ if wrappers::find(name).is_some() => values(rest),
        _ if SUBCOMMANDS.contains(&name) => match names_from(name, rest) {
            Some(at) => exempt(name, &rest[at..]),
            None => anywhere(rest.get(1..).unwrap_or_default()),
        },
        _ if launchers::is_one(name) => anywhere(rest),
        _ => Vec::new(),
    }
}

/// Any word may begin a command, and so may what an option or a variable is set to, and the commands of a script.
fn anywhere(rest: &[Word]) -> Vec<Inside> {
    let all = Inside { words: rest.to_vec(), anywhere: true };
    let within = rest.iter().enumerate().flat_map(|(at, word)| held(word, &rest[at + 1..]));
    std::iter::once(all).filter(|all| !all.words.is_empty()).chain(within).collect()
}

/// Of words that are names of targets: what variables and options are set to.
fn values(rest: &[Word]) -> Vec<Inside> {
    rest.iter().flat_map(set).collect()
}

/// Of any words: what stands behind an option that names a program.
fn programs(rest: &[Word]) -> Vec<Inside> {
    let names_program =
        |at: usize| rest[at].text.starts_with("--") && !rest[at].text.contains('=') && names_program(&rest[at].text);
    (1..rest.len()).filter(|at| names_program(at - 1)).flat_map(|at| script(&rest[at].text, &rest[at + 1..])).collect()
}

/// Of words that are names: what an option is set to, if it looks like a program or like a command line.
fn exempt(name: &str, rest: &[Word]) -> Vec<Inside> {
    let mut found = Vec::new();
    for (at, word) in rest.iter().enumerate() {
        if word.text == "--" && !OWN.contains(&name) {
            found.extend(anywhere(&rest[at + 1..]));
            break;
        }
        if is_set(word) && is_tool(word) && !ELSEWHERE.contains(&name) {
            found.extend(set(word));
            continue;
        }
        let before = at.checked_sub(1).map(|at| rest[at].text.as_str()).filter(|text| text.starts_with('-'));
        let (option, text) = match word.text.split_once('=').filter(|_| word.text.starts_with('-')) {
            Some((option, text)) => (Some(option), text),
            None => (before, word.text.as_str()),
        };
        let Some(option) = option.filter(|option| !option.contains('=') && !TEXTS.contains(option)) else { continue };
        if option.starts_with("--") && names_program(option) || text.contains(char::is_whitespace) {
            found.extend(script(text, &rest[at + 1..]));
        }
    }
    found
}

/// The commands that one word may hold; more words may follow it.
fn held(word: &Word, behind: &[Word]) -> Vec<Inside> {
    match value(word) {
        Some(text) => script(text, behind),
        None if word.text.contains(|c: char| c.is_whitespace() || ",;|&(`".contains(c)) => script(&word.text, behind),
        None => Vec::new(),
    }
}

/// What a variable or an option is set to: nobody knows what is put behind it. A variable that names a tool may name one
/// that runs the next word.
fn set(word: &Word) -> Vec<Inside> {
    let Some(text) = value(word) else { return Vec::new() };
    let mut found = script(text, &[Word::hole(ITEM)]);
    let takes_words = |name: &str| [WORDS, TARGETS, SUBCOMMANDS].iter().any(|list| list.contains(&name));
    if is_set(word) && is_tool(word) {
        for inside in &mut found {
            inside.anywhere |= !super::known(&inside.words[0].text).is_some_and(takes_words);
        }
    }
    found
}

/// Variables of build tools that name a program.
const TOOLS: &[&str] = &[
    "AR", "AS", "CC", "CPP", "CXX", "FC", "F77", "INSTALL", "LD", "LEX", "MAKE", "NM", "OBJCOPY", "RANLIB", "STRIP",
    "YACC",
];

/// Whether a variable names a program: `CC`, `HOSTCC`, `TEST_RUNNER`, `CC_x86_64`.
fn is_tool(word: &Word) -> bool {
    let name = word.text.split('=').next().unwrap_or_default().trim_end_matches('+');
    let part = |part: &str| TOOLS.contains(&part) || part.ends_with("CC") || names_program(&part.to_ascii_lowercase());
    name.split('_').any(part)
}

/// Whether the name of an option or of a variable says that a program follows.
fn names_program(name: &str) -> bool {
    PROGRAMS.iter().any(|part| name.contains(part))
}

/// `value` of `NAME=value`, of `--option=value` and of `-Xvalue`, if that can be a command.
fn value(word: &Word) -> Option<&str> {
    if let Some((_, value)) = word.text.split_once('=') {
        return Some(value);
    }
    let short = word.text.starts_with('-') && !word.text.starts_with("--");
    let attached = word.text.get(2..).filter(|_| short)?;
    attached.contains([' ', '\t', '\n', '/']).then_some(attached)
}

fn is_set(word: &Word) -> bool {
    let name = word.text.split_once('=').map(|(name, _)| name.trim_end_matches('+'));
    name.is_some_and(super::variables::is_name)
}

/// The commands of a text as a shell would read it: what stands between signs and quotes. Through a program that runs
/// others, each of its words may be one.
fn script(text: &str, behind: &[Word]) -> Vec<Inside> {
    let parts: Vec<&str> = text.split([';', '|', '&', '\n', '(', ')', '{', '}', '`', '"', '\'', ',']).collect();
    let last = parts.len() - 1;
    let commands = parts.iter().enumerate().filter_map(|(at, part)| {
        let plain =
            |word: &&str| !word.contains('=') && !matches!(*word, "!" | "then" | "do" | "else" | "if" | "while");
        let mut words: Vec<Word> = part.split_whitespace().skip_while(|word| !plain(word)).map(Word::known).collect();
        let first = words.first()?;
        let anywhere = first.text.starts_with('-') || super::known(&first.text).is_some_and(runs_others);
        if at < last && anywhere {
            words.push(Word::hole(ITEM));
        }
        if at == last {
            words.extend(behind.iter().take(MOST_BEHIND).cloned());
            words.extend((behind.len() > MOST_BEHIND).then(|| Word::hole(ITEM)));
        }
        Some(Inside { words, anywhere })
    });
    commands.collect()
}

/// Whether a program runs one of its words, wherever that stands.
fn runs_others(name: &str) -> bool {
    super::ALWAYS_OPAQUE.contains(&name)
        || wrappers::find(name).is_some()
        || launchers::is_one(name)
        || shells::NAMES.contains(&name)
        || interpreters::find(name).is_some()
        || compilers::is_one(name)
}

fn one(words: Vec<Word>) -> Inside {
    Inside { words, anywhere: false }
}

/// Where the names begin that follow a command of such a program, if it is followed by names.
fn names_from(name: &str, rest: &[Word]) -> Option<usize> {
    let mut option = false;
    let mut tries = 0;
    for (at, word) in rest.iter().enumerate() {
        let text = word.text.as_str();
        if NAMES.contains(&text) {
            return Some(at + 1);
        }
        if text.starts_with(['-', '+']) {
            option = !text.contains('=');
            continue;
        }
        // The value of an option, or what the command is about.
        tries += 1;
        if RUN.contains(&text) || tries > 2 || !option && !NOUNS.contains(&name) || word.open {
            // `cargo run` and `npm run` hand their words to a program of the project.
            // `bun run` also runs programs that are none.
            return (OWN.contains(&name) && name != "bun" && text == "run").then_some(at + 1);
        }
        option = false;
    }
    // Nothing but options.
    (tries == 0).then_some(rest.len())
}

/// Whether a word names a program: alone, or in a folder of programs. `tests/git` is a file like any other.
pub(in super::super) fn is_named(text: &str) -> bool {
    let folders = |dir: &str| dir.split('/').any(|part| matches!(part, "bin" | "sbin" | "libexec" | "git-core"));
    text.rsplit_once('/').is_none_or(|(dir, _)| dir == "." || folders(dir))
}

fn is_program(word: &Word) -> bool {
    word.text.contains('/') && is_named(&word.text)
}

/// A script for a shell, or a program in another language, among words that may be a command: whatever runs it, nobody
/// reads it here.
pub(super) fn check(words: &[Word]) -> Result<(), Opaque> {
    if super::known(&words[0].text).is_some_and(|name| ELSEWHERE.contains(&name) || name == "ssh") {
        return Ok(());
    }
    let inline = |pair: &[Word]| {
        let (name, option) = (base(&pair[0].text), pair[1].text.as_str());
        let harmless = super::known(name).and_then(interpreters::find);
        option.starts_with('-')
            && (shells::NAMES.contains(&name)
                || harmless.is_some_and(|harmless| option != "--" && !harmless.contains(&option)))
    };
    let found =
        |inside: &Inside| inside.words.windows(2).take(if inside.anywhere { usize::MAX } else { 1 }).any(inline);
    if inside(words).iter().any(found) { Err("a script among the words of another program") } else { Ok(()) }
}
