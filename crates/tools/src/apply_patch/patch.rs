//! The text of a patch, read and laid over files. Nothing here touches a disk.

use tokio_util::sync::CancellationToken;

/// What a patch does to one file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    Add { path: String, body: String },
    Delete { path: String },
    Update { path: String, to: Option<String>, hunks: Vec<Hunk> },
}

/// Lines that belong together.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Hunk {
    /// Lines above the place, each found before the next is looked for.
    anchors: Vec<String>,
    lines: Vec<Line>,
    /// Its last line is the last of the file.
    at_end: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Line {
    Keep(String),
    Drop(String),
    Put(String),
}

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const UPDATE: &str = "*** Update File:";
const MOVE: &str = "*** Move to:";
const LAST: &str = "*** End of File";

impl Change {
    /// The files it touches.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        let (path, to) = match self {
            Self::Add { path, .. } | Self::Delete { path } => (path, None),
            Self::Update { path, to, .. } => (path, to.as_deref()),
        };
        std::iter::once(path.as_str()).chain(to)
    }
}

/// Reads a patch. The error says which line is wrong, and how it should be.
pub(super) fn parse(text: &str) -> Result<Vec<Change>, String> {
    let text = text.replace("\r\n", "\n");
    let mut lines = text.trim_matches('\n').lines().enumerate().map(|(n, line)| (n + 1, line)).peekable();
    let begins = lines.by_ref().find(|(_, line)| !line.trim().is_empty());
    if begins.is_none_or(|(_, line)| line.trim() != BEGIN) {
        return Err(format!("a patch begins with the line `{BEGIN}`"));
    }
    let mut changes = Vec::new();
    loop {
        let Some((n, line)) = lines.next() else { return Err(format!("a patch ends with the line `{END}`")) };
        let named = |mark: &str| line.strip_prefix(mark).map(|path| path.trim().to_owned());
        // Up to the next file.
        let mut rest = || -> Vec<(usize, &str)> {
            let of_file = |line: &str| !line.starts_with("***") || line.trim_end() == LAST || line.starts_with(MOVE);
            std::iter::from_fn(|| lines.next_if(|(_, line)| of_file(line))).collect()
        };
        if line.trim() == END {
            break;
        } else if let Some(path) = named(ADD) {
            changes.push(Change::Add { path, body: added(&rest())? });
        } else if let Some(path) = named(DELETE) {
            if rest().iter().any(|(_, line)| !line.trim().is_empty()) {
                return Err(format!("line {n}: nothing comes below `{DELETE}`"));
            }
            changes.push(Change::Delete { path });
        } else if let Some(path) = named(UPDATE) {
            changes.push(updated(n, path, &rest())?);
        } else if !line.trim().is_empty() {
            return Err(format!("line {n}: `{line}` is no `{ADD}`, `{UPDATE}`, `{DELETE}` or `{END}` line"));
        }
    }
    if changes.is_empty() {
        return Err("the patch changes no file".into());
    }
    for path in changes.iter().flat_map(Change::paths) {
        if path.is_empty() {
            return Err("a file has no name".into());
        }
        if let Some(why) = foreign::text::path_is_wrong(path) {
            return Err(format!("a file has a wrong name: {why}"));
        }
    }
    Ok(changes)
}

fn added(lines: &[(usize, &str)]) -> Result<String, String> {
    let mut body = String::new();
    for (n, line) in lines {
        let Some(line) = line.strip_prefix('+') else {
            return Err(format!("line {n}: every line of a new file begins with `+`"));
        };
        body.push_str(line);
        body.push('\n');
    }
    Ok(body)
}

