//! `run` as a person sees it at a terminal: text as it comes, who does what, for how long, and how to go on.

use crate::company::{Talk, launch, mail};
use crate::{CONVOKE, World};
use serde_json::json;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;
use testkit::{FakeModel, Gate, Received, Reply};

/// A terminal that is silent for so long stays so.
const PATIENCE: Duration = Duration::from_secs(60);

/// A command in a terminal of its own.
pub(crate) struct Terminal {
    child: Child,
    keys: ChildStdin,
    screen: Receiver<Vec<u8>>,
    /// All that was written to it so far.
    pub(crate) shown: String,
    /// The beginning of a character.
    cut: Vec<u8>,
}

impl Terminal {
    pub(crate) fn start(world: &World, args: &[&str]) -> Self {
        Self::with(world, args, &[])
    }

    pub(crate) fn with(world: &World, args: &[&str], env: &[(&str, &str)]) -> Self {
        Self::sized(world, 200, args, env)
    }

    /// One whose lines have so many characters.
    pub(crate) fn of_width(world: &World, columns: u16, args: &[&str]) -> Self {
        Self::sized(world, columns, args, &[])
    }

    fn sized(world: &World, columns: u16, args: &[&str], env: &[(&str, &str)]) -> Self {
        let quoted: Vec<String> = args.iter().map(|arg| format!("'{arg}'")).collect();
        let line = format!("stty cols {columns}; '{CONVOKE}' {}", quoted.join(" "));
        let mut command = world.home.command("script");
        command.args(["-qefc", &line, "/dev/null"]).current_dir(world.repo.path()).env("TERM", "xterm");
        command.envs(env.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("script is there");
        let (keys, mut out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (send, screen) = mpsc::channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = out.read(&mut bytes) {
                if send.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { child, keys, screen, shown: String::new(), cut: Vec::new() }
    }

    /// Reads until these words are there, and forgets all up to them. Returns what it forgot.
    #[track_caller]
    pub(crate) fn until(&mut self, words: &str) -> String {
        loop {
            if let Some(at) = self.shown.find(words) {
                return self.shown.drain(..at + words.len()).collect();
            }
            assert!(self.read(), "`{words}` is not shown: {}", self.shown);
        }
    }

    /// Reads until each of these was shown, in whatever order.
    #[track_caller]
    pub(crate) fn until_all(&mut self, words: &[&str]) {
        while let Some(missing) = words.iter().find(|words| !self.shown.contains(**words)) {
            assert!(self.read(), "`{missing}` is not shown: {}", self.shown);
        }
    }

    pub(crate) fn keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).and_then(|()| self.keys.flush()).expect("the terminal is there");
    }

    /// To the end; the rest of what is shown, and the exit code.
    pub(crate) fn end(mut self) -> (String, Option<i32>) {
        while self.read() {}
        let code = self.child.wait().expect("it ended").code();
        (std::mem::take(&mut self.shown), code)
    }

    fn read(&mut self) -> bool {
        match self.screen.recv_timeout(PATIENCE) {
            Ok(bytes) => {
                self.cut.extend_from_slice(&bytes);
                let whole = str::from_utf8(&self.cut).map_or_else(|error| error.valid_up_to(), str::len);
                self.shown.push_str(&String::from_utf8_lossy(&self.cut[..whole]));
                self.cut.drain(..whole);
                true
            }
            Err(RecvTimeoutError::Disconnected) => false,
            Err(RecvTimeoutError::Timeout) => panic!("nothing more is shown: {}", self.shown),
        }
    }
}

#[test]
fn text_and_thoughts_are_shown_while_they_come_and_once() {
    let world = World::new();
    let gate = Gate::new();
    world.model.push(Reply::deltas(["Looking ", "around."]).thinking("What is there?").gated(gate.clone()));
    let mut terminal = Terminal::start(&world, &["run", "look around"]);
    // The reply is held back: what is shown before it is whole was not waited for.
    for _ in 0..3 {
        gate.release();
    }
    terminal.until("What is there?");
    terminal.until("Looking ");
    gate.open();
    let (rest, code) = terminal.end();
    assert_eq!((rest.matches("around.").count(), rest.matches("Looking").count(), code), (1, 0, Some(0)), "{rest}");
}

#[test]
fn what_is_said_before_calls_is_shown_and_calls_are_told_in_words() {
    let world = World::with(FakeModel::scripted(|received| match received.step() {
        0 => Reply::text("First I look.").and_calls([("bash", json!({ "command": "cargo --version || true" }))]),
        1 => Reply::calls([("read", json!({ "filePath": "src/claims.rs" }))]),
        2 => Reply::calls([(
            "edit",
            json!({ "filePath": "src/claims.rs", "oldString": "pub fn claim", "newString": "/// One.\npub fn claim" }),
        )]),
        3 => Reply::calls([("bash", json!({ "command": "exit 3" })), ("read", json!({ "filePath": "none.rs" }))]),
        _ => Reply::text("All is done."),
    }));
    let (shown, code) = Terminal::start(&world, &["run", "change it"]).end();
    assert_eq!(code, Some(0), "{shown}");
    let at = |words: &str| shown.find(words).unwrap_or_else(|| panic!("`{words}` is not shown: {shown}"));
    assert!(at("First I look.") < at("• bash cargo --version || true"), "{shown}");
    assert!(at("• read src/claims.rs") < at("• edit src/claims.rs +1 −0"), "{shown}");
    at("\x1b[31m✗ read failed");
    assert!(at("All is done.") < at(" out · $0"), "{shown}");
    at("continue: convoke run -s ses_");
    // Without colours where none are wanted.
    for env in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        world.model.push(Reply::calls([("read", json!({ "filePath": "none.rs" }))]));
        world.model.push(Reply::text("Nothing there."));
        let (shown, _) = Terminal::with(&world, &["run", "look"], &[env]).end();
        assert!(shown.contains("✗ read failed") && !shown.contains('\x1b'), "{env:?}: {shown}");
    }
}

