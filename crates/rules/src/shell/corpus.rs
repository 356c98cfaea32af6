//! Lines that were written to slip past rules, with what has to become of each: `corpus.txt`.

use proptest::prelude::*;
use proto::{Action, Rule};

use super::read;
use crate::sample::rules;

struct Case {
    rules: Vec<Rule>,
    line: String,
    expected: Action,
    at: usize,
}

fn cases() -> Vec<Case> {
    let (mut set, mut cases) = (Vec::new(), Vec::new());
    for (at, text) in include_str!("corpus.txt").lines().enumerate() {
        if let Some(list) = text.strip_prefix("= ") {
            set = rules(&list.replace("; ", "\n"));
        } else if let Some((expected, line)) = text.split_once('\t') {
            let expected = match expected {
                "allow" => Action::Allow,
                "ask" => Action::Ask,
                "deny" => Action::Deny,
                other => panic!("line {}: `{other}` is no action", at + 1),
            };
            let line =
                line.replace('␤', "\n").replace('␀', "\0").replace('␍', "\r").replace('␉', "\t").replace('␠', "\u{a0}");
            cases.push(Case { rules: set.clone(), line, expected, at: at + 1 });
        } else {
            assert!(text.is_empty() || text.starts_with("# "), "line {}: no case: {text}", at + 1);
        }
    }
    cases
}

#[test]
fn every_line_of_the_corpus_is_decided_as_it_says() {
    let cases = cases();
    assert!(cases.len() >= 300, "{}", cases.len());
    let wrong: Vec<String> = cases
        .iter()
        .map(|case| (case, crate::evaluate("bash", &case.line, &[&case.rules]).action))
        .filter(|(case, found)| *found != case.expected)
        .map(|(case, found)| {
            let does: Vec<String> = read(&case.line).wants.iter().map(|want| want.text.clone()).collect();
            format!(
                "{}: {:?}, not {found:?}: {:?} {does:?} {:?}",
                case.at,
                case.expected,
                case.line,
                read(&case.line).opaque
            )
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// Words that are only words: whoever denies `rm` is not asked about `git commit -m 'rm x'`.
#[test]
fn five_hundred_everyday_lines_are_not_asked_about() {
    let list = rules(
        "allow bash *\ndeny bash rm *\nask bash git push*\ndeny bash sudo *\nask bash curl *\nallow edit *\nallow read *",
    );
    let lines: Vec<String> = include_str!("everyday.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.replace('␤', "\n"))
        .collect();
    assert!(lines.len() >= 500, "{}", lines.len());
    let asked = |line: &&String| crate::evaluate("bash", line, &[&list]).action != Action::Allow;
    let asked: Vec<String> =
        lines.iter().filter(asked).map(|line| format!("{line}: {:?}", read(line).opaque)).collect();
    assert!(asked.is_empty(), "{} of {}:\n{}", asked.len(), lines.len(), asked.join("\n"));
}

/// Whether bash reads the line as a script, without running it.
fn bash_reads(line: &str) -> bool {
    let bash = std::process::Command::new("bash").args(["--norc", "-n", "-c", line]).env_clear().output();
    bash.expect("bash is needed for tests").status.success()
}

/// Pieces of shell lines, put together as they come.
fn line() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => Just("git status"), 4 => Just("git"), 3 => Just(" "), 2 => Just("x"), 1 => Just("\n"), 2 => Just(";"),
        2 => Just("|"), 2 => Just("&&"), 1 => Just("&"), 1 => Just("("), 1 => Just(")"), 1 => Just("{ "), 1 => Just("; }"),
        1 => Just("$("), 1 => Just("`"), 1 => Just("\""), 1 => Just("'"), 1 => Just("\\"), 1 => Just("$X"), 1 => Just(">"),
        1 => Just("<"), 1 => Just("<<E"), 1 => Just("\nE\n"), 1 => Just("if "), 1 => Just("; then "), 1 => Just("; fi"),
        1 => Just("#"), 1 => Just("="), 1 => Just("{a,b}"), 1 => Just("*"), 1 => Just("! "), 1 => Just("[[ "), 1 => Just(" ]]"),
        1 => Just("for i in x; do "), 1 => Just("; done"), 1 => Just("f() "), 1 => Just("case x in x) "), 1 => Just(";; esac"),
    ];
    prop::collection::vec(piece, 1..9).prop_map(|pieces| pieces.concat())
}

proptest! {
    // A process each: enough to meet every pair of pieces now and then.
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn what_is_read_here_is_read_by_bash_and_what_bash_refuses_no_narrow_rule_allows(line in line()) {
        let known = read(&line).opaque.is_none();
        let allowed = crate::evaluate("bash", &line, &[&rules("allow bash git *\nallow bash x *\nallow edit *")]).action;
        if !bash_reads(&line) {
            prop_assert!(!known, "bash refuses {line:?}, which was read as {:?}", read(&line).wants);
            prop_assert!(allowed < Action::Allow);
        }
    }
}

#[test]
fn lines_of_words_alone_are_read_as_the_grammar_reads_them() {
    let wants = |line: &str| -> Vec<super::Want> {
        read(line).wants.into_iter().filter(|want| want.kind != super::Kind::Opaque).collect()
    };
    let cases = cases();
    let plain: Vec<&Case> = cases.iter().filter(|case| super::plain::commands(&case.line).is_some()).collect();
    assert!(plain.len() > 100);
    for case in plain {
        // A line end changes nothing, but is left to the grammar.
        assert_eq!(wants(&case.line), wants(&format!("{}\n", case.line)), "line {}", case.at);
    }
}

#[test]
fn lines_of_the_corpus_that_are_read_are_read_by_bash() {
    for case in cases().iter().filter(|case| !case.line.contains('\0')) {
        assert!(super::opaque(&case.line) || bash_reads(&case.line), "line {}: {}", case.at, case.line);
    }
}

/// A call is judged by what its line comes down to, each thing by itself and as a person would write it.
#[test]
fn what_a_line_comes_down_to_is_judged_as_the_line() {
    let differs = |case: &Case| {
        let alone = |want: &super::Want| match want.kind {
            super::Kind::Command | super::Kind::Opaque => crate::evaluate("bash", &want.source, &[&case.rules]),
            super::Kind::Edit | super::Kind::Read => super::evaluate(want, &[&case.rules]),
        };
        let alone: Vec<Action> = read(&case.line).wants.iter().map(|want| alone(want).action).collect();
        (alone.iter().min() != Some(&case.expected)).then(|| format!("{}: {} {alone:?}", case.at, case.line))
    };
    let differ: Vec<String> = cases().iter().filter_map(differs).collect();
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}
