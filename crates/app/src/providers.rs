//! Which providers there are and which model answers when nobody names one: settings and environment in, models out.

use config::{Environment, Loaded, Paths};
use llm::catalogue::Catalogue;
use llm::vendors::{About, Setup, Source, VENDORS, Vendor, local};
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
    let setups = setups(env, loaded);
    let has_key = |vendor: &&Vendor| setups.get(vendor.name).is_some_and(|setup| setup.source != Source::None);
    match VENDORS.iter().filter(|vendor| !vendor.model.is_empty()).find(has_key) {
        Some(vendor) => format!("{}/{}", vendor.name, vendor.model),
        None => local::find(&|name| env.get(name).map(str::to_owned))
            .map_or_else(|| OFFLINE.into(), |found| format!("{}/{}", found.vendor, found.model)),
    }
}

/// Whether the addresses that variables give to vendors in use can be one.
pub(crate) fn check_addresses(env: &Environment, loaded: &Loaded) -> Result<(), Error> {
    let setups = setups(env, loaded);
    let used = VENDORS.iter().filter(|vendor| setups.contains_key(vendor.name));
    let elsewhere = |vendor: &&Vendor| loaded.config.provider.get(vendor.name).is_none_or(|set| set.base_url.is_none());
    for variable in used.filter(elsewhere).filter_map(|vendor| vendor.base_env) {
        let Some(url) = env.get(variable).filter(|url| !url.is_empty()) else { continue };
        let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
        if host.is_none_or(|host| host.is_empty() || host.starts_with('/') || host.contains(char::is_whitespace)) {
            let hint = "start it with `https://` or `http://`, or unset it";
            return Err(Error::invalid(format!("the variable `{variable}` is not an address")).hint(hint));
        }
    }
    Ok(())
}

/// Whether a provider is found or asked by this variable.
pub(crate) fn reads(variable: &str) -> bool {
    let of = |vendor: &Vendor| vendor.keys.contains(&variable) || vendor.base_env == Some(variable);
    VENDORS.iter().any(of) || matches!(variable, "OLLAMA_HOST" | "LLAMA_ARG_PORT")
}

pub(crate) fn models(paths: &Paths, env: &Environment, loaded: &Loaded) -> Result<Models, Error> {
    let catalogue = Arc::new(catalogue(paths)?);
    let providers = setups(env, loaded).into_iter().map(|(name, setup)| {
        let configured = setup.build(&name, &catalogue);
        (name, configured)
    });
    Ok(Models::new(paths.config.join("scripts"), providers.collect()))
}

/// Every provider that is set up, that has a key, or that needs none.
fn setups(env: &Environment, loaded: &Loaded) -> BTreeMap<String, Setup> {
    let env = |name: &str| env.get(name).map(str::to_owned);
    let kept = |name: &str| loaded.keys.get(name).map(config::Secret::expose);
    let vendors = VENDORS.iter().filter_map(|vendor| {
        let setup = Setup::of_vendor(vendor, &env, kept(vendor.name))?;
        Some((vendor.name.to_owned(), setup))
    });
    let set = loaded.config.provider.iter().map(|(name, provider)| {
        let setup = setup(provider).with_env_key(name, &env).with_file_key(kept(name));
        (name.clone(), setup)
    });
    vendors.chain(set).collect()
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
        per_minute: llm::PerMinute {
            requests: provider.limits.requests_per_minute,
            tokens: provider.limits.tokens_per_minute,
        },
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

fn effort(effort: config::Effort) -> llm::Effort {
    match effort {
        config::Effort::Low => llm::Effort::Low,
        config::Effort::Medium => llm::Effort::Medium,
        config::Effort::High => llm::Effort::High,
    }
}

fn asked(variant: &config::Variant) -> llm::Variant {
    llm::Variant { effort: variant.effort.map(effort), budget: variant.budget, output: variant.output }
}

fn about(limits: &config::ModelLimits) -> About {
    let cost = |cost: config::Cost| llm::Cost {
        input: cost.input,
        output: cost.output,
        cache_read: cost.cache_read,
        cache_write: cost.cache_write,
    };
    About {
        context: limits.context,
        output: limits.output,
        reasoning: limits.reasoning.map(|reasoning| match reasoning {
            config::Reasoning::None => llm::Reasoning::None,
            config::Reasoning::Budget => llm::Reasoning::Budget,
            config::Reasoning::Effort => llm::Reasoning::Effort,
        }),
        variants: limits.variants.iter().map(|(name, variant)| (name.clone(), asked(variant))).collect(),
        cost: limits.cost.map(cost),
        effort: limits.effort.map(effort),
        images: limits.images,
        defers: limits.defers,
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
