//! Security cases about shell lines, by their ids.

use super::judge::shortened;
use super::read;
use crate::sample::rules;
use proptest::prelude::*;
use proto::Action;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

#[track_caller]
fn never_allowed(list: &str, lines: &[&str]) {
    for line in lines {
        let found = crate::evaluate("bash", line, &[&rules(list)]).action;
        assert!(found < Action::Allow, "{line:?} is allowed by {list:?}");
    }
}

#[test]
fn t34_a_rule_for_echo_lets_nothing_else_through() {
    never_allowed(
        "allow bash echo *",
        &[
            "echo x > ~/.bashrc",
            "echo $(id)",
            "echo `id`",
            "echo x; id",
            "echo x & id",
            "echo x\nid",
            "echo x\rid",
            "echo x | sh",
        ],
    );
}

#[test]
fn t35_long_and_deep_lines_are_never_allowed_by_a_narrow_rule() {
    let many = format!("{}id", "echo x; ".repeat(10_000));
    let long = format!("echo {}; id", "x".repeat(1 << 20));
    let deep = format!("{}id{}", "$(".repeat(10_000), ")".repeat(10_000));
    let nested = format!("{}id{}", "( ".repeat(10_000), " )".repeat(10_000));
    never_allowed("allow bash echo *", &[&many, &long, &deep, &nested]);
    let launched = format!("{}id", "npx ".repeat(8_000));
    never_allowed("allow bash *\ndeny bash rm *", &[&launched]);
    let inside = format!("frobnicate {}", "rm ".repeat(9_000));
    never_allowed("allow bash *\ndeny bash rm -x *", &[&inside]);
}

#[test]
fn t36_here_documents_and_function_substitutions_are_never_plain() {
    never_allowed(
        "allow bash cat *\nallow bash echo *",
        &[
            "cat <<E\n`id`\nE",
            "cat <<E\n$(id)\nE",
            "cat <<A <<B\n$(id)\nA\nx\nB",
            "cat <<E; id\nx\nE",
            "cat <<E\nx\nE\nid",
            "echo ${ id; }",
            "echo ${| id; }",
        ],
    );
}

#[test]
fn t37_options_that_run_or_write_are_not_taken_for_reading() {
    let reading = "allow bash git status *\nallow bash git log *\nallow bash sed *\nallow bash sort *\nallow bash find *\n\
                   allow bash tar *\nallow bash rg *\nallow bash man *\nallow bash ls *\nallow read *";
    never_allowed(
        reading,
        &[
            "git -c core.pager=id status",
            "git -c core.fsmonitor=id log",
            "env X=1 id",
            "env -i id",
            "sed -i s/a/b/ f",
            "sed 's/a/id/e' f",
            "sed '1e id' f",
            "sort -o f g",
            "find . -exec id {} +",
            "find . -delete",
            "ls | xargs id",
            "tar xf a --to-command=id",
            "rg --pre id x",
            "man -P id ls",
        ],
    );
}

/// A folder with programs that write down what they were started with, and nothing else.
fn stubs(dir: &Path) {
    for name in ["one", "two", "three"] {
        // In one write: programs of a pipe run at the same time.
        let script =
            "#!/bin/sh\nline=${0##*/}; for word; do line=\"$line $word\"; done; printf '%s\\n' \"$line\" >> \"$LOG\"\n";
        let path = dir.join(name);
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
}

/// Lines of programs that are only written down, in all the ways programs can be put together.
fn harmless() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("a"),
        Just("'b;c'"),
        Just("\"d e\""),
        Just("f\\ g"),
        Just("--h=i"),
        Just("$((1+1))"),
        Just("#j")
    ];
    let name = prop_oneof![Just("one"), Just("two"), Just("three"), Just("'one'"), Just("t\\wo"), Just("\"three\"")];
    let simple = (name, prop::collection::vec(word, 0..3)).prop_map(|(name, words)| {
        let words: String = words.iter().map(|word| format!(" {word}")).collect();
        format!("{name}{words}")
    });
    simple.prop_recursive(4, 12, 2, |inner| {
        (inner.clone(), inner, 0..10_usize).prop_map(|(left, right, how)| match how {
            0 => format!("{left}; {right}"),
            1 => format!("{left} && {right}"),
            2 => format!("{left} || {right}"),
            3 => format!("{left} | {right}"),
            4 => format!("({left}); {right}"),
            5 => format!("{{ {left}; }} && {right}"),
            6 => format!("if {left}; then {right}; fi"),
            7 => format!("{left} $({right})"),
            8 => format!("{left}\n{right}"),
            _ => format!("! {left}; env X=1 {right}"),
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// What bash starts is what was read: each program it ran was named, with these words, before it ran.
    #[test]
    fn t37_whatever_bash_starts_was_read(line in harmless()) {
        let found = read(&line);
        prop_assume!(found.opaque.is_none());
        let dir = tempfile::tempdir().unwrap();
        stubs(dir.path());
        let log = dir.path().join("log");
        let path = format!("{}:/usr/bin:/bin", dir.path().display());
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", &line]).env_clear().env("PATH", path).env("LOG", &log).current_dir(dir.path());
        let done = bash.stdin(std::process::Stdio::null()).output().expect("bash is needed for tests");
        let ran = std::fs::read_to_string(&log).unwrap_or_default();
        prop_assert!(!ran.is_empty(), "the first program of {line:?} did not run: {done:?}");
        let named: BTreeSet<String> = found
            .wants
            .iter()
            .flat_map(|want| want.looks.iter().cloned().chain([want.words.join(" "), want.text.clone()]))
            .flat_map(|text| shortened(&text))
            .collect();
        for line_run in ran.lines() {
            let was_named = named.iter().any(|name| name == line_run || crate::matches(name, line_run));
            prop_assert!(was_named, "{line_run:?} was started by {line:?}, read as {named:?}; {done:?}");
        }
    }
}
