//! Puts the parts together: settings in, a gateway out. The one place that knows them all.

use crate::home::{Home, VERSION, program};
use gateway::{Gateway, Identity};
use llm::catalogue::Catalogue;
use llm::vendors::{self, About, Setup, Source, VENDORS, local};
use llm::{Key, Models, Wire};
use proto::Error;
use session::{Agents, Between, Deps, Hub, Runtime};
use std::collections::BTreeMap;
use std::sync::Arc;
use store::Store;
use tools::process::Reaper;

/// What answers when nothing is set.
pub(crate) const OFFLINE: &str = "offline/plain";

/// A gateway over a store. Nothing is woken and nothing listens yet.
pub(crate) fn gateway(home: &Home, store: Arc<dyn Store>, hub: Hub, implicit: bool) -> Result<Gateway, Error> {
    let directory = home.user_directory().display().to_string();
    let env: Vec<(String, String)> = home.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let runtime = Runtime::new(Deps {
        store,
        hub,
        models: Arc::new(models(home)?),
        agents: agents(home)?,
        limits: home.loaded.config.limits.clone(),
        processes: Arc::new(Reaper::new(program(), env)),
        outputs: home.paths.outputs(),
        default_model: default_model(home),
        between: Between {
            access: access(home)?,
            child_tools: child_tools(home),
            ping_pong: ping_pong(home),
            redactor: rules::redact::Redactor::new(secrets(home)),
        },
    });
    let identity = Identity { version: VERSION.into(), fingerprint: home.fingerprint(), implicit };
    Ok(Gateway::new(runtime, identity, &directory))
}

/// Who may see and reach whom, from the `tools` section.
fn access(home: &Home) -> Result<rules::access::Settings, Error> {
    let document = serde_json::to_value(&home.loaded.config.other).unwrap_or_default();
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
    keys.chain(env).collect()
}

pub(crate) fn agents(home: &Home) -> Result<Agents, Error> {
    let config = &home.loaded.config;
    Agents::new(&config.agent, config.default_agent.as_deref(), &config.permission)
}

/// What is set, else the first vendor with a key, else a server on this machine, else the model that needs none.
pub(crate) fn default_model(home: &Home) -> String {
    if let Some(model) = &home.loaded.config.model {
        return model.clone();
    }
    let env = |name: &str| home.env.get(name).map(str::to_owned);
    let keyed = VENDORS.iter().find(|vendor| !vendor.model.is_empty() && has_key(home, vendor, &env));
    match keyed {
        Some(vendor) => format!("{}/{}", vendor.name, vendor.model),
        None => local::find(&env).map_or_else(|| OFFLINE.into(), |found| format!("{}/{}", found.vendor, found.model)),
    }
}

fn has_key(home: &Home, vendor: &vendors::Vendor, env: &dyn Fn(&str) -> Option<String>) -> bool {
    match home.loaded.config.provider.get(vendor.name) {
        Some(set) => !vendor.keys.is_empty() && setup(set).with_env_key(vendor.name, env).source != Source::None,
        None => Setup::from_env(vendor, env).is_some(),
    }
}

/// Every provider that is set up, whose key is in the environment, or that needs none.
pub(crate) fn models(home: &Home) -> Result<Models, Error> {
    let env = |name: &str| home.env.get(name).map(str::to_owned);
    let catalogue = Arc::new(catalogue(home)?);
    let mut setups: BTreeMap<String, Setup> = BTreeMap::new();
    for vendor in VENDORS {
        let setup = if vendor.keys.is_empty() { Some(Setup::default()) } else { Setup::from_env(vendor, &env) };
        setups.extend(setup.map(|setup| (vendor.name.to_owned(), setup)));
    }
    for (name, provider) in &home.loaded.config.provider {
        setups.insert(name.clone(), setup(provider).with_env_key(name, &env));
    }
    let providers = setups.into_iter().map(|(name, setup)| {
        let configured = setup.build(&name, &catalogue);
        (name, configured)
    });
    Ok(Models::new(home.paths.config.join("scripts"), providers.collect()))
}

/// What is known about models, and what a file beside the settings says instead.
fn catalogue(home: &Home) -> Result<Catalogue, Error> {
    let path = home.paths.config.join("models.json");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Catalogue::embedded()),
        Err(error) => return Err(Error::invalid(format!("cannot read `{}`: {error}", path.display()))),
    };
    Catalogue::embedded().overridden(&text).map_err(|why| {
        let hint = "write it as {\"vendor\": {\"model\": {\"context\": 200000, \"output\": 8000}}}, or remove it";
        Error::invalid(format!("`{}`: {why}", path.display())).hint(hint)
    })
}

fn setup(provider: &config::Provider) -> Setup {
    let (key, source) = match (&provider.api_key, &provider.api_key_command) {
        (Some(key), _) => (Key::from(key.expose()), Source::Config),
        (None, Some(command)) => (Key::Command(command.clone()), Source::Command),
        (None, None) => (Key::None, Source::None),
    };
    Setup {
        wire: provider.wire.map(wire),
        base_url: provider.base_url.clone(),
        key,
        source,
        headers: provider.headers.clone(),
        models: provider.models.iter().map(|(name, limits)| (name.clone(), about(limits))).collect(),
        concurrency: provider.concurrency,
        retries: provider.retries,
    }
}

fn wire(wire: config::Wire) -> Wire {
    match wire {
        config::Wire::Anthropic => Wire::Anthropic,
        config::Wire::OpenaiResponses => Wire::OpenAiResponses,
        config::Wire::OpenaiChat => Wire::OpenAiChat,
    }
}

fn about(limits: &config::ModelLimits) -> About {
    let cost = |cost: config::Cost| llm::Cost {
        input: cost.input,
        output: cost.output,
        cache_read: cost.cache_read,
        cache_write: cost.cache_write,
    };
    let effort = |effort| match effort {
        config::Effort::Low => llm::Effort::Low,
        config::Effort::Medium => llm::Effort::Medium,
        config::Effort::High => llm::Effort::High,
    };
    About {
        context: limits.context,
        output: limits.output,
        cost: limits.cost.map(cost),
        effort: limits.effort.map(effort),
        images: limits.images,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_vendor_whose_address_is_known_can_be_set_without_one() {
        let known: Vec<&str> = VENDORS.iter().filter(|vendor| !vendor.base_url.is_empty()).map(|v| v.name).collect();
        assert_eq!(known, config::VENDORS);
    }
}
