//! Eight layers in, one set of settings out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::document::{self, Node, Value};
use crate::expand::{self, Expander, Rules};
use crate::files::agents::Names;
use crate::files::skills::Skill;
use crate::files::{agents, commands, instructions, skills};
use crate::gather::{Gather, Gathered, Kind, Sheet, Spot};
use crate::hash::Hasher;
use crate::layer::{Layer, Source};
use crate::merge::merge;
use crate::read::{MOST_OF_ALL, Reader, Readers, Reading, refused};
use crate::section::{Stray, repeated};
use crate::trust::{self, Repository};
use crate::{Commands, Config, Environment, Error, Instructions, Keys, Loaded, Paths, auth, read_sections, sandbox};

/// More warnings than this help nobody.
const MOST_WARNINGS: usize = 50;

pub(crate) fn resolve(
    paths: &Paths,
    env: &Environment,
    spot: Option<Spot<'_>>,
    readers: Readers<'_>,
) -> Result<Loaded, Error> {
    let mut reading = Reading::default();
    let mut gathered = Gather { paths, env, reading: &mut reading }.all(spot)?;
    let repository = judge(paths, env, &mut gathered, &mut reading);
    let may_read = readers(&rules_alone(env, &gathered)?);
    let at = gathered.root();
    let mut laying = Laying::new(env, reading, at.as_deref().map(|root| (root, &may_read)));
    for sheet in &gathered.sheets {
        laying.sheet(sheet)?;
    }
    laying.remind();
    let Laying { mut reading, root, commands, skills, .. } = laying;
    let mut loaded = read_sections(&root)?;
    loaded.keys = auth::read(paths, &mut reading).unwrap_or_else(|error| {
        reading.warn(format!("{}; no key of it is used ({})", error.message, error.hint));
        Keys::new()
    });
    loaded.instructions = instructions(paths, &gathered, &root, &may_read, &mut reading);
    reading.warnings.append(&mut loaded.warnings);
    loaded.warnings = shortened(reading.warnings);
    loaded.text_hash = text_hash(&gathered);
    loaded.variables = variables(&gathered);
    loaded.commands = commands;
    loaded.skills = skills.into_values().collect();
    loaded.repository = repository;
    loaded.seen = reading.seen;
    loaded.weight = reading.spent.min(MOST_OF_ALL);
    loaded.tree = Tree(root);
    Ok(loaded)
}

/// The settings without what a repository puts into them from files: enough to know the rules, which say what it may.
fn rules_alone(env: &Environment, gathered: &Gathered) -> Result<Config, Error> {
    if gathered.chain.is_empty() {
        return Ok(Config::default());
    }
    let nothing: Reader = Box::new(|_, _| false);
    let root = gathered.root();
    let mut laying = Laying::new(env, Reading::default(), root.as_deref().map(|root| (root, &nothing)));
    for sheet in gathered.sheets.iter().filter(|sheet| sheet.kind == Kind::Settings) {
        laying.sheet(sheet)?;
    }
    Ok(read_sections(&laying.root)?.config)
}

/// What of the repository around a directory would count.
pub(crate) fn repository(paths: &Paths, env: &Environment, directory: &Path) -> Result<Option<Repository>, Error> {
    let mut reading = Reading::default();
    let mut gathered = Gather { paths, env, reading: &mut reading }.all(Some(directory.into()))?;
    Ok(judge(paths, env, &mut gathered, &mut reading))
}

/// The settings as one tree. Not printed: it holds keys.
#[derive(Clone)]
pub(crate) struct Tree(pub(crate) Node);

impl Default for Tree {
    fn default() -> Self {
        Self(empty())
    }
}

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tree(…)")
    }
}

pub(crate) fn empty() -> Node {
    let source = Source::text(Layer::Builtin, "builtin.jsonc", Path::new(""));
    Node::new(String::new(), document::place(&source, "", 0), Value::Object(Vec::new()))
}

/// Looks at what came with the repository. What is trusted is the user's own from here on.
fn judge(paths: &Paths, env: &Environment, gathered: &mut Gathered, reading: &mut Reading) -> Option<Repository> {
    let root = gathered.root()?;
    let files: Vec<PathBuf> = gathered.foreign().map(|sheet| sheet.file.clone()).collect();
    if files.is_empty() {
        return None;
    }
    let hash = trust::hash(gathered, &named_files(env, gathered, reading));
    let list = trust::list(paths, reading);
    let trusted = list.iter().any(|trusted| trusted.root == root && trusted.hash == hash);
    if trusted {
        for sheet in gathered.sheets.iter_mut().filter(|sheet| sheet.source.repository.is_some()) {
            sheet.source = Arc::new(Source { repository: None, ..(*sheet.source).clone() });
        }
    }
    Some(Repository { root, files, hash, trusted })
}

