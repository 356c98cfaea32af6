//! `convoke models`: which models can be named.

use crate::failure::Failure;
use crate::home::Home;
use crate::{providers, terminal};
use llm::Listed;
use serde_json::json;

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
    let models = providers::models(&home.paths, &home.env, &home.loaded)?.list(&default);
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

/// What helps to choose: how much it holds, what a million tokens cost, and where the key is from.
fn about(model: &Listed) -> String {
    let mut words = vec![format!("{:>5}k", model.context / 1000)];
    words.extend(model.cost.map(|cost| format!("${} in, ${} out", cost.input, cost.output)));
    if model.key != "none" {
        words.push(model.key.clone());
    }
    words.join("  ")
}
