//! What is masked and what is not, one line each.

use std::borrow::Cow;

use super::*;

#[track_caller]
fn check(text: &str, expected: &str) {
    let redactor = Redactor::new([]);
    assert_eq!(redactor.redact(text), expected);
    assert_eq!(redactor.redact(expected), expected, "twice is once");
}

#[track_caller]
fn check_known(known: &[&str], text: &str, expected: &str) {
    let redactor = Redactor::new(known.iter().map(ToString::to_string));
    assert_eq!(redactor.redact(text), expected);
    assert_eq!(redactor.redact(expected), expected, "twice is once");
}

/// Shaped like a key, and made here so that no scanner takes this file for a leak.
fn filler(length: usize) -> String {
    "a1B2c3D4e5F6g7H8i9J0".chars().cycle().take(length).collect()
}

#[test]
fn keys_with_a_well_known_prefix_keep_only_that() {
    for prefix in [
        "sk-",
        "ghp_",
        "gho_",
        "github_pat_",
        "glpat-",
        "xoxb-",
        "xoxp-",
        "xapp-",
        "AIza",
        "npm_",
        "hf_",
        "gsk_",
        "pplx-",
        "sk_live_",
        "SG.",
        "ya29.",
    ] {
        check(&format!("key {prefix}{} here", filler(36)), &format!("key {prefix}*** here"));
        check(&format!("({prefix}{})", filler(36)), &format!("({prefix}***)"));
    }
    check(&format!("sk-ant-api03-{}", filler(40)), "sk-***");
    check(&format!("sk-proj-{}", filler(40)), "sk-***");
    check(&format!("AKIA{}", "ABCDEFGH01234567"), "AKIA***");
    check(&format!("eyJ{}.eyJ{}.{}", filler(20), filler(20), filler(20)), "eyJ***");
    check(&format!("123456789:{}", filler(35)), "123456789:***");
}

#[test]
fn words_that_only_begin_like_a_key_stay() {
    for text in [
        "task-management-for-everybody",
        "sk-learn-compatible-estimators",
        "npm_config_registry and npm_package_name",
        "eyJust a word",
        "the AKIAN coast",
        "disk-0123456789abcdef",
    ] {
        check(text, text);
    }
}

