//! Tests of what `bash` asks for and refuses; running commands is tested with real processes in `tests/processes`.

use super::Bash;
use crate::AnyTool;
use crate::testing::Place;
use serde_json::json;
use serde_json::value::to_raw_value;

fn asks(command: &str) -> Vec<String> {
    Place::new().asks(&Bash, json!({"command": command}))
}

#[test]
fn each_command_is_asked_for_and_what_nobody_can_read_as_a_whole() {
    assert_eq!(asks(" git status "), ["bash git status"]);
    assert_eq!(asks("make && git push"), ["bash make", "bash git push"]);
    assert_eq!(asks("timeout 5 make"), ["bash timeout 5 make", "bash make"]);
    assert_eq!(asks("ls; eval $X"), ["bash ls", "bash eval $X", "bash ls; eval $X"]);
    assert_eq!(asks("if ("), ["bash if ("]);
    assert_eq!(asks("r\\\nm x \\\n  y"), ["bash rm x y"]);
    assert_eq!(asks("\u{a0}ls"), ["bash \u{a0}ls"]);
    assert_eq!(asks("cat /et\\\nc/hosts"), ["bash cat /etc/hosts", "external_directory /etc/*"]);
}

#[test]
fn redirections_are_edits_and_reads() {
    assert_eq!(asks("make > build.log 2>&1"), ["bash make", "edit build.log"]);
    assert_eq!(asks("wc < notes/a"), ["bash wc", "read notes/a"]);
    assert_eq!(asks("make > $OUT"), ["bash make", "bash > $OUT"]);
    assert_eq!(asks("cd sub && make > log"), ["bash cd sub", "bash make", "edit log", "edit sub/log"]);
    assert_eq!(asks("cd a; cd b; make > log"), ["bash cd a", "bash cd b", "bash make", "bash > $PWD/log"]);
    assert_eq!(asks("echo x > /etc/motd"), ["bash echo x", "edit /etc/motd", "external_directory /etc/*"]);
}

#[test]
fn paths_that_lead_elsewhere_are_asked_for() {
    assert_eq!(asks("cat /etc/hosts"), ["bash cat /etc/hosts", "external_directory /etc/*"]);
    assert_eq!(asks("cd /etc && cat hosts"), ["bash cd /etc", "bash cat hosts", "external_directory /etc/*"]);
    assert_eq!(asks("grep --file=/etc/hosts x"), ["bash grep --file=/etc/hosts x", "external_directory /etc/*"]);
    assert_eq!(asks("cc -I/usr/include a.c"), ["bash cc -I/usr/include a.c", "external_directory /usr/include/*"]);
    for line in
        ["cat /et[c]/hosts", "cat /?tc/host*s", "cat /etc/hos*", "grep --file=/e*c/hosts x", "ls ~nobody/../etc"]
    {
        let asks = asks(line);
        assert!(asks.contains(&"external_directory /etc/*".to_owned()), "{line}: {asks:?}");
    }
    assert_eq!(asks("sed -n '/no*such/p' src/a"), ["bash sed -n '/no*such/p' src/a"]);
    assert_eq!(asks("ls ~+/src"), ["bash ls ~+/src"]);
    assert_eq!(asks("grep /no-such-thing/v1 src/a"), ["bash grep /no-such-thing/v1 src/a"]);
    assert_eq!(asks("ls src/a https://example.org/x 2>/dev/null"), ["bash ls src/a https://example.org/x"]);
}

#[test]
fn always_offers_a_stable_prefix() {
    let place = Place::new();
    let input = to_raw_value(&json!({"command": "git diff HEAD"})).unwrap();
    let accesses = AnyTool::access(&Bash, &input, &place.cx()).unwrap();
    assert_eq!(accesses[0].always, ["git diff *"]);
}

#[test]
fn a_folder_outside_is_asked_for() {
    let asks = Place::new().asks(&Bash, json!({"command": "ls", "workdir": "/etc"}));
    assert_eq!(asks, ["bash ls", "external_directory /etc/*"]);
}

#[tokio::test]
async fn what_cannot_be_run_is_told() {
    let place = Place::new();
    let error = place.call(&Bash, json!({"command": "ls", "background": true})).await.unwrap_err();
    assert!(error.contains("No session context"), "{error}");
    assert!(place.call(&Bash, json!({"command": " "})).await.unwrap_err().contains("empty"));
    let error = place.call(&Bash, json!({"cmd": 3})).await.unwrap_err();
    assert!(error.contains("do not fit at `cmd`") && error.contains("\"properties\""), "{error}");
}

#[test]
fn what_an_alias_of_git_stands_for_is_asked_for_as_well() {
    let place = crate::testing::repository();
    place.git("config alias.p push");
    place.git("config alias.q p");
    place.git("config alias.x !make");
    let asks = |command: &str| place.asks(&Bash, json!({"command": command}));
    assert!(asks("git p origin").contains(&"bash git push origin".to_owned()), "{:?}", asks("git p origin"));
    assert!(asks("git q -f").contains(&"bash git push -f".to_owned()), "{:?}", asks("git q -f"));
    assert!(asks("cd src && git -C .. p").contains(&"bash git -C .. push".to_owned()));
    assert!(asks("git x all").contains(&"bash make all".to_owned()));
    assert!(asks("git -c alias.y=push y").contains(&"bash git -c alias.y=push push".to_owned()));
    assert_eq!(asks("git status"), ["bash git status"]);
}

#[test]
fn aliases_of_git_in_the_settings_of_the_user_are_found() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(home.path().join(".config/git")).unwrap();
    std::fs::write(home.path().join(".gitconfig"), "[alias]\n\tp = push\n").unwrap();
    std::fs::write(home.path().join(".config/git/config"), "[alias]\n\tq = push\n").unwrap();
    let place = Place::new();
    let (cx, env) = (place.cx(), [("HOME".to_owned(), home.path().display().to_string())]);
    for line in ["git p", "git q"] {
        let found = super::accesses(line, place.dir(), (&cx).into(), &env);
        assert!(found.iter().any(|access| access.pattern == "git push"), "{line}: {found:?}");
    }
}
