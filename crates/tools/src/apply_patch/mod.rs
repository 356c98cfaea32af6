//! `apply_patch`: changes of several files, all or none.

mod patch;
#[cfg(test)]
mod tests;

use crate::files::{self, Draft, MAX_EDITED, Purpose, Seen, Stamp, State, Text};
use crate::journal::Page;
use crate::{Access, Error, Output, Spec, Tool, ToolCx};
use async_trait::async_trait;
use patch::Change;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::path::{Path, PathBuf};

pub struct ApplyPatch;

/// Bytes of all new files together: they are held until all of them are known to fit.
const MAX_HELD: u64 = 4 * MAX_EDITED;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The patch, from `*** Begin Patch` to `*** End Patch`.
    #[serde(alias = "input", alias = "patchText", alias = "patch_text")]
    patch: String,
}

/// What a reader of the result can rely on.
#[derive(Debug, Serialize)]
struct Facts {
    changed: Vec<String>,
}

#[async_trait]
impl Tool for ApplyPatch {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>("apply_patch", include_str!("prompt.md")).aliases(&["ApplyPatch"]).permission("edit")
    }

    /// Every file it names. A patch that cannot be read names none, and is refused when it runs.
    fn access(&self, args: &Args, cx: &ToolCx) -> Vec<Access> {
        let changes = patch::parse(&args.patch).unwrap_or_default();
        let of = |change| {
            let of_path = move |path| accesses(change, path, &files::resolve(path, &cx.dir), cx);
            Change::paths(change).flat_map(of_path)
        };
        changes.iter().flat_map(of).collect()
    }

    fn preview(&self, args: &Args, cx: &ToolCx) -> Option<String> {
        let changes = patch::parse(&args.patch).ok()?;
        let resolved = |path: &str| (path.to_owned(), files::resolve(path, &cx.dir));
        let places: Places = changes.iter().flat_map(Change::paths).map(resolved).collect();
        let writes = planned(&changes, &places, cx).ok()?;
        let diff = |write: &Write| {
            let text = |bytes: Vec<u8>| Text::decode(bytes).map(|text| text.body);
            let before = match &write.before {
                Some(found) if found.len() > MAX_EDITED => return None,
                Some(_) => Some(text(files::contents(&write.path).ok()?)?),
                None => None,
            };
            let after = match &write.bytes {
                Some(bytes) => Some(text(bytes.clone())?),
                None => None,
            };
            let name = files::relative(&write.path, &cx.worktree);
            Some(files::unified(&name, before.as_deref(), after.as_deref()))
        };
        writes.iter().map(diff).collect()
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> Result<Output, Error> {
        let apply = move |cx: &ToolCx| {
            let changes = patch::parse(&args.patch).map_err(Error::tell)?;
            // Resolved once: what is permitted here is what is touched below.
            let resolved = |path: &str| (path.to_owned(), files::resolve(path, &cx.dir));
            let places: Places = changes.iter().flat_map(Change::paths).map(resolved).collect();
            for change in &changes {
                for path in change.paths() {
                    files::permitted(&accesses(change, path, &places[path], cx), cx)?;
                    cx.processes.give_way(&places[path]);
                }
            }
            apply(&changes, &places, cx)
        };
        let (text, facts) = files::blocking("apply_patch", cx, apply).await?;
        Ok(Output::text(text).with(&facts))
    }
}

/// What one file of a change asks for.
fn accesses(change: &Change, path: &str, place: &Path, cx: &ToolCx) -> Vec<Access> {
    let mut accesses = match change {
        Change::Update { path: of, .. } if of == path => files::changes(place, cx, cx.rules()),
        Change::Add { .. } | Change::Delete { .. } | Change::Update { .. } => {
            files::accesses("edit", place, Purpose::Write, cx)
        }
    };
    accesses.extend(files::by_name("edit", path, &cx.dir, cx));
    accesses
}

/// Where each path that a patch names leads.
type Places = BTreeMap<String, PathBuf>;

/// One file as it is to be; without bytes it goes.
struct Write {
    path: PathBuf,
    before: Option<Metadata>,
    bytes: Option<Vec<u8>>,
    told: String,
}

fn apply(changes: &[Change], places: &Places, cx: &ToolCx) -> Result<(String, Facts), Error> {
    let _alone = cx.files.writing();
    let writes = planned(changes, places, cx)?;
    let mut paths = BTreeSet::new();
    if let Some(twice) = writes.iter().find(|write| !paths.insert(&write.path)) {
        return Err(Error::tell(format!("`{}` is changed twice: put its changes together", twice.path.display())));
    }
    let page = cx.page();
    // Everything fits: from here on only the disk can say no. What needs room on it comes first, for all files.
    let mut drafts = Together(Vec::with_capacity(writes.len()));
    for write in &writes {
        drafts.0.push(write.draft(&page)?);
    }
    drafts.0.iter_mut().try_for_each(Draft::stage)?;
    for (done, draft) in drafts.0.iter_mut().enumerate() {
        if let Err(error) = draft.finish() {
            return Err(Error::tell(format!("{error}{}", take_back(&writes[..done], cx))));
        }
    }
    let (mut told, mut changed) = (String::new(), Vec::new());
    for write in &writes {
        if let (Some(_), Ok(Some(now))) = (&write.bytes, files::found(&write.path)) {
            cx.files.note(&write.path, Stamp::of(&now));
        }
        told.push_str(&write.told);
        told.push('\n');
        changed.push(files::relative(&write.path, &cx.worktree));
    }
    Ok((told, Facts { changed }))
}