fn updated(at: usize, path: String, lines: &[(usize, &str)]) -> Result<Change, String> {
    let (mut to, mut hunks, mut hunk) = (None, Vec::new(), Hunk::default());
    for (n, line) in lines {
        if let Some(path) = line.strip_prefix(MOVE) {
            to = Some(path.trim().to_owned());
        } else if line.trim_end() == LAST {
            hunk.at_end = true;
        } else if let Some(anchor) = line.strip_prefix("@@") {
            if !hunk.lines.is_empty() {
                hunks.push(std::mem::take(&mut hunk));
            }
            // Numbers of lines, as other patches have them, are not to be trusted.
            let anchor = anchor.trim();
            if !anchor.is_empty() && !anchor.starts_with('-') {
                hunk.anchors.push(anchor.to_owned());
            }
        } else {
            hunk.lines.push(match line.split_at_checked(1) {
                Some((" ", rest)) => Line::Keep(rest.to_owned()),
                Some(("-", rest)) => Line::Drop(rest.to_owned()),
                Some(("+", rest)) => Line::Put(rest.to_owned()),
                // Editors take the blank of an empty line away.
                None => Line::Keep(String::new()),
                Some(_) => return Err(format!("line {n}: a line begins with a blank, `-`, `+` or `@@`")),
            });
        }
    }
    hunks.push(hunk);
    for hunk in &mut hunks {
        // An empty line before the next file is nobody's.
        while hunk.lines.last().is_some_and(|last| *last == Line::Keep(String::new())) {
            hunk.lines.pop();
        }
    }
    hunks.retain(|hunk| hunk.lines.iter().any(|line| !matches!(line, Line::Keep(_))));
    if hunks.is_empty() && to.is_none() {
        return Err(format!("line {at}: nothing is changed in `{path}`"));
    }
    Ok(Change::Update { path, to, hunks })
}

/// A file with the changes made. The error says what was not found.
pub(super) fn apply(body: &str, hunks: &[Hunk], cancel: &CancellationToken) -> Result<String, String> {
    let ended = body.is_empty() || body.ends_with('\n');
    let lines: Vec<&str> = body.lines().collect();
    let (mut out, mut at): (Vec<&str>, usize) = (Vec::new(), 0);
    for hunk in hunks {
        let mut from = at;
        for anchor in &hunk.anchors {
            let found = lines[from..].iter().position(|line| line.trim() == anchor);
            let found =
                found.or_else(|| lines[from..].iter().position(|line| line.trim().starts_with(anchor.as_str())));
            from += found.ok_or_else(|| format!("there is no line `{anchor}` below the change before"))? + 1;
        }
        let old: Vec<&str> = hunk.lines.iter().filter_map(Line::old).collect();
        let place = find(&lines, from, &old, hunk.at_end, cancel)?;
        out.extend(&lines[at..place]);
        // What stays is taken from the file, whatever blanks the patch has.
        let mut next = place;
        for line in &hunk.lines {
            match line {
                Line::Keep(_) => {
                    out.push(lines[next]);
                    next += 1;
                }
                Line::Drop(_) => next += 1,
                Line::Put(line) => out.push(line),
            }
        }
        at = next;
    }
    out.extend(&lines[at..]);
    let mut body = out.join("\n");
    if ended && !out.is_empty() {
        body.push('\n');
    }
    Ok(body)
}

impl Line {
    fn old(&self) -> Option<&str> {
        match self {
            Self::Keep(line) | Self::Drop(line) => Some(line),
            Self::Put(_) => None,
        }
    }
}

/// How alike lines have to be, the strictest first.
const ALIKE: [fn(&str, &str) -> bool; 3] =
    [|a, b| a == b, |a, b| a.trim_end() == b.trim_end(), |a, b| a.trim() == b.trim()];

