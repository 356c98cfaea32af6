//! Settings as a gateway uses them: read for each directory in which sessions work, and again when a file has changed.

use crate::{names, providers};
use config::{Always, Config, Environment, Loaded, Paths, Placed, Spot};
use proto::{Action, Error, Rule};
use session::{Agents, Here, Place, Settings};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Directories that are remembered, some ten thousand bytes each. Beyond this all are read anew, a millisecond each.
const MOST: usize = 128;

/// What those may weigh together ([`Loaded::weight`]).
const MOST_WEIGHT: u64 = 32 << 20;

/// A look at all the files costs as much as taking a letter, so under load one serves for as many as come in this time.
const GLANCE: Duration = Duration::from_millis(2);

/// What holds where, for one home.
pub(crate) struct Directories {
    paths: Paths,
    env: Environment,
    known: Mutex<BTreeMap<Option<Place>, Known>>,
}

#[derive(Clone)]
struct Known {
    here: Arc<Here>,
    /// When its files were last as they were read.
    looked: Instant,
}

impl Directories {
    pub(crate) fn open(paths: &Paths, env: &Environment) -> Result<Self, Error> {
        let directories = Self { paths: paths.clone(), env: env.clone(), known: Mutex::default() };
        directories.read(None)?;
        Ok(directories)
    }

    fn known(&self, place: Option<&Place>) -> Option<Known> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&place.cloned()).cloned()
    }

    fn keep(&self, place: Option<&Place>, here: &Arc<Here>, looked: Instant) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let weight: u64 = known.values().map(|known| known.here.loaded.weight).fold(0, u64::saturating_add);
        if known.len() >= MOST || weight.saturating_add(here.loaded.weight) > MOST_WEIGHT {
            known.retain(|place, _| place.is_none());
        }
        known.insert(place.cloned(), Known { here: here.clone(), looked });
    }

    /// Two that read the same directory at once read the same files; the later one stays.
    fn read(&self, place: Option<&Place>) -> Result<Arc<Here>, Error> {
        let looked = Instant::now();
        let loaded = match place {
            Some(Place { dir, project, .. }) => {
                load_at(&self.paths, &self.env, Spot { directory: dir, project: Some(project) })
            }
            None => config::load(&self.paths, &self.env),
        };
        let mut loaded = loaded.map_err(told_as)?;
        let main = place.and_then(|place| self.main(place)).transpose().map_err(told_as)?;
        if let Some(main) = &main {
            loaded.hangs_on(main);
        }
        let around = place.map_or(Ok(Vec::new()), |place| self.around(place, &mut loaded))?;
        let like = self.known(None).map(|known| known.here);
        let mut here = here(&self.paths, &self.env, loaded, like.as_deref())?;
        if let Some(main) = &main {
            let rules = |places: &[Placed]| -> Vec<Rule> {
                let of_repository = places.iter().filter(|placed| placed.of_repository);
                at_home(&of_repository.map(|placed| placed.rule.clone()).collect::<Vec<_>>(), &self.env)
            };
            let each = main.agent_rule_places.iter().map(|(name, places)| (name.clone(), rules(places))).collect();
            here.agents = Arc::new(Agents::clone(&here.agents).beside(&rules(&main.rule_places), &each));
        }
        for (root, rules) in around {
            here.agents = Arc::new(Agents::clone(&here.agents).within(&root, &rules));
        }
        let here = Arc::new(here);
        self.keep(place, &here, looked);
        Ok(here)
    }

    /// The settings of the main checkout, as they hold in the same directory there: what a repository forbids, it forbids in
    /// every checkout, whether or not that has the file that says so.
    fn main(&self, place: &Place) -> Option<Result<Loaded, config::Error>> {
        let main = place.main.as_deref()?;
        let below = place.dir.strip_prefix(&place.project).ok().map(|below| main.join(below));
        let directory = below.filter(|dir| dir.is_dir()).unwrap_or_else(|| main.to_owned());
        Some(load_at(&self.paths, &self.env, Spot { directory: &directory, project: Some(main) }))
    }

    /// What repositories around the project forbid, in their own files or by the user's rules as they are read there. A
    /// repository that is made inside another one takes none of that away.
    fn around(&self, place: &Place, loaded: &mut Loaded) -> Result<Vec<(PathBuf, Vec<Rule>)>, Error> {
        let mut found = Vec::new();
        let mut inner = place.project.clone();
        for root in session::around(&place.project) {
            let spot = Spot { directory: &place.project, project: Some(&root) };
            let outer = load_at(&self.paths, &self.env, spot).map_err(told_as)?;
            loaded.hangs_on(&outer);
            let (theirs, own): (Vec<&Placed>, Vec<&Placed>) =
                outer.rule_places.iter().partition(|placed| placed.of_repository);
            let theirs = theirs.into_iter().filter(|placed| !Path::new(&placed.origin.file).starts_with(&inner));
            let theirs: Vec<Rule> = theirs.map(|placed| placed.rule.clone()).collect();
            // What the user is asked about is asked about by where the session works.
            let lax = |action| if action == Action::Deny { action } else { Action::Allow };
            let own = own.into_iter().map(|placed| Rule { action: lax(placed.rule.action), ..placed.rule.clone() });
            let own: Vec<Rule> = own.collect();
            found.extend([&theirs, &own].map(|rules| (root.clone(), at_home(rules, &self.env))));
            inner = root;
        }
        Ok(found)
    }

    fn look(&self, place: Option<&Place>) -> Result<Arc<Here>, Error> {
        let now = Instant::now();
        match self.known(place) {
            Some(known) if now - known.looked < GLANCE => Ok(known.here),
            Some(Known { here, .. }) if here.loaded.is_current() => {
                self.keep(place, &here, now);
                Ok(here)
            }
            _ => self.read(place),
        }
    }
}

