//! Shell lines: what our reader says about a line, against what bash does with it.
//!
//! bash runs each line in a jail (bubblewrap, no network, nothing to write but one folder) whose programs only write down
//! how they were started. Of a line that our reader understands, bash must accept the syntax, start no program and open
//! no file that the reader did not name; and where `rm` is denied and all else allowed, a line that starts `rm` is not
//! allowed, not even if a program starts it. Each part of a line, read again by itself, is the same part: this is how parts are judged.

use super::{Target, Trial, signature};
use anyhow::{Context, bail};
use proto::{Action, Rule};
use rules::shell::{self, Kind, Line};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(super) const TARGET: Target = Target {
    name: "shell",
    words: &[
        " ",
        " ",
        " ",
        "\\\n",
        "\\\n",
        "\\",
        "\n",
        "\n",
        ";",
        "; ",
        "&",
        " && ",
        "|",
        " || ",
        " | ",
        "|&",
        "!",
        " ! ",
        "(",
        ")",
        "{ ",
        "; }",
        "{",
        "}",
        "{a,b}",
        "{1..3}",
        "'",
        "\"",
        "`",
        "$",
        "$(",
        "${",
        "$X",
        "\"$X\"",
        "${X}",
        "$((1+1))",
        "$((",
        "))",
        "((",
        "$'",
        "$\"",
        "$'\\''",
        "$'\\x72m'",
        "#",
        " #",
        "*",
        "?",
        "[",
        "]",
        "[[ ",
        " ]]",
        "[ ",
        " ]",
        "=",
        "X=",
        "X=1 ",
        "CC='rm x' ",
        "a=(",
        "a[0]=",
        "~",
        "~/",
        "<",
        ">",
        ">>",
        "2>&1",
        "&>",
        ">&",
        "<>",
        ">|",
        "<<E\n",
        "<<'E'\n",
        "<<-E\n",
        "<<<",
        "\nE\n",
        "<(",
        ">(",
        ":",
        "@(",
        "!(",
        "+(",
        "one",
        "two",
        "rm",
        "rm x",
        "git",
        "git push",
        "x",
        "f",
        "-x",
        "-c ",
        "--",
        "if ",
        "then ",
        "; then ",
        "; fi",
        " fi",
        "elif ",
        "else ",
        "while ",
        "until ",
        "do ",
        "; do ",
        "; done",
        "for i in x",
        "for ",
        " in ",
        "case x in x) ",
        ";; esac",
        "esac",
        "select ",
        "function f",
        "f() ",
        "f",
        "time ",
        "coproc ",
        "env ",
        "nice ",
        "timeout 1 ",
        "xargs ",
        "sh -c ",
        "bash -c ",
        "find . -exec ",
        " {} ",
        "\\;",
        "command ",
        "exec ",
        "builtin ",
        "echo ",
        "export ",
        "declare ",
        "unset ",
        "set ",
        "shopt -s extglob",
        "printf ",
        "read ",
        "test ",
        "cd ",
        "true",
        "false",
        "eval ",
        "make ",
        "launch ",
        "launch a -- ",
        "--run='",
        "\t",
        "\r",
        "%",
        "^",
        "é",
    ],
    folders: &[],
    open,
};

/// Longer lines add nothing but time.
const LONGEST: usize = 2_000;

/// Programs that write down how they were started. The last two start others, as `make CC=…` and any launcher would.
const STUBS: &[&str] = &["one", "two", "x", "f", "rm", "git", "ls", "id", "cat", "make", "launch"];

/// Programs that are what they are everywhere.
const REAL: &[&str] = &["bash", "dash", "env", "find", "nice", "nohup", "setsid", "sh", "stdbuf", "timeout", "xargs"];

/// Ends a recorded command, and stands between its words.
const END: char = '\u{1e}';
const BETWEEN: char = '\u{1f}';

