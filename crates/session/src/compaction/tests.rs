//! Where a conversation is cut, as a table; and that what is written of it always fits.

use super::*;
use proto::entry::{Call, CallResult, Compaction, Decision, Finish, State, Text};
use proto::{LetterId, Usage};
use serde_json::value::to_raw_value;

fn run() -> RunId {
    RunId::parse("run_1").unwrap()
}

/// `u8` is a prompt of eight tokens, `a8` an answer, `c8` a reply with a call, `r8` its result, `r8/2` that of the second
/// newest call, and `n8` a notice.
fn log(text: &str) -> Vec<Stored> {
    let mut calls: Vec<CallId> = Vec::new();
    let entry = |(word, n): (&str, u64)| {
        let (size, back) = word[1..].split_once('/').unwrap_or((&word[1..], "1"));
        let words = "abcd".repeat(size.parse().unwrap());
        let said = |parts| {
            let (usage, model) = (Usage::default(), "p/m".to_owned());
            Entry::Reply(Reply { step: 1, parts, usage, finish: Finish::Stop, model, deferred: Vec::new() })
        };
        let entry = match &word[..1] {
            "u" => Entry::Input(Input {
                letter: LetterId::new(),
                run: run(),
                parts: vec![InputPart::Text { text: words }],
                agent: "build".into(),
                name: None,
                model: "p/m".into(),
                provenance: None,
                conversation: None,
                until: None,
                purse: None,
                shutdown: None,
                compact: None,
            }),
            "a" => said(vec![ReplyPart::Text(Text { text: words })]),
            "c" => {
                let id = CallId::parse(&format!("call_{n}")).unwrap();
                calls.push(id.clone());
                let (input, tool) = (to_raw_value(&words[..words.len() - 6]).unwrap(), "read".to_owned());
                let (decision, changed, wire_id) = (Decision::Run, None, None);
                said(vec![ReplyPart::Call(Call { id, tool, input, changed, decision, wire_id })])
            }
            "r" => Entry::Result(CallResult {
                call: calls[calls.len() - back.parse::<usize>().unwrap()].clone(),
                state: State::Ok,
                output: words,
                data: None,
                files: Vec::new(),
                ms: 0,
                ends_turn: false,
                shutdown: None,
                loads: Vec::new(),
                wrote: Vec::new(),
            }),
            "n" => Entry::Notice(proto::entry::Notice { text: words }),
            other => panic!("{other}"),
        };
        Stored { seq: n, at: 0, entry }
    };
    text.split(' ').zip(1..).map(entry).collect()
}

#[track_caller]
fn check(text: &str, tail: u64, expected: usize) {
    assert_eq!(cut(&log(text), tail), expected, "{text} within {tail}");
}

#[test]
fn the_newest_turns_stay_as_they_are() {
    check("u8 a8 u8 a8 u8 a8", 16, 4);
    check("u8 a8 u8 a8 u8 a8", 31, 4);
    check("u8 a8 u8 a8 u8 a8", 32, 2);
    check("u8 a8 u8 a8 u8 a8", 1000, 0);
    // A prompt that nobody has answered is a turn as well.
    check("u8 a8 u8", 8, 2);
}

#[test]
fn a_turn_that_is_too_long_is_cut_before_a_reply_and_never_before_a_result() {
    check("u8 c8 r8 c8 r8 a8", 24, 3);
    check("u8 c8 r8 c8 r8 a8", 23, 5);
    check("u8 c8 r8 c8 r8", 15, 5);
    check("u99 c8 r8 c8 r8 a8", 40, 1);
    // Two calls of which one is still out: what comes between belongs to them.
    check("u8 a8 c8 c8 r8/2 u8 r8", 20, 7);
    check("u8 a8 c8 c8 r8/2 u8 r8", 40, 2);
}

#[test]
fn what_does_not_fit_at_all_is_summed_up() {
    check("u8 a8 u99", 50, 3);
    check("u8", 1, 1);
}

#[test]
fn the_tail_is_a_quarter_within_bounds() {
    for (usable, expected) in [(0, 2_000), (4_000, 2_000), (20_000, 5_000), (60_000, 15_000), (1_000_000, 15_000)] {
        assert_eq!(tail(usable), expected, "{usable}");
    }
}

