//! A provider from what a person has set and what its vendor is known for.

use super::{Quirk, Vendor, find};
use crate::catalogue::Catalogue;
use crate::wire::{Auth, Endpoint, Key, OpenAiChat, Wire};
use crate::{Configured, Cost, Effort, Limits, Model, PerMinute, Provider, Reasoning, Variant, retry};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is set about a provider; whatever is not comes from its vendor.
#[derive(Clone, Default)]
pub struct Setup {
    pub wire: Option<Wire>,
    pub base_url: Option<String>,
    pub key: Key,
    /// Where the key comes from.
    pub source: Source,
    pub headers: BTreeMap<String, String>,
    pub models: BTreeMap<String, About>,
    pub concurrency: Option<u32>,
    pub per_minute: PerMinute,
    pub retries: Option<u32>,
}

/// What is set about a model; whatever is not comes from the catalogue.
#[derive(Debug, Clone, Default)]
pub struct About {
    pub context: Option<u64>,
    pub output: Option<u64>,
    pub cost: Option<Cost>,
    pub reasoning: Option<Reasoning>,
    pub effort: Option<Effort>,
    pub images: Option<bool>,
    pub defers: Option<bool>,
    pub variants: BTreeMap<String, Variant>,
}

/// Where a key comes from; never the key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Source {
    #[default]
    None,
    /// A variable of the environment.
    Env(String),
    Config,
    /// The file of `convoke auth`.
    File,
    Command,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Env(variable) => write!(f, "env:{variable}"),
            Self::Config => f.write_str("config"),
            Self::File => f.write_str("file"),
            Self::Command => f.write_str("command"),
        }
    }
}

impl Setup {
    /// What a vendor needs of nobody but its key: from the environment (`env` looks a variable up), or from the file of
    /// `convoke auth`. One on this machine needs none.
    pub fn of_vendor(vendor: &Vendor, env: &dyn Fn(&str) -> Option<String>, file: Option<&str>) -> Option<Self> {
        let setup = Self::default().with_env_key(vendor.name, env).with_file_key(file);
        let reachable = !vendor.base_url.is_empty() || setup.base_url.is_some();
        (reachable && (vendor.keys.is_empty() || setup.source != Source::None)).then_some(setup)
    }

    /// The same with the key its vendor's variable holds, where nothing else has one. A key of the environment belongs to
    /// the vendor's own address, so one that is set elsewhere does not get it (T15).
    #[must_use]
    pub fn with_env_key(mut self, name: &str, env: &dyn Fn(&str) -> Option<String>) -> Self {
        let filled = |variable: &str| env(variable).filter(|value| !value.is_empty());
        let Some(vendor) = find(name) else { return self };
        let own = vendor.base_env.and_then(filled).map(|url| url.trim_end_matches('/').to_owned());
        let at_home = match &self.base_url {
            None => true,
            Some(url) => own.as_deref() == Some(url) || url == vendor.base_url || vendor.base_url.is_empty(),
        };
        if self.base_url.is_none() {
            self.base_url = own;
        }
        if matches!(self.key, Key::None)
            && at_home
            && let Some((key, source)) = key_from_env(vendor, &filled)
        {
            (self.key, self.source) = (key, source);
        }
        self
    }

    /// The same with the key that `convoke auth login` keeps for it, where the settings have none. It was given by the
    /// provider's name, so it goes wherever that name leads.
    #[must_use]
    pub fn with_file_key(mut self, key: Option<&str>) -> Self {
        if let (Key::None, Some(key)) = (&self.key, key) {
            (self.key, self.source) = (Key::from(key), Source::File);
        }
        self
    }

    /// The provider `name`, ready to be asked.
    pub fn build(self, name: &str, catalogue: &Arc<Catalogue>) -> Configured {
        let vendor = find(name);
        let base_url = self.base_url.clone().or(vendor.map(|vendor| vendor.base_url.to_owned())).unwrap_or_default();
        let wire = self.wire.unwrap_or_else(|| spoken(vendor, &base_url));
        let usual = Limits::default();
        let at_home = wire == Wire::Anthropic && vendor.is_some_and(|vendor| vendor.base_url == base_url);
        let known = |model: &str| {
            let known = catalogue.model(name, model, usual);
            Model { defers: known.defers && at_home, ..known }
        };
        let models = self.models.iter().map(|(model, about)| (model.clone(), about.applied(known(model)))).collect();
        let endpoint = Endpoint {
            name: name.to_owned(),
            auth: vendor.map_or(wire.auth(), |vendor| if vendor.wire == wire { vendor.auth } else { wire.auth() }),
            base_url,
            key: self.key,
            headers: self.headers,
            concurrency: self.concurrency,
            per_minute: self.per_minute,
            retries: self.retries.unwrap_or(retry::MOST),
        };
        let provider: Arc<dyn Provider> = match (wire, vendor.map(|vendor| vendor.quirk)) {
            (Wire::OpenAiChat, Some(Quirk::EchoThoughts)) => Arc::new(OpenAiChat::echoing_thoughts(endpoint)),
            _ => wire.provider(endpoint),
        };
        let catalogue = catalogue.clone();
        Configured { provider, models, defaults: usual, wire: Some(wire), key: self.source, catalogue, at_home }
    }
}

