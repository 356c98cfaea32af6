//! What holds where a session works: agents, models, instructions, commands. Read for each directory, and again when a
//! file has changed; who reads them stands behind a door.

use crate::agents::Agents;
use crate::grant::Grant;
use config::{Always, Instructions, Loaded};
use proto::{Action, Error, Rule};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use store::Session;

/// What holds in one directory.
#[derive(Clone)]
pub struct Here {
    pub agents: Arc<Agents>,
    pub models: Arc<llm::Models>,
    /// `provider/model` for sessions and agents that name none.
    pub default_model: String,
    /// Instructions, commands, skills, and where each setting came from.
    pub loaded: Arc<Loaded>,
}

/// Who knows what holds where. Answers at once: nothing is fetched.
pub trait Settings: Send + Sync {
    /// What holds in no directory in particular.
    fn global(&self) -> Arc<Here>;

    /// What holds in a place, as last read. Settings that cannot be read are an error that names file and line.
    fn at(&self, place: &Place) -> Result<Arc<Here>, Error>;

    /// The same, after a look whether a file has changed: for the start of something new.
    fn fresh(&self, place: &Place) -> Result<Arc<Here>, Error>;

    /// What a person answered with "always", in every project.
    fn always(&self) -> Vec<Always>;

    /// Keeps such an answer for a project: on disk when this returns, and once however often it is said.
    fn keep_always(&self, project: &Path, rules: &[Rule]) -> Result<(), Error>;

    /// Takes one back. False when there is none with this id.
    fn revoke_always(&self, id: &str) -> Result<bool, Error>;

    /// The file that keeps such answers.
    fn always_file(&self) -> Option<PathBuf> {
        None
    }

    /// A rule of the settings as it counts, with groups of tools (and `~`, where there is a home) written out.
    fn written_out(&self, rule: &Rule) -> Vec<Rule> {
        tools::groups::expand_rules(std::slice::from_ref(rule))
    }
}

/// Where a session works. Its project is what it was when the session began, or the worktree it went into: no file that
/// comes or goes makes it another, so that rules go on to mean what they were written for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub dir: PathBuf,
    /// The root of the project.
    pub project: PathBuf,
    /// The main checkout, where the project is another one of the same repository: its rules hold here too.
    pub main: Option<PathBuf>,
}

impl Place {
    /// Where a directory is now, for what begins there.
    pub fn found(dir: &Path) -> Self {
        let project = project(dir);
        let main = main_checkout(&project);
        Self { dir: dir.to_owned(), project, main }
    }

    pub(crate) fn of(row: &Session) -> Self {
        let (dir, grant) = (PathBuf::from(&row.cwd), Grant::read(&row.policy));
        if let Some(worktree) = row.worktree.as_ref().filter(|worktree| dir.starts_with(&worktree.path)) {
            let project = PathBuf::from(&worktree.path);
            let made_in = || crate::settings::project(Path::new(&worktree.original_cwd));
            let main = grant.main.or(grant.project).unwrap_or_else(made_in);
            return Self { main: Some(main).filter(|main| *main != project), dir, project };
        }
        match grant.project.filter(|project| dir.starts_with(project)) {
            Some(project) => Self { dir, project, main: grant.main },
            None => Self::found(&dir),
        }
    }

    /// The checkouts that count as one project, its own first.
    pub(crate) fn roots(&self) -> Vec<PathBuf> {
        std::iter::once(&self.project).chain(&self.main).cloned().collect()
    }
}

/// No link of git's is longer.
const LONGEST_LINK: u64 = 16 * 1024;

