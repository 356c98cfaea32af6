//! Looks for a model server on this machine: asked when nothing is set up, before the offline model answers.
//!
//! A port that is closed says so at once. What listens there gets a plain question without any key (T22), and counts only
//! if it answers like the server it should be.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// For the connection, and for the answer: a server on this machine takes a millisecond.
const PATIENCE: Duration = Duration::from_millis(150);

/// A list of models is shorter.
const LONGEST: usize = 256 * 1024;

/// A server that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The vendor it is one of.
    pub vendor: &'static str,
    pub base_url: String,
    /// The first model it names.
    pub model: String,
}

/// The first server that answers. `env` looks a variable up: both servers can be moved by one of their own.
pub fn find(env: &dyn Fn(&str) -> Option<String>) -> Option<Found> {
    let ollama = env("OLLAMA_HOST").filter(|host| !host.is_empty()).unwrap_or_else(|| "127.0.0.1:11434".to_owned());
    let llamacpp = format!("127.0.0.1:{}", env("LLAMA_ARG_PORT").unwrap_or_else(|| "8080".to_owned()));
    ask("ollama", &ollama, "/api/tags", first_of_ollama)
        .or_else(|| ask("llamacpp", &llamacpp, "/v1/models", first_of_llamacpp))
}

/// The models a server on this machine names, asked at the base URL that is set for it. Nowhere else is asked, and no key
/// is sent.
pub fn models(base_url: &str) -> Option<Vec<String>> {
    let rest = base_url.strip_prefix("http://")?;
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let answer = get(address(&with_port(host))?, host, &format!("{}/models", path.trim_end_matches('/')))?;
    let answer: Value = serde_json::from_slice(&answer).ok()?;
    let names = answer["data"].as_array()?.iter().filter_map(|model| model["id"].as_str().map(str::to_owned));
    Some(names.collect())
}

fn with_port(host: &str) -> String {
    let port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if port { host.to_owned() } else { format!("{host}:80") }
}

fn first_of_ollama(answer: &Value) -> Option<&str> {
    answer["models"][0]["name"].as_str()
}

fn first_of_llamacpp(answer: &Value) -> Option<&str> {
    let first = &answer["data"][0];
    // Many things listen on this port.
    first["id"].as_str().filter(|_| first["owned_by"] == "llamacpp")
}

fn ask(vendor: &'static str, host: &str, path: &str, first: fn(&Value) -> Option<&str>) -> Option<Found> {
    let host = host.trim_start_matches("http://").trim_end_matches('/');
    let address = address(host)?;
    let answer: Value = serde_json::from_slice(&get(address, host, path)?).ok()?;
    let model = first(&answer)?.to_owned();
    Some(Found { vendor, base_url: format!("http://{address}/v1"), model })
}

/// Where a server that listens everywhere is asked is here, and nowhere else is asked.
fn address(host: &str) -> Option<SocketAddr> {
    let mut address = host.to_socket_addrs().ok()?.next()?;
    if address.ip().is_unspecified() {
        address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
    }
    Some(address).filter(|address| address.ip().is_loopback())
}

/// The body of an answer of status 200.
fn get(address: SocketAddr, host: &str, path: &str) -> Option<Vec<u8>> {
    let until = Instant::now() + PATIENCE;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    // HTTP/1.0: the body is what comes until the server closes, never in chunks.
    stream
        .write_all(format!("GET {path} HTTP/1.0\r\nhost: {host}\r\naccept: application/json\r\n\r\n").as_bytes())
        .ok()?;
    let mut answer = Vec::new();
    let mut block = [0; 8 * 1024];
    loop {
        stream
            .set_read_timeout(Some(until.checked_duration_since(Instant::now())?.max(Duration::from_millis(1))))
            .ok()?;
        match stream.read(&mut block).ok()? {
            0 => break,
            read => answer.extend_from_slice(&block[..read]),
        }
        if answer.len() > LONGEST {
            return None;
        }
    }
    let body = memchr::memmem::find(&answer, b"\r\n\r\n")? + 4;
    let status = answer.get(9..12)?;
    (status == b"200").then(|| answer.split_off(body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A server that answers one request with `body`, and what it was sent.
    fn serve(status: &'static str, body: &'static str) -> (String, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 2_000];
            let read = stream.read(&mut request).unwrap();
            let _ = write!(stream, "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n\r\n{body}");
            String::from_utf8_lossy(&request[..read]).into_owned()
        });
        (host, thread)
    }

    fn found(ollama: &str, llamacpp: &str) -> Option<Found> {
        let port = llamacpp.rsplit(':').next().unwrap().to_owned();
        find(&|name| match name {
            "OLLAMA_HOST" => Some(ollama.to_owned()),
            "LLAMA_ARG_PORT" => Some(port.clone()),
            _ => Some("a key that is nobody's business".to_owned()),
        })
    }

    const NOBODY: &str = "127.0.0.1:1";

    #[test]
    fn t22_a_server_on_its_port_is_found_and_gets_no_credential() {
        let (host, thread) = serve("200 OK", r#"{"models":[{"name":"qwen3:8b"},{"name":"x"}]}"#);
        let server = found(&host, NOBODY).unwrap();
        assert_eq!((server.vendor, server.model.as_str()), ("ollama", "qwen3:8b"));
        assert_eq!(server.base_url, format!("http://{host}/v1"));
        let request = thread.join().unwrap().to_lowercase();
        assert!(
            request.starts_with("get /api/tags ") && !request.contains("key") && !request.contains("auth"),
            "{request}"
        );

        let (host, thread) = serve("200 OK", r#"{"object":"list","data":[{"id":"gemma","owned_by":"llamacpp"}]}"#);
        let server = found(NOBODY, &host).unwrap();
        assert_eq!((server.vendor, server.model.as_str()), ("llamacpp", "gemma"));
        thread.join().unwrap();
    }

    #[test]
    fn whatever_else_listens_there_is_not_taken_for_one() {
        for (status, body) in [
            ("200 OK", "<html>hello</html>"),
            ("200 OK", r#"{"models":[]}"#),
            ("404 Not Found", r#"{"models":[{"name":"x"}]}"#),
        ] {
            let (host, thread) = serve(status, body);
            assert_eq!(found(&host, NOBODY), None, "{body}");
            thread.join().unwrap();
        }
        let (host, thread) = serve("200 OK", r#"{"data":[{"id":"somebody's app"}]}"#);
        assert_eq!(found(NOBODY, &host), None);
        thread.join().unwrap();
        assert_eq!(found(NOBODY, NOBODY), None);
        assert_eq!(found("192.0.2.1:11434", NOBODY), None, "only this machine is asked");
    }

    #[test]
    fn a_server_that_is_set_is_asked_for_its_models() {
        let (host, thread) = serve("200 OK", r#"{"object":"list","data":[{"id":"qwen3"},{"id":"gemma"}]}"#);
        assert_eq!(models(&format!("http://{host}/v1")), Some(vec!["qwen3".to_owned(), "gemma".to_owned()]));
        assert!(thread.join().unwrap().starts_with("GET /v1/models "));
        assert_eq!(models("http://127.0.0.1:1/v1"), None);
        assert_eq!(models("http://192.0.2.1/v1"), None, "only this machine is asked");
        assert_eq!(models("https://127.0.0.1:1/v1"), None);
    }

    #[test]
    fn a_server_that_says_nothing_is_soon_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(found(&listener.local_addr().unwrap().to_string(), NOBODY), None);
    }
}
