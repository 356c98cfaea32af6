//! Variables that change which programs run, whoever sets them and in whatever way.

use super::super::read::Opaque;
use super::super::word::Word;

/// Names by their beginning.
const BEGIN: &[&str] =
    &["BASH_", "DYLD_", "GIT_", "LD_", "LUA_", "NPM_CONFIG_", "PERL", "PYTHON", "RSYNC_", "npm_config_"];

/// Names by their end.
const END: &[&str] = &["ASKPASS", "EDITOR", "PAGER", "_LAUNCHER", "_LINKER", "_RUNNER", "_WRAPPER", "_JAVA_OPTIONS"];

/// The shell works out what these are set to.
const NUMBERS: &[&str] = &["HISTCMD", "OPTIND", "RANDOM", "SRANDOM"];

const NAMES: &[&str] = &[
    "BASHOPTS",
    "BROWSER",
    "CARGO",
    "CARGO_BUILD_RUSTC",
    "CARGO_BUILD_RUSTDOC",
    "CARGO_HOME",
    "CCACHE_PREFIX",
    "CDPATH",
    "COMPILER_PATH",
    "CVS_RSH",
    "DOTNET_STARTUP_HOOKS",
    "ELIXIR_ERL_OPTIONS",
    "ENV",
    "ERL_AFLAGS",
    "ERL_FLAGS",
    "GCC_EXEC_PREFIX",
    "GCONV_PATH",
    "GNUMAKEFLAGS",
    "HGMERGE",
    "HGRCPATH",
    "HOME",
    "IFS",
    "POSIXLY_CORRECT",
    "JAVA_TOOL_OPTIONS",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LESSCLOSE",
    "LESSEDIT",
    "LESSKEY",
    "LESSKEYIN",
    "LESSKEY_CONTENT",
    "LESSOPEN",
    "MAKEFILES",
    "MAKEFLAGS",
    "MANOPT",
    "MFLAGS",
    "NODE_OPTIONS",
    "NODE_PATH",
    "OPENSSL_CONF",
    "PATH",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "PROMPT_COMMAND",
    "PS0",
    "PS1",
    "PS2",
    "PS4",
    "RIPGREP_CONFIG_PATH",
    "RUBYLIB",
    "RUBYOPT",
    "RUBYSHELL",
    "RUSTC",
    "RUSTDOC",
    "R_ENVIRON",
    "R_PROFILE",
    "R_PROFILE_USER",
    "SHELL",
    "SHELLOPTS",
    "SVN_SSH",
    "TAR_OPTIONS",
    "VISUAL",
    "UNZIP",
    "UNZIPOPT",
    "XDG_CONFIG_HOME",
    "ZDOTDIR",
    "ZIP",
    "ZIPOPT",
];

/// Of those above, what is set every day and runs nothing.
const HARMLESS: &[&str] = &[
    "GIT_OPTIONAL_LOCKS",
    "GIT_TERMINAL_PROMPT",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONFAULTHANDLER",
    "PYTHONHASHSEED",
    "PYTHONIOENCODING",
    "PYTHONPATH",
    "PYTHONUNBUFFERED",
    "PYTHONUTF8",
];

/// Programs for a pager or an editor that do nothing with what they are given.
const IDLE: &[&str] = &["", ":", "cat", "true"];

/// Whether setting this variable can make another program run than the one that is named.
pub(super) fn redirects(name: &str, value: Option<&str>) -> bool {
    let chosen = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
    if HARMLESS.contains(&name) || name.starts_with("GIT_AUTHOR_") || name.starts_with("GIT_COMMITTER_") {
        return false;
    }
    let is_number = |value: &str| value.bytes().all(|byte| byte.is_ascii_digit());
    match value {
        _ if NUMBERS.contains(&name) => !value.is_some_and(is_number),
        Some(value) if chosen(&["EDITOR", "PAGER", "VISUAL"]) && IDLE.contains(&value) => false,
        // In some encodings a sign of the shell is the second half of a character.
        Some(value) if matches!(name, "LANG" | "LC_ALL" | "LC_CTYPE") => {
            let value = value.to_ascii_lowercase();
            !matches!(value.as_str(), "" | "c" | "posix") && !value.ends_with("utf-8") && !value.ends_with("utf8")
        }
        // A command of the pager begins with `+`.
        Some(value) if matches!(name, "LESS" | "MORE") => value.contains(['+', '!', '*']),
        Some(value) if name == "NODE_OPTIONS" => {
            !value.starts_with("--max-old-space-size=") || value.contains([' ', '*'])
        }
        // Flags are set every day, but some of them name a program.
        _ if name == "GOFLAGS" || name.ends_with("RUSTFLAGS") => value.is_none_or(|value| {
            ["exec", "linker", "extld", "wrapper", "specs", "plugin", "*"].iter().any(|part| value.contains(part))
        }),
        _ => NAMES.contains(&name) || chosen(END) || BEGIN.iter().any(|begin| name.starts_with(begin)),
    }
}

/// Refuses `NAME=value` for such a variable.
pub(in super::super) fn check(word: &Word) -> Result<(), Opaque> {
    let Some((name, value)) = word.text.split_once('=') else { return Ok(()) };
    let name = name.trim_end_matches('+');
    if redirects(name, Some(value)) { Err("a variable that changes which programs run") } else { Ok(()) }
}

/// Whether this is the name of a variable, and of nothing within one.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