#[test]
fn old_output_is_left_out_once_and_new_output_never() {
    let entries = log("u8 c8 r500 c8 r500 c8 r50 a8 u8 c8 r500");
    assert_eq!(prune(&entries, 600, 0), Some((9, 2 * (500 - 22))));
    assert_eq!(prune(&entries, 600, 5), Some((9, 500 - 22)));
    assert_eq!(prune(&entries, 600, 9), None);
    assert_eq!(prune(&entries, 10_000, 0), None);
    assert_eq!(prune(&log("u8 c8 r500 c8 r500"), 10, 0), Some((4, 500 - 22)));
}

#[test]
fn the_prompt_under_way_is_repeated_unless_a_newer_one_stays() {
    let entries = log("u8 a8 u2 c8 r8 c8 r8 c8 r8");
    let check = |from: usize, cut: usize, run: &str, before: Option<(&str, u32)>, expected: Option<(&str, u32)>| {
        let (owned, run) = (|pair: (&str, u32)| (pair.0.to_owned(), pair.1), RunId::parse(run).unwrap());
        let found = under_way(&entries[from..cut], &entries[cut..], &run, before.map(owned));
        assert_eq!(found, expected.map(owned), "{from}..{cut}");
    };
    check(0, 7, "run_1", None, Some(("abcdabcd", 2)));
    check(0, 7, "run_1", Some(("older", 9)), Some(("abcdabcd", 2)));
    check(0, 2, "run_1", None, None);
    check(0, 7, "run_2", None, None);
    // It went into the summary before this one.
    check(3, 7, "run_1", Some(("older", 9)), Some(("older", 11)));
}

#[test]
fn a_wish_for_room_is_told_by_its_first_word() {
    let wish = |text: &str| asked(text).map(|compact| compact.instructions);
    assert_eq!(wish("/compact"), Some(None));
    assert_eq!(wish(" /compact  keep the numbers\n"), Some(Some("keep the numbers".into())));
    assert_eq!(wish("/compacted"), None);
    assert_eq!(wish("please /compact"), None);
}

#[test]
fn what_is_written_for_a_summary_fits_and_shortens_the_longest_first() {
    let entries = log("u8 c8 r99999 a8 u8 a8");
    let written = text(Some("before"), &entries, 4_000);
    assert!(written.len() < 4_400, "{}", written.len());
    assert!(written.starts_with("[summary of what came before]\nbefore\n[user]\nabcd"), "{written}");
    assert!(written.contains("bytes are left out)") && written.ends_with("abcd\n"), "{written}");
    assert_eq!(written.matches("left out").count(), 1, "short pieces stay whole");
    let many = log(&vec!["u8 a8"; 2_000].join(" "));
    let written = text(Some("before"), &many, 4_000);
    assert!(written.len() < 4_400, "{}", written.len());
    assert!(written.starts_with("[summary of what came before]\nbefore\n["), "{written}");
    assert!(written.contains("older pieces are left out here"), "{written}");
    assert_eq!(text(None, &entries[..1], usize::MAX), format!("[user]\n{}\n", "abcd".repeat(8)));
}

#[test]
fn the_opening_tells_the_summary_and_what_stands_beside_it() {
    let standing = Standing {
        todo: &[serde_json::from_str(r#"{"content": "mend", "status": "in_progress"}"#).unwrap()],
        plan: Some("first this"),
        mode: Some("plan"),
        loaded: &["subagents".to_owned()],
        ..Standing::default()
    };
    let compaction = Compaction {
        summary: Some("## Goal\nto mend".into()),
        steps: 3,
        standing: standing.text(),
        ..Compaction::default()
    };
    insta::assert_snapshot!(opening(&compaction), @r#"
    [notice from the runtime, not from a person] What was said before this point was summed up to make room. Go on from the summary; what follows it is as it was said.
    <summary steps="3">
    ## Goal
    to mend
    </summary>
    <state>
    Your list of what is left to do:
    - [>] mend
    The plan that was approved:
    first this
    Your permission mode is `plan`.
    Tools you have loaded: subagents.
    </state>
    "#);
    assert_eq!(Standing::default().text(), None);
}

#[test]
fn a_prompt_that_is_too_long_keeps_its_beginning_and_its_end() {
    let text = format!("first {} last", "ä".repeat(1_000));
    let short = shortened(&text, 100, "it is elsewhere");
    assert!(short.starts_with("first ä") && short.ends_with("ä last"), "{short}");
    assert!(short.contains("bytes are left out") && short.contains("it is elsewhere") && short.len() < 300, "{short}");
}