impl Settings for Directories {
    /// Broken settings of a gateway that runs change nothing until they are mended.
    fn global(&self) -> Arc<Here> {
        self.known(None).expect("read when this was opened, and never taken out").here
    }

    fn at(&self, place: &Place) -> Result<Arc<Here>, Error> {
        self.known(Some(place)).map_or_else(|| self.read(Some(place)), |known| Ok(known.here))
    }

    fn fresh(&self, place: &Place) -> Result<Arc<Here>, Error> {
        if let Err(error) = self.look(None) {
            tracing::warn!("settings are not read again: {}", error.message);
        }
        self.look(Some(place))
    }

    fn always(&self) -> Vec<Always> {
        config::always(&self.paths)
    }

    fn keep_always(&self, project: &Path, rules: &[Rule]) -> Result<(), Error> {
        config::keep_always(&self.paths, project, rules).map_err(told_as)
    }

    fn revoke_always(&self, id: &str) -> Result<bool, Error> {
        config::revoke_always(&self.paths, id).map_err(told_as)
    }

    fn always_file(&self) -> Option<PathBuf> {
        Some(self.paths.always())
    }

    fn written_out(&self, rule: &Rule) -> Vec<Rule> {
        tools::groups::expand_rules(&at_home(std::slice::from_ref(rule), &self.env))
    }
}

/// The settings of a directory. Files of a repository put nothing into a prompt that the rules for all agents do not let
/// be read, and nothing of this program's own.
pub(crate) fn load_at<'a>(
    paths: &Paths,
    env: &Environment,
    spot: impl Into<Spot<'a>>,
) -> Result<Loaded, config::Error> {
    let own = [&paths.config, &paths.state].map(|path| path.canonicalize().unwrap_or_else(|_| path.clone()));
    let readers = |config: &Config| -> config::Reader {
        let rules = Agents::new(&BTreeMap::new(), None, &at_home(&config.permission, env)).and_then(|agents| {
            let agents = agents.under(&ceilings(&config.ceilings, env));
            agents.policy(agents.default_agent())
        });
        let own = own.clone();
        Box::new(move |root, file| {
            let ours = own.iter().any(|own| file.starts_with(own) && !root.starts_with(own));
            // Rules that cannot be made out allow nothing.
            !ours && rules.as_ref().is_ok_and(|rules| session::may_read(rules, root, file))
        })
    };
    config::load_at(paths, env, spot, &readers)
}

