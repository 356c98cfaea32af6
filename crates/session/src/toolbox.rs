//! The tools of a session: which of them its model is shown, and which it knows by name only until it loads them.
//!
//! The request's tool list stands at the beginning of what a provider caches, so it only ever grows at its end: first
//! the tools that are always shown, then those that were loaded, in the order they were.

use bytes::Bytes;
use config::Search;
use llm::{Provider, ToolSpec};
use std::sync::OnceLock;
use tools::tool_search::{Candidate, ToolCard};
use tools::{AnyTool, Audience};

pub(crate) struct Toolbox {
    /// What may be called, in the order of `BUILTIN`.
    tools: Vec<&'static dyn AnyTool>,
    audience: Audience,
    deferred: Vec<&'static str>,
    /// Made for whoever searches first.
    cards: OnceLock<Vec<ToolCard>>,
}

/// What decides whether tools are deferred.
pub(crate) struct Deferral<'a> {
    pub(crate) search: Search,
    /// Tokens of the model's context; asked for only where it counts.
    pub(crate) context: &'a dyn Fn() -> u64,
}

impl Toolbox {
    pub(crate) fn new(tools: Vec<&'static dyn AnyTool>, audience: Audience, deferral: &Deferral<'_>) -> Self {
        let mut toolbox = Self { tools, audience, deferred: Vec::new(), cards: OnceLock::new() };
        // Whoever cannot search is shown everything.
        if toolbox.has(SEARCH) {
            toolbox.deferred = toolbox.deferrable(deferral);
        }
        toolbox
    }

    fn deferrable(&self, deferral: &Deferral<'_>) -> Vec<&'static str> {
        let could = |tool: &&&'static dyn AnyTool| Candidate::of(&tool.spec()).is_deferred(true);
        let could: Vec<&'static dyn AnyTool> = self.tools.iter().filter(could).copied().collect();
        let applies = match deferral.search {
            Search::On => true,
            Search::Off => false,
            Search::Auto(percent) => {
                let size = |tool: &&'static dyn AnyTool| {
                    let shown = self.shown(*tool);
                    shown.name.len() + shown.description.len() + shown.schema.get().len()
                };
                let tokens = llm::estimate(could.iter().map(size).sum());
                tokens.saturating_mul(100) > (deferral.context)().saturating_mul(u64::from(percent))
            }
        };
        if applies { could.iter().map(|tool| tool.spec().name).collect() } else { Vec::new() }
    }

    /// Whether a tool may be called, shown or not.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.spec().name == name)
    }

    /// Names of the tools that have to be loaded, in the order of `BUILTIN`.
    pub(crate) fn deferred(&self) -> &[&'static str] {
        &self.deferred
    }

    pub(crate) fn is_deferred(&self, name: &str) -> bool {
        self.deferred.contains(&name)
    }

    /// The tool list as the provider is sent it. A model that can defer is sent all of them, the others marked: a result
    /// points at them then, and the list stays as it is.
    pub(crate) fn encode(&self, provider: &dyn Provider, loaded: &[String], defers: bool) -> Bytes {
        let always = |tool: &&&'static dyn AnyTool| {
            let name = tool.spec().name;
            !self.is_deferred(name) && (name != SEARCH || !self.deferred.is_empty())
        };
        let by_name = |name: &String| {
            let tool = self.tools.iter().find(|tool| tool.spec().name == name)?;
            self.is_deferred(name).then_some(tool)
        };
        let listed = self.tools.iter().filter(always).chain(loaded.iter().filter_map(by_name));
        let mut listed: Vec<ToolSpec> = listed.map(|tool| self.shown(*tool)).collect();
        let marked = self.deferred.iter().filter(|name| defers && !loaded.iter().any(|loaded| loaded == *name));
        let marked = marked.filter_map(|name| self.tools.iter().find(|tool| tool.spec().name == *name));
        listed.extend(marked.map(|tool| ToolSpec { deferred: true, ..self.shown(*tool) }));
        if listed.is_empty() { Bytes::new() } else { provider.encode_tools(&listed) }
    }

    /// What this audience is told of a tool.
    pub(crate) fn described(&self, tool: &'static dyn AnyTool) -> String {
        tool.describe(&self.audience).unwrap_or_else(|| tool.spec().description.trim().to_owned())
    }

    fn shown(&self, tool: &'static dyn AnyTool) -> ToolSpec {
        let spec = tool.spec();
        let description = self.described(tool);
        ToolSpec { name: spec.name.to_owned(), description, schema: (spec.schema)(), deferred: false }
    }

    fn card(&self, tool: &'static dyn AnyTool) -> ToolCard {
        let ToolSpec { name, description, schema, .. } = self.shown(tool);
        let aliases = tool.spec().aliases.iter().map(|alias| (*alias).to_owned()).collect();
        let deferred = self.is_deferred(&name);
        ToolCard::new(name, aliases, description, schema, deferred)
    }
}

impl tools::Catalogue for Toolbox {
    fn cards(&self) -> &[ToolCard] {
        self.cards.get_or_init(|| self.tools.iter().map(|tool| self.card(*tool)).collect())
    }
}

/// Without it nothing can be loaded, and with nothing to load it is of no use.
pub(crate) const SEARCH: &str = "tool_search";

#[cfg(test)]
mod tests {
    use super::*;

    fn toolbox(names: &[&str], search: Search, context: u64) -> Toolbox {
        let tools = tools::BUILTIN.iter().filter(|tool| names.contains(&"*") || names.contains(&tool.spec().name));
        let deferral = Deferral { search, context: &|| context };
        Toolbox::new(tools.copied().collect(), Audience::default(), &deferral)
    }

    fn listed(toolbox: &Toolbox, loaded: &[&str]) -> Vec<String> {
        let loaded: Vec<String> = loaded.iter().map(|name| (*name).to_owned()).collect();
        let provider = llm::OpenAiChat::new(llm::Endpoint::at("http://nowhere"));
        let bytes = toolbox.encode(&provider, &loaded, false);
        let list: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        list.as_array().unwrap().iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn what_is_loaded_comes_last_in_the_order_it_was_loaded() {
        let toolbox = toolbox(&["read", "sessions_list", "subagents", "tool_search"], Search::On, 0);
        assert_eq!(toolbox.deferred(), ["sessions_list", "subagents"]);
        assert_eq!(listed(&toolbox, &[]), ["read", "tool_search"]);
        let loaded = ["subagents", "gone", "sessions_list", "read"];
        assert_eq!(listed(&toolbox, &loaded), ["read", "tool_search", "subagents", "sessions_list"]);
    }

    #[test]
    fn without_a_search_or_anything_to_search_for_all_is_shown() {
        assert_eq!(listed(&toolbox(&["read", "subagents"], Search::On, 0), &[]), ["read", "subagents"]);
        assert_eq!(listed(&toolbox(&["read", "tool_search"], Search::On, 0), &[]), ["read"]);
        let off = toolbox(&["read", "subagents", "tool_search"], Search::Off, 0);
        assert_eq!(listed(&off, &["subagents"]), ["read", "subagents"]);
        assert!(off.has("tool_search"));
    }

    #[test]
    fn auto_defers_what_would_fill_too_much_of_the_context() {
        assert!(toolbox(&["*"], Search::Auto(10), 1_000_000).deferred().is_empty());
        assert!(!toolbox(&["*"], Search::Auto(10), 1_000).deferred().is_empty());
    }
}
