//! Words for people: progress on stderr, dim where that can be seen, answers on stdout.

use std::io::{IsTerminal, Write};

/// A line on stderr. One that cannot be written is nobody's loss.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// A line on stdout, at once. A reader that left has seen what it wanted.
pub(crate) fn print(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

pub(crate) fn print_json(value: &impl serde::Serialize) {
    print(&serde_json::to_string(value).expect("what we print is JSON"));
}

/// How text is set off, if at all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    pub(crate) fn stderr(plain: bool) -> Self {
        Self { on: !plain && std::io::stderr().is_terminal() }
    }

    pub(crate) fn stdout(plain: bool) -> Self {
        Self { on: !plain && std::io::stdout().is_terminal() }
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// A text on one line, of at most `width` characters. Control characters of models and tools never reach a terminal.
pub(crate) fn one_line(text: &str, width: usize) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let clean = words.chars().filter(|c| !c.is_control());
    let mut line: String = clean.clone().take(width).collect();
    if clean.count() > width {
        line.pop();
        line.push('…');
    }
    line
}

/// A text whose lines stay, without what could steer a terminal.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// A text of which nothing is left out: what could steer a terminal or mislead the eye is written out, and only line
/// breaks stay.
pub(crate) fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let unseen =
            matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
        match c {
            '\n' => out.push(c),
            c if c.is_control() || unseen => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

/// Rows under a head, each column as wide as it needs.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: Vec<&str>| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let head = std::iter::once(line(head.to_vec()));
    let rows = rows.iter().map(|row| line(row.iter().map(String::as_str).collect()));
    head.chain(rows).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_is_short_and_cannot_steer_a_terminal() {
        assert_eq!(one_line("a\n  b\x1b[2J", 20), "a b[2J");
        assert_eq!(one_line("abcdef", 4), "abc…");
        assert_eq!(harmless("a\x1b[2J\n\tb"), "a[2J\n\tb");
    }

    #[test]
    fn columns_are_as_wide_as_they_need() {
        let rows = vec![vec!["a".to_owned(), "b".to_owned()], vec!["long".to_owned(), String::new()]];
        assert_eq!(table(&["X", "Y"], &rows), "X     Y\na     b\nlong");
    }
}