fn open(folder: &Path) -> anyhow::Result<Trial> {
    let mut jail = Jail::new(folder)?;
    jail.run("one")?;
    Ok(Box::new(move |input| {
        let Ok(line) = std::str::from_utf8(input) else { return Ok(0) };
        let read = shell::read(line);
        again(&read)?;
        let shape: Vec<_> =
            read.wants.iter().take(6).map(|want| (want.kind as u8, want.open, want.looks.len())).collect();
        // Where something is denied, a line that nobody can read is asked about, whatever it does.
        if read.opaque.is_some() || line.len() > LONGEST {
            return Ok(signature((read.opaque, shape)));
        }
        let ran = jail.run(line).map_err(|error| format!("{error:#}"))?;
        understood(&read, &ran)?;
        denied(line, &ran)?;
        Ok(signature((shape, ran.commands.len().min(6))))
    }))
}

/// Each part of a line is judged as a line of its own, so it has to be read as the same.
fn again(read: &Line) -> Result<(), String> {
    for want in read.wants.iter().filter(|want| want.kind == Kind::Command) {
        let again = shell::read(&want.source);
        let same = again.wants.iter().any(|other| other.text == want.text && other.kind == want.kind);
        if !same && again.opaque.is_none() {
            return Err(format!("the part {:?} was {:?}, and is {:?} alone", want.source, want.text, texts(&again)));
        }
    }
    Ok(())
}

fn texts(read: &Line) -> Vec<&str> {
    read.wants.iter().map(|want| want.text.as_str()).collect()
}

/// Nothing happened that was not told.
fn understood(read: &Line, ran: &Ran) -> Result<(), String> {
    let named = |text: &str| {
        let texts = read.wants.iter().filter(|want| want.kind == Kind::Command);
        // A word that is not known may be missing, and where home is does not matter.
        let mut patterns = texts
            .flat_map(|want| want.looks.iter().chain([&want.text]))
            .map(|text| text.replace('~', "*").replace(" *", "*"));
        patterns.any(|pattern| rules::matches(&pattern, text))
    };
    if let Some(odd) = ran.commands.iter().find(|command| !command.by_stub && !named(&command.text)) {
        return Err(format!("bash started {:?}, which is not in {:?}", odd.text, texts(read)));
    }
    let told = |name: &str| {
        let mut edits = read.wants.iter().filter(|want| want.kind == Kind::Edit);
        edits.any(|want| want.open || want.text.ends_with(name))
    };
    match ran.files.iter().find(|name| !told(name)) {
        Some(odd) => Err(format!("bash made the file {odd:?}, which is not in {:?}", read.wants)),
        None => Ok(()),
    }
}

/// A denied program does not run because of a line that is allowed.
fn denied(line: &str, ran: &Ran) -> Result<(), String> {
    let rule = |pattern: &str, action| Rule::new("bash", pattern, action);
    let set = [
        rule("*", Action::Allow),
        rule("rm *", Action::Deny),
        Rule::new("edit", "*", Action::Allow),
        Rule::new("read", "*", Action::Allow),
    ];
    let removes = ran.commands.iter().any(|command| command.text == "rm" || command.text.starts_with("rm "));
    let allowed = rules::evaluate("bash", line, &[&set]).action == Action::Allow;
    if removes && allowed { Err("it runs `rm`, and is allowed where `rm` is denied".into()) } else { Ok(()) }
}

/// What became of a line.
struct Ran {
    commands: Vec<Started>,
    /// Files that were not there before.
    files: Vec<String>,
}

struct Started {
    text: String,
    /// A program started it, not bash.
    by_stub: bool,
}

/// A place where lines can do no harm.
struct Jail {
    folder: PathBuf,
    /// Each line has a log and a folder of its own: something of the last one may still be at its end.
    count: u64,
}

