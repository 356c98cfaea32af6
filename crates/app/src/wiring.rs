//! Puts the parts together: settings in, a gateway out. The one place that knows them all.

use crate::home::{Home, VERSION, program};
use gateway::{Gateway, Identity};
use llm::{Configured, Endpoint, Limits, Model, Models, OpenAiChat};
use proto::Error;
use secrecy::SecretString;
use session::{Agents, Deps, Hub, Runtime};
use std::collections::BTreeMap;
use std::sync::Arc;
use store::Store;
use tools::process::Reaper;

/// Vendors whose key in the environment is enough: variable, provider, address, model.
const KEYED: &[(&str, &str, &str, &str)] = &[("OPENAI_API_KEY", "openai", "https://api.openai.com/v1", "gpt-5-mini")];

/// What answers when nothing is set.
pub(crate) const OFFLINE: &str = "offline/plain";

/// A gateway over a store. Nothing is woken and nothing listens yet.
pub(crate) fn gateway(home: &Home, store: Arc<dyn Store>, hub: Hub, implicit: bool) -> Result<Gateway, Error> {
    let directory = home.user_directory().display().to_string();
    let env: Vec<(String, String)> = home.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let runtime = Runtime::new(Deps {
        store,
        hub,
        models: Arc::new(models(home)),
        agents: agents(home)?,
        limits: home.loaded.config.limits.clone(),
        processes: Arc::new(Reaper::new(program(), env)),
        outputs: home.paths.outputs(),
        default_model: default_model(home),
    });
    let identity = Identity { version: VERSION.into(), fingerprint: home.fingerprint(), implicit };
    Ok(Gateway::new(runtime, identity, &directory))
}

pub(crate) fn agents(home: &Home) -> Result<Agents, Error> {
    let config = &home.loaded.config;
    Agents::new(&config.agent, config.default_agent.as_deref(), &config.permission)
}

/// What is set, else the first vendor with a key, else the model that needs none.
pub(crate) fn default_model(home: &Home) -> String {
    if let Some(model) = &home.loaded.config.model {
        return model.clone();
    }
    let keyed = KEYED.iter().find(|(variable, ..)| key(home, variable).is_some());
    keyed.map_or_else(|| OFFLINE.into(), |(_, provider, _, model)| format!("{provider}/{model}"))
}

pub(crate) fn models(home: &Home) -> Models {
    let mut providers = BTreeMap::new();
    for (variable, name, base_url, _) in KEYED {
        if let Some(key) = key(home, variable) {
            let endpoint = Endpoint { base_url: (*base_url).into(), api_key: Some(key), headers: BTreeMap::new() };
            providers.insert((*name).to_owned(), configured(endpoint, BTreeMap::new()));
        }
    }
    for (name, provider) in &home.loaded.config.provider {
        let endpoint = Endpoint {
            base_url: provider.base_url.clone(),
            api_key: provider.api_key.as_ref().map(|key| key.expose().to_owned().into()),
            headers: provider.headers.clone(),
        };
        let models = provider.models.iter().map(|(name, limits)| (name.clone(), model(name, *limits)));
        providers.insert(name.clone(), configured(endpoint, models.collect()));
    }
    Models::new(home.paths.config.join("scripts"), providers)
}

fn configured(endpoint: Endpoint, models: BTreeMap<String, Model>) -> Configured {
    Configured { provider: Arc::new(OpenAiChat::new(endpoint)), models, defaults: Limits::default() }
}

fn model(name: &str, limits: config::ModelLimits) -> Model {
    let usual = Limits::default();
    Model {
        name: name.into(),
        context: limits.context.unwrap_or(usual.context),
        output: limits.output.unwrap_or(usual.output),
    }
}

fn key(home: &Home, variable: &str) -> Option<SecretString> {
    home.env.get(variable).filter(|value| !value.is_empty()).map(|value| value.to_owned().into())
}
