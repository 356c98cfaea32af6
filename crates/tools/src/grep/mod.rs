//! `grep`: lines that match a regular expression, by ripgrep's own engine.

#[cfg(test)]
mod tests;

use crate::door::Leave;
use crate::files::{self, Purpose};
use crate::walk::{pattern, walk};
use crate::{Access, Error, Output, Spec, Tool, ToolCx, output, tolerant};
use async_trait::async_trait;
use globset::GlobMatcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::sinks::Lossy;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use ignore::{DirEntry, WalkState};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

pub struct Grep;

const MAX_MATCHES: usize = 100;
/// Characters shown of one line.
const MAX_LINE: usize = 400;
/// Memory for one line of a file; a file with a longer one is left out.
const MAX_HEAP: usize = 16 << 20;
/// Bytes of a pattern, brackets in it, and bytes of what it becomes: `(a{1000}){1000}` is short and large.
const MAX_PATTERN: usize = 16 << 10;
const MAX_NESTING: u32 = 100;
const MAX_AUTOMATON: usize = 10 << 20;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// Regular expression to look for in each line.
    #[serde(alias = "query", alias = "regex")]
    pattern: String,
    /// The folder or file to look in; the working directory unless given.
    #[serde(
        default,
        alias = "filePath",
        alias = "file_path",
        alias = "dir",
        alias = "directory",
        deserialize_with = "tolerant::maybe_path"
    )]
    #[schemars(with = "Option<String>")]
    path: Option<String>,
    /// Only files that match this pattern, such as `*.rs`.
    #[serde(default, alias = "glob")]
    include: Option<String>,
}

#[async_trait]
impl Tool for Grep {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>("grep", include_str!("prompt.md")).again().aliases(&["Grep"])
    }

    fn access(&self, args: &Args, cx: &ToolCx) -> Vec<Access> {
        let root = files::resolve(args.path.as_deref().unwrap_or("."), &cx.dir);
        let mut accesses = vec![Access::new("grep", &args.pattern)];
        accesses.extend(files::outside(&root, Purpose::Read, cx));
        let named = args.path.as_deref().unwrap_or(".");
        accesses.extend(files::by_name("read", named, &cx.dir, cx));
        accesses.extend(files::below_name("read", named, &cx.dir, cx));
        accesses
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> Result<Output, Error> {
        let found = files::blocking("grep", cx, move |cx| Search::of(&args, cx)?.run());
        Ok(Output::text(output::cut(found.await?, cx).await))
    }
}

/// With limits: a pattern may come to automata of any size.
fn matcher(pattern: &str) -> Result<RegexMatcher, Error> {
    if pattern.len() > MAX_PATTERN {
        return Err(Error::tell(format!("bad pattern: it has {} bytes, and {MAX_PATTERN} is the most", pattern.len())));
    }
    let mut builder = RegexMatcherBuilder::new();
    builder
        .line_terminator(Some(b'\n'))
        .nest_limit(MAX_NESTING)
        .size_limit(MAX_AUTOMATON)
        .dfa_size_limit(MAX_AUTOMATON);
    builder.build(pattern).map_err(|error| {
        Error::tell(format!("bad pattern: {error}. Escape characters that are meant literally with `\\`"))
    })
}

struct Search {
    root: PathBuf,
    matcher: RegexMatcher,
    include: Option<GlobMatcher>,
    cancel: CancellationToken,
    leave: Arc<dyn Leave>,
    worktree: PathBuf,
}

impl Search {
    fn of(args: &Args, cx: &ToolCx) -> Result<Self, Error> {
        let root = files::resolve(args.path.as_deref().unwrap_or("."), &cx.dir);
        files::permitted(files::outside(&root, Purpose::Read, cx).as_slice(), cx)?;
        let include = args.include.as_deref().filter(|include| !include.is_empty()).map(pattern).transpose();
        Ok(Self {
            root,
            matcher: matcher(&args.pattern)?,
            include: include.map_err(|error| Error::tell(format!("bad `include`: {error}")))?,
            cancel: cx.cancel.clone(),
            leave: Arc::clone(&cx.leave),
            worktree: cx.worktree.clone(),
        })
    }

    fn run(&self) -> Result<String, Error> {
        std::fs::metadata(&self.root).map_err(|error| files::missing(&self.root, &error))?;
        let found = Mutex::new(Found::default());
        walk(&self.root, &self.leave, &self.cancel).build_parallel().run(|| {
            let mut searcher = SearcherBuilder::new()
                .binary_detection(BinaryDetection::quit(0))
                .heap_limit(Some(MAX_HEAP))
                .line_number(true)
                .build();
            let found = &found;
            Box::new(move |entry| match entry {
                Ok(entry) => self.visit(&entry, &mut searcher, found),
                Err(_) => WalkState::Continue,
            })
        });
        if self.cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        Ok(found.into_inner().unwrap_or_else(PoisonError::into_inner).render())
    }

