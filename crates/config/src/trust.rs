//! Settings that come with a repository are data until somebody trusts them, by their content.
//!
//! What is trusted is a hash over every file concerned, and every file those name. A file that is changed, added or
//! taken away makes another hash, and it starts anew. Until then a repository may describe agents, add instructions and
//! forbid things; what would reach further is left out, and said.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::document::{Field, Node, Value};
use crate::gather::Gathered;
use crate::hash::Hasher;
use crate::read::{Reading, read_text};
use crate::{Error, Paths, private};

/// Somebody looked at these settings and wants them to count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trusted {
    /// The root of the repository.
    pub root: PathBuf,
    /// Of every file concerned.
    pub hash: String,
    /// When, in milliseconds since 1970.
    pub at: u64,
}

/// What of a repository concerns its settings, seen from a directory in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Repository {
    pub root: PathBuf,
    /// Every file that would count.
    pub files: Vec<PathBuf>,
    pub hash: String,
    pub trusted: bool,
}

/// All that is trusted. A list that cannot be read trusts nobody.
pub(crate) fn list(paths: &Paths, reading: &mut Reading) -> Vec<Trusted> {
    let text = match read_text(&paths.trust(), reading) {
        Ok(text) => text.unwrap_or_default(),
        Err(error) => {
            reading.warn(format!("{}; no repository is trusted", error.message));
            return Vec::new();
        }
    };
    if text.is_empty() {
        return Vec::new();
    }
    serde_json::from_str(&text).unwrap_or_else(|cause| {
        let name = paths.trust().display().to_string();
        reading.warn(format!("{name}: damaged, so no repository is trusted ({cause}); run `convoke trust` again"));
        Vec::new()
    })
}

/// Over the files of a repository and what they name.
pub(crate) fn hash(gathered: &Gathered, named: &[(PathBuf, String)]) -> String {
    let mut hasher = Hasher::default();
    let files = gathered.foreign().map(|sheet| (&sheet.file, &sheet.text));
    for (file, text) in files.chain(named.iter().map(|(file, text)| (file, text))) {
        hasher.add(file.as_os_str().as_encoded_bytes());
        hasher.add(text.as_bytes());
    }
    hasher.finish()
}

/// Remembers that these settings may count.
pub(crate) fn add(paths: &Paths, root: &Path, hash: &str) -> Result<(), Error> {
    change(paths, |list| {
        list.retain(|trusted| trusted.root != root || trusted.hash != hash);
        // Several directories of one repository can have settings of their own; older states of it are of no use.
        let of_root = list.iter().filter(|trusted| trusted.root == root).count();
        if of_root >= MOST_OF_ONE
            && let Some(oldest) = list.iter().position(|trusted| trusted.root == root)
        {
            list.remove(oldest);
        }
        list.push(Trusted { root: root.to_owned(), hash: hash.to_owned(), at: now() });
    })
}

/// Forgets a repository. False when it was not known.
pub(crate) fn revoke(paths: &Paths, root: &Path) -> Result<bool, Error> {
    let mut known = false;
    change(paths, |list| {
        known = list.iter().any(|trusted| trusted.root == root);
        list.retain(|trusted| trusted.root != root);
    })?;
    Ok(known)
}

/// States of one repository that are remembered.
const MOST_OF_ONE: usize = 32;

fn change(paths: &Paths, change: impl FnOnce(&mut Vec<Trusted>)) -> Result<(), Error> {
    let held = private::hold(&paths.trust())?;
    let mut all = list(paths, &mut Reading::default());
    change(&mut all);
    held.write(&serde_json::to_string_pretty(&all).expect("a list of texts is JSON"))
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Takes out of untrusted settings what they may not set, and says so.
pub(crate) fn narrow(root: &mut Node, warnings: &mut Vec<String>) {
    let Value::Object(fields) = &mut root.value else { return };
    fields.retain_mut(|field| match field.key.as_str() {
        "$schema" | "instructions" => true,
        "permission" => rules(field, warnings),
        "agent" => {
            let Value::Object(agents) = &mut field.node.value else { return refuse(field, warnings) };
            agents.iter_mut().for_each(|agent| narrow_agent(&mut agent.node, warnings));
            true
        }
        _ => refuse(field, warnings),
    });
}

/// What says something about an agent without letting it do more.
const OF_AGENTS: &[&str] = &["description", "prompt", "steps", "temperature", "color"];

fn narrow_agent(agent: &mut Node, warnings: &mut Vec<String>) {
    let Value::Object(fields) = &mut agent.value else { return };
    fields.retain_mut(|field| match field.key.as_str() {
        "permission" => rules(field, warnings),
        key if OF_AGENTS.contains(&key) => true,
        // A file of another program, where it says no more than the directory it is in.
        "mode" if field.node.text() == Ok("subagent") => true,
        _ => refuse(field, warnings),
    });
}

/// Rules of a repository only ever narrow: they are kept apart and the stricter answer counts. An `allow` that is meant
/// to open something does nothing.
fn rules(field: &Field, warnings: &mut Vec<String>) -> bool {
    let mut opens = false;
    visit(&field.node, &mut |node| opens |= node.text() == Ok("allow"));
    if opens {
        let line = field.place.line();
        let path = &field.node.path;
        warnings.push(format!("{line}: `{path}` can forbid, but allows nothing until `convoke trust` is run there"));
    }
    true
}

fn visit(node: &Node, each: &mut impl FnMut(&Node)) {
    each(node);
    match &node.value {
        Value::List(items) | Value::Layers(items) => items.iter().for_each(|item| visit(item, each)),
        Value::Object(fields) => fields.iter().for_each(|field| visit(&field.node, each)),
        Value::Null | Value::Flag(_) | Value::Number(_) | Value::Text(_) => {}
    }
}

fn refuse(field: &Field, warnings: &mut Vec<String>) -> bool {
    let (line, path) = (field.place.line(), crate::document::excerpt(&field.node.path));
    warnings.push(format!("{line}: `{path}` is ignored until `convoke trust` is run there"));
    false
}
