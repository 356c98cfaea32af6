//! What a prompt is made of: the words on the command line, standard input, and the directory.

use crate::failure::Failure;
use crate::terminal;
use config::Commands;
use proto::Error;
use proto::nearest::nearest;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

/// More than any model can read.
const LARGEST_INPUT: u64 = 16 * 1024 * 1024;

/// After this long without an end of standard input a person is told what is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// The words, then what standard input says.
pub(super) fn prompt(words: &[String]) -> Result<String, Failure> {
    let words = words.join(" ");
    let piped = if holds_text() { read_to_end()? } else { String::new() };
    let piped = piped.trim_end();
    let text = match (words.trim().is_empty(), piped.is_empty()) {
        (false, false) => format!("{words}\n\n{piped}"),
        (false, true) => words,
        (true, false) => piped.to_owned(),
        (true, true) => {
            return Err(Error::invalid("there is no prompt").hint("say what is to be done: convoke run \"…\"").into());
        }
    };
    Ok(text)
}

/// A prompt that begins like a command has to be one. `/etc/hosts`, and whatever else begins with a path, is just text.
pub(super) fn check_command(text: &str, commands: &Commands) -> Result<(), Error> {
    let Some(rest) = text.trim_start().strip_prefix('/') else { return Ok(()) };
    let name = rest.split(char::is_whitespace).next().unwrap_or_default();
    let like_one = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_alphanumeric() || "_-:.".contains(c));
    if !like_one || commands.contains_key(name) || Path::new("/").join(name).exists() {
        return Ok(());
    }
    let known: Vec<&str> = commands.keys().map(String::as_str).collect();
    let hint = match (nearest(name, known.iter().copied()), known.as_slice()) {
        (Some(near), _) => format!("the nearest is `/{near}`"),
        (None, []) => "there are none yet: write one as `.convoke/commands/NAME.md`".to_owned(),
        (None, known) => format!("there is: /{}", known.join(", /")),
    };
    let hint = format!("{hint}; a prompt that is no command begins with another word");
    Err(Error::not_found(format!("there is no command `/{name}`")).hint(hint))
}

/// A pipe, a socket or a file; not a terminal, and not `/dev/null` or nothing at all.
fn holds_text() -> bool {
    use rustix::fs::FileType;
    let stdin = std::io::stdin();
    !stdin.is_terminal()
        && rustix::fs::fstat(&stdin).is_ok_and(|stat| {
            matches!(FileType::from_raw_mode(stat.st_mode), FileType::Fifo | FileType::Socket | FileType::RegularFile)
        })
}

/// Reads something. A pipe without a writer, or one that was never closed, looks like a hang; this says what it is.
pub(super) fn patiently<T>(note: String, read: impl FnOnce() -> T) -> T {
    let (done, waiting) = mpsc::channel::<()>();
    let told = std::thread::spawn(move || {
        if waiting.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
            terminal::say(&note);
        }
    });
    let read = read();
    drop(done);
    drop(told);
    read
}

fn read_to_end() -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let note = "note: reading standard input until it ends; use `< /dev/null` if there is none";
    let read = patiently(note.into(), || std::io::stdin().lock().take(LARGEST_INPUT + 1).read_to_end(&mut bytes));
    read.map_err(|error| Error::invalid(format!("cannot read standard input: {error}")))?;
    if bytes.len() as u64 > LARGEST_INPUT {
        return Err(Error::invalid("standard input is larger than 16 MiB")
            .hint("put it into a file and name it")
            .into());
    }
    String::from_utf8(bytes)
        .map_err(|_| Error::invalid("standard input is not UTF-8 text").hint("convert it, or name the file").into())
}

/// The directory to work in, by its real name.
pub(in crate::commands) fn directory(wanted: Option<PathBuf>) -> Result<String, Failure> {
    let path = wanted.unwrap_or_else(|| PathBuf::from("."));
    let refused = |why: &str| {
        Error::invalid(format!("cannot work in `{}`: {why}", path.display()))
            .hint("name a directory that exists and can be read")
    };
    let real = path.canonicalize().map_err(|error| refused(&error.to_string()))?;
    std::fs::read_dir(&real).map_err(|error| refused(&error.to_string()))?;
    let text = real.to_str().ok_or_else(|| refused("its name is not UTF-8"))?;
    Ok(text.to_owned())
}
