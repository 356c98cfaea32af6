//! The terminal while something happens on it: lines, text as it comes, and one line that is rewritten in place.

use crate::show::text::{cut, flat, shown};
use crate::show::{Line, Shown, Style};
use crate::terminal::{self, Paint, Text};
use std::io::{self, IsTerminal, Write};

/// Back to the beginning of the line, and nothing on it.
const WIPE: &str = "\r\x1b[2K";

/// Where nothing is known of the terminal's width.
const USUAL_WIDTH: usize = 80;

pub(crate) struct Screen {
    paint: Paint,
    /// A line can be rewritten.
    rewrites: bool,
    /// Text was shown whose line is not at its end.
    open: bool,
    /// The line that is rewritten is there.
    status: bool,
}

impl Screen {
    pub(crate) fn new(plain: bool, dumb: bool) -> Self {
        let rewrites = io::stderr().is_terminal() && !dumb;
        Self { paint: Paint::stderr(plain), rewrites, open: false, status: false }
    }

    pub(crate) fn show(&mut self, shown: &Shown) {
        match shown {
            Shown::Line(line) => self.line(line),
            Shown::Piece(style, text) => self.piece(*style, text),
            Shown::Break => self.end(),
        }
    }

    pub(crate) fn line(&mut self, line: &Line) {
        self.end();
        terminal::say(&self.paint.line(line));
    }

    /// What comes next begins on a line of its own.
    pub(crate) fn end(&mut self) {
        self.wipe();
        if std::mem::take(&mut self.open) {
            terminal::end_unless(write(&mut io::stdout(), "\n"));
        }
    }

    /// What is going on, instead of what this said before. Nothing else is written over.
    pub(crate) fn status(&mut self, line: Option<&Line>) {
        if !self.rewrites || self.open {
            return;
        }
        let Some(line) = line else { return self.wipe() };
        let width = rustix::termios::tcgetwinsize(io::stderr()).map_or(0, |size| usize::from(size.ws_col));
        let width = if width == 0 { USUAL_WIDTH } else { width };
        // A line that is wrapped would be wiped in part. The last column is not used: some terminals wrap there.
        let text: String = line.pieces().map(|(_, text)| text).collect();
        let line = self.paint.dim(&cut(&flat(&text), width.saturating_sub(1)));
        let _ = write(&mut io::stderr(), &format!("{WIPE}{}", line.shown()));
        self.status = true;
    }

    fn wipe(&mut self) {
        if std::mem::take(&mut self.status) {
            let _ = write(&mut io::stderr(), WIPE);
        }
    }

    /// An answer is standard output, also while it comes.
    fn piece(&mut self, style: Style, text: &str) {
        self.wipe();
        let written = match style {
            Style::Plain => write(&mut io::stdout(), &shown(text)),
            _ => write(&mut io::stdout(), &self.paint.line(&Line::new(style, text)).shown()),
        };
        terminal::end_unless(written);
        self.open = !text.ends_with('\n');
    }
}

fn write(to: &mut impl Write, text: &str) -> io::Result<()> {
    to.write_all(text.as_bytes()).and_then(|()| to.flush())
}
