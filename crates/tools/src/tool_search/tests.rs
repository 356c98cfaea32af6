//! Queries against catalogues: a small one, and one of two thousand tools.

use super::*;
use crate::doors::Catalogue;
use serde_json::value::RawValue;

struct Cards(Vec<ToolCard>);

impl Catalogue for Cards {
    fn cards(&self) -> &[ToolCard] {
        &self.0
    }
}

fn card(name: &str, description: &str, argument: &str, deferred: bool) -> ToolCard {
    let schema = format!(r#"{{"type":"object","properties":{{"{argument}":{{"type":"string"}}}}}}"#);
    ToolCard::new(name, Vec::new(), description, RawValue::from_string(schema).unwrap(), deferred)
}

fn ours() -> Vec<ToolCard> {
    let card = |tool: &&dyn crate::AnyTool| {
        let spec = tool.spec();
        let aliases = spec.aliases.iter().map(|alias| (*alias).to_owned()).collect();
        ToolCard::new(spec.name, aliases, spec.description, (spec.schema)(), Candidate::of(&spec).is_deferred(true))
    };
    crate::BUILTIN.iter().map(card).collect()
}

/// Ten servers with forty things, each of which can be read, written, listed, searched and deleted.
fn two_thousand() -> Vec<ToolCard> {
    let servers = ["git", "mail", "wiki", "shop", "bank", "maps", "chat", "cloud", "music", "photo"];
    let verbs = ["get", "create", "list", "search", "delete"];
    let mut cards = Vec::new();
    for server in servers {
        for thing in 0..40 {
            for verb in verbs {
                let about =
                    format!("{verb} the objects of kind {thing} on the {server} server and say what became of them");
                cards.push(card(&format!("mcp_{server}_{verb}_item{thing}"), &about, &format!("{server}Id"), true));
            }
        }
    }
    cards
}

#[track_caller]
fn check(cards: &[ToolCard], query: &str, expected: &[&str]) {
    let found = find(cards, &Query::parse(query).unwrap(), 5);
    let names: Vec<&str> = found.cards.iter().map(|card| card.name.as_str()).collect();
    assert_eq!(names, expected, "{query}");
}

#[track_caller]
fn first(cards: &[ToolCard], query: &str, expected: &str) {
    let found = find(cards, &Query::parse(query).unwrap(), 5);
    assert_eq!(found.cards.first().map(|card| card.name.as_str()), Some(expected), "{query}");
}

#[test]
fn names_are_selected_in_the_order_they_are_asked_for() {
    let cards = ours();
    check(&cards, "select:subagents,sessions_list", &["subagents", "sessions_list"]);
    check(&cards, "select: subagents , Subagents,subagents", &["subagents"]);
    check(&cards, "SELECT:read", &["read"]);
    check(&cards, "select:LS,ToolSearch", &["list", "tool_search"]);
}

#[test]
fn names_that_are_missing_are_named_with_their_nearest() {
    let cards = ours();
    let found = find(&cards, &Query::parse("select:session_lists,read,zqx").unwrap(), 5);
    assert_eq!(found.cards.len(), 1);
    assert_eq!(found.missing[0].wanted, "session_lists");
    assert_eq!(found.missing[0].nearest[0], "sessions_list");
    assert_eq!(found.missing[1], Missing { wanted: "zqx".into(), nearest: vec![] });
}

#[test]
fn words_find_deferred_tools_by_name_description_and_argument() {
    let cards = ours();
    first(&cards, "session history", "sessions_history");
    first(&cards, "sessionsHistory", "sessions_history");
    first(&cards, "which agents can I start", "agents_list");
    let small = [
        card("alpha", "counts beans in a jar", "jar", true),
        card("beta", "folds paper", "creaseAngle", true),
        card("gamma", "folds paper too", "size", false),
    ];
    check(&small, "beans", &["alpha"]);
    check(&small, "crease", &["beta"]);
    check(&small, "folding", &[]);
    check(&small, "folds the paper", &["beta"]);
    check(&small, "gamma", &["gamma"]);
}

#[test]
fn an_exact_name_comes_first_whatever_else_fits_better() {
    let cards = [
        card("list_list_list", "list lists that list a list", "list", true),
        card("list", "one", "path", true),
        card("other", "list", "x", true),
    ];
    first(&cards, "list", "list");
    check(&cards, "LIST", &["list", "list_list_list", "other"]);
}

#[test]
fn a_word_with_a_plus_has_to_be_in_the_name() {
    let cards = two_thousand();
    let found = find(&cards, &Query::parse("+wiki search item7").unwrap(), 5);
    assert_eq!(found.cards[0].name, "mcp_wiki_search_item7");
    assert!(found.cards.iter().all(|card| card.name.contains("wiki")));
    assert_eq!(found.cards.len(), 5);
    check(&cards, "+shop +delete +item39", &["mcp_shop_delete_item39"]);
    let part = find(&cards, &Query::parse("+hot").unwrap(), 5);
    assert!(part.cards.iter().all(|card| card.name.contains("photo")) && part.cards.len() == 5);
}

#[test]
fn two_thousand_tools_are_searched_with_the_same_answer_every_time() {
    let cards = two_thousand();
    assert_eq!(cards.len(), 2000);
    check(&cards, "select:mcp_bank_get_item3,mcp_maps_list_item12", &["mcp_bank_get_item3", "mcp_maps_list_item12"]);
    first(&cards, "delete item12 of music", "mcp_music_delete_item12");
    let names = |query: &str| -> Vec<String> {
        let found = find(&cards, &Query::parse(query).unwrap(), 5);
        found.cards.iter().map(|card| card.name.clone()).collect()
    };
    assert_eq!(names("search photo"), names("search photo"));
    assert!(names("search photo").iter().all(|name| name.starts_with("mcp_photo_search_")));
    let miss = find(&cards, &Query::parse("select:mcp_bank_get_itm3").unwrap(), 5);
    assert!(miss.missing[0].nearest[0].starts_with("mcp_bank_get_item"), "{:?}", miss.missing);
}

#[test]
fn a_query_that_asks_for_nothing_is_none() {
    for text in ["", "  ", "select:", "select: , ", "+", "?!"] {
        assert_eq!(Query::parse(text), None, "{text}");
    }
}

#[test]
fn the_result_is_a_block_of_functions_and_loads_what_was_deferred() {
    let cards = [card("alpha", "counts \"beans\"", "jar", true), card("gamma", "folds", "size", false)];
    let query = Query::parse("select:alpha,gamma,alpa").unwrap();
    let output = answer(&cards, "select:alpha,gamma,alpa", &query, 5);
    insta::assert_snapshot!(output.text, @r#"
    <functions>
    <function>{"description":"counts \"beans\"","name":"alpha","parameters":{"type":"object","properties":{"jar":{"type":"string"}}}}</function>
    <function>{"description":"folds","name":"gamma","parameters":{"type":"object","properties":{"size":{"type":"string"}}}}</function>
    </functions>
    There is no tool `alpa`; the nearest are: alpha.
    "#);
    assert_eq!(output.loads, ["alpha"]);
    assert!(!output.failed);
    assert_eq!(
        output.data.unwrap().get(),
        r#"{"query":"select:alpha,gamma,alpa","matches":["alpha","gamma"],"missing":["alpa"],"totalDeferredTools":1}"#
    );
}

#[test]
fn finding_nothing_is_an_answer_and_a_wrong_name_a_mistake() {
    let cards = [card("alpha", "counts beans", "jar", true)];
    for (text, failed, words) in [
        ("alpa", false, "No tool that could be loaded matches `alpa`; the nearest are: alpha."),
        ("select:alpa", true, "There is no tool `alpa`; the nearest are: alpha."),
        ("select:zzz", true, "There is no tool `zzz`, and none has a name like it: try other words."),
    ] {
        let output = answer(&cards, text, &Query::parse(text).unwrap(), 5);
        assert_eq!((output.failed, output.text.as_str()), (failed, words));
        assert!(output.loads.is_empty());
    }
}

#[test]
fn a_result_never_holds_more_than_a_model_is_shown() {
    let long = "x".repeat(output::MAX_BYTES / 2);
    let cards: Vec<ToolCard> = (0..4).map(|n| card(&format!("tool{n}"), &long, "a", true)).collect();
    let text = "select:tool0,tool1,tool2,tool3";
    let output = answer(&cards, text, &Query::parse(text).unwrap(), 5);
    assert_eq!(output.loads, ["tool0"]);
    assert!(output.text.ends_with("3 more did not fit: ask for fewer at once."));
}

#[tokio::test]
async fn the_tool_reads_its_catalogue_and_keeps_to_its_number() {
    let place = crate::testing::Place::new();
    let cx = ToolCx { catalogue: std::sync::Arc::new(Cards(two_thousand())), ..place.cx() };
    let count = async |input: serde_json::Value| {
        let input = serde_json::value::to_raw_value(&input).unwrap();
        crate::AnyTool::run(&ToolSearch, &input, &cx).await.map(|output| output.loads.len())
    };
    assert_eq!(count(serde_json::json!({"query": "search"})).await.unwrap(), 5);
    assert_eq!(count(serde_json::json!({"query": "search", "max_results": "7"})).await.unwrap(), 7);
    assert_eq!(count(serde_json::json!({"query": "search", "max_results": 900})).await.unwrap(), 50);
    assert!(count(serde_json::json!({"query": " "})).await.unwrap_err().to_string().contains("asks for nothing"));
}
