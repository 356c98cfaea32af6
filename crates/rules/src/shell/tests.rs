//! Tests of what is read from a line, and of what rules say about it.

use proto::Action::{self, Allow, Ask, Deny};

use super::{Kind, read};
use crate::sample::rules;

/// What a line does: its commands as a rule sees them, files with a sign, and `OPAQUE`.
fn does(line: &str) -> Vec<String> {
    let show = |want: &super::Want| match want.kind {
        Kind::Command => want.text.clone(),
        Kind::Edit => format!("> {}", want.text),
        Kind::Read => format!("< {}", want.text),
        Kind::Opaque => "OPAQUE".into(),
    };
    read(line).wants.iter().map(show).collect()
}

#[track_caller]
fn check(list: &str, line: &str, expected: Action) {
    assert_eq!(crate::evaluate("bash", line, &[&rules(list)]).action, expected, "{line}");
}

#[test]
fn each_command_stands_for_itself() {
    for (line, expected) in [
        ("git status", &["git status"][..]),
        ("  git   status  ", &["git status"]),
        ("git status | head -3 && make", &["git status", "head -3", "make"]),
        ("(cd x; ls) & wait", &["cd x", "ls", "wait"]),
        ("if true; then ls; elif false; then pwd; else rm x; fi", &["true", "ls", "false", "pwd", "rm x"]),
        ("for f in *.rs; do wc -l $f; done", &["wc -l *"]),
        ("while read l; do echo $l; done < in", &["read l", "echo *", "< in"]),
        ("case $1 in a) ls;; *) pwd;; esac", &["ls", "pwd"]),
        ("f() { ls; }; f", &["ls", "f"]),
        ("echo $(id) `pwd`", &["id", "pwd", "echo * *"]),
        ("cat <(ls) | wc", &["ls", "cat *", "wc"]),
        ("\"git\" 'status' \\-s", &["git status -s"]),
        ("git commit -m \"two words\"", &["git commit -m \"two words\""]),
        ("X=1 make all", &["X=1 make all", "make all"]),
        ("echo hi > out.txt 2>&1 2> /dev/null", &["> out.txt", "echo hi"]),
        ("ls # ; rm x", &["ls"]),
        ("cat <<'E'\n$(rm x)\nE", &["cat"]),
        ("ls\nrm x", &["ls", "rm x"]),
    ] {
        let (mut found, mut wanted) = (does(line), expected.to_vec());
        found.sort();
        wanted.sort_unstable();
        assert_eq!(found, wanted, "{line}");
    }
}

#[test]
fn commands_inside_others_are_seen() {
    for (line, inner) in [
        ("env -i X=1 rm x", "rm x"),
        ("nice -n 5 rm x", "rm x"),
        ("timeout -k 5 9 rm x", "rm x"),
        ("nohup setsid -f stdbuf -oL rm x", "rm x"),
        ("time rm x", "rm x"),
        ("sudo -u root rm x", "rm x"),
        ("command rm x", "rm x"),
        ("exec rm x", "rm x"),
        ("busybox rm x", "rm x"),
        ("ls | xargs -0 rm", "rm *"),
        ("sh -c 'ls; rm x'", "rm x"),
        ("bash -lc \"rm x\"", "rm x"),
        ("find . -name a -exec rm {} \\;", "rm *"),
        ("find . -delete", "rm *"),
    ] {
        let found = does(line);
        assert!(found.contains(&inner.to_owned()) && !found.contains(&"OPAQUE".to_owned()), "{line}: {found:?}");
    }
}

#[test]
fn a_narrow_allow_does_not_vouch_for_what_follows_it() {
    for line in [
        "git status; rm -rf .",
        "git status | sh",
        "git status & rm -rf .",
        "git log > src/main.rs",
        "git log < secret",
        "git $(rm -rf .)",
        "git `rm -rf .`",
        "git ${IFS}",
        "git status\nrm -rf .",
    ] {
        check("allow bash git *", line, Ask);
    }
    check("allow bash git *", "git status && git log | git shortlog", Allow);
}

#[test]
fn a_rule_for_everything_speaks_about_what_nobody_can_read() {
    check("allow bash *", "eval $X", Allow);
    check("deny bash *", "eval $X", Deny);
    check("allow * *", "eval $X", Allow);
    check("deny bash *\nallow bash eval *", "eval $X", Deny);
    check("ask bash *", "eval $X", Ask);
    check("", "eval $X", Ask);
    // The very line may be allowed, but no doubt is lifted by that.
    check("allow bash eval $X", "eval $X", Allow);
    check("deny bash rm *\nallow bash eval $X", "eval $X", Ask);
}

