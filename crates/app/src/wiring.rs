//! Puts the parts together: settings in, a gateway out. The one place that knows them all.

use crate::home::{Home, VERSION, program};
use crate::settings::{Directories, here};
use config::{Environment, Loaded, Paths};
use gateway::{Gateway, Identity};
use llm::{Configured, Endpoint, Limits, Model, Models, OpenAiChat};
use proto::Error;
use secrecy::SecretString;
use session::{Between, Deps, Hub, Runtime};
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
        settings: Arc::new(settings(home)?),
        limits: home.loaded.config.limits.clone(),
        processes: Arc::new(Reaper::new(program(), env)),
        outputs: home.paths.outputs(),
        between: Between {
            access: access(home)?,
            isolated: home.loaded.config.sandbox.isolated.unwrap_or(false),
            child_tools: child_tools(home),
            ping_pong: ping_pong(home),
            redactor: rules::redact::Redactor::new(secrets(home)),
        },
    });
    let identity = Identity { version: VERSION.into(), fingerprint: home.fingerprint(), implicit };
    Ok(Gateway::new(runtime, identity, &directory))
}

/// Who may see and reach whom: `tools` for all, `agent.<name>.tools.sessions` for one, and the clamp on sandboxed ones.
fn access(home: &Home) -> Result<rules::access::Settings, Error> {
    let config = &home.loaded.config;
    let of_agent = |(name, agent): (&String, &config::Agent)| {
        let sessions = agent.sessions.clone()?;
        Some((name.clone(), serde_json::json!({ "tools": { "sessions": sessions } })))
    };
    let document = serde_json::json!({
        "tools": config.other.get("tools"),
        "agent": config.agent.iter().filter_map(of_agent).collect::<serde_json::Map<_, _>>(),
        "sandbox": { "sessionToolsVisibility": config.sandbox.session_tools_visibility },
    });
    rules::access::Settings::read(&document).map_err(|why| Error::invalid(why).hint("mend the settings file"))
}

fn child_tools(home: &Home) -> Vec<String> {
    let tools = home.loaded.config.other.get("tools");
    let allow = tools.and_then(|tools| tools.get("subagents")?.get("allow")?.as_array().cloned());
    allow.unwrap_or_default().iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// Turns two sessions take after a message that is announced: 0 to 5.
fn ping_pong(home: &Home) -> u32 {
    let session = home.loaded.config.other.get("session");
    let turns = session.and_then(|session| session.get("agentToAgent")?.get("maxPingPongTurns")?.as_u64());
    turns.map_or(5, |turns| u32::try_from(turns.min(5)).unwrap_or(5))
}

/// Values that must not be shown to readers: keys in the settings, and whatever the environment calls one.
fn secrets(home: &Home) -> Vec<String> {
    let keys =
        home.loaded.config.provider.values().filter_map(|p| p.api_key.as_ref().map(|key| key.expose().to_owned()));
    let named =
        |name: &str| ["KEY", "TOKEN", "SECRET", "PASSWORD"].iter().any(|word| name.to_ascii_uppercase().contains(word));
    let env = home.env.iter().filter(|(name, _)| named(name)).map(|(_, value)| value.to_owned());
    let kept = home.loaded.keys.values().map(|key| key.expose().to_owned());
    keys.chain(kept).chain(env).collect()
}

/// What holds where. The home may have been opened in a directory; what holds everywhere is read without one.
fn settings(home: &Home) -> Result<Directories, Error> {
    let global =
        config::load(&home.paths, &home.env).map_err(|error| Error::invalid(error.message).hint(error.hint))?;
    Ok(Directories::new(&home.paths, &home.env, here(&home.paths, &home.env, global)?))
}

/// What is set, else the first vendor with a key, else the model that needs none.
pub(crate) fn default_model(env: &Environment, loaded: &Loaded) -> String {
    if let Some(model) = &loaded.config.model {
        return model.clone();
    }
    let keyed = KEYED.iter().find(|(variable, name, ..)| key(env, loaded, variable, name).is_some());
    keyed.map_or_else(|| OFFLINE.into(), |(_, provider, _, model)| format!("{provider}/{model}"))
}

pub(crate) fn models(paths: &Paths, env: &Environment, loaded: &Loaded) -> Models {
    let mut providers = BTreeMap::new();
    for (variable, name, base_url, _) in KEYED {
        if let Some(key) = key(env, loaded, variable, name) {
            let endpoint = Endpoint { base_url: (*base_url).into(), api_key: Some(key), headers: BTreeMap::new() };
            providers.insert((*name).to_owned(), configured(endpoint, BTreeMap::new()));
        }
    }
    for (name, provider) in &loaded.config.provider {
        let endpoint = Endpoint {
            base_url: provider.base_url.clone().unwrap_or_default(),
            api_key: provider.api_key.as_ref().or(loaded.keys.get(name)).map(|key| key.expose().to_owned().into()),
            headers: provider.headers.clone(),
        };
        let models = provider.models.iter().map(|(name, limits)| (name.clone(), model(name, *limits)));
        providers.insert(name.clone(), configured(endpoint, models.collect()));
    }
    Models::new(paths.config.join("scripts"), providers)
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

/// From the environment, else from `convoke auth login`.
fn key(env: &Environment, loaded: &Loaded, variable: &str, provider: &str) -> Option<SecretString> {
    let set = env.get(variable).filter(|value| !value.is_empty());
    set.or(loaded.keys.get(provider).map(config::Secret::expose)).map(|value| value.to_owned().into())
}
