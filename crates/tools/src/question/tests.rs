use super::Question;
use crate::AnyTool;
use crate::testing::Place;
use serde_json::{Value, json, value::to_raw_value};

fn raw(input: &Value) -> Box<serde_json::value::RawValue> {
    to_raw_value(input).unwrap()
}

#[test]
fn every_question_is_judged_and_none_runs_by_itself() {
    let place = Place::new();
    let input = json!({ "questions": [
        { "question": " Which store? ", "options": [{ "label": "SQLite" }, { "label": "files" }] },
        { "question": "Which name?" },
    ] });
    assert_eq!(place.asks(&Question, input.clone()), ["question Which store?", "question Which name?"]);
    assert_eq!(AnyTool::asks(&Question, &raw(&input)).unwrap().len(), 2);
}

#[test]
fn what_cannot_be_asked_is_told_to_the_model() {
    for (input, why) in [
        (json!({ "questions": [] }), "1 to 4 questions"),
        (json!({ "questions": [{ "question": "" }] }), "says nothing"),
        (json!({ "question": "Which?" }), "questions"),
    ] {
        let error = AnyTool::asks(&Question, &raw(&input)).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn the_model_reads_each_question_with_its_answer() {
    let input = raw(&json!({ "questions": [
        { "question": "Which store?", "options": [{ "label": "SQLite" }] },
        { "question": "Which systems?", "multiSelect": true, "options": [{ "label": "Linux" }, { "label": "macOS" }] },
    ] }));
    let answers = [vec!["a file\nper user".to_owned()], vec!["Linux".to_owned(), "macOS".to_owned()]];
    let output = AnyTool::answered(&Question, &input, &answers).unwrap();
    assert_eq!(
        output.text,
        "The person answered:\n- Which store?\n  a file\n  per user\n- Which systems?\n  Linux; macOS"
    );
    let data: Value = serde_json::from_str(output.data.unwrap().get()).unwrap();
    assert_eq!(data, json!({ "answers": [["a file\nper user"], ["Linux", "macOS"]] }));
}
