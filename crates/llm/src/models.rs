//! Which models there are: `provider/model` in, the one that thinks and its limits out.
//!
//! Built from the config by whoever starts the program; this file does not know how one is written.

use crate::catalogue::Catalogue;
use crate::offline::{self, Offline};
use crate::vendors::{self, Source};
use crate::{Cost, Model, Provider, Reasoning, Wire};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// The name the built-in model is reached by, whatever else is configured.
pub const OFFLINE: &str = "offline";

/// The longest name of a model, provider included.
const LONGEST: usize = 256;

/// Most names offered when one is not known.
const CANDIDATES: usize = 10;

/// A model's limits in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub context: u64,
    pub output: u64,
}

impl Default for Limits {
    /// What current models have at least.
    fn default() -> Self {
        Self { context: 128_000, output: 8_192 }
    }
}

/// A provider as it was set up.
#[derive(Clone)]
pub struct Configured {
    pub provider: Arc<dyn Provider>,
    /// By name. When empty, any name is passed on to the server.
    pub models: BTreeMap<String, Model>,
    /// For models nobody knows.
    pub defaults: Limits,
    pub wire: Option<Wire>,
    /// Where its key comes from.
    pub key: Source,
    /// What is known about its models beside what is set.
    pub catalogue: Arc<Catalogue>,
    /// Its server is the vendor's own, and can do what the catalogue says of the vendor's models.
    pub at_home: bool,
}

impl Configured {
    /// A provider of which nothing is known: it takes any name.
    pub fn new(provider: Arc<dyn Provider>, defaults: Limits) -> Self {
        let (models, catalogue) = (BTreeMap::new(), Arc::default());
        Self { provider, models, defaults, wire: None, key: Source::None, catalogue, at_home: false }
    }
}

/// A model as lists show it; a key never, only where it comes from.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    /// `provider/model`.
    pub name: String,
    pub provider: String,
    pub model: String,
    pub wire: &'static str,
    pub context: u64,
    pub output: u64,
    /// Dollars for a million tokens.
    pub cost: Option<Cost>,
    pub reasoning: bool,
    /// What may stand behind `#` in its name.
    pub variants: Vec<String>,
    pub images: bool,
    /// `none`, `env:VARIABLE`, `config`, `file` or `command`.
    pub key: String,
}

/// There is no such model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Unknown {
    pub message: String,
    /// For the hint: names that do resolve, the nearest first.
    pub candidates: Vec<String>,
}

/// Whether a model is the one of a short name, or of the family of one: `claude-sonnet-4-5` is a `sonnet`.
fn is_of(model: &str, short: &str) -> bool {
    let last = model.rsplit('/').next().unwrap_or(model);
    last == short
        || (!short.contains('-') && last.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == short))
}

/// The numbers in a model's name, its version first; a date counts last.
fn age(name: &str) -> (Vec<u64>, u64) {
    let numbers = name.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse::<u64>().ok());
    let (dates, versions): (Vec<u64>, Vec<u64>) = numbers.partition(|number| *number > 100_000);
    (versions, dates.first().copied().unwrap_or_default())
}

/// Every model this program can ask.
#[derive(Clone)]
pub struct Models {
    providers: BTreeMap<String, Configured>,
    offline: Arc<Offline>,
}

impl Models {
    /// `scripts` is where `offline/<script>` looks.
    pub fn new(scripts: PathBuf, providers: BTreeMap<String, Configured>) -> Self {
        Self { providers, offline: Arc::new(Offline::new(scripts)) }
    }

    /// The provider of `provider/model` and what is known about the model, in the variant behind `#` if there is one.
    pub fn resolve(&self, choice: &str) -> Result<(Arc<dyn Provider>, Model), Unknown> {
        let (name, variant) = proto::model::split(choice);
        let (provider, model) = self.find(name)?;
        let Some(variant) = variant else { return Ok((provider, model)) };
        let candidates: Vec<String> = model.variants().into_keys().map(|known| format!("{name}#{known}")).collect();
        model.in_variant(variant).map(|model| (provider, model)).ok_or_else(|| {
            let shown: String = variant.chars().take(40).collect();
            let message = match candidates.is_empty() {
                true => format!("model `{name}` knows no variants, so none is called `{shown}`"),
                false => format!("model `{name}` has no variant `{shown}`"),
            };
            Unknown { message, candidates }
        })
    }