    fn visit(&self, entry: &DirEntry, searcher: &mut Searcher, found: &Mutex<Found>) -> WalkState {
        if self.cancel.is_cancelled() {
            return WalkState::Quit;
        }
        if lock(found).is_behind(entry.path()) {
            return WalkState::Skip;
        }
        if self.leave.is_private(entry.path()) {
            return WalkState::Skip;
        }
        if entry.file_type().is_some_and(|kind| kind.is_file()) && self.includes(entry.path()) {
            let lines = self.search(searcher, entry.path());
            if !lines.is_empty() {
                // Asked of files that match alone: they are few.
                let shown = self.leave.has("read", &files::relative(entry.path(), &self.worktree));
                let mut found = lock(found);
                if shown { found.add(entry.path(), lines) } else { found.leave_out(entry.path()) }
            }
        }
        WalkState::Continue
    }

    fn includes(&self, path: &Path) -> bool {
        self.include.as_ref().is_none_or(|include| {
            let below = path.strip_prefix(&self.root).ok().filter(|below| !below.as_os_str().is_empty());
            include.is_match(below.unwrap_or(path))
        })
    }

    /// The lines of a file that match, and at most one more than are shown.
    fn search(&self, searcher: &mut Searcher, path: &Path) -> Vec<String> {
        let mut lines = Vec::new();
        let take = |number, line: &str| {
            lines.push(format!("  {number}: {}", output::cut_line(line.trim_end(), MAX_LINE)));
            Ok(lines.len() <= MAX_MATCHES)
        };
        // What cannot be read is skipped, as a search over many files must. Opened as all files are: a folder may have
        // become a symlink since it was walked.
        let searched = files::open_known(path).map_err(|error| error.to_string()).and_then(|(file, _)| {
            let reader = Heeding { file, cancel: &self.cancel };
            searcher.search_reader(&self.matcher, reader, Lossy(take)).map_err(|error| error.to_string())
        });
        if let Err(error) = searched {
            tracing::debug!(%error, path = %path.display(), "not searched");
        }
        lines
    }
}

/// A file that ends when the search is over: a large one, or a slow pattern, is not searched to its end for nobody.
struct Heeding<'a> {
    file: File,
    cancel: &'a CancellationToken,
}

impl io::Read for Heeding<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() { Ok(0) } else { self.file.read(buffer) }
    }
}

/// What was found first, in order of names: the same every time, however the search is shared out.
#[derive(Default)]
struct Found {
    files: BTreeMap<PathBuf, Vec<String>>,
    lines: usize,
    /// The first file that matches and may not be shown.
    left_out: Option<PathBuf>,
}

impl Found {
    fn add(&mut self, path: &Path, lines: Vec<String>) {
        if self.is_behind(path) {
            return;
        }
        self.lines += lines.len();
        self.files.insert(path.to_owned(), lines);
        // As many of the last ones go as can while there is still more than is shown.
        while let Some(last) = self.files.last_entry()
            && self.lines - last.get().len() > MAX_MATCHES
        {
            self.lines -= last.remove().len();
        }
    }

    fn leave_out(&mut self, path: &Path) {
        if self.left_out.as_deref().is_none_or(|first| path < first) {
            self.left_out = Some(path.to_owned());
        }
    }

    /// Whether nothing at this path, or below it, would be shown.
    fn is_behind(&self, path: &Path) -> bool {
        self.lines > MAX_MATCHES && self.files.last_key_value().is_some_and(|(last, _)| path > last.as_path())
    }

    fn render(self) -> String {
        let left_out = self.left_out.as_ref().filter(|path| !self.is_behind(path)).is_some();
        let mut text = String::new();
        let mut left = MAX_MATCHES;
        for (path, lines) in &self.files {
            text.push_str(&format!("{}:\n", path.display()));
            for line in lines.iter().take(left) {
                text.push_str(line);
                text.push('\n');
            }
            left = left.saturating_sub(lines.len());
            if left == 0 {
                break;
            }
        }
        if self.lines > MAX_MATCHES {
            text.push_str(&format!("\n(only the first {MAX_MATCHES} matches are shown: narrow the search)\n"));
        }
        if text.is_empty() {
            text.push_str("nothing matches");
        }
        if left_out {
            text.push_str("\n(files that need leave to be read were left out)\n");
        }
        text
    }
}

/// A panic elsewhere leaves nothing half-done here.
fn lock(found: &Mutex<Found>) -> MutexGuard<'_, Found> {
    found.lock().unwrap_or_else(PoisonError::into_inner)
}
