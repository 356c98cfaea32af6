//! The lines of one list of ignored files, kept as they are written and matched without automata: what a list takes up is
//! in proportion to its length, whatever its patterns are. A name costs time in proportion to the list; names that are
//! written out, which most lines of long lists are, are looked up.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a line takes up besides its text.
const LINE: u64 = 16;
/// Patterns that braces in one line may stand for.
const MOST_ALTERNATIVES: usize = 256;

#[derive(Default)]
pub(super) struct List {
    text: Box<[u8]>,
    lines: Box<[Line]>,
    /// Lines that are the name of a file or folder and nothing else, by that name and then by their place.
    names: Box<[u32]>,
    /// All others.
    patterns: Box<[u32]>,
}

struct Line {
    start: u32,
    length: u16,
    keeps: bool,
    /// Folders alone.
    folders: bool,
    /// About names at any depth; else about paths.
    anywhere: bool,
}

/// What a list says about a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    LeaveOut,
    Keep,
}

impl List {
    /// Lines that are no patterns, too much, or beyond what is `left` are passed over.
    pub(super) fn read(text: &[u8], left: &AtomicU64) -> Self {
        let (mut kept, mut lines): (Vec<u8>, Vec<Line>) = Default::default();
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        for line in text.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok()) {
            let Some((pattern, written)) = parse(line) else { continue };
            for pattern in alternatives(pattern) {
                let cost = pattern.len() as u64 + LINE;
                let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(cost));
                let place = u32::try_from(kept.len()).ok().zip(u16::try_from(pattern.len()).ok());
                let (Ok(_), Some((start, length))) = (taken, place) else { break };
                kept.extend_from_slice(&pattern);
                lines.push(Line { start, length, ..written });
            }
        }
        let mut list = Self { text: kept.into(), lines: lines.into(), ..Self::default() };
        let is_name = |line: &Line| line.anywhere && !list.of(line).iter().any(|byte| b"*?[\\".contains(byte));
        let all = 0..u32::try_from(list.lines.len()).unwrap_or(u32::MAX);
        let (mut names, patterns): (Vec<u32>, Vec<u32>) = all.partition(|at| is_name(&list.lines[*at as usize]));
        names.sort_unstable_by_key(|at| (list.of(&list.lines[*at as usize]), *at));
        (list.names, list.patterns) = (names.into(), patterns.into());
        list
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The last line that is about a path decides. `path` starts where the list is.
    pub(super) fn say(&self, path: &[u8], is_dir: bool) -> Option<Said> {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        let counts = |line: &Line| is_dir || !line.folders;
        let line = |at: u32| &self.lines[at as usize];
        let from = self.names.partition_point(|at| self.of(line(*at)) < name);
        let same = self.names[from..].iter().copied().take_while(|at| self.of(line(*at)) == name);
        let named = same.filter(|at| counts(line(*at))).last();
        let others = self.patterns.iter().rev().copied().take_while(|at| named.is_none_or(|named| *at > named));
        let matched = others.filter(|at| counts(line(*at))).find(|at| {
            let pattern = self.of(line(*at));
            if line(*at).anywhere { is_name(pattern, name) } else { is_path(pattern, path) }
        });
        matched.or(named).map(|at| if line(at).keeps { Said::Keep } else { Said::LeaveOut })
    }

    fn of(&self, line: &Line) -> &[u8] {
        let start = line.start as usize;
        &self.text[start..start + usize::from(line.length)]
    }
}

/// A line as git reads it: the pattern, and what else it says.
fn parse(line: &str) -> Option<(&str, Line)> {
    if line.starts_with('#') || foreign::text::pattern_is_too_much(line).is_some() {
        return None;
    }
    let line = if line.ends_with("\\ ") { line } else { line.trim_end() };
    let (keeps, line) = match line.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    let (rooted, line) = match line.strip_prefix('/') {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    let (folders, line) = match line.strip_suffix('/') {
        Some(rest) => (true, rest.strip_suffix('\\').unwrap_or(rest)),
        None => (false, line),
    };
    let anywhere = !rooted && !line.contains('/');
    (!line.is_empty()).then_some((line, Line { start: 0, length: 0, keeps, folders, anywhere }))
}

/// What the braces of a pattern stand for; nothing, if they do not close or are too many.
fn alternatives(pattern: &str) -> Vec<Vec<u8>> {
    let (mut open, mut done) = (vec![pattern.as_bytes().to_vec()], Vec::new());
    while let Some(next) = open.pop() {
        match braces(&next) {
            Err(()) => return Vec::new(),
            Ok(None) => done.push(next),
            Ok(Some((start, parts, end))) => {
                let joined = |part: &&[u8]| [&next[..start], part, &next[end..]].concat();
                // Nothing is an alternative only where there is no other.
                let empty = parts.iter().all(|part| part.is_empty());
                open.extend(parts.iter().filter(|part| !part.is_empty()).chain(empty.then_some(&parts[0])).map(joined));
            }
        }
        if open.len() + done.len() > MOST_ALTERNATIVES {
            return Vec::new();
        }
    }
    done
}

/// The first braces: where they start, what is between their commas, and where they end. A mistake is an error: one that
/// does not close, or closes nothing, a backslash before nothing, or a range that is the wrong way round.
type Braces<'a> = Option<(usize, Vec<&'a [u8]>, usize)>;

