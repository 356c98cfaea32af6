//! Text as a person may be shown it: nothing that steers a terminal or misleads the eye.

/// A text on one line, of at most `width` characters.
pub(crate) fn one_line(text: &str, width: usize) -> String {
    let words = flat(&text.split_whitespace().collect::<Vec<_>>().join(" "));
    let mut line: String = words.chars().take(width).collect();
    if words.chars().nth(width).is_some() {
        line.pop();
        line.push('…');
    }
    line
}

/// The beginning of a line, at most so many columns wide.
pub(crate) fn cut(line: &str, columns: usize) -> String {
    let (mut out, mut used) = (String::new(), 0);
    for c in line.chars() {
        used += columns_of(c);
        if used > columns {
            while out.pop().is_some_and(|last| columns_of(last) == 0) {}
            out.push('…');
            break;
        }
        out.push(c);
    }
    out
}

/// Roughly: what may be wide counts as wide, so that a line is rather too short than wrapped.
fn columns_of(c: char) -> usize {
    match c {
        '\u{300}'..='\u{36f}' | '\u{fe00}'..='\u{fe0f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{1f000}'..='\u{3ffff}' => 2,
        _ => 1,
    }
}

/// What somebody typed, without what a slip of their terminal left in it.
pub(crate) fn typed(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// A text of which nothing is left out: what could steer a terminal or mislead the eye is written out, and only line
/// breaks and tabs stay.
pub(crate) fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\n' | '\t' => out.push(c),
            // The end of a line as other systems write it.
            '\r' if rest.peek() == Some(&'\n') => {}
            c if is_unseen(c) => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

/// The same on one line: a name with a line break in it must not look like two.
pub(crate) fn flat(text: &str) -> String {
    let escaped = |c: char| {
        let whole = if c.is_control() || is_unseen(c) { None } else { Some(c) };
        let written = whole.is_none().then(|| c.escape_default());
        whole.into_iter().chain(written.into_iter().flatten())
    };
    text.chars().flat_map(escaped).collect()
}

/// Not a mark on a screen: it steers a terminal, turns the direction of writing, or has no width.
pub(crate) fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_cut_is_no_wider_than_it_may_be() {
        for (line, columns, expected) in [
            ("abcd", 4, "abcd"),
            ("abcde", 4, "abc…"),
            ("你好吗", 6, "你好吗"),
            ("你好吗", 5, "你…"),
            ("e\u{301}x", 2, "e\u{301}x"),
        ] {
            assert_eq!(cut(line, columns), expected);
        }
    }

    #[test]
    fn one_line_is_short() {
        assert_eq!(one_line("a\n  b\x1b[2J", 20), "a b\\u{1b}[2J");
        assert_eq!(one_line("abcdef", 4), "abc…");
        assert_eq!(one_line("abcd", 4), "abcd");
    }

    #[test]
    fn a_name_with_a_line_break_stays_on_its_line() {
        assert_eq!(flat("a\nb\t\x1b"), "a\\nb\\t\\u{1b}");
    }
}
