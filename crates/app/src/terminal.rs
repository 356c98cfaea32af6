//! The one way out: words for people on stderr, answers on stdout, cleaned where a terminal could be steered by them.
//!
//! What models, tools, repositories and other gateways say may hold escape sequences, and characters that are not seen
//! but change what is. Whatever is printed here has them written out, with what we paint ourselves as the exception; JSON
//! has them escaped. Only an answer that goes to a file or another program is left as it is.
//!
//! What cannot be printed on stdout ends the command: a reader that left has seen what it wanted, and everything else,
//! such as a full disk, is an error.

use crate::failure::{FAILED, Failure};
use crate::show::text::is_unseen;
pub(crate) use crate::show::text::{flat, one_line, shown, typed};
use crate::show::{Line, Style};
use proto::{Code, Error};
use std::io::{self, ErrorKind, IsTerminal, Write};

/// A line on stderr. One that cannot be written is nobody's loss.
pub(crate) fn say(line: &(impl Text + ?Sized)) {
    let _ = writeln!(io::stderr().lock(), "{}", line.shown());
}

/// The same without an end: what is typed next stands behind it.
pub(crate) fn prompt(text: &(impl Text + ?Sized)) {
    let mut stderr = io::stderr().lock();
    let _ = write!(stderr, "{}", text.shown()).and_then(|()| stderr.flush());
}

/// A line on stdout, at once.
pub(crate) fn print(line: &(impl Text + ?Sized)) {
    end_unless(write_line(&line.shown()));
}

pub(crate) fn print_json(value: &impl serde::Serialize) {
    end_unless(write_json(value));
}

/// What a model answered: byte for byte, unless a terminal is at the other end.
pub(crate) fn print_answer(text: &str) {
    let shown = if io::stdout().is_terminal() { text.shown() } else { text.to_owned() };
    end_unless(write_line(&shown));
}

/// For those that have something to undo when it is not seen.
pub(crate) fn write_line(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush())
}

/// See [`write_line`].
pub(crate) fn write_json(value: &impl serde::Serialize) -> io::Result<()> {
    let text = serde_json::to_string(value).expect("what we print is JSON");
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        // Such characters stand in strings alone, where this means the same.
        if is_unseen(c) {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| line.push_str(&format!("\\u{unit:04x}")));
        } else {
            line.push(c);
        }
    }
    write_line(&line)
}

/// Ends the process when something could not be written to stdout.
pub(crate) fn end_unless(written: io::Result<()>) {
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            let failure = unwritten(&error);
            failure.print();
            std::process::exit(i32::from(failure.exit));
        }
    }
}

pub(crate) fn unwritten(error: &io::Error) -> Failure {
    let error = Error::new(Code::Unavailable, format!("cannot write to standard output: {error}"))
        .hint("make room, or send the output elsewhere");
    Failure { error, exit: FAILED }
}

/// What can be printed.
pub(crate) trait Text {
    /// As a terminal may have it.
    fn shown(&self) -> String;
}

impl Text for str {
    fn shown(&self) -> String {
        shown(self)
    }
}

impl Text for String {
    fn shown(&self) -> String {
        shown(self)
    }
}

/// Texts that are set off from each other.
#[derive(Debug, Default)]
pub(crate) struct Painted(Vec<(Option<&'static str>, String)>);

impl Painted {
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self(vec![(None, text.into())])
    }

    pub(crate) fn then(mut self, next: Self) -> Self {
        self.0.extend(next.0);
        self
    }
}

impl Text for Painted {
    fn shown(&self) -> String {
        let pieces = self.0.iter().map(|(code, text)| match code {
            Some(code) => format!("\x1b[{code}m{}\x1b[0m", shown(text)),
            None => shown(text),
        });
        pieces.collect()
    }
}

/// How text is set off, if at all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    pub(crate) fn stderr(plain: bool) -> Self {
        Self { on: !plain && io::stderr().is_terminal() }
    }

    pub(crate) fn stdout(plain: bool) -> Self {
        Self { on: !plain && io::stdout().is_terminal() }
    }

    /// A line as it looks here.
    pub(crate) fn line(self, line: &Line) -> Painted {
        let pieces = line.pieces().map(|(style, text)| (code(style).filter(|_| self.on), text.to_owned()));
        Painted(pieces.collect())
    }

    pub(crate) fn dim(self, text: &str) -> Painted {
        self.line(&Line::new(Style::Dim, text))
    }

    pub(crate) fn bold(self, text: &str) -> Painted {
        self.line(&Line::new(Style::Bold, text))
    }
}

fn code(style: Style) -> Option<&'static str> {
    match style {
        Style::Plain => None,
        Style::Bold => Some("1"),
        Style::Dim => Some("2"),
        Style::Error | Style::Removed => Some("31"),
        Style::Added => Some("32"),
        Style::Place => Some("36"),
    }
}

