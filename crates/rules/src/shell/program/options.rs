//! Options by which an otherwise harmless program runs another one, or writes a file.

use super::super::read::Opaque;
use super::super::word::Word;

/// A letter stands for a short option, also within a bundle; a long one may be cut short. What follows a `*` may stand
/// anywhere in a word.
pub(super) const TRAPS: &[(&str, &[&str])] = &[
    ("7z", &["-o", "-w"]),
    ("ack", &["--pager"]),
    ("ag", &["--pager"]),
    ("ansible", &["-a", "-m"]),
    ("apt", &["-o", "--option", "-c", "--config-file"]),
    ("apt-get", &["-o", "--option", "-c", "--config-file"]),
    ("bat", &["--pager"]),
    ("cargo", &["--config", "-Z", "*linker=", "*link-arg"]),
    ("cmake", &["-E", "-P"]),
    ("cpio", &["--rsh-command"]),
    ("ctest", &["--build-and-test", "--build-makeprogram", "--test-command"]),
    ("ctags", &["--options", "--filter"]),
    (
        "curl",
        &[
            "-o",
            "-O",
            "-K",
            "--config",
            "--output",
            "--remote-name",
            "-T",
            "--upload-file",
            "-D",
            "--dump-header",
            "-c",
            "--cookie-jar",
            "--output-dir",
            "--trace",
            "--trace-ascii",
            "--stderr",
        ],
    ),
    ("date", &["-s", "--set"]),
    ("devbox", &["shell"]),
    ("diff3", &["--diff-program"]),
    ("docker", &["--privileged", "-v", "--volume", "--mount"]),
    ("dpkg", &["--pre-invoke", "--post-invoke", "--status-logger"]),
    ("flatpak", &["--command"]),
    ("gcc", &["-o"]),
    ("gem", &["-e", "--editor"]),
    ("go", &["-exec", "-toolexec", "-overlay", "-vettool", "*extld", "*extar"]),
    ("gpg", &["--photo-viewer", "--exec-path", "-o", "--output"]),
    ("hg", &["--config"]),
    ("install", &["--strip-program"]),
    ("ip", &["-b", "--batch", "-B", "netns"]),
    ("jq", &["-f", "--from-file", "-L"]),
    ("journalctl", &["--vacuum-size", "--rotate"]),
    ("latex", LATEX),
    ("logger", &["-f"]),
    ("jobs", &["-x"]),
    ("just", &["-c", "--chooser", "--command", "--shell", "--shell-arg"]),
    ("make", MAKE),
    ("gmake", MAKE),
    ("mvn", &["exec:exec"]),
    ("nc", &["-c", "-e"]),
    ("ncat", &["-c", "-e", "--exec", "--sh-exec", "--lua-exec"]),
    ("nix", &["-c", "--command", "develop", "shell"]),
    (
        "npm",
        &[
            "--browser",
            "--editor",
            "--git",
            "--shell",
            "--viewer",
            "--script-shell",
            "--node-options",
            "-c",
            "--call",
            "script-shell",
            "scripts.",
        ],
    ),
    ("npx", &["-c", "--call"]),
    ("nmap", &["--script", "-o"]),
    ("openssl", &["-engine", "-out", "-provider"]),
    ("pandoc", &["-F", "--filter", "-L", "--lua-filter"]),
    ("pdflatex", LATEX),
    ("pip", &["--python", "--prefix"]),
    ("pipenv", &["shell"]),
    ("pnpm", &["-c", "--shell-mode"]),
    ("poetry", &["shell"]),
    ("prove", &["-e", "--exec", "-P", "-M", "--source", "--harness"]),
    ("protoc", &["--plugin"]),
    ("pylint", &["--init-hook", "--load-plugins"]),
    ("rake", &["-e", "-E", "-p", "--execute", "--execute-continue", "--execute-print"]),
    ("rg", &["--pre", "--hostname-bin", "--search-zip", "-z"]),
    ("rpm", &["-E", "--eval", "-D", "--define", "--pipe"]),
    ("rsync", &["-e", "--rsh", "--rsync-path"]),
    ("rustc", &["*linker=", "*link-arg"]),
    ("sdiff", &["--diff-program", "-o"]),
    ("shuf", &["-o", "--output"]),
    ("sort", &["-o", "--output", "--compress-program", "-T", "--temporary-directory"]),
    ("split", &["--filter"]),
    ("svn", &["--diff-cmd", "--diff3-cmd", "--editor-cmd", "--config-option", "--config-dir"]),
    ("tar", TAR),
    ("bsdtar", TAR),
    ("gtar", TAR),
    ("tcpdump", &["-z", "-w"]),
    ("tree", &["-o", "-R"]),
    ("uniq", &[]),
    (
        "wget",
        &[
            "-O",
            "--output-document",
            "-e",
            "--execute",
            "-i",
            "--use-askpass",
            "-o",
            "--output-file",
            "-a",
            "-P",
            "--directory-prefix",
        ],
    ),
    ("xelatex", LATEX),
    ("zip", &["-T", "--unzip-command", "--test"]),
];

