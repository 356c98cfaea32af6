//! Where a provider is and how it is reached: one client per provider, built when it is first needed.

use super::key::Key;
use super::mask::Masks;
use crate::pace::Pace;
use crate::{Admitted, Error, PerMinute, Reply, Wait, retry};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url};
use secrecy::{ExposeSecret, SecretString};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::Instant;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Below the 60 s after which common servers and balancers close an idle connection on their side.
const IDLE_CONNECTION: Duration = Duration::from_secs(50);

/// A provider's address and what opens it. Not printable: its headers may be secrets as well.
#[derive(Clone)]
pub struct Endpoint {
    /// The provider's name in the settings, for messages; empty where it has none.
    pub name: String,
    /// As the vendor's own SDK takes it, such as `https://api.example.com/v1`.
    pub base_url: String,
    /// Sent to this address only.
    pub key: Key,
    pub auth: Auth,
    /// Sent with every request; they win over what the wire sends of itself.
    pub headers: BTreeMap<String, String>,
    /// Requests under way at once.
    pub concurrency: Option<u32>,
    pub per_minute: PerMinute,
    pub retries: u32,
}

impl Endpoint {
    /// An address that asks for no key.
    pub fn at(base_url: impl Into<String>) -> Self {
        Self {
            name: String::new(),
            base_url: base_url.into(),
            key: Key::None,
            auth: Auth::Bearer,
            headers: BTreeMap::new(),
            concurrency: None,
            per_minute: PerMinute::default(),
            retries: retry::MOST,
        }
    }
}

/// How a key is shown to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    /// `Authorization: Bearer …`
    Bearer,
    /// A header of this name.
    Header(&'static str),
}

/// An endpoint with its client.
pub(crate) struct Connection {
    endpoint: Endpoint,
    /// The key once it is known.
    key: Mutex<Option<SecretString>>,
    client: OnceLock<Result<Client, String>>,
    turns: Option<Arc<Semaphore>>,
    pace: std::sync::Mutex<Pace>,
    /// The pace's time is counted from here.
    began: Instant,
}

