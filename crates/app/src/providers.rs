//! Which providers there are and which model answers when nobody names one: settings and environment in, models out.

use config::{Environment, Loaded, Paths};
use llm::catalogue::Catalogue;
use llm::vendors::{self, About, Setup, Source, VENDORS, local};
use llm::{Key, Models, Wire};
use proto::Error;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What answers when nothing is set.
pub(crate) const OFFLINE: &str = "offline/plain";

/// What is set, else the first vendor with a key, else a server on this machine, else the model that needs none.
pub(crate) fn default_model(env: &Environment, loaded: &Loaded) -> String {
    if let Some(model) = &loaded.config.model {
        return model.clone();
    }
    let env = |name: &str| env.get(name).map(str::to_owned);
    let keyed = VENDORS.iter().find(|vendor| !vendor.model.is_empty() && has_key(loaded, vendor, &env));
    match keyed {
        Some(vendor) => format!("{}/{}", vendor.name, vendor.model),
        None => local::find(&env).map_or_else(|| OFFLINE.into(), |found| format!("{}/{}", found.vendor, found.model)),
    }
}

fn has_key(loaded: &Loaded, vendor: &vendors::Vendor, env: &dyn Fn(&str) -> Option<String>) -> bool {
    match loaded.config.provider.get(vendor.name) {
        Some(set) => !vendor.keys.is_empty() && setup(set).with_env_key(vendor.name, env).source != Source::None,
        None => Setup::from_env(vendor, env).is_some(),
    }
}

/// Every provider that is set up, whose key is in the environment, or that needs none.
pub(crate) fn models(paths: &Paths, env: &Environment, loaded: &Loaded) -> Result<Models, Error> {
    let env = |name: &str| env.get(name).map(str::to_owned);
    let catalogue = Arc::new(catalogue(paths)?);
    let mut setups: BTreeMap<String, Setup> = BTreeMap::new();
    for vendor in VENDORS {
        let setup = if vendor.keys.is_empty() { Some(Setup::default()) } else { Setup::from_env(vendor, &env) };
        setups.extend(setup.map(|setup| (vendor.name.to_owned(), setup)));
    }
    for (name, provider) in &loaded.config.provider {
        setups.insert(name.clone(), setup(provider).with_env_key(name, &env));
    }
    let providers = setups.into_iter().map(|(name, setup)| {
        let configured = setup.build(&name, &catalogue);
        (name, configured)
    });
    Ok(Models::new(paths.config.join("scripts"), providers.collect()))
}

/// What is known about models, and what a file beside the settings says instead.
fn catalogue(paths: &Paths) -> Result<Catalogue, Error> {
    let path = paths.config.join("models.json");
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
