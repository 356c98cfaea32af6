//! Corpora: a text file for each target, one input per line.
//!
//! A line is the input as it is, but for `\\`, `\n`, `\r`, `\t`, `\#` and `\xNN`. Empty lines and lines that start with
//! `#` are not inputs.

use super::Target;
use anyhow::Context;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

/// Every input of a target: the lines of its file, then the files of its folders.
pub(super) fn read(target: &Target) -> anyhow::Result<Vec<Vec<u8>>> {
    let text = fs::read_to_string(path(target.name)?).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut inputs: Vec<Vec<u8>> = lines.map(input).collect();
    for folder in target.folders {
        let folder = crate::test::root()?.join(folder);
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot read `{}`", folder.display()))?;
        let mut files: Vec<PathBuf> =
            entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
        files.sort();
        for file in files {
            inputs.push(fs::read(&file).with_context(|| format!("cannot read `{}`", file.display()))?);
        }
    }
    Ok(inputs)
}

/// Adds a line.
pub(super) fn add(name: &str, input: &[u8]) -> anyhow::Result<()> {
    let path = path(name)?;
    let mut file = fs::OpenOptions::new().create(true).append(true).open(&path)?;
    writeln!(file, "{}", line(input)).with_context(|| format!("cannot write `{}`", path.display()))
}

fn path(name: &str) -> anyhow::Result<PathBuf> {
    Ok(crate::test::root()?.join("xtask/fuzz").join(format!("{name}.txt")))
}

/// An input as a line.
pub(super) fn line(input: &[u8]) -> String {
    let mut line = String::new();
    for chunk in input.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '\\' => line.push_str("\\\\"),
                '\n' => line.push_str("\\n"),
                '\r' => line.push_str("\\r"),
                '\t' => line.push_str("\\t"),
                '#' if line.is_empty() => line.push_str("\\#"),
                // What a terminal or an editor would hide is written as bytes, like what is not text.
                _ if char.is_control() || ('\u{2000}'..='\u{206f}').contains(&char) || char == '\u{feff}' => {
                    let mut bytes = [0; 4];
                    char.encode_utf8(&mut bytes).bytes().for_each(|byte| line.push_str(&format!("\\x{byte:02x}")));
                }
                _ => line.push(char),
            }
        }
        chunk.invalid().iter().for_each(|byte| line.push_str(&format!("\\x{byte:02x}")));
    }
    line
}

/// A line as an input. A backslash before anything else stands for itself.
fn input(line: &str) -> Vec<u8> {
    let mut input = Vec::new();
    let mut rest = line;
    while let Some(at) = rest.find('\\') {
        input.extend_from_slice(&rest.as_bytes()[..at]);
        let after = &rest[at + 1..];
        let hex = after.strip_prefix('x').and_then(|hex| hex.get(..2)).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        let (byte, taken) = match (after.bytes().next(), hex) {
            (_, Some(byte)) => (byte, 3),
            (Some(b'n'), _) => (b'\n', 1),
            (Some(b'r'), _) => (b'\r', 1),
            (Some(b't'), _) => (b'\t', 1),
            (Some(byte @ (b'\\' | b'#')), _) => (byte, 1),
            _ => (b'\\', 0),
        };
        input.push(byte);
        rest = &after[taken..];
    }
    input.extend_from_slice(rest.as_bytes());
    input
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_gives_back_its_input() {
        for bytes in [b"plain".as_slice(), b"a\nb\r\t\\x41\\", b"\xff\x00\x7f", "é\u{202e}\u{feff}".as_bytes(), b"# no"]
        {
            assert_eq!(input(&line(bytes)), bytes);
            assert!(!line(bytes).starts_with('#') && !line(bytes).contains('\n'));
        }
    }
}