impl Jail {
    fn new(folder: &Path) -> anyhow::Result<Self> {
        let folder = folder.canonicalize()?;
        let bin = folder.join("bin");
        fs::create_dir_all(&bin)?;
        for name in STUBS {
            let path = bin.join(name);
            fs::write(&path, stub(name))?;
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        }
        for name in REAL {
            let dirs = ["/usr/bin", "/bin"];
            if let Some(real) = dirs.iter().map(|dir| Path::new(dir).join(name)).find(|real| real.exists()) {
                std::os::unix::fs::symlink(real, bin.join(name))?;
            }
        }
        fs::write(folder.join("driver"), DRIVER)?;
        Ok(Self { folder, count: 0 })
    }

    /// Everything a line started ends with the jail.
    fn run(&mut self, line: &str) -> anyhow::Result<Ran> {
        let _ = fs::remove_dir_all(self.folder.join(self.count.to_string()));
        self.count += 1;
        let place = self.folder.join(self.count.to_string());
        let work = place.join("work");
        fs::create_dir_all(&work)?;
        for name in FILES {
            fs::write(work.join(name), "")?;
        }
        let status = Command::new("bwrap")
            .args(["--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/", "/", "--dev", "/dev"])
            .args(["--proc", "/proc", "--tmpfs", "/tmp", "--bind"])
            .args([&self.folder, &self.folder])
            .arg("--chdir")
            .arg(&work)
            .args(["/bin/bash", "--norc"])
            .arg(self.folder.join("driver"))
            .args([&self.folder, &place])
            .arg(line)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .context("cannot start `bwrap`; install bubblewrap")?;
        // 101: bash refuses its syntax. What is told of such a line never happens, which does no harm.
        if !matches!(status.code(), Some(100 | 101)) {
            bail!("`bwrap` cannot make a jail here: {status}");
        }
        let log = fs::read(place.join("log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log).into_owned();
        let commands = log.split_terminator(END).map(started).collect();
        let entries: Vec<fs::DirEntry> =
            fs::read_dir(&work).map(|entries| entries.flatten().collect()).unwrap_or_default();
        let names = entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned());
        Ok(Ran { commands, files: names.filter(|name| !FILES.contains(&name.as_str())).collect() })
    }
}

fn started(record: &str) -> Started {
    let (by, words) = record.split_once(BETWEEN).unwrap_or_default();
    Started { text: words.replace(BETWEEN, " "), by_stub: !by.is_empty() }
}

/// What is in the folder that lines run in: names that patterns may become.
const FILES: &[&str] = &["rm", "-x", "a.rs"];

/// Its arguments are the folder of the jail, that of the line, and the line. It ends with 100 if bash accepts the syntax, else with 101.
const DRIVER: &str = r#"
/bin/bash --norc -n -c -- "$3" > /dev/null 2>&1 < /dev/null || exit 101
/usr/bin/env -i PATH="$1/bin" HOME="$2/work" LOG="$2/log" X='rm y' LC_ALL=C.UTF-8 \
    /usr/bin/timeout -s KILL 1 /bin/bash -c -- "$3" > /dev/null 2>&1 < /dev/null
exit 100
"#;

/// In one write: programs of a pipe run at the same time.
fn stub(name: &str) -> String {
    let record = format!(
        "#!/bin/sh\nrecord=\"$BY{BETWEEN}${{0##*/}}\"; for word; do record=\"$record{BETWEEN}$word\"; done\n\
         printf '%s{END}' \"$record\" >> \"$LOG\"\n"
    );
    let more = match name {
        "one" => "echo a b; echo -x; echo rm\n",
        "two" => "exit 1\n",
        "make" => {
            "export BY=make; for word; do case $word in CC=*) CC=${word#CC=};; esac; done\n\
             [ -z \"$CC\" ] || sh -c \"$CC x\"\n"
        }
        "launch" => {
            "export BY=launch; for word; do case $word in --run=*) sh -c \"${word#--run=}\";; esac; done\n\
             while [ $# -gt 0 ] && [ \"$1\" != -- ]; do shift; done; [ $# -lt 2 ] || { shift; exec \"$@\"; }\n"
        }
        _ => "",
    };
    format!("{record}{more}")
}