/// What the files of a repository name by `{file:…}`: it is a part of what is trusted. What does not parse names none.
fn named_files(env: &Environment, gathered: &Gathered, reading: &mut Reading) -> Vec<(PathBuf, String)> {
    let mut named = Vec::new();
    for sheet in gathered.foreign().filter(|sheet| sheet.text.contains("{file:")) {
        let mut quiet = Reading { spent: reading.spent, ..Reading::default() };
        let mut expander = Expander { env, reading: &mut quiet, within: None, rules: None, named: Vec::new() };
        let node = match &sheet.kind {
            Kind::Settings => document::parse(&sheet.source, &sheet.text).ok(),
            Kind::Agent { style, .. } => {
                let read = agents::read(&sheet.source, &sheet.text, &sheet.file, *style, &mut Vec::new());
                read.ok().map(|(_, node)| node)
            }
            Kind::Command { .. } | Kind::Skill => None,
        };
        if let Some(mut node) = node {
            let _ = expander.expand(&mut node);
        }
        named.append(&mut expander.named);
        reading.seen.append(&mut quiet.seen);
        // What did not fit here is not read later either: nothing is used that is not a part of what is trusted.
        reading.spent = quiet.spent;
    }
    named
}

struct Laying<'a> {
    env: &'a Environment,
    /// The repository, and what its files may show of it.
    of: instructions::From<'a>,
    reading: Reading,
    root: Node,
    commands: Commands,
    skills: BTreeMap<String, Skill>,
    /// The names of agents at each place.
    names: BTreeMap<PathBuf, Names>,
    /// Commands and skills of a repository that is not trusted.
    waiting: Vec<String>,
}

impl<'a> Laying<'a> {
    fn new(env: &'a Environment, reading: Reading, of: instructions::From<'a>) -> Self {
        let (commands, skills, names) = (Commands::new(), BTreeMap::new(), BTreeMap::new());
        Self { env, of, reading, root: empty(), commands, skills, names, waiting: Vec::new() }
    }

    /// Says once what does not count yet.
    fn remind(&mut self) {
        let more = match self.waiting.len() {
            0 => return,
            1 => String::new(),
            all => format!(" and {} more", all - 1),
        };
        let what = "commands and skills of a repository count once you trust it (`convoke trust`)";
        self.reading.warn(format!("{}{more}: {what}", self.waiting[0]));
    }

    fn sheet(&mut self, sheet: &Sheet) -> Result<(), Error> {
        if sheet.kind != Kind::Settings
            && let (Some(root), Some((_, may_read))) = (&sheet.source.came_with, self.of)
            && refused(&sheet.file, root, may_read, &mut self.reading)
        {
            return Ok(());
        }
        match &sheet.kind {
            Kind::Settings => {
                let mut node = document::parse(&sheet.source, &sheet.text)?;
                if sheet.of_repository && sheet.source.repository.is_none() {
                    whole_gateway(&mut node, &mut self.reading.warnings);
                }
                self.lay(node, &sheet.source)
            }
            Kind::Agent { style, base } => {
                let warnings = &mut self.reading.warnings;
                let read = agents::read(&sheet.source, &sheet.text, &sheet.file, *style, warnings);
                let laid =
                    read.map_err(|error| format!("{} ({})", error.message, error.hint)).and_then(|(name, node)| {
                        self.names.entry(base.clone()).or_default().take(&name, &sheet.source.name)?;
                        let laid = self.lay(node, &sheet.source);
                        laid.map_err(|error| format!("{} ({})", error.message, error.hint))
                    });
                if let Err(why) = laid {
                    let counts = why.ends_with("this one is left out");
                    self.reading.warn(if counts { why } else { format!("{why}; this agent is left out") });
                }
                Ok(())
            }
            Kind::Command { .. } | Kind::Skill if sheet.source.repository.is_some() => {
                self.waiting.push(sheet.source.name.clone());
                Ok(())
            }
            Kind::Skill => {
                match skills::read(&sheet.source, &sheet.text, &sheet.file) {
                    Ok(skill) if self.skills.len() >= skills::MOST && !self.skills.contains_key(&skill.name) => {
                        let (name, most) = (&sheet.source.name, skills::MOST);
                        self.reading.warn(format!("{name}: left out, as there are {most} skills already"));
                    }
                    Ok(skill) => drop(self.skills.insert(skill.name.clone(), skill)),
                    Err(error) => {
                        self.reading.warn(format!("{} ({}); this skill is left out", error.message, error.hint));
                    }
                }
                Ok(())
            }
            Kind::Command { style, folder } => {
                match commands::read(&sheet.source, &sheet.text, &sheet.file, folder, *style) {
                    Ok(command) => drop(self.commands.insert(command.name.clone(), command)),
                    Err(error) => {
                        self.reading.warn(format!("{} ({}); this command is left out", error.message, error.hint));
                    }
                }
                Ok(())
            }
        }
    }

    fn lay(&mut self, mut node: Node, source: &Source) -> Result<(), Error> {
        let untrusted = source.repository.as_deref();
        repeated(&node, &mut self.reading.warnings);
        if untrusted.is_some() {
            trust::narrow(&mut node, &mut self.reading.warnings);
        }
        let rules = self.of.map(|(root, may_read)| Rules { root, may_read, all: source.came_with.is_some() });
        let (env, reading) = (self.env, &mut self.reading);
        let mut expander = Expander { env, reading, within: untrusted, rules, named: Vec::new() };
        expander.expand(&mut node)?;
        merge(&mut self.root, node);
        Ok(())
    }
}

