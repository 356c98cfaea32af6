//! Two gateways of one user: their sessions see each other and write to each other, also while one of them restarts.

use crate::{CONVOKE, Done};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::Path;
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
    pub(crate) fn new(run: &Path, home: TempHome, args: &[&str]) -> Self {
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

    /// As a person would, until it is gone.
    fn stop(&mut self) {
        self.convoke(&["stop"]).code(0);
        self.gateway.take().expect("it runs").wait().unwrap();
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

/// A gateway in a directory of sockets, without TCP.
fn house(run: &Path, settings: &Value) -> House {
    House::new(run, TempHome::bare().config_json(settings.clone()), &["--no-tcp"])
}

/// Sessions may write to every session.
fn open() -> Value {
    json!({ "tools": { "sessions": { "visibility": { "send": "all" } } } })
}

#[test]
fn sessions_of_two_gateways_write_to_each_other_while_one_restarts() {
    let run = tempfile::Builder::new().prefix("cvkr").tempdir().unwrap();
    let (mut here, mut there) = (house(run.path(), &open()), house(run.path(), &open()));
    let desk = there.session(&["--label", "desk"]);
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

    // An answer waits for a gateway that has left, though nothing is at its address.
    here.stop();
    let (_, sent) = there.call("send_message", &json!({"to": back, "message": "and hail"}));
    assert_eq!(sent["receipts"][0]["state"], json!("queued"), "{sent}");
    here.serve(&["--no-tcp"]);
    assert_eq!(here.hears(&writer, "and hail"), 1);

    // While the other side is down, mail waits on disk; and then it is there, once.
    there.kill();
    let (_, sent) = here.call("send_message", &json!({"to": address, "message": "are you there?"}));
    assert_eq!(sent["receipts"][0]["state"], json!("queued"), "{sent}");
    assert!(sent["receipts"][0]["reason"].is_string(), "{sent}");
    // Both are in the list of mail, with what became of them, and so is what came in.
    let sent = here.convoke(&["mail", "list", "--session", &writer, "--json"]).code(0).json();
    let row = |words: &str| {
        let found = sent["messages"].as_array().unwrap().iter().find(|row| row["text"] == json!(words));
        found.unwrap_or_else(|| panic!("no `{words}`: {sent}")).clone()
    };
    let (asked, answered) = (row("is it raining?"), row("cats and dogs"));
    assert_eq!((&asked["to"], &asked["outgoing"], &asked["kind"]), (&json!(address), &json!(true), &json!("message")));
    assert_eq!((&answered["state"], &answered["outgoing"]), (&json!("delivered"), &Value::Null), "{answered}");
    let waiting = here.convoke(&["mail", "list", "--state", "queued"]).code(0).stdout;
    assert!(waiting.contains("are you there?") && waiting.contains("uds:"), "{waiting}");
    // Whichever of the two is killed.
    here.kill();
    here.serve(&["--no-tcp"]);
    there.serve(&["--no-tcp"]);
    assert_eq!(there.hears(&desk, "are you there?"), 1);
}

#[test]
fn what_is_no_gateway_of_this_user_gets_no_mail() {
    let run = tempfile::Builder::new().prefix("cvkr").tempdir().unwrap();
    let here = House::new(run.path(), TempHome::bare(), &["--no-tcp"]);
    let link = run.path().join("link.sock");
    std::os::unix::fs::symlink(run.path().join("babble.sock"), &link).unwrap();
    let file = run.path().join("file.sock");
    std::fs::write(&file, "").unwrap();
    let code = |to: String| here.call("send_message", &json!({"to": to, "message": "x"})).1["code"].clone();
    assert_eq!(code(format!("uds:{}", link.display())), json!("denied"));
    assert_eq!(code(format!("uds:{}", file.display())), json!("denied"));
    assert_eq!(code(format!("uds:{}/none.sock", run.path().display())), json!("not_found"));
    assert_eq!(code("uds:none.sock".into()), json!("invalid_input"));
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

#[test]
fn a_neighbour_and_another_gateway_of_this_user_are_reached_by_one_rule() {
    for (settings, state) in [(json!({}), "held"), (open(), "queued")] {
        let run = tempfile::Builder::new().prefix("cvkr").tempdir().unwrap();
        let (here, there) = (house(run.path(), &settings), house(run.path(), &settings));
        let (near, far) = (here.session(&[]), there.session(&[]));
        for (house, desk, address) in
            [(&here, &near, near.clone()), (&there, &far, format!("uds:{}#{far}", there.socket))]
        {
            let (writer, sent) = here.call("send_message", &json!({"to": address, "message": "is it raining?"}));
            assert_eq!(
                (&sent["status"], &sent["receipts"][0]["state"]),
                (&json!("ok"), &json!(state)),
                "{address}: {sent}"
            );
            house.let_in(state);
            assert_eq!(house.hears(desk, "is it raining?"), 1);
            // Its sender can be answered, by the same rule.
            let back = from_of(&house.history(desk));
            let (_, sent) = house.call("send_message", &json!({"to": back, "message": "cats and dogs"}));
            assert_eq!(sent["receipts"][0]["state"], json!(state), "{back}: {sent}");
            here.let_in(state);
            here.hears(&writer, "cats and dogs");
        }
    }
}

#[test]
fn the_own_gateway_is_judged_by_the_guard_whatever_path_leads_to_it() {
    let run = tempfile::Builder::new().prefix("cvkr").tempdir().unwrap();
    let here = house(run.path(), &json!({}));
    let (desk, planner) = (here.session(&[]), here.session(&["--agent", "plan"]));
    let (dir, socket) = (run.path().display(), Path::new(&here.socket));
    let file = socket.file_name().unwrap().to_str().unwrap();
    let aside = tempfile::Builder::new().prefix("cvka").tempdir().unwrap();
    std::os::unix::fs::symlink(socket, aside.path().join("link.sock")).unwrap();
    std::os::unix::fs::symlink(run.path(), aside.path().join("dir")).unwrap();
    std::fs::hard_link(socket, run.path().join("hard.sock")).unwrap();
    let up = "../".repeat(here.repo.path().canonicalize().unwrap().components().count() - 1);
    for path in [
        here.socket.clone(),
        format!("{dir}/../{}/{file}", run.path().file_name().unwrap().to_str().unwrap()),
        format!("{dir}//./{file}"),
        aside.path().join("link.sock").display().to_string(),
        aside.path().join("dir").join(file).display().to_string(),
        run.path().join("hard.sock").display().to_string(),
        format!("/proc/self/root{}", here.socket),
        format!("{up}{}", here.socket.trim_start_matches('/')),
    ] {
        let send = |to: &str| here.call("send_message", &json!({"to": format!("uds:{path}#{to}"), "message": "x"}));
        let (writer, sent) = send(&desk);
        assert_eq!(sent["receipts"][0]["state"], json!("held"), "{path}: {sent}");
        let newest = here.convoke(&["mail", "list", "--json", "--limit", "1"]).code(0).json();
        assert_eq!(newest["messages"][0]["from"], json!(writer), "{path}: {newest}");
        assert_eq!(send(&planner).1["code"], json!("forbidden_a2a"), "{path}");
    }
    let peers = here.convoke(&["peers", "--json"]).code(0).stdout;
    assert!(!peers.contains("\"address\":\"uds:"), "the gateway is no neighbour of itself: {peers}");
}

#[test]
fn neither_a_sandboxed_session_nor_a_denied_pair_reaches_a_neighbour() {
    let run = tempfile::Builder::new().prefix("cvkr").tempdir().unwrap();
    let there = house(run.path(), &open());
    let planner = there.session(&["--agent", "plan"]);
    let to_planner = json!({"to": format!("uds:{}#{planner}", there.socket), "message": "x"});
    let here = house(run.path(), &open());
    let (_, sent) = here.call("send_message", &to_planner);
    assert_eq!((&sent["status"], &sent["receipts"][0]["state"]), (&json!("error"), &json!("refused")), "{sent}");
    assert!(sent["receipts"][0]["reason"].to_string().contains("agentToAgent"), "{sent}");

    let boxed = house(run.path(), &json!({ "sandbox": { "isolated": true } }));
    let desk = boxed.session(&[]);
    for to in [desk.clone(), format!("uds:{}#{desk}", boxed.socket), format!("uds:{}#{planner}", there.socket)] {
        let (_, sent) = boxed.call("send_message", &json!({"to": to, "message": "x"}));
        assert_eq!(sent["code"], json!("forbidden_sandbox"), "{to}: {sent}");
    }
}

impl House {
    /// A root session that has said hello.
    fn session(&self, args: &[&str]) -> String {
        let run = self.convoke(&[&["run", "--json"], args, &["hello"]].concat()).code(0);
        run.lines().iter().find_map(|line| line["sessionId"].as_str().map(str::to_owned)).unwrap()
    }

    /// Accepts the newest message, where messages are held.
    fn let_in(&self, state: &str) {
        if state == "held" {
            let held = self.convoke(&["mail", "list", "--state", "held", "--json"]).code(0).json();
            let id = held.pointer("/messages/0/id").and_then(Value::as_str).unwrap_or_else(|| panic!("{held}"));
            self.convoke(&["mail", "accept", id]).code(0);
        }
    }

    /// Changes the settings; they count from the next start on.
    fn set(&self, extra: &Value) {
        let file = self.home.config_file();
        let mut settings: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        for (name, value) in extra.as_object().unwrap() {
            settings[name] = value.clone();
        }
        std::fs::write(file, settings.to_string()).unwrap();
    }

    /// A token for whoever is called that.
    fn token(&self, name: &str) -> String {
        let made =
            self.convoke(&["token", "add", name, "--scope", "write", "--scope", "read", "--json"]).code(0).json();
        made["token"].as_str().unwrap_or_else(|| panic!("no token: {made}")).to_owned()
    }
}

#[test]
fn gateways_that_know_each_other_exchange_mail_over_tls_while_one_restarts() {
    let runs = [(); 2].map(|()| tempfile::Builder::new().prefix("cvkr").tempdir().unwrap());
    let paper = tempfile::tempdir().unwrap();
    let (cert, key) = (paper.path().join("cert.pem"), paper.path().join("key.pem"));
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let tls = json!({ "cert": cert, "key": key });
    let house = |run: &Path| House::new(run, TempHome::bare().config_json(json!({ "tls": tls })), &[]);
    // Each has a directory of its own: they know each other by nothing but their settings.
    let (mut here, mut there) = (house(runs[0].path()), house(runs[1].path()));
    assert!(there.url.starts_with("https://"), "{}", there.url);
    let peer =
        |name: &str, of: &House, token: &str| json!([{ "name": name, "url": of.url, "token": token, "ca": cert }]);
    // What a token is called need not be what a peer is called.
    let (for_here, for_there) = (there.token("laptop"), here.token("tower"));
    here.set(&json!({ "peers": peer("there", &there, &for_here) }));
    there.set(&json!({ "peers": peer("here", &here, &for_there) }));
    for house in [&mut here, &mut there] {
        house.kill();
        house.serve(&[]);
    }
    let desk = there.session(&["--label", "desk"]);

    // Mail from elsewhere is held until a person lets it in.
    let (writer, sent) = here.call("send_message", &json!({"to": "bridge:there/desk", "message": "is it raining?"}));
    assert_eq!(sent["receipts"][0]["state"], json!("held"), "{sent}");
    there.let_in("held");
    assert_eq!(there.hears(&desk, "is it raining?"), 1);
    let back = from_of(&there.history(&desk));
    assert_eq!(back, format!("bridge:laptop/{writer}"));
    // That can be copied into `to`, though no peer is called so.
    let (_, sent) = there.call("send_message", &json!({"to": back, "message": "cats and dogs"}));
    assert_eq!(sent["receipts"][0]["state"], json!("held"), "{sent}");
    here.let_in("held");
    assert_eq!(here.hears(&writer, "cats and dogs"), 1);

    // A peer that is trusted is let in, and mail to one that is away waits.
    there.set(&json!({ "inbound": "accept" }));
    there.kill();
    let (_, sent) = here.call("send_message", &json!({"to": format!("bridge:{desk}"), "message": "are you there?"}));
    assert_eq!(sent["receipts"][0]["state"], json!("queued"), "{sent}");
    there.serve(&[]);
    assert_eq!(there.hears(&desk, "are you there?"), 1);
    let peers = here.convoke(&["peers", "--json"]).code(0).json().to_string();
    assert!(peers.contains(&format!("bridge:there/{desk}")) && peers.contains("remote"), "{peers}");
}

#[test]
fn what_became_of_mail_to_others_is_shown_until_it_is_old() {
    let run = tempfile::Builder::new().prefix("cvkr").tempdir().unwrap();
    let (mut here, there) = (house(run.path(), &json!({})), house(run.path(), &json!({})));
    let (desk, planner) = (there.session(&[]), there.session(&["--agent", "plan"]));
    let send = |to: &str| {
        let message =
            json!({"to": format!("uds:{}#{to}", there.socket), "message": "hello there", "summary": "a greeting"});
        here.call("send_message", &message).0
    };
    let (writer, other) = (send(&desk), send(&planner));
    let state = |session: &str| {
        let sent = here.convoke(&["mail", "list", "--session", session, "--json"]).code(0).json();
        (sent["messages"][0]["state"].clone(), sent["messages"][0]["id"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!((state(&writer).0, state(&other).0), (json!("held"), json!("refused")));
    let shown = here.convoke(&["mail", "show", &state(&writer).1]).code(0).stdout;
    for words in [desk.as_str(), "held", "a greeting", "\nhello there\n"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    here.set(&json!({ "limits": { "mailDays": 0 } }));
    here.kill();
    here.serve(&["--no-tcp"]);
    let end = Instant::now() + Duration::from_secs(40);
    while here.convoke(&["mail", "list", "--json"]).code(0).json()["count"] != json!(0) {
        assert!(Instant::now() < end, "old mail is still there");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_held_message_expires_in_time_when_the_date_is_set_back() {
    let run = tempfile::Builder::new().prefix("cvkr").tempdir().unwrap();
    let mut here = house(run.path(), &json!({}));
    let desk = here.session(&[]);
    here.call("send_message", &json!({"to": desk, "message": "is it raining?"}));
    here.call("send_message", &json!({"to": desk, "message": "and now?"}));
    let held = || here.convoke(&["mail", "list", "--state", "held", "--json"]).code(0).json();
    let (before, id) = (held()["count"].clone(), held()["messages"][0]["id"].as_str().unwrap().to_owned());
    assert_eq!(before, json!(2));
    here.stop();
    crate::set_back(&here.home, 25);
    // Without a gateway as well as with one.
    let list = here.convoke(&["mail", "list", "--state", "held", "--json"]).code(0).json();
    assert_eq!(list["count"], json!(0), "{list}");
    here.serve(&["--no-tcp"]);
    here.convoke(&["mail", "accept", &id]).code(2).says("has expired");
}

#[test]
fn an_idle_gateway_with_mail_to_deliver_stays_and_delivers_it() {
    let run = tempfile::Builder::new().prefix("cvkr").tempdir().unwrap();
    let path = run.path().join("away.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let (tried, tries) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // Somebody is there and hangs up, each time.
        for stream in listener.incoming() {
            drop(stream);
            if tried.send(()).is_err() {
                return;
            }
        }
    });
    let here = House::new(run.path(), TempHome::bare(), &["--no-tcp", "--idle-exit", "200ms"]);
    let (_, sent) = here.call("send_message", &json!({"to": format!("uds:{}", path.display()), "message": "hello"}));
    assert_eq!(sent["receipts"][0]["state"], json!("queued"), "{sent}");
    // It goes on trying long after an idle gateway would have left.
    let sent = Instant::now();
    while sent.elapsed() < Duration::from_secs(2) {
        tries.recv_timeout(Duration::from_secs(20)).expect("another try");
    }
}