    /// What a choice stands for: a short name such as `sonnet` is the newest model of that family that is known here, other
    /// choices are what they say. `None` when no model fits.
    pub fn full(&self, choice: &str) -> Option<String> {
        if !proto::model::is_short(choice) {
            return Some(choice.to_owned());
        }
        let (short, variant) = proto::model::split(choice);
        let fits = |name: &String| name.split_once('/').is_some_and(|(_, model)| is_of(model, short));
        // The vendor's own server before those that pass its models on.
        let newest =
            self.names().into_iter().filter(fits).max_by_key(|name| (name.starts_with("anthropic/"), age(name)));
        let direct =
            || Some(format!("anthropic/{short}")).filter(|name| short.contains('-') && self.find(name).is_ok());
        let name = newest.or_else(direct)?;
        Some(variant.map_or_else(|| name.clone(), |variant| format!("{name}#{variant}")))
    }

    /// A model by its plain name, which may contain `/`.
    fn find(&self, name: &str) -> Result<(Arc<dyn Provider>, Model), Unknown> {
        // Whatever somebody sends is named again in the refusal: not all of it.
        if name.chars().count() > LONGEST {
            let start: String = name.chars().take(40).collect();
            return Err(self.unknown(&start, format!("`{start}…` is too long for a model's name")));
        }
        let Some((provider, model)) = name.split_once('/').filter(|(_, model)| !model.is_empty()) else {
            if proto::model::is_short(name) {
                return Err(self.unknown(name, format!("no configured model fits `{name}`")));
            }
            return Err(self.unknown(name, format!("model `{name}` is not of the form `provider/model`")));
        };
        match self.providers.get(provider) {
            Some(configured) => match configured.model(provider, model) {
                Some(model) => Ok((Arc::clone(&configured.provider), model)),
                None => Err(self.unknown(name, format!("provider `{provider}` has no model `{model}`"))),
            },
            None if provider == OFFLINE => self.resolve_offline(name, model),
            None => Err(self.unknown(name, missing(provider, name))),
        }
    }

    /// Whether nothing is known about a provider's models, so that any name is passed on.
    pub fn takes_any(&self, provider: &str) -> bool {
        self.providers.get(provider).is_some_and(|configured| configured.known(provider).is_empty())
    }

    /// Names that resolve, as far as they are known.
    pub fn names(&self) -> Vec<String> {
        let listed = self.providers.iter().flat_map(|(provider, configured)| {
            configured.known(provider).into_iter().map(move |model| format!("{provider}/{}", model.name))
        });
        let offline = self.offline.names().into_iter().map(|name| format!("{OFFLINE}/{name}"));
        listed.chain(offline).collect()
    }

    /// The same with all that is known about them, and `default` too, wherever it comes from.
    pub fn list(&self, default: &str) -> Vec<Listed> {
        let mut names = self.names();
        if !names.iter().any(|name| name == default) {
            names.insert(0, default.to_owned());
        }
        names.into_iter().filter_map(|name| self.listed(name)).collect()
    }

    /// One model with all that is known about it.
    pub fn listed(&self, name: String) -> Option<Listed> {
        let (_, model) = self.resolve(&name).ok()?;
        let provider = name.split_once('/')?.0.to_owned();
        let configured = self.providers.get(&provider);
        Some(Listed {
            wire: configured.and_then(|configured| configured.wire).map_or(OFFLINE, Wire::as_str),
            key: configured.map(|configured| &configured.key).unwrap_or(&Source::None).to_string(),
            context: model.context,
            output: model.output,
            cost: model.cost,
            reasoning: model.reasoning != Reasoning::None,
            variants: model.variants().into_keys().collect(),
            images: model.images,
            model: model.name,
            name,
            provider,
        })
    }

