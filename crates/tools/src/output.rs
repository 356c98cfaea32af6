//! How much of an output a model is shown, and where the rest goes.

use crate::ToolCx;
use std::path::{Path, PathBuf};

/// The most a model is shown of one output, in lines and in bytes, whichever comes first.
pub const MAX_LINES: usize = 2000;
pub const MAX_BYTES: usize = 50 << 10;

/// Of what is shown, the part that comes from the end: errors tend to be there.
const TAIL: usize = 4;

/// Where the whole of this call's output goes when it is too long.
pub fn file(cx: &ToolCx) -> PathBuf {
    cx.outputs.join(format!("{}.txt", cx.call))
}

/// `text` when it is short enough; otherwise its beginning and end, with the whole of it saved to a file that is named.
pub async fn cut(text: String, cx: &ToolCx) -> String {
    if fits(&text) {
        return text;
    }
    let path = file(cx);
    let saved = save(&path, text.as_bytes()).await;
    excerpt(&text, &text, &about(text.len() as u64, saved.is_ok().then_some(&path)))
}

fn fits(text: &str) -> bool {
    text.len() <= MAX_BYTES && text.lines().take(MAX_LINES + 1).count() <= MAX_LINES
}

async fn save(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        tokio::fs::create_dir_all(parent).await?;
    }
    let saved = tokio::fs::write(path, bytes).await;
    if let Err(error) = &saved {
        tracing::warn!(%error, path = %path.display(), "cannot save an output");
    }
    saved
}

/// The words for what is left out of `total` bytes.
pub(crate) fn about(total: u64, saved: Option<&PathBuf>) -> String {
    match saved {
        Some(path) => format!(
            "a part is left out here; all {total} bytes are in {}: use `read` with an offset, or `grep`, on it",
            path.display()
        ),
        None => format!("a part of {total} bytes is left out here and could not be saved"),
    }
}

/// The beginning of `head` and the end of `tail`, within the limits, with `note` between them.
pub(crate) fn excerpt(head: &str, tail: &str, note: &str) -> String {
    let beginning = first(head, MAX_LINES - MAX_LINES / TAIL, MAX_BYTES - MAX_BYTES / TAIL);
    let end = last(tail, MAX_LINES / TAIL, MAX_BYTES / TAIL);
    format!("{}\n\n[... {note} ...]\n\n{end}", beginning.trim_end_matches('\n'))
}

fn first(text: &str, lines: usize, bytes: usize) -> &str {
    let by_lines = text.match_indices('\n').nth(lines - 1).map_or(text.len(), |(at, _)| at + 1);
    let text = &text[..by_lines];
    let text = &text[..text.floor_char_boundary(bytes)];
    // Whole lines, unless there is only one.
    match text.rfind('\n') {
        Some(at) => &text[..=at],
        None => text,
    }
}

fn last(text: &str, lines: usize, bytes: usize) -> &str {
    let ended = text.strip_suffix('\n').unwrap_or(text);
    let by_lines = ended.rmatch_indices('\n').nth(lines - 1).map_or(0, |(at, _)| at + 1);
    let from = text.ceil_char_boundary(text.len().saturating_sub(bytes).max(by_lines));
    let tail = &text[from..];
    let whole = from == 0 || text[..from].ends_with('\n');
    match tail.find('\n') {
        Some(at) if !whole && at + 1 < tail.len() => &tail[at + 1..],
        _ => tail,
    }
}

/// One line, cut when it is longer than `limit` characters.
pub fn cut_line(line: &str, limit: usize) -> String {
    match line.char_indices().nth(limit) {
        None => line.to_owned(),
        Some((at, _)) => format!("{}… (line cut)", &line[..at]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Place;

    #[tokio::test]
    async fn short_output_is_shown_as_it_is() {
        let place = Place::new();
        let text = "line\n".repeat(MAX_LINES);
        assert_eq!(cut(text.clone(), &place.cx()).await, text);
        assert!(!file(&place.cx()).exists());
    }

    #[tokio::test]
    async fn many_lines_are_cut_and_saved_whole() {
        let place = Place::new();
        let cx = place.cx();
        let text: String = (1..=3000).map(|n| format!("line {n}\n")).collect();
        let shown = cut(text.clone(), &cx).await;
        assert!(shown.starts_with("line 1\n") && shown.ends_with("line 3000\n"), "{shown}");
        assert!(shown.contains("\nline 1500\n\n[... ") && shown.contains(" ...]\n\nline 2501\n"), "{shown}");
        assert!(shown.contains(&file(&cx).display().to_string()));
        assert_eq!(std::fs::read_to_string(file(&cx)).unwrap(), text);
    }

    #[tokio::test]
    async fn one_endless_line_is_cut_between_characters() {
        let place = Place::new();
        let shown = cut("ü".repeat(MAX_BYTES), &place.cx()).await;
        assert!(shown.len() < MAX_BYTES + 500, "{}", shown.len());
        assert!(shown.starts_with("üü") && shown.ends_with("üü"));
    }

    #[test]
    fn long_lines_are_cut() {
        assert_eq!(cut_line("grün", 4), "grün");
        assert_eq!(cut_line("grüner", 4), "grün… (line cut)");
    }
}