impl About {
    /// What is set wins over what is known.
    fn applied(&self, mut model: Model) -> Model {
        model.context = self.context.unwrap_or(model.context);
        model.output = self.output.unwrap_or(model.output);
        model.cost = self.cost.or(model.cost);
        model.reasoning = self.reasoning.unwrap_or(model.reasoning);
        model.effort = self.effort.or(model.effort);
        model.variants.extend(self.variants.clone());
        model.images = self.images.unwrap_or(model.images);
        model.defers = self.defers.unwrap_or(model.defers);
        model
    }
}

impl Wire {
    /// How a key is shown where nobody says otherwise.
    fn auth(self) -> Auth {
        match self {
            Self::Anthropic => Auth::Header("x-api-key"),
            Self::OpenAiResponses | Self::OpenAiChat => Auth::Bearer,
        }
    }
}

fn spoken(vendor: Option<&Vendor>, base_url: &str) -> Wire {
    match vendor {
        None => Wire::OpenAiChat,
        Some(vendor) if vendor.quirk == Quirk::ChatElsewhere && base_url != vendor.base_url => Wire::OpenAiChat,
        Some(vendor) => vendor.wire,
    }
}

fn key_from_env(vendor: &Vendor, filled: &dyn Fn(&str) -> Option<String>) -> Option<(Key, Source)> {
    let found = vendor.keys.iter().find_map(|variable| Some((*variable, filled(variable)?)));
    found.map(|(variable, key)| (Key::Given(key.into()), Source::Env(variable.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &'static [(&'static str, &'static str)]) -> impl Fn(&str) -> Option<String> {
        move |name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    #[track_caller]
    fn check(name: &str, setup: Setup, wire: Wire, key: &str) {
        let configured = setup.build(name, &Arc::new(Catalogue::embedded()));
        assert_eq!((configured.wire, configured.key.to_string().as_str()), (Some(wire), key), "{name}");
    }

    #[test]
    fn a_key_in_the_environment_is_enough() {
        let env = env(&[("ANTHROPIC_API_KEY", "a"), ("OPENAI_API_KEY", "o"), ("MISTRAL_API_KEY", "")]);
        let of = |name| Setup::of_vendor(find(name).unwrap(), &env, None);
        check("anthropic", of("anthropic").unwrap(), Wire::Anthropic, "env:ANTHROPIC_API_KEY");
        check("openai", of("openai").unwrap(), Wire::OpenAiResponses, "env:OPENAI_API_KEY");
        assert!(of("mistral").is_none() && of("azure").is_none() && of("ollama").is_some());
        let kept = Setup::of_vendor(find("mistral").unwrap(), &env, Some("m")).unwrap();
        check("mistral", kept, Wire::OpenAiChat, "file");
        let both = Setup::of_vendor(find("openai").unwrap(), &env, Some("kept")).unwrap();
        check("openai", both, Wire::OpenAiResponses, "env:OPENAI_API_KEY");
    }

    #[test]
    fn an_address_in_the_environment_is_taken_and_spoken_to_as_such_servers_are() {
        let env = env(&[("OPENAI_API_KEY", "o"), ("OPENAI_BASE_URL", "http://127.0.0.1:1/v1/")]);
        let setup = Setup::of_vendor(find("openai").unwrap(), &env, None).unwrap();
        assert_eq!(setup.base_url.as_deref(), Some("http://127.0.0.1:1/v1"));
        check("openai", setup, Wire::OpenAiChat, "env:OPENAI_API_KEY");
    }

    #[test]
    fn t15_a_key_of_the_environment_does_not_follow_another_address() {
        let env = env(&[("OPENAI_API_KEY", "o"), ("ANTHROPIC_API_KEY", "a"), ("ANTHROPIC_BASE_URL", "http://proxy")]);
        let at = |name: &str, url: Option<&str>| {
            Setup { base_url: url.map(str::to_owned), ..Setup::default() }.with_env_key(name, &env).source.to_string()
        };
        assert_eq!(at("openai", None), "env:OPENAI_API_KEY");
        assert_eq!(at("openai", Some("https://api.openai.com/v1")), "env:OPENAI_API_KEY");
        assert_eq!(at("openai", Some("https://elsewhere.example/v1")), "none");
        assert_eq!(at("anthropic", Some("http://proxy")), "env:ANTHROPIC_API_KEY");
        assert_eq!(at("anthropic", Some("http://elsewhere")), "none");
        assert_eq!(at("mine", Some("http://elsewhere")), "none");
    }

    #[test]
    fn what_is_set_wins_over_the_catalogue() {
        let about = About { output: Some(7), ..About::default() };
        let models = BTreeMap::from([("claude-sonnet-4-5".to_owned(), about)]);
        let configured = Setup { models, ..Setup::default() }.build("anthropic", &Arc::new(Catalogue::embedded()));
        let model = &configured.models["claude-sonnet-4-5"];
        assert_eq!((model.context, model.output, model.images), (200_000, 7, true));
        assert!(model.cost.is_some());
    }
}
