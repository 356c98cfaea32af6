//! Names in the settings that nothing has: rules for a permission no tool asks for, tools there are none of, models
//! nobody runs.

use crate::failure::Failure;
use crate::home::Home;
use crate::providers;
use config::{Loaded, Named, Of, Placed};
use llm::Models;
use proto::Error;
use std::collections::BTreeSet;

/// Warnings about rules and lists of tools that do nothing as they are written.
pub(crate) fn unknown(loaded: &Loaded) -> Vec<String> {
    let known = session::permissions();
    let rules = loaded.rule_places.iter().chain(loaded.agent_rule_places.values().flatten());
    let rules = rules.filter_map(|placed| of_rule(placed, &known));
    let tools = loaded.named.iter().filter(|named| named.of == Of::Tool).filter_map(of_tool);
    rules.chain(tools).collect()
}

fn of_rule(placed: &Placed, known: &BTreeSet<&'static str>) -> Option<String> {
    let name = placed.rule.permission.as_str();
    if is_open(name) || known.contains(name) {
        return None;
    }
    let place = format!("{}:{}", placed.origin.file, placed.origin.line);
    let shown: String = name.chars().take(64).collect();
    Some(match tools::find(name).map(|tool| tool.spec().permission) {
        Some(permission) => {
            format!("{place}: the rule for `{shown}` does nothing: the permission is called `{permission}`")
        }
        None => {
            format!("{place}: the rule for `{shown}` does nothing: there is no such permission{}", near(name, known))
        }
    })
}

fn of_tool(named: &Named) -> Option<String> {
    let name = named.name.as_str();
    // Agents of other programs name tools of theirs.
    let theirs = [".claude/", ".opencode/"].iter().any(|folder| named.origin.file.contains(folder));
    if theirs || is_open(name) || tools::find(name).is_some() {
        return None;
    }
    let (file, line, path) = (&named.origin.file, named.origin.line, &named.path);
    let shown: String = name.chars().take(64).collect();
    Some(format!("{file}:{line}: `{path}` names `{shown}`, and there is no such tool{}", near(name, &BTreeSet::new())))
}

/// Whether a name may stand for more than is known here: wildcards, groups that exist, and tools of MCP servers.
fn is_open(name: &str) -> bool {
    let group = name.starts_with("group:") && tools::groups::expand(name) != [name];
    group || name.contains(['*', '?']) || name.starts_with("mcp_")
}

fn near(name: &str, permissions: &BTreeSet<&'static str>) -> String {
    let tools = tools::BUILTIN.iter().map(|tool| tool.spec().name);
    let nearest = proto::nearest::nearest(name, permissions.iter().copied().chain(tools));
    nearest.map(|nearest| format!("; the nearest is `{nearest}`")).unwrap_or_default()
}

/// Warnings about agents whose model is a short name that nothing here fits.
pub(crate) fn unfit_models(loaded: &Loaded, models: &Models) -> Vec<String> {
    let unfit = loaded.named.iter().filter(|named| is_of_agent(named) && models.full(&named.name).is_none());
    let told = unfit.map(|Named { name, path, origin, .. }| {
        let place = format!("{}:{}", origin.file, origin.line);
        format!(
            "{place}: `{path}`: no configured model fits `{name}`, so the agent runs on the model it has without that"
        )
    });
    told.collect()
}

/// The same for a command, which makes out the models only where that is needed.
pub(crate) fn unfit(home: &Home) -> Vec<String> {
    if !home.loaded.named.iter().any(is_of_agent) {
        return Vec::new();
    }
    let models = providers::models(&home.paths, &home.env, &home.loaded);
    models.map(|models| unfit_models(&home.loaded, &models)).unwrap_or_default()
}

fn is_of_agent(named: &Named) -> bool {
    named.of == Of::Model && named.path.starts_with("agent.") && proto::model::is_short(&named.name)
}

/// Errors about models that cannot be asked.
pub(crate) fn unknown_models(loaded: &Loaded, models: &Models) -> Vec<Error> {
    let named = loaded.named.iter().filter(|named| named.of == Of::Model && !is_of_agent(named));
    named
        .filter_map(|named| {
            let name = models.full(&named.name).unwrap_or_else(|| named.name.clone());
            let unknown = models.resolve(&name).err()?;
            let (file, line, path) = (&named.origin.file, named.origin.line, &named.path);
            let error = Error::invalid(format!("{file}:{line}: `{path}`: {}", unknown.message));
            Some(match unknown.candidates.is_empty() {
                true => error,
                false => error.hint(format!("there is: {}", unknown.candidates.join(", "))),
            })
        })
        .collect()
}

/// A failure about a model that a setting names, with where that stands.
pub(crate) fn of_setting(mut failure: Failure, home: &Home) -> Failure {
    let Ok(models) = providers::models(&home.paths, &home.env, &home.loaded) else { return failure };
    let named = home.loaded.named.iter().filter(|named| named.of == Of::Model);
    let mut unknown = named.filter_map(|named| Some((named, models.resolve(&named.name).err()?)));
    if let Some((Named { path, origin, .. }, _)) = unknown.rfind(|(_, why)| why.message == failure.error.message) {
        failure.error.message = format!("{}:{}: `{path}`: {}", origin.file, origin.line, failure.error.message);
    }
    failure
}