    fn resolve_offline(&self, name: &str, model: &str) -> Result<(Arc<dyn Provider>, Model), Unknown> {
        match self.offline.has(model) {
            true => Ok((Arc::clone(&self.offline) as Arc<dyn Provider>, offline::model(model))),
            false => Err(self.unknown(name, format!("the offline model has no script `{model}`"))),
        }
    }

    fn unknown(&self, name: &str, message: String) -> Unknown {
        let mut candidates = self.names();
        candidates.sort_by_cached_key(|known| distance(name, known));
        candidates.truncate(CANDIDATES);
        // Whoever is left out takes any name, or is too far from this one; they are there all the same.
        for (provider, configured) in &self.providers {
            let of_it = |name: &String| name.split_once('/').is_some_and(|(of, _)| of == provider);
            if !candidates.iter().any(of_it) {
                let model =
                    configured.known(provider).first().map_or_else(|| "…".to_owned(), |model| model.name.clone());
                candidates.push(format!("{provider}/{model}"));
            }
        }
        Unknown { message, candidates }
    }
}

impl Configured {
    fn model(&self, provider: &str, name: &str) -> Option<Model> {
        match self.models.get(name) {
            Some(model) => Some(model.clone()),
            None if self.models.is_empty() => {
                let model = self.catalogue.model(provider, name, self.defaults);
                Some(Model { defers: model.defers && self.at_home, ..model })
            }
            None => None,
        }
    }

    /// The models that are set, or those that are known.
    fn known(&self, provider: &str) -> Vec<Model> {
        match self.models.is_empty() {
            true => self.catalogue.of(provider).collect(),
            false => self.models.values().cloned().collect(),
        }
    }
}

/// A vendor that is only missing its key is not unknown.
fn missing(provider: &str, name: &str) -> String {
    match vendors::find(provider).and_then(|vendor| vendor.keys.first()) {
        Some(variable) => format!(
            "there is no provider `{provider}` without a key: set `{variable}`, or `provider.{provider}.api_key` in the \
             settings"
        ),
        None => format!("there is no provider `{provider}` for model `{name}`"),
    }
}