#[test]
fn a_stricter_rule_behind_it_makes_it_a_question() {
    check("allow bash *\ndeny bash rm *", "true; $X", Ask);
    check("allow bash *\ndeny bash rm *", "true; rm -rf .", Deny);
    check("allow bash *\ndeny bash rm *", "true; ls", Allow);
    check("allow bash *\nask bash git push*", "true; $X", Ask);
    check("allow bash *\nallow bash git *", "true; $X", Allow);
    check("allow * *\ndeny edit *.md", "true; $X", Allow);
    // One that a later rule makes unreachable casts no doubt either.
    check("deny bash rm *\nallow bash *", "true; $X", Allow);
    check("allow bash *\ndeny bash git push\nallow bash git *", "true; $X", Allow);
}

#[test]
fn what_is_known_in_part_is_doubted_only_by_rules_it_may_meet() {
    check("allow bash *\ndeny bash rm *", "echo $X", Allow);
    check("allow bash *\ndeny bash echo secret*", "echo $X", Ask);
    check("allow bash *\ndeny bash echo *", "echo $X", Deny);
    check("allow bash echo *", "echo $X", Allow);
    check("allow bash echo a*", "echo $X", Ask);
    check("allow bash *\ndeny bash rm *", "/bin/rm $X", Deny);
}

#[test]
fn a_word_that_may_be_empty_hides_no_command() {
    check("allow bash *\ndeny bash git push", "git $X push", Ask);
    check("allow bash *\ndeny bash git push", "git $X $Y push $Z", Ask);
    check("allow bash *\ndeny bash git push", "git $A $B $C $D $E push", Ask);
    check("allow bash *\ndeny bash lsof", "ls $X", Allow);
}

#[test]
fn the_strictest_doubt_is_the_one_named() {
    let list = rules("allow bash *\nask bash git push*\ndeny bash rm *\nask bash dd *");
    let verdict = crate::evaluate("bash", "$X", &[&list]);
    assert_eq!((verdict.action, verdict.rule), (Ask, Some(&list[2])));
}

#[test]
fn other_spellings_are_forbidden_and_not_allowed() {
    let rules = "allow bash *\ndeny bash rm *\ndeny bash git push*";
    for line in ["/bin/rm x", "\\rm x", "'r'm x", "r\"\"m x", "rm '-rf' x", "git -C sub push", "git --no-pager push -f"]
    {
        check(rules, line, Deny);
    }
    check("allow bash git *", "./git status", Ask);
    check("allow bash git *", "'git status' x", Ask);
}

#[test]
fn files_of_redirections_are_judged_as_files() {
    check("allow bash *\nallow edit *\ndeny edit *.lock", "echo x > Cargo.lock", Deny);
    check("allow bash *\nallow edit *", "echo x > notes", Allow);
    check("allow bash *", "echo x > notes", Ask);
    check("allow bash *\nallow read *\ndeny read *.env", "wc < .env", Deny);
    check("allow bash *\nallow edit *\ndeny edit *.lock", "echo x > $F", Ask);
}

#[test]
fn only_shell_lines_are_read() {
    let list = rules("allow webfetch https://example.org/*");
    assert_eq!(crate::evaluate("webfetch", "https://example.org/?a=1&b=2", &[&list]).action, Allow);
}

#[test]
fn a_chain_of_wrappers_without_end_is_opaque() {
    let chain = |length: usize| format!("{}rm x", "timeout 1 ".repeat(length));
    assert_eq!(read(&chain(10)).opaque, None);
    assert!(read(&chain(2_000)).opaque.is_some());
}

#[test]
fn a_line_that_bash_refuses_is_not_understood() {
    for line in
        ["for\ni;do e;done", "case\nx in x) e;; esac", "for i in\na;do e;done", "function\nf { e; }", "f(\n) { e; }"]
    {
        assert!(read(line).opaque.is_some(), "{line}");
    }
    for line in ["for i\ndo e;done", "case x\nin x) e;; esac", "case x in\nx) e;; esac", "f()\n{ e; }"] {
        assert_eq!(read(line).opaque, None, "{line}");
    }
}

#[test]
fn a_number_is_no_file_where_bash_takes_it_for_a_descriptor() {
    assert!(read("echo a >3>t").opaque.is_some());
    assert!(does("echo a >&2>t").contains(&"> t".to_owned()));
    assert!(["> 3", "> t"].iter().all(|file| does("echo a >3 >t").contains(&(*file).to_owned())));
}