fn braces(pattern: &[u8]) -> Result<Braces<'_>, ()> {
    let (mut at, mut deep, mut start) = (0, 0_usize, 0);
    let mut parts: Vec<usize> = Vec::new();
    while at < pattern.len() {
        match pattern[at] {
            b'\\' if at + 1 == pattern.len() => return Err(()),
            b'\\' => at += 1,
            b'[' => match class(pattern, at) {
                Some(class) if !class.is_sound(pattern) => return Err(()),
                Some(class) => at = class.end - 1,
                None => {}
            },
            b'{' => {
                if deep == 0 {
                    start = at;
                    parts.push(at + 1);
                }
                deep += 1;
            }
            b',' if deep == 1 => parts.push(at + 1),
            b'}' if deep == 0 => return Err(()),
            b'}' if deep == 1 => {
                let ends = parts.iter().skip(1).map(|next| next - 1).chain([at]);
                let parts = parts.iter().zip(ends).map(|(from, to)| &pattern[*from..to]).collect();
                return Ok(Some((start, parts, at + 1)));
            }
            b'}' => deep -= 1,
            _ => {}
        }
        at += 1;
    }
    if deep == 0 { Ok(None) } else { Err(()) }
}

/// `[…]` in a pattern: what is between, whether it is meant to be anything else, and where it ends.
struct Class {
    from: usize,
    to: usize,
    negated: bool,
    end: usize,
}

/// One that is not closed is none.
fn class(pattern: &[u8], open: usize) -> Option<Class> {
    let negated = matches!(pattern.get(open + 1), Some(b'!' | b'^'));
    let from = open + 1 + usize::from(negated);
    // A bracket that comes first stands for itself.
    let to = from + 1 + pattern.get(from + 1..)?.iter().position(|byte| *byte == b']')?;
    Some(Class { from, to, negated, end: to + 1 })
}

impl Class {
    fn has(&self, pattern: &[u8], byte: u8) -> bool {
        self.ranges(pattern).any(|(low, high)| (low..=high).contains(&byte)) != self.negated
    }

    /// No range is the wrong way round.
    fn is_sound(&self, pattern: &[u8]) -> bool {
        self.ranges(pattern).all(|(low, high)| low <= high)
    }

    fn ranges(&self, pattern: &[u8]) -> impl Iterator<Item = (u8, u8)> {
        let mut rest = &pattern[self.from..self.to];
        std::iter::from_fn(move || {
            let (range, after) = match *rest {
                [low, b'-', high, ref after @ ..] => ((low, high), after),
                [one, ref after @ ..] => ((one, one), after),
                [] => return None,
            };
            rest = after;
            Some(range)
        })
    }
}

/// Whether a pattern without slashes is about this name. Only the last star is ever tried again, so this takes no longer
/// than the square of the name.
fn is_name(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n, mut star) = (0, 0, None);
    loop {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            star = Some((p, n));
            continue;
        }
        if n == name.len() && p == pattern.len() {
            return true;
        }
        let Some(byte) = name.get(n) else { return false };
        match (one(pattern, p, *byte), star) {
            (Some(next), _) => (p, n) = (next, n + 1),
            (None, Some((after, tried))) => {
                star = Some((after, tried + 1));
                (p, n) = (after, tried + 1);
            }
            (None, None) => return false,
        }
    }
}

/// Where the pattern goes on when what is at `at` stands for this byte.
fn one(pattern: &[u8], at: usize, byte: u8) -> Option<usize> {
    match *pattern.get(at)? {
        b'?' => Some(at + 1),
        b'[' => match class(pattern, at) {
            Some(class) => class.has(pattern, byte).then_some(class.end),
            None => (byte == b'[').then_some(at + 1),
        },
        b'\\' => (pattern.get(at + 1) == Some(&byte)).then_some(at + 2),
        other => (other == byte).then_some(at + 1),
    }
}

/// Whether a pattern with slashes is about this path, folder by folder. `**` stands for any number of them, and for at
/// least one at the end.
fn is_path(pattern: &[u8], path: &[u8]) -> bool {
    let (mut p, mut rest, mut again) = (Some(pattern), Some(path), None);
    loop {
        let (part, after) = match p.map(first) {
            Some((b"**", None)) => return rest.is_some(),
            Some((b"**", after)) => {
                again = Some((after, rest));
                p = after;
                continue;
            }
            Some((part, after)) => (Some(part), after),
            None if rest.is_none() => return true,
            None => (None, None),
        };
        match (part, rest.map(first)) {
            (Some(part), Some((name, below))) if is_name(part, name) => (p, rest) = (after, below),
            _ => match again {
                Some((after, Some(tried))) => {
                    let (_, below) = first(tried);
                    again = Some((after, below));
                    (p, rest) = (after, below);
                }
                _ => return false,
            },
        }
    }
}