/// How many letters differ: insertions, removals and exchanges.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, other) in b.iter().enumerate() {
            let exchanged = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = exchanged.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpenAiChat;
    use crate::wire::Endpoint;

    fn configured(models: &[&str]) -> Configured {
        let models = models.iter().map(|name| ((*name).to_owned(), Model::new(*name, 1_000, 100))).collect();
        let provider = Arc::new(OpenAiChat::new(Endpoint::at("http://127.0.0.1:1")));
        Configured { models, ..Configured::new(provider, Limits { context: 7, output: 3 }) }
    }

    fn sample() -> (Models, tempfile::TempDir) {
        let scripts = tempfile::tempdir().unwrap();
        std::fs::write(scripts.path().join("demo.script"), "say: hi\n").unwrap();
        let providers = BTreeMap::from([
            ("acme".to_owned(), configured(&["large", "lab/small"])),
            ("any".to_owned(), configured(&[])),
        ]);
        (Models::new(scripts.path().to_owned(), providers), scripts)
    }

    #[track_caller]
    fn check(name: &str, model: &str, context: u64) {
        let (models, _scripts) = sample();
        let (_, found) = models.resolve(name).unwrap_or_else(|unknown| panic!("{unknown}"));
        assert_eq!((found.name.as_str(), found.context), (model, context), "{name}");
    }

    #[track_caller]
    fn check_unknown(name: &str, message: &str, nearest: &str) {
        let (models, _scripts) = sample();
        let unknown = models.resolve(name).err().unwrap_or_else(|| panic!("{name} resolved"));
        assert!(unknown.message.contains(message), "{}", unknown.message);
        assert_eq!(unknown.candidates[0], nearest, "{name}");
        assert!(unknown.candidates.contains(&"any/…".to_owned()), "every provider is named: {:?}", unknown.candidates);
    }

    #[test]
    fn a_listed_model_has_its_own_limits_and_any_other_the_defaults() {
        check("acme/large", "large", 1_000);
        check("acme/lab/small", "lab/small", 1_000);
        check("any/thing/at:all", "thing/at:all", 7);
    }

    #[test]
    fn the_offline_model_is_always_there() {
        check("offline/plain", "plain", 200_000);
        check("offline/demo", "demo", 200_000);
        check("offline/demo.script", "demo.script", 200_000);
    }

    #[test]
    fn a_short_name_is_the_newest_model_of_its_family() {
        let names =
            ["claude-sonnet-4", "claude-3-7-sonnet", "claude-sonnet-4-5-20250929", "claude-sonnet-4-5", "sonnets"];
        let of = |providers: &[(&str, &[&str])]| {
            let providers = providers.iter().map(|(name, models)| ((*name).to_owned(), configured(models)));
            Models::new(PathBuf::new(), providers.collect())
        };
        let here =
            of(&[("acme", &names), ("relay", &["anthropic/claude-opus-4.1"]), ("anthropic", &["claude-haiku-4-5"])]);
        let full = |name: &str| here.full(name).unwrap_or_default();
        assert_eq!(full("sonnet"), "acme/claude-sonnet-4-5-20250929");
        assert_eq!(full("sonnet#high"), "acme/claude-sonnet-4-5-20250929#high");
        assert_eq!(full("opus"), "relay/anthropic/claude-opus-4.1");
        assert_eq!(
            (full("haiku"), full("claude-sonnet-4")),
            ("anthropic/claude-haiku-4-5".into(), "acme/claude-sonnet-4".into())
        );
        // Whatever is not short is left alone, and what fits nothing is told.
        assert_eq!((full("acme/x"), full("#high")), ("acme/x".into(), "#high".into()));
        assert_eq!((here.full("claude-nova-9"), of(&[]).full("opus")), (None, None));
        assert!(of(&[]).resolve("opus").err().unwrap().message.contains("no configured model fits `opus`"));
    }

    #[test]
    fn an_unknown_name_is_told_with_the_nearest_known_ones() {
        check_unknown("acme/larg", "provider `acme` has no model `larg`", "acme/large");
        check_unknown("acne/large", "there is no provider `acne`", "acme/large");
        check_unknown("offline/dmo", "no script `dmo`", "offline/demo");
        check_unknown("large", "`provider/model`", "acme/large");
        check_unknown("anthropic/large", "set `ANTHROPIC_API_KEY`", "acme/large");
        check_unknown("acme/", "`provider/model`", "acme/large");
    }

    #[test]
    fn a_variant_is_how_hard_a_model_thinks_or_what_was_set() {
        let catalogue = Arc::new(Catalogue::embedded());
        let quick = crate::Variant { budget: Some(2_000), output: Some(500), ..Default::default() };
        let about = vendors::About { variants: [("quick".to_owned(), quick)].into(), ..Default::default() };
        let names = ["claude-haiku-4-5", "x"].map(|name| (name.to_owned(), about.clone()));
        let setup = vendors::Setup { models: names.into(), ..Default::default() };
        let mut providers = BTreeMap::from([("anthropic".to_owned(), setup.build("anthropic", &catalogue))]);
        providers.insert("any".to_owned(), configured(&[]));
        let models = Models::new(PathBuf::new(), providers);
        let asked = |name: &str| models.resolve(name).map(|(_, model)| model).map_err(|unknown| unknown.to_string());
        let high = asked("anthropic/claude-haiku-4-5#high").unwrap();
        assert_eq!((high.name.as_str(), high.thinks_with()), ("claude-haiku-4-5", Some(28_000)));
        let quick = asked("anthropic/x#quick").unwrap();
        assert_eq!((quick.thinks_with(), quick.output, quick.reasoning), (Some(2_000), 500, Reasoning::Budget));
        assert_eq!(asked("anthropic/x#high"), Err("model `anthropic/x` has no variant `high`".to_owned()));
        assert!(asked("any/thing#high").unwrap_err().contains("`any/thing` knows no variants"));
        let unknown = models.resolve("anthropic/claude-haiku-4-5#huge").err().unwrap();
        let known = ["high", "low", "medium", "quick"].map(|name| format!("anthropic/claude-haiku-4-5#{name}"));
        assert_eq!(unknown.candidates, known);
    }
}
