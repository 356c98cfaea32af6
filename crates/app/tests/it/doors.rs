//! `convoke serve` and `convoke token`: the doors of a home, from the command line.

use crate::World;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Child;
use testkit::{FakeModel, Gate, Reply};

/// A gateway somebody started, with what it said.
struct Served {
    child: Child,
    ready: Value,
}

impl Served {
    fn start(world: &World, args: &[&str]) -> Self {
        let mut child = world.start(["serve", "--json"].iter().chain(args));
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, ready: serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")) }
    }

    fn url(&self) -> &str {
        self.ready["url"].as_str().unwrap()
    }

    fn token(&self) -> String {
        std::fs::read_to_string(self.ready["tokenFile"].as_str().unwrap()).unwrap()
    }

    /// The status of a `health` over TCP.
    fn health(&self, token: &str) -> u16 {
        let address = self.url().strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        write!(
            stream,
            "POST /rpc/health HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{{}}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().parse().unwrap()
    }

    fn end(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn a_gateway_says_where_it_listens_and_keeps_its_port_and_token() {
    let world = World::bare();
    let served = Served::start(&world, &[]);
    let (url, token) = (served.url().to_owned(), served.token());
    assert_eq!(served.ready["type"], "ready");
    assert!(url.starts_with("http://127.0.0.1:") && !url.ends_with('/'), "{url}");
    let file = Path::new(served.ready["tokenFile"].as_str().unwrap());
    assert_eq!(std::fs::metadata(file).unwrap().mode() & 0o777, 0o600);
    assert_eq!(token, token.trim(), "the bare token alone");
    assert_eq!((served.health(&token), served.health("wrong")), (200, 401));
    // Commands of this user come in by the socket, as ever.
    world.convoke(["ps"]).code(0);
    served.end();
    let again = Served::start(&world, &[]);
    assert_eq!((again.url(), again.token()), (url.as_str(), token));
    again.end();
}

#[test]
fn tokens_are_made_listed_and_revoked_while_a_gateway_runs() {
    let world = World::bare();
    let served = Served::start(&world, &[]);
    let added = world.convoke(["token", "add", "ci", "--scope", "read", "--scope", "write", "--json"]).code(0).json();
    assert_eq!((&added["name"], &added["scopes"]), (&json!("ci"), &json!(["read", "write"])));
    let token = added["token"].as_str().unwrap();
    assert_eq!(served.health(token), 200);
    let list = world.convoke(["token", "list", "--json"]).code(0).json();
    assert_eq!(list["tokens"].as_array().unwrap().len(), 2, "{list}");
    assert!(!list.to_string().contains(token) && !list.to_string().contains("hash"));
    world.convoke(["token", "add", "ci"]).code(2).says("there is a token `ci` already");
    let revoked = world.convoke(["token", "revoke", "ci", "--json"]).code(0).json();
    assert_eq!(revoked, json!({ "name": "ci", "revoked": true }));
    assert_eq!(served.health(token), 401);
    world.convoke(["token", "revoke", "ci"]).code(2).says("there is no token `ci`");
    let plain = world.convoke(["token", "add", "x", "--expires", "30d"]).code(0).says("only time");
    assert_eq!(served.health(plain.stdout.trim()), 200);
    assert!(world.convoke(["token", "list"]).code(0).stdout.contains("in 29 days"));
    world.convoke(["token", "add", "y", "--scope", "everything"]).code(2);
    served.end();
}

#[test]
fn t01_a_gateway_that_a_run_starts_has_the_socket_only() {
    let world = World::new();
    world.convoke(["run", "hello"]).code(0);
    let pid = world.gateway_pid().as_raw_nonzero();
    let state = world.home.path().join("state");
    assert!(!state.join("port").exists() && !state.join("token").exists());
    assert_eq!(std::fs::metadata(world.home.path().join("run")).unwrap().mode() & 0o777, 0o700);
    let sockets = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let inodes: Vec<String> = sockets
        .filter_map(|file| std::fs::read_link(file.path()).ok())
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    assert!(!inodes.is_empty());
    for table in ["tcp", "tcp6"] {
        let table = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        // The fourth column is the state; 0A listens.
        let listens = |line: &&str| line.split_whitespace().nth(3) == Some("0A");
        for line in table.lines().filter(listens) {
            let inode = line.split_whitespace().nth(9).unwrap();
            assert!(!inodes.iter().any(|own| own == inode), "{line}");
        }
    }
}

#[test]
fn t04_it_does_not_listen_beyond_this_machine_unless_told_that_a_proxy_is_there() {
    let world = World::bare();
    let refused = world.convoke(["serve", "--json", "--listen", "0.0.0.0"]).code(2).says("--insecure-behind-proxy");
    assert_eq!(refused.json()["type"], "error");
    let served = Served::start(&world, &["--listen", "0.0.0.0", "--insecure-behind-proxy"]);
    assert_eq!(served.health(&served.token()), 200);
    served.end();
    world.convoke(["serve", "--listen", "nowhere"]).code(2);
    world.convoke(["serve", "--listen", "127.0.0.1", "--no-tcp"]).code(2);
}

#[test]
fn with_a_certificate_it_speaks_tls_and_may_listen_beyond_this_machine() {
    let world = World::bare();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let file = |name: &str, text: String| {
        let path = world.home.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let cert = file("cert.pem", made.cert.pem());
    let key = file("key.pem", made.signing_key.serialize_pem());
    let configure = |key: &Path| {
        let text = json!({ "tls": { "cert": cert, "key": key } }).to_string();
        std::fs::write(world.home.config_file(), text).unwrap();
    };
    configure(&key);
    let served = Served::start(&world, &["--listen", "0.0.0.0"]);
    assert!(served.url().starts_with("https://127.0.0.1:"), "{}", served.url());
    served.end();
    configure(&cert);
    world.convoke(["serve", "--json"]).code(2).says("tls.key");
}

#[test]
fn a_port_that_is_taken_is_said_so_when_it_was_asked_for() {
    let world = World::bare();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    world.convoke(["serve", "--json", "--listen", &address]).code(2).says("cannot listen at");
}

#[test]
fn a_gateway_that_a_command_left_behind_makes_way_for_serve_unless_it_is_busy() {
    let gate = Gate::new();
    let shut = gate.clone();
    let world = World::with(FakeModel::scripted(move |received| match received.last("user") {
        Some(text) if text.contains("slowly") => Reply::text("done").gated(shut.clone()),
        _ => Reply::text("at once"),
    }));
    world.convoke(["run", "hello"]).code(0);
    let before = world.gateway_pid();
    let mut served = Served::start(&world, &["--no-tcp"]);
    assert_eq!(served.ready["type"], "ready", "{}", served.ready);
    assert_ne!(world.gateway_pid(), before);
    world.convoke(["stop"]).code(0);
    served.child.wait().unwrap();

    world.convoke(["spawn", "slowly"]).code(0);
    world.model.wait_for_blocking(2);
    let busy = world.gateway_pid();
    world.convoke(["serve", "--no-tcp"]).code(2);
    assert_eq!(world.gateway_pid(), busy, "a gateway at work stays");
    gate.open();
}

#[test]
fn a_token_does_not_outlive_its_time_when_the_date_is_set_back() {
    let world = World::bare();
    let add = |name: &str| {
        let added =
            world.convoke(["token", "add", name, "--scope", "read", "--expires", "1h", "--json"]).code(0).json();
        added["token"].as_str().unwrap().to_owned()
    };
    let token = add("ci");
    let served = Served::start(&world, &[]);
    assert_eq!(served.health(&token), 200);
    served.end();
    crate::set_back(&world.home, 2);
    let served = Served::start(&world, &[]);
    assert_eq!(served.health(&token), 401);
    // One that is made now has its hour.
    assert_eq!(served.health(&add("later")), 200);
    served.end();
}