#[test]
fn a_silent_model_and_a_silent_command_are_shown_with_the_time() {
    let world = World::new();
    let gate = Gate::new();
    let wait = "until test -e go; do sleep 0.1; done";
    world.model.push(Reply::calls([("bash", json!({ "command": wait }))]).gated(gate.clone()));
    let mut terminal = Terminal::start(&world, &["run", "wait for it"]);
    terminal.until("… thinking ");
    terminal.until("\r\x1b[2K");
    gate.open();
    terminal.until(&format!("• bash {wait}"));
    terminal.until(&format!("… bash {wait} "));
    std::fs::write(world.repo.path().join("go"), "").unwrap();
    let (rest, code) = terminal.end();
    let answer = rest.lines().find_map(|line| line.ends_with("ok").then(|| line.rsplit("\x1b[2K").next()));
    assert_eq!((code, answer), (Some(0), Some(Some("ok"))), "wiped before the answer: {rest}");
}

#[test]
fn an_error_is_red_and_an_answer_in_a_pipe_stays_alone() {
    let world = World::new();
    world.model.push(Reply::raw(401, r#"{"error":{"message":"bad key"}}"#));
    let (shown, code) = Terminal::start(&world, &["run", "fail"]).end();
    assert!(code == Some(1) && shown.contains("\x1b[31merror: "), "{shown}");
    world.model.push(Reply::text("Said twice?").and_calls([("list", json!({ "path": "." }))]));
    world.model.push(Reply::text("Said once."));
    let done = world.convoke(["run", "look"]).code(0);
    assert_eq!(done.stdout, "Said once.\n");
    assert!(!done.stderr.contains("Said") && !done.stderr.contains("continue:"), "{done:#?}");
}

/// Waits until a file is there, which never comes.
const ENDLESS: &str = "until test -e never; do sleep 0.1; done";

/// A lead with two agents in the background: mail both ways, a second question to one that is done, and its shutdown.
fn team(received: &Received) -> Reply {
    let talk = Talk::of(received);
    let sent = |to: &str, words: &str| {
        talk.has_called("send_message", |input| input["to"] == to && input["message"].to_string().contains(words))
    };
    if talk.heard.starts_with("You write") {
        return match (sent("main", "draft"), talk.heard.contains("add a title")) {
            (false, _) => Reply::calls([mail("main", json!("the draft is ready"))]),
            (true, true) => {
                Reply::text("I add it.").and_calls([("bash", json!({ "command": ENDLESS, "timeout": 600_000 }))])
            }
            (true, false) => Reply::text("I have written a draft."),
        };
    }
    if talk.heard.starts_with("You test") {
        let asked = talk.heard.contains("how many tests");
        return Reply::text(if asked { "There are 42 tests." } else { "The tests are green." });
    }
    if talk.times("agent") == 0 {
        let both = [launch("writer", "You write.", "ask"), launch("tester", "You test.", "ask")];
        return Reply::text("I start two agents.").and_calls(both);
    }
    for (heard, to, message) in [
        ("the draft is ready", "writer", json!("please add a title")),
        ("tests are green", "tester", json!("how many tests are there?")),
        ("42 tests", "tester", json!({ "type": "shutdown_request", "reason": "all is tested" })),
    ] {
        let words = message.as_str().unwrap_or("shutdown_request").to_owned();
        if talk.heard.contains(heard) && !sent(to, &words) {
            return Reply::calls([mail(to, message)]);
        }
    }
    Reply::text(if sent("tester", "shutdown_request") { "Only the writer is left." } else { "I wait for them." })
}

#[test]
fn a_team_is_led_at_a_terminal_and_every_line_says_who_and_what() {
    let world = World::with(FakeModel::scripted(team));
    let mut terminal = Terminal::with(&world, &["run", "lead the team"], &[("NO_COLOR", "1")]);
    terminal.until_all(&[
        "I start two agents.",
        "• agent writer: writer",
        "• agent tester: tester",
        "I wait for them.",
        "  [writer] • send_message main: the draft is ready",
        "← writer: the draft is ready",
        "• send_message writer: please add a title",
        "  [writer] ← lead: please add a title",
        "  [tester] The tests are green.",
        "  [tester] ✓ done",
        "• send_message tester: how many tests are there?",
        "  [tester] ← lead: how many tests are there?",
        "  [tester] There are 42 tests.",
        "• send_message tester: shutdown_request",
        "  [writer] I add it.",
        "  [writer] • bash until test -e never",
        "Only the writer is left.",
        "… writer: bash until test -e never",
    ]);
    let led = std::mem::take(&mut terminal.shown);
    terminal.keys("\x03");
    let (stopped, code) = terminal.end();
    assert!(stopped.contains("stopped 1 session: writer") && stopped.contains("  [writer] ■ stopped"), "{stopped}");
    assert!(code == Some(130) && stopped.contains("continue: convoke run -s ses_"), "{code:?} {stopped}");
    // What is rewritten in place ends with the next wipe.
    let lines = format!("{led}{stopped}").replace("\r\n", "\n");
    let lines: Vec<&str> = lines.lines().map(|line| line.rsplit('\r').next().unwrap_or(line)).collect();
    let told = [
        "  [writer] ",
        "  [tester] ",
        "← writer: ",
        "• agent ",
        "• send_message ",
        "I start two",
        "I wait for",
        "Only the",
    ];
    let ours =
        ["stopping; ", "stopped 1 session: writer", "! The user stopped", "— ", "  continue: convoke run -s ses_"];
    let known = |line: &&&str| told.iter().chain(&ours).any(|known| line.contains(known)) || line.trim().is_empty();
    assert_eq!(lines.iter().find(|line| !known(line)), None, "{}", lines.join("\n"));
}