/// The main checkout of the repository that a linked one belongs to. The link must be known on the other side, as git
/// itself wants it.
fn main_checkout(project: &Path) -> Option<PathBuf> {
    let text = |path: &Path| foreign::read_text(path, LONGEST_LINK).ok();
    let link = project.join(".git");
    let own = project.join(text(&link)?.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?;
    let back = own.join(text(&own.join("gitdir"))?.trim_end()).canonicalize().ok()?;
    let common = own.join(text(&own.join("commondir"))?.trim_end()).canonicalize().ok()?;
    let belongs = back == link.canonicalize().ok()? && own.parent()? == common.join("worktrees");
    let main = common.parent().filter(|_| common.file_name().is_some_and(|name| name == ".git"))?;
    belongs.then(|| main.to_owned())
}

/// Repositories around a project, the nearest first: what they forbid, they forbid in a repository that was made inside
/// of them. One that git knows as a part of another one, a submodule or a linked worktree, is a project by itself.
pub fn around(project: &Path) -> Vec<PathBuf> {
    let roots = project.ancestors().skip(1).filter(|above| above.join(".git").exists());
    let roots: Vec<PathBuf> = roots.take(MOST_AROUND).map(Path::to_owned).collect();
    if roots.is_empty() || main_checkout(project).is_some() || is_submodule(project, &roots) {
        return Vec::new();
    }
    roots
}

/// Repositories within each other that are looked at.
const MOST_AROUND: usize = 8;

/// Whether one of these repositories keeps the git directory of a project among its modules.
fn is_submodule(project: &Path, around: &[PathBuf]) -> bool {
    let Ok(link) = foreign::read_text(&project.join(".git"), LONGEST_LINK) else { return false };
    let led = link.strip_prefix("gitdir:").and_then(|led| project.join(led.trim()).canonicalize().ok());
    let modules = |root: &PathBuf| root.join(".git/modules").canonicalize().ok();
    led.is_some_and(|led| around.iter().filter_map(modules).any(|modules| led.starts_with(modules)))
}

/// The repository that holds a directory, or the directory itself.
pub(crate) fn project(directory: &Path) -> PathBuf {
    directory.ancestors().find(|above| above.join(".git").exists()).unwrap_or(directory).to_owned()
}

impl Here {
    /// For what runs where settings can no longer be read. What they denied is not known, so everything is.
    pub(crate) fn closed(&self) -> Self {
        let mut agents = Agents::clone(&self.agents);
        agents.narrow(&[Rule::new("*", "*", Action::Deny)]);
        Self { agents: Arc::new(agents), ..self.clone() }
    }

    pub(crate) fn model(&self, name: &str) -> Result<(Arc<dyn llm::Provider>, llm::Model), Error> {
        self.models.resolve(name).map_err(|unknown| {
            let known = unknown.candidates.join(", ");
            let error = Error::not_found(unknown.message);
            if known.is_empty() { error } else { error.hint(format!("there is: {known}")) }
        })
    }

    /// A choice of a model by its whole name; one that fits nothing stays as it is, and is refused when it is used.
    pub(crate) fn full(&self, choice: &str) -> String {
        self.models.full(choice).unwrap_or_else(|| choice.to_owned())
    }

    /// What every agent here is told besides its own prompt. What came with a repository is left out where `may_read` says
    /// no.
    pub(crate) fn briefing(&self, may_read: impl Fn(&Path) -> bool) -> String {
        let mut text = String::new();
        let readable = |found: &&Instructions| found.came_with.as_deref().is_none_or(&may_read);
        for instructions in self.loaded.instructions.iter().filter(readable) {
            let file = instructions.file.display();
            text.push_str(&format!("\n\nInstructions of `{file}`:\n\n{}", instructions.text));
        }
        if !self.loaded.skills.is_empty() {
            text.push_str("\n\nSkills: descriptions of how something is done well. Read the file of one before you do what it is for.");
            for skill in &self.loaded.skills {
                text.push_str(&format!("\n- {} (`{}`): {}", skill.name, skill.path.display(), skill.description));
            }
        }
        text
    }
}

/// The same everywhere, for ever: what a test or a program without files has.
pub struct Fixed(Arc<Here>, Mutex<Vec<Always>>);

impl Fixed {
    pub fn new(agents: Agents, models: Arc<llm::Models>, default_model: &str) -> Arc<Self> {
        Self::with(agents, models, default_model, Loaded::default())
    }

    /// With settings beside those of agents and models.
    pub fn with(agents: Agents, models: Arc<llm::Models>, default_model: &str, loaded: Loaded) -> Arc<Self> {
        let (agents, default_model) = (Arc::new(agents), default_model.to_owned());
        let here = Here { agents, models, default_model, loaded: Arc::new(loaded) };
        Arc::new(Self(Arc::new(here), Mutex::default()))
    }
}

impl Settings for Fixed {
    fn global(&self) -> Arc<Here> {
        self.0.clone()
    }

    fn at(&self, _: &Place) -> Result<Arc<Here>, Error> {
        Ok(self.0.clone())
    }

    fn fresh(&self, _: &Place) -> Result<Arc<Here>, Error> {
        Ok(self.0.clone())
    }

    fn always(&self) -> Vec<Always> {
        self.1.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn keep_always(&self, project: &Path, rules: &[Rule]) -> Result<(), Error> {
        let mut kept = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        for Rule { permission, pattern, .. } in rules.iter().cloned() {
            let id = format!("{} {permission} {pattern}", project.display());
            kept.push(Always { id, project: project.to_owned(), permission, pattern, at: 0 });
        }
        Ok(())
    }

    fn revoke_always(&self, id: &str) -> Result<bool, Error> {
        let mut kept = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        let before = kept.len();
        kept.retain(|one| one.id != id);
        Ok(kept.len() < before)
    }
}

/// What settings add to the environment of commands.
pub fn wanted(env: &config::Env) -> tools::process::Wanted {
    let set = env.set.iter().map(|(name, value)| (name.clone(), value.expose().to_owned()));
    tools::process::Wanted { pass: env.pass.clone(), set: set.collect() }
}