/// What all of it comes to on the disk.
fn planned(changes: &[Change], places: &Places, cx: &ToolCx) -> Result<Vec<Write>, Error> {
    let mut writes: Vec<Write> = Vec::new();
    for change in changes {
        writes.extend(plan(change, places, cx)?);
        let held: usize = writes.iter().filter_map(|write| write.bytes.as_ref()).map(Vec::len).sum();
        if held as u64 > MAX_HELD {
            return Err(Error::tell("the files of this patch are too large together: make several patches of it"));
        }
    }
    Ok(writes)
}

/// Puts back what was changed before something failed that hardly ever does, and tells what stayed.
fn take_back(done: &[Write], cx: &ToolCx) -> String {
    let calls = std::collections::HashSet::from([cx.call.as_str()]);
    let undone =
        if done.is_empty() { Ok(Vec::new()) } else { cx.journal.put_all_back(&calls, &format!("back_{}", cx.call)) };
    let left: Vec<String> = match undone {
        Ok(files) => files.into_iter().filter(|file| file.reason.is_some()).map(|file| file.path).collect(),
        Err(_) => done.iter().map(|write| write.path.display().to_string()).collect(),
    };
    if left.is_empty() { "; nothing was changed".into() } else { format!("; changed before that: {}", left.join(", ")) }
}

/// Given up the newest first: a folder that was made for several files goes with the last of them.
struct Together(Vec<Draft>);

impl Drop for Together {
    fn drop(&mut self) {
        while let Some(newest) = self.0.pop() {
            drop(newest);
        }
    }
}

impl Write {
    fn draft(&self, page: &Page) -> Result<Draft, Error> {
        match (&self.bytes, &self.before) {
            (Some(bytes), before) => Draft::write(&self.path, bytes, before.as_ref(), None, page),
            (None, before) => {
                let before = before.as_ref().expect("what goes was there");
                Draft::remove(&self.path, before, 0, page)
            }
        }
    }
}

/// What one change comes to on the disk, or why it cannot be.
fn plan(change: &Change, places: &Places, cx: &ToolCx) -> Result<Vec<Write>, Error> {
    let (worktree, seen) = (&cx.worktree, &cx.files);
    let at = |path: &str| places[path].clone();
    let shown = |path: &Path| files::relative(path, worktree);
    match change {
        Change::Add { path, body } => {
            let path = new(at(path))?;
            let told = format!("added `{}`", shown(&path));
            Ok(vec![Write { path, before: None, bytes: Some(body.clone().into_bytes()), told }])
        }
        Change::Delete { path } => {
            let path = at(path);
            let before = known(&path, seen)?;
            let told = format!("deleted `{}`", shown(&path));
            Ok(vec![Write { path, before: Some(before), bytes: None, told }])
        }
        Change::Update { path, to, hunks } => {
            let path = at(path);
            let before = known(&path, seen)?;
            let tell = |why: String| Error::tell(format!("`{}`: {why}", path.display()));
            if before.len() > MAX_EDITED {
                return Err(tell("too large to be changed here: use `bash`".into()));
            }
            let bytes = files::contents(&path)?;
            let text = Text::decode(bytes).ok_or_else(|| tell("not UTF-8 text: use `bash`".into()))?;
            let body = patch::apply(&text.body, hunks, &cx.cancel).map_err(tell)?;
            let bytes = Some(text.encode(&body));
            let Some(to) = to.as_deref().map(at).filter(|to| *to != path) else {
                let told = format!("updated `{}`", shown(&path));
                return Ok(vec![Write { path, before: Some(before), bytes, told }]);
            };
            let to = new(to)?;
            let told = format!("moved `{}` to `{}`", shown(&path), shown(&to));
            // The new one first: a crash in between leaves both, and never neither.
            let made = Write { path: to, before: None, bytes, told };
            Ok(vec![made, Write { path, before: Some(before), bytes: None, told: String::new() }])
        }
    }
}

fn new(path: PathBuf) -> Result<PathBuf, Error> {
    match std::fs::symlink_metadata(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(path),
        _ => Err(Error::tell(format!("`{}` exists: update it instead", path.display()))),
    }
}

fn known(path: &Path, seen: &Seen) -> Result<Metadata, Error> {
    let before = files::regular(path)?;
    if seen.state(path, Stamp::of(&before)) == State::Changed {
        return Err(Error::tell(format!("`{}` was changed since you read it: read it again", path.display())));
    }
    Ok(before)
}