impl Connection {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        let turns = endpoint.concurrency.map(|most| Arc::new(Semaphore::new(most.max(1) as usize)));
        let pace = std::sync::Mutex::new(Pace::new(endpoint.per_minute));
        Self { endpoint, key: Mutex::default(), client: OnceLock::new(), turns, pace, began: Instant::now() }
    }

    /// Takes a turn for a request of about so many tokens.
    pub(crate) fn pace(&self, tokens: u64) -> Result<(), Wait> {
        self.paced(|pace, now| pace.take(tokens, now))
    }

    /// What became of a request of about so many tokens. A server that names a time is left alone by all until then.
    pub(crate) fn asked(&self, tokens: u64, answer: &Result<Reply, Error>) {
        self.paced(|pace, now| match answer {
            Ok(Reply { usage, .. }) => pace.answered(tokens, usage.input + usage.cache_write + usage.output, now),
            // Whoever wants more patience than there is gets none: everybody is told instead.
            Err(Error::RateLimited { retry_after: Some(time), .. }) if *time <= retry::PATIENCE => {
                pace.leave_alone(now + *time);
            }
            Err(_) => pace.failed(),
        });
    }

    fn paced<T>(&self, act: impl FnOnce(&mut Pace, Duration) -> T) -> T {
        act(&mut self.pace.lock().unwrap_or_else(PoisonError::into_inner), self.began.elapsed())
    }

    /// Waits for a turn, where only so many requests may be under way.
    pub(crate) async fn admit(&self) -> Admitted {
        match &self.turns {
            None => Admitted::default(),
            Some(turns) => turns.clone().acquire_owned().await.expect("turns are never closed").into(),
        }
    }

    pub(crate) fn retries(&self) -> u32 {
        self.endpoint.retries
    }

    /// An error as it may be shown. A key that was refused is asked for again with the next request.
    pub(crate) async fn shown(&self, error: Error) -> Error {
        let mut key = self.key.lock().await;
        let secrets = key.iter().map(ExposeSecret::expose_secret);
        let masks = Masks::new(secrets.chain(self.endpoint.headers.values().map(String::as_str)));
        let shown = masks.error(error);
        if matches!(shown, Error::Auth(_)) {
            *key = None;
        }
        self.named(shown)
    }

    /// A refusal, with who refused: of several providers one has to be mended.
    fn named(&self, error: Error) -> Error {
        let (name, origin) = (&self.endpoint.name, self.origin());
        match error {
            error if name.is_empty() => error,
            Error::Auth(text) => {
                let login = format!("`convoke auth login {name}` takes another key");
                Error::Auth(format!("{text} (provider `{name}` at {origin}; {login})"))
            }
            Error::NoKey(text) => Error::NoKey(format!("{text} (provider `{name}`)")),
            Error::Refused(text) => Error::Refused(format!("{text} (provider `{name}` at {origin})")),
            error => error,
        }
    }

    /// A POST to `path` under the base URL, with key and headers.
    pub(crate) async fn post(&self, path: &str) -> Result<reqwest::RequestBuilder, Error> {
        let url = self.url(path)?;
        let headers = self.headers().await?;
        let client = self.client.get_or_init(|| build(&url).map_err(|error| innermost(&error)));
        let client = client.as_ref().map_err(|reason| Error::Network(format!("cannot set up TLS: {reason}")))?;
        Ok(client.post(url).headers(headers))
    }

    /// The address as messages name it: without a password, path or query.
    pub(crate) fn origin(&self) -> String {
        match Url::parse(&self.endpoint.base_url) {
            Ok(url) => url.origin().ascii_serialization(),
            Err(_) => "the model's server".to_owned(),
        }
    }

    /// Why a request did not get through, in one line.
    pub(crate) fn unreachable(&self, error: &reqwest::Error) -> Error {
        let origin = self.origin();
        if error.is_connect() && error.is_timeout() {
            let seconds = CONNECT_TIMEOUT.as_secs();
            return Error::Network(format!("cannot connect to {origin} within {seconds} s"));
        }
        let reason = innermost(error);
        let verb = if error.is_connect() { "cannot connect to" } else { "lost the connection to" };
        Error::Network(format!("{verb} {origin}: {reason}"))
    }

    fn url(&self, path: &str) -> Result<Url, Error> {
        let wrong = || Error::Refused("`base_url` is not an http or https address".to_owned());
        let base = self.endpoint.base_url.as_str();
        // Judged alone: behind `http://` the path would be taken for a host.
        let whole = Url::parse(base).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        // Some vendors name a version of their interface behind a question mark.
        let (address, query) = base.split_at(base.find('?').unwrap_or(base.len()));
        let url = Url::parse(&format!("{}{path}{query}", address.trim_end_matches('/')));
        url.ok().filter(|_| whole).ok_or_else(wrong)
    }

    async fn headers(&self) -> Result<HeaderMap, Error> {
        let mut headers = HeaderMap::new();
        let mut known = self.key.lock().await;
        if known.is_none() {
            *known = self.endpoint.key.read().await?;
        }
        if let Some(key) = known.as_ref() {
            let (name, value) = match self.endpoint.auth {
                Auth::Bearer => (AUTHORIZATION, format!("Bearer {}", key.expose_secret())),
                Auth::Header(name) => (HeaderName::from_static(name), key.expose_secret().to_owned()),
            };
            let value = HeaderValue::try_from(value);
            let mut value = value.map_err(|_| Error::Auth("the key holds a character no header can".to_owned()))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        for (name, value) in &self.endpoint.headers {
            let bad = || Error::Refused(format!("header `{name}` of the provider is not valid"));
            let key = HeaderName::try_from(name.as_str()).map_err(|_| bad())?;
            headers.insert(key, HeaderValue::try_from(value.as_str()).map_err(|_| bad())?);
        }
        Ok(headers)
    }
}