/// Where these lines stand.
fn find(lines: &[&str], from: usize, old: &[&str], at_end: bool, cancel: &CancellationToken) -> Result<usize, String> {
    if old.is_empty() {
        return Ok(if at_end || from == 0 { lines.len() } else { from });
    }
    let fits = |place: usize, alike: fn(&str, &str) -> bool| {
        lines[place..].len() >= old.len() && old.iter().zip(&lines[place..]).all(|(old, line)| alike(old, line))
    };
    for alike in ALIKE {
        let first = if at_end { lines.len().checked_sub(old.len()).filter(|last| *last >= from) } else { Some(from) };
        // Lines that are all the same make this as long as one file times the other.
        let places = first.map_or(0..0, |first| first..lines.len()).take_while(|_| !cancel.is_cancelled());
        let mut found = places.filter(|place| fits(*place, alike));
        match (found.next(), found.next()) {
            (Some(place), None) => return Ok(place),
            // Below a change or an anchor the first place is meant; without either nobody can tell.
            (Some(place), Some(_)) if from > 0 => return Ok(place),
            (Some(first), Some(second)) => {
                return Err(format!(
                    "the lines from `{}` on stand in more than one place (lines {} and {}): give more lines around the \
                     change, or one above it behind `@@`",
                    old[0],
                    first + 1,
                    second + 1
                ));
            }
            (None, _) => {}
        }
    }
    Err(format!("these lines are not in the file one after the other: read it again\n{}", old.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(text: &str, body: &str) -> Result<String, String> {
        let patch = format!("{BEGIN}\n{UPDATE} a\n{text}\n{END}\n");
        let Change::Update { hunks, .. } = parse(&patch)?.remove(0) else { panic!("no update") };
        apply(body, &hunks, &CancellationToken::new())
    }

    #[test]
    fn lines_are_found_replaced_and_put_in() {
        assert_eq!(update("@@\n one\n-two\n+2\n three", "one\ntwo\nthree\n").unwrap(), "one\n2\nthree\n");
        assert_eq!(update("-a\n+b", "a").unwrap(), "b");
        assert_eq!(update("@@ fn b\n-x\n+y", "fn a\nx\nfn b\nx\n").unwrap(), "fn a\nx\nfn b\ny\n");
        assert_eq!(update("@@\n-1\n+one\n@@\n-3\n+three", "1\n2\n3\n").unwrap(), "one\n2\nthree\n");
        assert_eq!(update(" x\n+end\n*** End of File", "x\ny\nx\n").unwrap(), "x\ny\nx\nend\n");
        assert_eq!(update("+last", "first\n").unwrap(), "first\nlast\n");
        assert_eq!(update("@@ -1,2 +1,2 @@\n-a\n+b", "a\n").unwrap(), "b\n");
    }

    #[test]
    fn blanks_at_the_ends_of_lines_do_not_matter_and_those_of_the_file_stay() {
        assert_eq!(update(" keep\n-old\n+new", "\tkeep  \n\told\n").unwrap(), "\tkeep  \nnew\n");
        assert_eq!(update(" a\n\n-b\n+c", "a\n\nb\n").unwrap(), "a\n\nc\n");
    }

    #[test]
    fn an_empty_line_at_the_end_is_no_part_of_it() {
        assert_eq!(update("-a\n+b\n", "a\nc\n").unwrap(), "b\nc\n");
    }

    #[test]
    fn what_does_not_fit_says_so() {
        assert!(update("-x\n+y", "x\nx\n").unwrap_err().contains("more than one place (lines 1 and 2)"));
        assert!(update("-nowhere\n+y", "x\n").unwrap_err().contains("not in the file"));
        assert!(update("@@ fn c\n-x\n+y", "fn a\nx\n").unwrap_err().contains("no line `fn c`"));
        assert!(update("?x", "x\n").unwrap_err().contains("line 3: a line begins with"));
        assert!(update("", "x\n").unwrap_err().contains("nothing is changed"));
    }

    #[test]
    fn a_patch_has_a_beginning_an_end_and_files() {
        for (text, why) in [
            ("", "begins with"),
            ("*** Begin Patch\n", "ends with"),
            ("*** Begin Patch\n*** End Patch", "no file"),
            ("*** Begin Patch\nhello\n*** End Patch", "line 2: `hello` is no"),
            ("*** Begin Patch\n*** Add File: a\nb\n*** End Patch", "line 3: every line"),
            ("*** Begin Patch\n*** Delete File: a\n-b\n*** End Patch", "nothing comes below"),
            ("*** Begin Patch\n*** Delete File:\n*** End Patch", "has no name"),
        ] {
            assert!(parse(text).unwrap_err().contains(why), "{text:?}: {:?}", parse(text));
        }
        let patch =
            "\n*** Begin Patch\r\n*** Add File: b/c\r\n+x\r\n+\r\n*** Update File: a\n*** Move to: d\n*** End Patch";
        let hunks = Vec::new();
        assert_eq!(
            parse(patch).unwrap(),
            [
                Change::Add { path: "b/c".into(), body: "x\n\n".into() },
                Change::Update { path: "a".into(), to: Some("d".into()), hunks }
            ]
        );
    }
}