#[test]
fn headers_keep_their_scheme() {
    check("Authorization: Bearer abcdefgh", "Authorization: Bearer ***");
    check("authorization: basic dXNlcjpwYXNz", "authorization: basic ***");
    check(r#"{"Authorization": "Bearer abcdefgh"}"#, r#"{"Authorization": "Bearer ***"}"#);
    check("-H 'Authorization: token abcdefgh1' x", "-H 'Authorization: token ***' x");
    check("uses Bearer abc.def-123 for it", "uses Bearer *** for it");
    check("X-Api-Key: 0123abcd", "X-Api-Key: ***");
}

#[test]
fn assignments_keep_their_name() {
    check("password=correcthorse", "password=***");
    check("DB_PASSWORD=hunter22 next", "DB_PASSWORD=*** next");
    check("DB_PASS=hunter22", "DB_PASS=***");
    check("password: hunter22", "password: ***");
    check(r#"{"api_key": "correct horse battery"}"#, r#"{"api_key": "***"}"#);
    check(r#"{"apiKey":"a\"b\"cdefgh","x":1}"#, r#"{"apiKey":"***","x":1}"#);
    check("secret = 'correct horse'", "secret = '***'");
    check(":client_secret => \"correct horse\"", ":client_secret => \"***\"");
    check("?access_token=abcdefgh&page=2", "?access_token=***&page=2");
    check("run --token abcd1234 --verbose", "run --token *** --verbose");
    check("run --db-password 'correct horse'", "run --db-password '***'");
    check("postgres://ada:lovelace@db/app", "postgres://ada:***@db/app");
    check("token: my_secret: abcd1234", "token: my_secret: ***");
}

#[test]
fn short_values_types_and_placeholders_stay() {
    for text in [
        "password=short",
        r#""token": "short""#,
        "token: String, secret: Option<SecretString>",
        "password=<your password>",
        "let token = generate_token();",
        "PWD=/home/ada/project",
        "max_tokens=4096000000",
        "Authorization: Bearer <token>",
        "https://example.org:8080/a@b",
    ] {
        check(text, text);
    }
}

#[test]
fn sentences_about_secrets_stay() {
    for text in [
        "The password: everything depends on it. A token is a secret, and a bearer authentication scheme needs one.",
        "Keep your secret: nobody else should know. Authorization: required for everybody.",
        "Tokens used: 12345678; the api key is stored elsewhere.",
        "秘密 — Ключ: пароль остаётся здесь",
    ] {
        check(text, text);
        assert!(matches!(Redactor::new([]).redact(text), Cow::Borrowed(_)));
    }
}

#[test]
fn escapes_hide_nothing() {
    check(&format!(r"sk\u002d{}", filler(30)), r"sk\u002d***");
    check(r#""{\"password\": \"correct horse\", \"x\": 1}""#, r#""{\"password\": \"***\", \"x\": 1}""#);
    check(r#""{\\\"api_key\\\": \\\"correct horse\\\"}""#, r#""{\\\"api_key\\\": \\\"***\\\"}""#);
    check(r#""export TOKEN=abcdefgh\nls -l""#, r#""export TOKEN=***\nls -l""#);
    check(
        r#""-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----\n""#,
        r#""***\n""#,
    );
    check_known(&["ab/cd-ef\"gh"], r#""x ab\/cd\u002def\"gh y""#, r#""x *** y""#);
}

#[test]
fn known_values_are_found_anywhere() {
    check_known(&["correct horse"], "xcorrect horsex", "x***x");
    check_known(&["correct horse\n"], "correct horse.", "***.");
    check_known(&["short", "sevenis"], "short sevenis", "short sevenis");
    check_known(&["пароль-мой"], "это пароль-мой!", "это ***!");
    check_known(&["abcdefgh", "efghijkl"], "abcdefghijkl", "***");
}

#[test]
fn a_known_value_never_leaves_half_an_escape() {
    check_known(&["nabcdefgh"], r#""\nabcdefgh""#, r#""***""#);
    check_known(&["abcdefgh\\"], r#""abcdefgh\\""#, r#""***""#);
    check_known(&["abcdefgh\\"], r#""abcdefgh\u005c""#, r#""***""#);
}

#[test]
fn masking_that_makes_a_secret_goes_on() {
    check_known(&["hunter22hunter22", "my***secret"], "myhunter22hunter22secret", "***");
    check_known(&["x y\"zzzzz"], "password=abx y\"zzzzzcdefgh", "password=***");
}

#[test]
fn what_never_comes_to_rest_is_not_shown() {
    let mut known = vec!["start-value".to_owned()];
    let mut text = "start-value".to_owned();
    for step in 0..MOST_PASSES {
        known.push(format!("left{step}{MASK}right{step}"));
        text = format!("left{step}{text}right{step}");
    }
    assert_eq!(Redactor::new(known).redact(&format!("visible {text}")), MASK);
}

#[test]
fn secrets_are_not_in_the_debug_output() {
    let shown = format!("{:?}", Redactor::new(["correct horse".to_owned()]));
    assert_eq!(shown, "Redactor { known: 1 }");
}

/// Each of these takes the square of its length where a rule looks far ahead at every place.
#[test]
fn long_and_hostile_texts_take_no_longer_than_their_length() {
    let redactor = Redactor::new(["aaaaaaaa".to_owned(), "aaaaaaaaaaaa".to_owned()]);
    let started = std::time::Instant::now();
    for piece in [
        "plain words and more of them\n",
        "-eyJ-AKIA1234567890123456",
        "token:token:mysecret:",
        "sk-sk-sk-",
        "password=\"password='",
        "-----BEGIN PRIVATE KEY-----",
        "aaaaaaaa",
        "\\\\\\\\\\\"",
        "bearer bearer ",
        "://a:b",
        "--token --token ",
    ] {
        let text = piece.repeat((1 << 20) / piece.len());
        let masked = redactor.redact(&text);
        assert!(masked.len() <= text.len());
    }
    // Three seconds without optimisation; the square of a megabyte would take hours.
    assert!(started.elapsed().as_secs() < 120);
}
