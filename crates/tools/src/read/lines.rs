//! Lines of a file of which no more than a part is ever held, whatever their length.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

pub(crate) struct Lines {
    reader: BufReader<File>,
    whole: bool,
}

impl Lines {
    pub(crate) fn new(reader: BufReader<File>) -> Self {
        Self { reader, whole: true }
    }

    /// Whether the last line had an end: one that is still being written has none.
    pub(crate) fn whole(&self) -> bool {
        self.whole
    }

    /// The next line without its end, cut after `limit` characters; bytes that are no text are replaced.
    pub(crate) fn next(&mut self, limit: usize) -> io::Result<Option<String>> {
        // A character has up to four bytes, and one more tells that there is more.
        let keep = limit * 4 + 4;
        let mut kept = Vec::new();
        let mut any = false;
        loop {
            let chunk = self.reader.fill_buf()?;
            if chunk.is_empty() {
                break;
            }
            (any, self.whole) = (true, false);
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let part = &chunk[..end.unwrap_or(chunk.len())];
            kept.extend_from_slice(&part[..part.len().min(keep - kept.len())]);
            let used = part.len() + usize::from(end.is_some());
            self.reader.consume(used);
            if end.is_some() {
                self.whole = true;
                break;
            }
        }
        let line = String::from_utf8_lossy(&kept);
        let line = line.strip_suffix('\r').unwrap_or(&line);
        Ok(any.then(|| crate::output::cut_line(line, limit)))
    }
}