fn told_as(error: config::Error) -> Error {
    Error::invalid(error.message).hint(error.hint)
}

/// What a set of settings means. Where the same providers are set as for `like`, its connections are used.
fn here(paths: &Paths, env: &Environment, mut loaded: Loaded, like: Option<&Here>) -> Result<Here, Error> {
    let same = |like: &&Here| like.loaded.config.provider == loaded.config.provider && like.loaded.keys == loaded.keys;
    let like = like.filter(same);
    let models = match like {
        Some(like) => like.models.clone(),
        None => Arc::new(providers::models(paths, env, &loaded)?),
    };
    let default_model = match like.filter(|like| like.loaded.config.model == loaded.config.model) {
        Some(like) => like.default_model.clone(),
        None => providers::default_model(env, &loaded),
    };
    let default_model = models.full(&default_model).unwrap_or(default_model);
    let agents = Arc::new(agents(&loaded, env)?.on(|name| models.full(name)));
    loaded.warnings.extend(odd(&loaded));
    loaded.warnings.extend(names::unfit_models(&loaded, &models));
    Ok(Here { agents, models, default_model, loaded: Arc::new(loaded) })
}

/// The agents of these settings, with `~` written out in their rules.
pub(crate) fn agents(loaded: &Loaded, env: &Environment) -> Result<Agents, Error> {
    let config = &loaded.config;
    let mut profiles = config.agent.clone();
    for agent in profiles.values_mut() {
        agent.permission = at_home(&agent.permission, env);
        agent.ceilings = ceilings(&agent.ceilings, env);
    }
    let agents = Agents::new(&profiles, config.default_agent.as_deref(), &at_home(&config.permission, env));
    let agents = agents.map_err(|error| placed(error, loaded, "default_agent"))?;
    Ok(agents.under(&ceilings(&config.ceilings, env)))
}

fn ceilings(ceilings: &config::Ceilings, env: &Environment) -> config::Ceilings {
    config::Ceilings {
        user: at_home(&ceilings.user, env),
        managed: at_home(&ceilings.managed, env),
        narrowing: at_home(&ceilings.narrowing, env),
    }
}

/// An error about a setting, with where it stands.
pub(crate) fn placed(mut error: Error, loaded: &Loaded, path: &str) -> Error {
    if let Some(place) = loaded.place(path) {
        error.message = format!("{place}: {}", error.message);
    }
    error
}

fn at_home(rules: &[Rule], env: &Environment) -> Vec<Rule> {
    env.home().map_or_else(|| rules.to_vec(), |home| rules::expand(rules, &home.display().to_string()))
}

/// What is odd about settings and only shows where all the parts are known.
pub(crate) fn odd(loaded: &Loaded) -> Vec<String> {
    names::unknown(loaded).into_iter().chain(pointless(loaded)).collect()
}

/// Rules that never decide, because a later one of the same file takes every request of theirs.
fn pointless(loaded: &Loaded) -> Vec<String> {
    std::iter::once(&loaded.rule_places).chain(loaded.agent_rule_places.values()).flat_map(|set| of_set(set)).collect()
}

fn of_set(places: &[Placed]) -> Vec<String> {
    let mut files: BTreeMap<&str, Vec<&Placed>> = BTreeMap::new();
    for placed in places {
        files.entry(&placed.origin.file).or_default().push(placed);
    }
    let of_file = |places: Vec<&Placed>| -> Vec<String> {
        let rules: Vec<Rule> = places.iter().map(|placed| placed.rule.clone()).collect();
        let told = rules::unreachable(&rules).into_iter().map(|(rule, by)| told(places[rule], places[by]));
        told.collect()
    };
    files.into_values().flat_map(of_file).collect()
}

fn told(rule: &Placed, by: &Placed) -> String {
    let Rule { permission, pattern, .. } = &rule.rule;
    format!(
        "{}:{}: the rule for `{permission}` `{pattern}` never decides: line {} comes later and covers it; put the wider rule first",
        rule.origin.file, rule.origin.line, by.origin.line
    )
}
