//! Getting a page: every hop is looked at before it is made, and nobody is connected to but the address that was looked
//! at.

use super::guard;
use crate::Error;
use async_trait::async_trait;
use reqwest::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, LOCATION};
use reqwest::redirect::Policy;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use url::{Host, Url};

/// The most that is read of a page.
pub(super) const MOST: usize = 5 << 20;

/// Addresses one page may lead through.
const HOPS: usize = 10;

/// How long it may take to reach a server.
const CONNECT: Duration = Duration::from_secs(10);

/// Who knows where hosts are.
#[async_trait]
pub(super) trait Names: Send + Sync {
    async fn look_up(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The system's own.
pub(super) struct System;

#[async_trait]
impl Names for System {
    async fn look_up(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// What decides where a page may come from.
pub(super) struct Ways<'a> {
    pub(super) names: &'a dyn Names,
    pub(super) is_public: fn(IpAddr) -> bool,
    /// What the rules say to an address that the first one leads to.
    pub(super) may: &'a (dyn Fn(&Url) -> Result<(), Error> + Send + Sync),
    /// Whether a rule names an address that has to be named.
    pub(super) is_named: &'a (dyn Fn(IpAddr) -> bool + Send + Sync),
}

pub(super) struct Page {
    /// Where it was found in the end.
    pub(super) url: Url,
    pub(super) status: u16,
    pub(super) kind: String,
    pub(super) body: Vec<u8>,
    /// There was more.
    pub(super) cut: bool,
}

/// An address that may be asked for. Who it is asked as is nobody's business, so there are no names and passwords in it.
pub(super) fn address(text: &str) -> Result<Url, String> {
    let url = Url::parse(text.trim()).map_err(|error| format!("`{text}` is no address: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("`{}:` is not fetched: only `http:` and `https:` are", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("an address with a user or a password in it is not fetched".into());
    }
    if url.host().is_none() {
        return Err(format!("`{text}` names no host"));
    }
    Ok(url)
}

/// Follows an address to a page. The host that was asked for by name was allowed; any other has to be out in the open.
pub(super) async fn get(first: Url, ways: &Ways<'_>) -> Result<Page, Error> {
    let asked = host_of(&first);
    let mut url = first;
    for _ in 0..=HOPS {
        let addresses = addresses(&url, asked.as_deref(), ways).await?;
        let response = ask(&url, &addresses).await?;
        let next = response.headers().get(LOCATION).filter(|_| response.status().is_redirection());
        let Some(next) = next.and_then(|next| next.to_str().ok()) else { return read(url, response).await };
        let next = url.join(next).map_err(|error| Error::tell(format!("it leads to no address: {error}")))?;
        url = address(next.as_str()).map_err(|why| Error::tell(format!("it leads elsewhere: {why}")))?;
        (ways.may)(&url)?;
    }
    Err(Error::tell(format!("it leads on and on: more than {HOPS} times")))
}

fn host_of(url: &Url) -> Option<String> {
    url.host().filter(guard::is_private).map(|host| host.to_string())
}

/// Where the host is, if it may be asked. Looked up once: what is connected to is what was looked at.
async fn addresses(url: &Url, asked: Option<&str>, ways: &Ways<'_>) -> Result<Vec<SocketAddr>, Error> {
    let host = url.host().ok_or_else(|| Error::tell("it leads to no host"))?;
    let found = match host {
        Host::Ipv4(address) => vec![IpAddr::V4(address)],
        Host::Ipv6(address) => vec![IpAddr::V6(address)],
        Host::Domain(name) => {
            ways.names.look_up(name).await.map_err(|error| Error::tell(format!("`{name}` was not found: {error}")))?
        }
    };
    let allowed = asked == Some(host.to_string().as_str());
    let port = url.port_or_known_default().unwrap_or(80);
    // A name that was allowed may lead to where it could not be allowed by itself.
    let named = |address: IpAddr| {
        !rules::tells_secrets(address) || rules::must_be_named(&host.to_string()) || (ways.is_named)(address)
    };
    let open = found.iter().filter(|address| (ways.is_public)(**address) || (allowed && named(**address)));
    let open: Vec<SocketAddr> = open.map(|address| SocketAddr::new(*address, port)).collect();
    if open.is_empty() {
        let what = if found.is_empty() { "nowhere" } else { "inside this machine or its network" };
        return Err(Error::tell(format!("`{host}` is {what}: it is not fetched from there")));
    }
    Ok(open)
}

async fn ask(url: &Url, addresses: &[SocketAddr]) -> Result<reqwest::Response, Error> {
    let host = url.host_str().unwrap_or_default();
    let client = reqwest::Client::builder()
        // A proxy of the environment would look the host up by itself.
        .no_proxy()
        .redirect(Policy::none())
        .resolve_to_addrs(host, addresses)
        .connect_timeout(CONNECT)
        .user_agent(concat!("convoke/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| Error::tell(format!("cannot fetch anything: {error}")))?;
    let request = client.get(url.clone()).header(ACCEPT, "text/html, text/*, application/json;q=0.9, */*;q=0.1");
    request.send().await.map_err(|error| Error::tell(format!("`{host}` did not answer: {}", reason(&error))))
}

/// The innermost cause says what happened; the outer ones repeat the address.
fn reason(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

async fn read(url: Url, mut response: reqwest::Response) -> Result<Page, Error> {
    let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !header(CONTENT_ENCODING).is_empty() {
        // Nobody asked for it, and a small one can become endless.
        return Err(Error::tell("the page came packed, though that was not asked for"));
    }
    let (kind, status) = (header(CONTENT_TYPE).to_owned(), response.status().as_u16());
    let (mut body, mut cut) = (Vec::new(), false);
    loop {
        let piece =
            response.chunk().await.map_err(|error| Error::tell(format!("the page broke off: {}", reason(&error))))?;
        let Some(piece) = piece else { break };
        let room = MOST - body.len();
        body.extend_from_slice(&piece[..piece.len().min(room)]);
        if piece.len() > room {
            cut = true;
            break;
        }
    }
    Ok(Page { url, status, kind, body, cut })
}
