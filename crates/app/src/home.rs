//! A home as this process sees it: where things are, what the environment and the settings say.

use crate::failure::{Failure, cannot};
use crate::settings::{load_at, odd};
use crate::{names, organisation, providers, terminal};
use config::{Environment, Loaded, Paths};
use sha2::{Digest, Sha256};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(crate) struct Home {
    pub(crate) paths: Paths,
    pub(crate) env: Environment,
    pub(crate) loaded: Loaded,
}

impl Home {
    /// With what holds everywhere.
    pub(crate) fn open() -> Result<Self, Failure> {
        Self::with(config::load)
    }

    /// With what holds in a directory.
    pub(crate) fn open_at(directory: &Path) -> Result<Self, Failure> {
        Self::with(|paths, env| load_at(paths, env, directory))
    }

    /// With what holds where the command was typed.
    pub(crate) fn here() -> Result<Self, Failure> {
        Self::open_at(&current()?)
    }

    fn with(load: impl FnOnce(&Paths, &Environment) -> Result<Loaded, config::Error>) -> Result<Self, Failure> {
        let env = Environment::capture();
        let paths = Paths::resolve(&env)?;
        let stale = organisation::refresh(&paths, &env);
        let mut loaded = load(&paths, &env)?;
        loaded.warnings.extend(stale);
        Ok(Self { paths, env, loaded })
    }

    pub(crate) fn warn(&self) {
        let unfit = names::unfit(self);
        for warning in self.loaded.warnings.iter().chain(&odd(&self.loaded)).chain(&unfit) {
            terminal::say(&format!("warning: {}", warning.replace('\n', "\n  ")));
        }
    }

    /// Of everything that makes a gateway what it is: the program, its settings and its environment.
    pub(crate) fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        for part in
            [VERSION, &program_identity(), &self.env.fingerprint(|name| self.matters(name)), &self.loaded.text_hash]
        {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether a gateway would do something else with another value of this variable.
    fn matters(&self, name: &str) -> bool {
        let is_named = |known: &String| match known.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => known == name,
        };
        tools::process::is_listed(name) || providers::reads(name) || self.loaded.variables.iter().any(is_named)
    }

    /// Whether somebody asked for no colours.
    pub(crate) fn plain(&self) -> bool {
        is_plain(&self.env)
    }

    /// Whether a line on the terminal can be written once only.
    pub(crate) fn dumb(&self) -> bool {
        self.env.get("TERM").is_none_or(|term| term.is_empty() || term == "dumb")
    }

    /// Where a session without a directory works.
    pub(crate) fn user_directory(&self) -> PathBuf {
        self.env.home().unwrap_or_else(|| PathBuf::from("/"))
    }
}

/// Whether somebody asked for no colours.
pub(crate) fn is_plain(env: &Environment) -> bool {
    env.get("NO_COLOR").is_some_and(|value| !value.is_empty()) || env.get("TERM") == Some("dumb")
}

/// Where the command was typed.
pub(crate) fn current() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(|error| cannot("tell the current directory", &error))
}

/// This very program, though its file was replaced since it started.
pub(crate) fn program() -> PathBuf {
    let running = Path::new("/proc/self/exe");
    if running.exists() { running.to_owned() } else { std::env::current_exe().unwrap_or_else(|_| "convoke".into()) }
}

/// Two builds of one version differ in size or date.
fn program_identity() -> String {
    let meta = std::fs::metadata(program());
    meta.map(|meta| format!("{}.{}.{}", meta.len(), meta.mtime(), meta.mtime_nsec())).unwrap_or_default()
}