/// Rows under a head, each on one line, each column as wide as it needs. At a terminal that is narrower, the columns named
/// in `cut` give way: ids, states and numbers stay whole.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>], cut: &[&str]) -> String {
    fitted(head, rows, cut, width())
}

/// How many characters a line of stdout has; only a terminal bounds it.
pub(crate) fn width() -> Option<usize> {
    let stdout = io::stdout();
    let size = stdout.is_terminal().then(|| rustix::termios::tcgetwinsize(&stdout).ok()).flatten()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// A line as it fits into the terminal, if there is one.
pub(crate) fn within(line: &str) -> String {
    width().map_or_else(|| line.to_owned(), |width| shortened(line, width))
}

/// The narrowest that a column is cut to, and what stands between two.
const NARROWEST: usize = 8;
const GAP: usize = 2;

fn fitted(head: &[&str], rows: &[Vec<String>], cut: &[&str], width: Option<usize>) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| flat(cell)).collect()).collect();
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.chars().count()).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    shrink(&mut widths, head, cut, width);
    let line = |cells: Vec<&str>| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{:width$}", shortened(cell, *width)));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let head = std::iter::once(line(head.to_vec()));
    let rows = rows.iter().map(|row| line(row.iter().map(String::as_str).collect()));
    head.chain(rows).collect::<Vec<_>>().join("\n")
}

/// Takes from the widest column that may be cut, until all fit or none can give more.
fn shrink(widths: &mut [usize], head: &[&str], cut: &[&str], width: Option<usize>) {
    let Some(room) = width else { return };
    let gaps = GAP * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > room {
        let gives = |at: &usize| cut.contains(&head[*at]) && widths[*at] > NARROWEST.max(head[*at].len());
        let Some(widest) = (0..widths.len()).filter(gives).max_by_key(|at| widths[*at]) else { return };
        widths[widest] -= 1;
    }
}

/// A path loses its beginning, other texts their end.
fn shortened(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    if text.starts_with(['/', '~']) {
        return std::iter::once('…').chain(text.chars().skip(length - kept)).collect();
    }
    text.chars().take(kept).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_steer_a_terminal_or_mislead_the_eye_is_written_out() {
        for (text, expected) in [
            ("a\x1b[2J\n\tb", "a\\u{1b}[2J\n\tb"),
            ("\x1b]0;title\x07", "\\u{1b}]0;title\\u{7}"),
            ("safe\rrm -rf", "safe\\rrm -rf"),
            ("a\r\nb", "a\nb"),
            ("x\x08y\x7f", "x\\u{8}y\\u{7f}"),
            ("\u{9b}2J\u{85}", "\\u{9b}2J\\u{85}"),
            ("\u{202e}txt.exe\u{2069}", "\\u{202e}txt.exe\\u{2069}"),
            ("a\u{200b}\u{200f}\u{61c}\u{feff}", "a\\u{200b}\\u{200f}\\u{61c}\\u{feff}"),
            ("\u{e0041}\u{2028}", "\\u{e0041}\\u{2028}"),
            ("grüße 你好 👍", "grüße 你好 👍"),
        ] {
            assert_eq!(text.shown(), expected, "{text:?}");
        }
    }

    #[test]
    fn only_what_we_paint_ourselves_steers() {
        let paint = Paint { on: true };
        let text = Painted::plain("\x1b[1mmine").then(paint.dim("\x1b[0m yours"));
        assert_eq!(text.shown(), "\\u{1b}[1mmine\x1b[2m\\u{1b}[0m yours\x1b[0m");
    }

    #[test]
    fn columns_are_as_wide_as_they_need() {
        let rows = vec![vec!["a".to_owned(), "b".to_owned()], vec!["long".to_owned(), String::new()]];
        assert_eq!(table(&["X", "Y"], &rows, &["X"]), "X     Y\na     b\nlong");
        assert_eq!(table(&["X"], &[vec!["a\nb".to_owned()]], &[]), "X\na\\nb");
    }

    #[test]
    fn a_narrow_terminal_cuts_texts_and_paths_but_no_ids() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = vec![row(["0a1b2c3d4e5f", "/home/somebody/projects/here", "a title that goes on and on"])];
        let fit = |width| fitted(&["ID", "DIRECTORY", "TITLE"], &rows, &["DIRECTORY", "TITLE"], width);
        assert_eq!(fit(None).lines().last().unwrap().chars().count(), 12 + 28 + 27 + 4);
        let narrow = fit(Some(46));
        assert!(narrow.lines().all(|line| line.chars().count() <= 46), "{narrow}");
        assert_eq!(narrow.lines().last().unwrap(), "0a1b2c3d4e5f  …/projects/here  a title that g…");
        // It can be too narrow for the rest.
        assert!(fit(Some(10)).contains("0a1b2c3d4e5f"));
    }
}
