//! `grep`: lines that match a regular expression, by ripgrep's own engine.

#[cfg(test)]
mod tests;

use crate::files::{self, Purpose};
use crate::walk::{pattern, walk};
use crate::{Access, Error, Output, Spec, Tool, ToolCx, output};
use async_trait::async_trait;
use globset::GlobMatcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::sinks::Lossy;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

pub struct Grep;

const MAX_MATCHES: usize = 100;
/// Characters shown of one line.
const MAX_LINE: usize = 400;
/// Memory for one line of a file; a file with a longer one is left out.
const MAX_HEAP: usize = 16 << 20;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// Regular expression to look for in each line.
    #[serde(alias = "query", alias = "regex")]
    pattern: String,
    /// The folder or file to look in; the working directory unless given.
    #[serde(default, alias = "filePath", alias = "file_path", alias = "dir", alias = "directory")]
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
        accesses
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> Result<Output, Error> {
        let search = Search {
            root: files::resolve(args.path.as_deref().unwrap_or("."), &cx.dir),
            matcher: RegexMatcherBuilder::new().line_terminator(Some(b'\n')).build(&args.pattern).map_err(|error| {
                Error::tell(format!("bad pattern: {error}. Escape characters that are meant literally with `\\`"))
            })?,
            include: args
                .include
                .as_deref()
                .filter(|include| !include.is_empty())
                .map(pattern)
                .transpose()
                .map_err(|error| Error::tell(format!("bad `include`: {error}")))?,
            cancel: cx.cancel.clone(),
        };
        let found = files::blocking("grep", move || search.run()).await?;
        Ok(Output::text(output::cut(found, cx).await))
    }
}

struct Search {
    root: PathBuf,
    matcher: RegexMatcher,
    include: Option<GlobMatcher>,
    cancel: CancellationToken,
}

impl Search {
    fn run(&self) -> Result<String, Error> {
        std::fs::metadata(&self.root).map_err(|error| files::missing(&self.root, &error))?;
        let mut searcher = SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(MAX_HEAP))
            .line_number(true)
            .build();
        let mut text = String::new();
        let mut left = MAX_MATCHES + 1;
        // In order of names, so that what is cut off is the same every time.
        for entry in walk(&self.root).sort_by_file_path(Path::cmp).build().flatten() {
            if self.cancel.is_cancelled() {
                return Err(Error::Cancelled);
            }
            if !entry.file_type().is_some_and(|kind| kind.is_file()) || !self.includes(entry.path()) {
                continue;
            }
            self.search(&mut searcher, entry.path(), &mut left, &mut text);
            if left == 0 {
                text.push_str(&format!("\n(only the first {MAX_MATCHES} matches are shown: narrow the search)\n"));
                break;
            }
        }
        Ok(if text.is_empty() { "nothing matches".into() } else { text })
    }

    fn includes(&self, path: &Path) -> bool {
        let below = path.strip_prefix(&self.root).ok().filter(|below| !below.as_os_str().is_empty());
        self.include.as_ref().is_none_or(|include| include.is_match(below.unwrap_or(path)))
    }

    fn search(&self, searcher: &mut Searcher, path: &Path, left: &mut usize, text: &mut String) {
        let mut named = false;
        let mut take = |number, line: &str| {
            *left -= 1;
            // One more than is shown was only looked for to know that there is more.
            if *left > 0 {
                if !named {
                    text.push_str(&format!("{}:\n", path.display()));
                    named = true;
                }
                text.push_str(&format!("  {number}: {}\n", output::cut_line(line.trim_end(), MAX_LINE)));
            }
            Ok(*left > 0)
        };
        // What cannot be read is skipped, as a search over many files must.
        if let Err(error) = searcher.search_path(&self.matcher, path, Lossy(&mut take)) {
            tracing::debug!(%error, path = %path.display(), "not searched");
        }
    }
}