fn build(url: &Url) -> Result<Client, reqwest::Error> {
    let mut builder = Client::builder()
        .user_agent(concat!("convoke/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_CONNECTION)
        .tcp_nodelay(true)
        // The key belongs to this origin: wherever a redirect points, it is not sent there.
        .redirect(reqwest::redirect::Policy::none());
    if is_loopback(url) {
        // A proxy of the environment cannot reach this machine's own ports.
        builder = builder.no_proxy();
    }
    if url.scheme() == "http" {
        // No certificate is ever checked, so the system's roots (tens of milliseconds to load) are not read.
        builder = builder.tls_certs_only([]);
    }
    builder.build()
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The cause that says something: the outer ones say "error sending request" and repeat the URL.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(base_url: &str) -> Connection {
        Connection::new(Endpoint::at(base_url))
    }

    #[track_caller]
    fn check_url(base_url: &str, expected: &str) {
        assert_eq!(connection(base_url).url("/chat/completions").unwrap().as_str(), expected);
    }

    #[test]
    fn the_path_is_appended_to_the_base() {
        check_url("http://localhost:11434/v1", "http://localhost:11434/v1/chat/completions");
        check_url("https://example.com/v1/", "https://example.com/v1/chat/completions");
        check_url("https://example.com", "https://example.com/chat/completions");
        check_url("https://example.com/v1/?api-version=2", "https://example.com/v1/chat/completions?api-version=2");
    }

    #[tokio::test]
    async fn what_is_not_an_address_is_refused_by_name() {
        for base_url in ["", "localhost:8080", "file:///etc/passwd", "http://"] {
            let error = connection(base_url).post("/x").await.unwrap_err();
            assert!(error.to_string().contains("`base_url`"), "{base_url}: {error}");
        }
    }

    #[tokio::test]
    async fn a_refusal_names_the_provider_and_never_its_key() {
        let endpoint =
            Endpoint { name: "mine".into(), key: "sk-secret-1".into(), ..Endpoint::at("https://h.example/v1") };
        let connection = Connection::new(endpoint);
        drop(connection.post("/x").await.unwrap());
        for (error, words) in [
            (Error::Auth("HTTP 401: no sk-secret-1".into()), "at https://h.example; `convoke auth login mine`"),
            (Error::Refused("HTTP 404: sk-secret-1".into()), "*** (provider `mine` at https://h.example)"),
            (Error::NoKey("it failed".into()), "it failed (provider `mine`)"),
        ] {
            let shown = connection.shown(error).await.to_string();
            assert!(shown.contains(words) && !shown.contains("secret"), "{shown}");
            drop(connection.post("/x").await.unwrap());
        }
    }

    #[test]
    fn messages_name_the_origin_without_a_password() {
        assert_eq!(connection("https://me:secret@example.com/v1?k=v").origin(), "https://example.com");
    }

    /// A prompt to a server nearby should not wait for certificates nobody will check: reading them takes three times as
    /// long as is allowed here, and without them it is a fiftieth.
    #[test]
    fn a_client_for_plain_http_is_built_at_once() {
        let url = Url::parse("http://127.0.0.1:9/v1").unwrap();
        let took = (0..5).map(|_| {
            let start = std::time::Instant::now();
            build(&url).unwrap();
            start.elapsed()
        });
        let best = took.min().unwrap();
        assert!(best < Duration::from_millis(5), "{best:?}");
    }

    #[test]
    fn this_machine_is_recognised() {
        for (url, expected) in [
            ("http://localhost:1", true),
            ("http://127.0.0.1:1", true),
            ("http://[::1]:1", true),
            ("http://10.0.0.1", false),
            ("http://localhost.example.com", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }
}
