//! WebSocket frames, sent to a real gateway on loopback by a client that may only read. The gateway goes on answering, and
//! none of its tasks panics. Its memory is limited like that of every target.
//!
//! The first byte of an input chooses how it is sent: `t` as a text message for each line, anything else as raw frames.

use super::{Target, Trial, signature};
use anyhow::{Context, bail};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub(super) const TARGET: Target = Target {
    name: "websocket",
    words: &[
        "t",
        "\x01",
        "\x02",
        "{\"id\":1,\"method\":\"",
        "health",
        "sessions.list",
        "events.subscribe",
        "events.unsubscribe",
        "sessions.history",
        "\",\"params\":{",
        "}}",
        "\n",
        "\"subscription\":",
        "\"session\":",
        "\"after\":\"0\"",
        "null",
    ],
    folders: &[],
    open,
};

/// How long an answer is waited for. Calls that wait take longer and are cut off.
const PATIENCE: Duration = Duration::from_millis(300);

fn open(scratch: &Path) -> anyhow::Result<Trial> {
    let mut gateway = Gateway::start(scratch)?;
    Ok(Box::new(move |input| {
        let heard = gateway.say(input).map_err(|error| format!("no connection: {error:#}"))?;
        gateway.check().map_err(|error| format!("{error:#}"))?;
        Ok(signature(heard))
    }))
}

/// A gateway of its own, without a terminal or a model.
pub(super) struct Gateway {
    child: Child,
    address: String,
    token: String,
    /// This user's own.
    own: String,
    log: PathBuf,
    read: usize,
}

impl Gateway {
    pub(super) fn start(scratch: &Path) -> anyhow::Result<Self> {
        let program = std::env::current_exe()?.with_file_name("convoke");
        if !program.exists() {
            bail!("there is no `{}`: build it with `cargo build --package convoke`", program.display());
        }
        let command = |arguments: &[&str]| {
            let mut command = Command::new(&program);
            command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", scratch).env("CONVOKE_HOME", scratch);
            command.args(arguments).current_dir(scratch).stdin(Stdio::null());
            command
        };
        // It leaves by itself when this process is killed.
        let log = scratch.join("log");
        let mut child = command(&["serve", "--json", "--listen", "127.0.0.1:0", "--idle-exit", "20s"])
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log)?)
            .spawn()
            .context("cannot start the gateway")?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("it has an output")?).read_line(&mut line)?;
        let ready: serde_json::Value =
            serde_json::from_str(&line).with_context(|| format!("the gateway said `{line}`"))?;
        let url = ready["url"].as_str().unwrap_or_default();
        let address =
            url.strip_prefix("http://").with_context(|| format!("the gateway listens at `{url}`"))?.to_owned();
        // One that may only read: what is made up here must not start anything.
        let token = command(&["token", "add", "fuzz", "--scope", "read", "--json"]).output()?;
        let token: serde_json::Value = serde_json::from_slice(&token.stdout).context("no token was made")?;
        let token = token["token"].as_str().context("no token was made")?.to_owned();
        let own = std::fs::read_to_string(ready["tokenFile"].as_str().context("the gateway names no token file")?)?;
        Ok(Self { child, address, token, own: own.trim().to_owned(), log, read: 0 })
    }

    /// Opens a WebSocket, sends the input and returns what kinds of frames came back.
    fn say(&self, input: &[u8]) -> anyhow::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let request = format!(
            "GET /ws HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
            self.address, self.token
        );
        stream.write_all(request.as_bytes())?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if !line.contains("101") {
            bail!("the gateway answered `{}`", line.trim());
        }
        while line.trim() != "" {
            line.clear();
            reader.read_line(&mut line)?;
        }
        let frames = match input.strip_prefix(b"t") {
            Some(lines) => lines.split(|byte| *byte == b'\n').flat_map(text).collect(),
            None => input.to_vec(),
        };
        // The gateway may hang up in the middle, which is its good right.
        let _ = stream.write_all(&frames);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = reader.take(16 * 1024).read_to_end(&mut answer);
        let letters = answer.iter().copied().filter(u8::is_ascii_alphabetic).take(48);
        Ok(letters.chain(answer.iter().copied().take(1)).collect())
    }

    /// Calls a method as this user.
    pub(super) fn call(&self, method: &str, input: &serde_json::Value) -> anyhow::Result<serde_json::Value> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(9)))?;
        let body = input.to_string();
        let request = format!(
            "POST /rpc/{method} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            self.own,
            body.len()
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).with_context(|| format!("`{method}` got no answer"))?;
        let (_, body) = answer.split_once("\r\n\r\n").context("the gateway sent no answer")?;
        serde_json::from_str(body).with_context(|| format!("`{method}` answered `{body}`"))
    }

    /// It is there, it answers, and nothing in it panicked.
    pub(super) fn check(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("the gateway ended with {status}: {}", self.last_words());
        }
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let new = log.get(self.read..).unwrap_or_default();
        self.read = log.len();
        if new.contains("panicked") {
            bail!("a task of the gateway panicked: {}", self.last_words());
        }
        let mut stream = TcpStream::connect(&self.address).context("the gateway takes no connection any more")?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(
            format!("GET /healthz HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.address).as_bytes(),
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).context("the gateway does not answer any more")?;
        if !answer.starts_with("HTTP/1.1 200") {
            bail!("the gateway is not well: {answer}");
        }
        Ok(())
    }

    fn last_words(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(3).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A text message as a client sends it, with a mask of zeros.
fn text(line: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x81];
    match u16::try_from(line.len()) {
        Ok(short) if short < 126 => frame.push(0x80 | short as u8),
        Ok(middle) => {
            frame.push(0x80 | 126);
            frame.extend(middle.to_be_bytes());
        }
        Err(_) => {
            frame.push(0x80 | 127);
            frame.extend((line.len() as u64).to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(line);
    frame
}