const TAR: &[&str] = &[
    "--checkpoint-action",
    "--to-command",
    "-I",
    "--use-compress-program",
    "--rsh-command",
    "-F",
    "--info-script",
    "--new-volume-script",
    "--rmt-command",
];

const LATEX: &[&str] = &["-shell-escape", "-enable-write18", "\\"];

/// A makefile may come from the input.
const MAKE: &[&str] = &["--eval", "-E", "SHELL=", ".SHELLFLAGS=", "MAKEFLAGS=", "-", "--file", "--makefile"];

/// Refuses a command with one of these options, or with words nobody knows: any of them might be one.
pub(super) fn has_trap(name: &str, traps: &[&str], rest: &[Word]) -> Result<(), Opaque> {
    let unknown = |word: &Word| word.open || word.glob && word.text.starts_with(['*', '?', '[']);
    if rest.iter().any(unknown) {
        return Err("a word that is not known could be an option that runs something");
    }
    // `tar xIf` bundles its letters without a dash.
    if let Some(first) = rest.first().filter(|word| name.ends_with("tar") && !word.text.starts_with('-'))
        && first.text.contains(['I', 'F'])
        && first.text.bytes().all(|byte| byte.is_ascii_alphanumeric())
    {
        return Err("an option that runs something");
    }
    // `make 'X=$(shell …)'`, and what a rule of the makefile puts into a script.
    if name.ends_with("make") && rest.iter().any(|word| word.text.contains(['$', '`', '!', ';', '|', '&'])) {
        return Err("something to run in a variable of a makefile");
    }
    if rest.iter().any(|word| is_input(name, &word.text)) {
        return Err("something from the input");
    }
    let said = |word: &Word| traps.iter().any(|trap| is(trap, &word.text));
    if rest.iter().any(said) { Err("an option that runs something or writes a file") } else { Ok(()) }
}

/// A device, also behind the letters of options: `-sf/dev/stdin`, and `-sf-` for a makefile from the input.
fn is_input(name: &str, word: &str) -> bool {
    let short = word.starts_with('-') && !word.starts_with("--");
    let behind = if short { word.find('/').map_or("", |at| &word[at..]) } else { word };
    super::is_device(behind) && behind != "/dev/null" || short && name.ends_with("make") && word.ends_with("f-")
}

/// Whether a word gives this option.
pub(super) fn is(option: &str, word: &str) -> bool {
    if let Some(part) = option.strip_prefix('*') {
        return word.contains(part);
    }
    if let Some(long) = option.strip_prefix("--") {
        let Some(said) = word.strip_prefix("--") else { return false };
        let said = said.split('=').next().unwrap_or_default();
        return said.len() >= 2 && long.starts_with(said);
    }
    match option.strip_prefix('-') {
        // One letter: alone, in a bundle, or with its value behind it.
        Some(letter) if letter.len() == 1 => {
            !word.starts_with("--") && word.strip_prefix('-').is_some_and(|bundle| bundle.contains(letter))
        }
        Some(name) => word.trim_start_matches('-').split('=').next() == Some(name) && word.starts_with('-'),
        None => word.starts_with(option),
    }
}
