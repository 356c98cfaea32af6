//! `convoke models`: which models can be named.

use crate::failure::Failure;
use crate::home::Home;
use crate::{providers, terminal};
use config::Loaded;
use llm::vendors::local;
use llm::{Listed, Models};
use serde_json::json;

/// Stands for any name.
const ANY: &str = "*";

/// List the models that can be named, and which one is used when nobody names one
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    let home = Home::here()?;
    home.warn();
    let default = providers::default_model(&home.env, &home.loaded);
    providers::check_addresses(&home.env, &home.loaded)?;
    let models = providers::models(&home.paths, &home.env, &home.loaded)?;
    let listed = models.list(&default);
    let more = unlisted(&home.loaded, &models, &listed);
    let models: Vec<Listed> = listed.into_iter().chain(more).collect();
    if args.json {
        terminal::print_json(&json!({ "default": default, "models": models }));
        return Ok(0);
    }
    let width = models.iter().map(|model| model.name.len()).max().unwrap_or_default();
    for model in models {
        let mark = if model.name == default { "  (default)" } else { "" };
        terminal::print(&format!("{:<width$}  {}{mark}", model.name, about(&model)));
    }
    Ok(0)
}

/// Models of providers that are set up without a list: those a server on this machine names, else a row with `*`, for any
/// name is passed on.
fn unlisted(loaded: &Loaded, models: &Models, listed: &[Listed]) -> Vec<Listed> {
    let is_listed = |name: &String| listed.iter().any(|model| model.name == *name);
    let mut rows = Vec::new();
    for (name, provider) in loaded.config.provider.iter().filter(|(name, _)| models.takes_any(name)) {
        let found = provider.base_url.as_deref().and_then(local::models).filter(|found| !found.is_empty());
        let named = found.unwrap_or_else(|| vec![ANY.to_owned()]).into_iter().map(|model| format!("{name}/{model}"));
        rows.extend(named.filter(|name| !is_listed(name)).filter_map(|name| models.listed(name)));
    }
    rows
}

/// What helps to choose: how much it holds, what a million tokens cost, and where the key is from.
fn about(model: &Listed) -> String {
    if model.model == ANY {
        return "any model of its server can be named".into();
    }
    let mut words = vec![format!("{:>5}k", model.context / 1000)];
    words.extend(model.cost.map(|cost| format!("${} in, ${} out", cost.input, cost.output)));
    if model.key != "none" {
        words.push(model.key.clone());
    }
    words.join("  ")
}