/// The first part of a path, and what comes after its slash.
fn first(path: &[u8]) -> (&[u8], Option<&[u8]>) {
    match path.iter().position(|byte| *byte == b'/') {
        Some(at) => (&path[..at], Some(&path[at + 1..])),
        None => (path, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ignore::gitignore::GitignoreBuilder;

    fn list(text: &str) -> List {
        List::read(text.as_bytes(), &AtomicU64::new(1 << 20))
    }

    /// A small generator, so that a failure can be repeated.
    struct Dice(u64);

    impl Dice {
        fn roll(&mut self, sides: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % sides
        }

        fn text(&mut self, pieces: &[&str], most: usize) -> String {
            (0..=self.roll(most)).map(|_| pieces[self.roll(pieces.len())]).collect()
        }
    }

    #[test]
    fn patterns_mean_what_they_mean_to_ripgrep() {
        let mut dice = Dice(11);
        let pieces = [
            "a",
            "b",
            "ab",
            "*",
            "?",
            "/",
            "**/",
            "/**/",
            "/**",
            ".",
            "[ab]",
            "[!a]",
            "[b-c]",
            "{a,b}",
            "{a,{b,c*}}",
            "\\*",
            "\\",
            "!",
            "[",
            "]",
            "{",
            "}",
            ",",
            "-",
            " ",
            "#",
        ];
        let names = ["a", "b", "c", "ab", ".", "/", "/", "*", "-", "["];
        for round in 0..2_000 {
            let lines: Vec<String> = (0..=dice.roll(3)).map(|_| dice.text(&pieces, 6)).collect();
            let text = lines.join("\n");
            // Here we side with git: it knows no `**` that stands for nothing, and no slash that is one of several signs.
            let differs = |line: &String| {
                let bare = line.trim_start_matches(['!', '/', '\\']).trim_end_matches(['/', ' ']);
                bare.is_empty()
                    || line.matches("{").count() > 6
                    || bare.ends_with("**")
                    || bare.contains("**/**")
                    || bare.contains("//")
                    || line.contains("[!a]")
                    || (line.contains('[') && line.contains('/'))
                    || (line.contains('{') && line.contains("**"))
            };
            if lines.iter().any(differs) {
                continue;
            }
            let ours = list(&text);
            let mut theirs = GitignoreBuilder::new("/r");
            for line in text.lines() {
                let _ = theirs.add_line(None, line);
            }
            let theirs = theirs.build().unwrap();
            for _ in 0..8 {
                let path = dice.text(&names, 5);
                let path = path.trim_matches('/');
                if path.is_empty() || path.contains("//") || path.split('/').any(|part| part == "." || part == "..") {
                    continue;
                }
                for is_dir in [false, true] {
                    let expected = match theirs.matched(format!("/r/{path}"), is_dir) {
                        ignore::Match::None => None,
                        ignore::Match::Ignore(_) => Some(Said::LeaveOut),
                        ignore::Match::Whitelist(_) => Some(Said::Keep),
                    };
                    assert_eq!(ours.say(path.as_bytes(), is_dir), expected, "{round}: {text:?} {path:?} {is_dir}");
                }
            }
        }
    }

    #[test]
    fn patterns_mean_what_they_mean_to_git() {
        let place = crate::testing::repository();
        let lines = ["**", "a/**", "/**", "a/**/**/b", "**/a", "x**y", "a[!b]c", "b/", "*.log"];
        for line in lines {
            place.file(".gitignore", line);
            for path in ["a", "a/b", "a/x/b", "a/c", "xzy", "x/y", "abc", "adc", "q/b.log"] {
                let list = list(line);
                // What is in a folder that is left out is left out with it.
                let mut prefixes = path.match_indices('/').map(|(at, _)| (&path[..at], true)).chain([(path, false)]);
                let ours = prefixes.any(|(path, is_dir)| list.say(path.as_bytes(), is_dir) == Some(Said::LeaveOut));
                let asked = std::process::Command::new("git")
                    .args(["check-ignore", "--quiet", "--no-index", path])
                    .current_dir(place.dir())
                    .status()
                    .unwrap();
                assert_eq!(ours, asked.success(), "{line} {path}");
            }
        }
    }

    #[test]
    fn a_list_takes_up_no_more_than_it_is_given() {
        for line in ["**/[!a-c]*[!a-c]*\n", "*1?\n", "a\n", "{a,b}{c,d}{e,f}{g,h}{i,j}\n", "????????????????\n"] {
            let left = AtomicU64::new(100_000);
            let list = List::read(line.repeat(100_000).as_bytes(), &left);
            let size = list.text.len() + list.lines.len() * (size_of::<Line>() + size_of::<u32>());
            assert!(!list.is_empty() && size <= 100_000, "{line}: {size}");
        }
        // Braces that stand for more than anybody means.
        assert!(list(&"{a,b}".repeat(20)).is_empty());
    }
}
