//! Two gateways of one user: their sessions see each other and write to each other, also while one of them restarts.

use crate::{CONVOKE, Done};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use testkit::{RepoDir, TempHome};

/// A gateway in a home of its own, with its sockets in a directory it shares.
pub(crate) struct House {
    pub(crate) home: TempHome,
    repo: RepoDir,
    run: std::path::PathBuf,
    gateway: Option<Child>,
    pub(crate) socket: String,
    pub(crate) url: String,
}

impl House {
    pub(crate) fn new(run: &std::path::Path, home: TempHome, args: &[&str]) -> Self {
        let mut house = Self {
            home,
            repo: RepoDir::new(),
            run: run.to_owned(),
            gateway: None,
            socket: String::new(),
            url: String::new(),
        };
        house.serve(args);
        house
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.home.command(CONVOKE);
        command.env("CONVOKE_RUNTIME_DIR", &self.run).args(args).current_dir(self.repo.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn serve(&mut self, args: &[&str]) {
        let mut child = self.command(&[&["serve", "--json"], args].concat()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).expect("a ready line");
        self.socket = ready["socket"].as_str().unwrap().to_owned();
        self.url = ready["url"].as_str().unwrap_or_default().to_owned();
        self.gateway = Some(child);
    }

    /// As a crash would: nothing is put away.
    pub(crate) fn kill(&mut self) {
        let mut child = self.gateway.take().expect("it runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub(crate) fn convoke(&self, args: &[&str]) -> Done {
        Done::of(self.command(args).output().expect("the binary runs"))
    }

    /// Lets a new session call a tool, and returns the session's id and the tool's answer.
    pub(crate) fn call(&self, tool: &str, input: &Value) -> (String, Value) {
        let run = self.convoke(&["run", "--json", &format!("call {tool} {input}")]).code(0);
        let session = run.lines().iter().find_map(|line| line["sessionId"].as_str().map(str::to_owned)).unwrap();
        let history = self.history(&session);
        let output = history
            .pointer("/messages")
            .and_then(Value::as_array)
            .and_then(|messages| {
                messages
                    .iter()
                    .flat_map(|m| m["parts"].as_array().cloned().unwrap_or_default())
                    .find(|part| part["type"] == "tool")
            })
            .unwrap_or_else(|| panic!("no call: {history}"));
        let answer = serde_json::from_str(output["output"].as_str().unwrap_or("null")).unwrap_or(Value::Null);
        (session, answer)
    }

    pub(crate) fn history(&self, session: &str) -> Value {
        self.convoke(&["history", session, "--json", "--include-tools"]).code(0).json()
    }

    /// Waits until a session's history says something, and returns how often it does.
    pub(crate) fn hears(&self, session: &str, words: &str) -> usize {
        let end = Instant::now() + Duration::from_secs(40);
        loop {
            let history = self.history(session);
            let is_it = |m: &&Value| m["role"] == "user" && m["content"].to_string().contains(words);
            let inputs = history["messages"].as_array().into_iter().flatten().filter(is_it).count();
            if inputs > 0 {
                return inputs;
            }
            assert!(Instant::now() < end, "`{words}` never came: {history}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for House {
    fn drop(&mut self) {
        if let Some(mut child) = self.gateway.take() {
            let _ = self.command(&["stop", "--force"]).output();
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The address that a session's last visitor wrote from.
fn from_of(history: &Value) -> String {
    let text = history.to_string();
    let at = text.rfind("cross-session-message from=\\\"").expect("a message came") + 29;
    text[at..].split('\\').next().unwrap().to_owned()
}

#[test]
fn sessions_of_two_gateways_write_to_each_other_while_one_restarts() {
    let run = tempfile::Builder::new().prefix("cvkr").tempdir().unwrap();
    let (here, mut there) = (
        House::new(run.path(), TempHome::bare(), &["--no-tcp"]),
        House::new(run.path(), TempHome::bare(), &["--no-tcp"]),
    );
    there.convoke(&["run", "--label", "desk", "hello"]).code(0);
    let desk = there.convoke(&["ps", "--json"]).json()["sessions"][0]["sessionId"].as_str().unwrap().to_owned();
    let address = format!("uds:{}#{desk}", there.socket);

    // They are seen from here, with the address to use.
    let peers = here.convoke(&["peers", "--json"]).code(0).json();
    let seen = peers["peers"].as_array().unwrap().iter().find(|row| row["address"] == json!(address));
    assert_eq!(seen.expect("the desk is seen")["where"], json!("machine"));

    let (writer, sent) = here.call("send_message", &json!({"to": address, "message": "is it raining?"}));
    assert_eq!((&sent["status"], &sent["receipts"][0]["state"]), (&json!("ok"), &json!("queued")), "{sent}");
    assert_eq!(there.hears(&desk, "is it raining?"), 1);
    // The sender is stamped, and can be answered.
    let back = from_of(&there.history(&desk));
    assert_eq!(back, format!("uds:{}#{writer}", here.socket));
    there.call("send_message", &json!({"to": back, "message": "cats and dogs"}));
    here.hears(&writer, "cats and dogs");

    // While the other side is down, mail waits on disk; and then it is there, once.
    there.kill();
    let (_, sent) = here.call("send_message", &json!({"to": address, "message": "are you there?"}));
    assert_eq!(sent["receipts"][0]["state"], json!("queued"), "{sent}");
    assert!(sent["receipts"][0]["reason"].is_string(), "{sent}");
    there.serve(&["--no-tcp"]);
    assert_eq!(there.hears(&desk, "are you there?"), 1);
}

#[test]
fn what_is_no_gateway_of_this_user_gets_no_mail() {
    let run = tempfile::Builder::new().prefix("cvkr").tempdir().unwrap();
    let here = House::new(run.path(), TempHome::bare(), &["--no-tcp"]);
    let link = run.path().join("link.sock");
    std::os::unix::fs::symlink(&here.socket, &link).unwrap();
    let file = run.path().join("file.sock");
    std::fs::write(&file, "").unwrap();
    let code = |to: String| here.call("send_message", &json!({"to": to, "message": "x"})).1["code"].clone();
    assert_eq!(code(format!("uds:{}", link.display())), json!("denied"));
    assert_eq!(code(format!("uds:{}", file.display())), json!("denied"));
    assert_eq!(code(format!("uds:{}/none.sock", run.path().display())), json!("not_found"));
    assert_eq!(code("bridge:office/main".into()), json!("not_found"));
    // Something that listens there and speaks no word of ours.
    let listener = std::os::unix::net::UnixListener::bind(run.path().join("babble.sock")).unwrap();
    let babble = std::thread::spawn(move || {
        for stream in listener.incoming().take(2).flatten() {
            let mut stream = stream;
            let _ = std::io::Read::read(&mut stream, &mut [0; 4096]);
            let _ = std::io::Write::write_all(&mut stream, b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nwhu");
        }
    });
    let (_, answer) =
        here.call("send_message", &json!({"to": format!("uds:{}/babble.sock", run.path().display()), "message": "x"}));
    assert_eq!(answer["status"], json!("error"), "{answer}");
    drop(babble);
}