/// Settings of a whole gateway, which serves many directories: one of these cannot change them, trusted or not.
const WHOLE_GATEWAY: &[&str] = &["limits", "peers", "inbound", "tls", "organisation", "session", "tools", "worktree"];

/// The same further down.
const PARTS: &[(&str, &[&str])] =
    &[("sandbox", &["isolated", "sessionToolsVisibility"]), ("hooks", &["worktree_create", "worktree_remove"])];

fn whole_gateway(root: &mut Node, warnings: &mut Vec<String>) {
    take_out(root, WHOLE_GATEWAY, warnings);
    let Value::Object(fields) = &mut root.value else { return };
    for (section, keys) in PARTS {
        if let Some(section) = fields.iter_mut().find(|field| field.key == *section) {
            take_out(&mut section.node, keys, warnings);
        }
    }
}

fn take_out(node: &mut Node, keys: &[&str], warnings: &mut Vec<String>) {
    let Value::Object(fields) = &mut node.value else { return };
    fields.retain(|field| {
        let taken = keys.contains(&field.key.as_str());
        if taken {
            let (line, path) = (field.place.line(), &field.node.path);
            let what = "holds for a whole gateway, which reads it from your own settings and not from a repository";
            warnings.push(format!("{line}: `{path}` {what}"));
        }
        !taken
    });
}

/// The user's first, then those that settings name, then those of the directories, the nearest last.
fn instructions(
    paths: &Paths,
    gathered: &Gathered,
    root: &Node,
    may_read: &Reader,
    reading: &mut Reading,
) -> Vec<Instructions> {
    let mut found: Vec<Instructions> = instructions::of_directory(&paths.config, None, reading).into_iter().collect();
    let fields = root.fields().unwrap_or_default();
    let listed = fields.iter().find(|field| field.key == "instructions").map(|field| &field.node);
    for item in listed.and_then(|node| node.list().ok()).unwrap_or_default() {
        let Ok(file) = item.file() else { continue };
        let source = &item.place.source;
        let from = source.came_with.as_deref().map(|root| (root, may_read));
        found.extend(instructions::named(&file, source.repository.as_deref(), from, &item.place.line(), reading));
    }
    let root = gathered.root();
    let from = root.as_deref().map(|root| (root, may_read));
    let of = |directory: &PathBuf| instructions::of_directory(directory, from, reading);
    found.extend(gathered.chain.iter().filter_map(of));
    let mut seen = BTreeSet::new();
    found.retain(|instructions| seen.insert(instructions.file.clone()));
    instructions::fitting(found, reading)
}

/// Of everything but the repository: that belongs to a directory and not to a gateway.
fn text_hash(gathered: &Gathered) -> String {
    let mut hasher = Hasher::default();
    for sheet in gathered.sheets.iter().filter(|sheet| !sheet.of_repository) {
        hasher.add(sheet.source.name.as_bytes());
        hasher.add(sheet.text.as_bytes());
    }
    hasher.finish()
}

/// The same of the variables that they name.
fn variables(gathered: &Gathered) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for sheet in gathered.sheets.iter().filter(|sheet| !sheet.of_repository) {
        names.extend(expand::variables(&sheet.text).map(str::to_owned));
        let parsed = (sheet.kind == Kind::Settings).then(|| document::parse(&sheet.source, &sheet.text));
        names.extend(parsed.and_then(Result::ok).iter().flat_map(sandbox::passed));
    }
    names
}

fn shortened(mut warnings: Vec<String>) -> Vec<String> {
    if warnings.len() > MOST_WARNINGS {
        let more = warnings.len() - MOST_WARNINGS;
        warnings.truncate(MOST_WARNINGS);
        warnings.push(format!("and {more} more; mend these first"));
    }
    warnings
}

/// Whether a text could stand in the user's file: what is odd about it, and which keys nobody knows, or why it is refused.
pub(crate) fn check(source: &Arc<Source>, text: &str, env: &Environment) -> Result<(Vec<String>, Vec<Stray>), Error> {
    let mut laying = Laying::new(env, Reading::default(), None);
    laying.lay(document::parse(source, text)?, source)?;
    let loaded = read_sections(&laying.root)?;
    Ok((laying.reading.warnings.into_iter().chain(loaded.warnings).collect(), loaded.strays))
}

/// One text of the user alone, for tests of the sections.
#[cfg(test)]
pub(crate) fn parse(file: &str, text: &str, env: &Environment) -> Result<Loaded, Error> {
    let source = Source::named(file);
    let mut laying = Laying::new(env, Reading::default(), None);
    laying.lay(document::parse(&source, text)?, &source)?;
    let mut loaded = read_sections(&laying.root)?;
    loaded.warnings.splice(0..0, laying.reading.warnings);
    Ok(loaded)
}
