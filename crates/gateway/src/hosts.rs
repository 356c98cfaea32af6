//! Which names this gateway answers to, and which pages may speak to it.
//!
//! A page anywhere can make a browser connect here. It cannot choose the `Host` that the browser sends: that is the name
//! under which the page itself was loaded, so a name that was made to point here is told apart from ours.

use http::{HeaderMap, HeaderName, Uri, header};
use proto::{Code, Error};
use std::net::{IpAddr, SocketAddr};

/// What this gateway is called.
pub(crate) struct Ours<'a> {
    /// Where somebody connected to.
    pub(crate) local: SocketAddr,
    /// What a name without a port means.
    pub(crate) usual_port: u16,
    /// Further names.
    pub(crate) allowed: &'a [String],
}

/// Refuses requests that were meant for somebody else, and pages of somebody else.
pub(crate) fn check(uri: &Uri, headers: &HeaderMap, ours: &Ours<'_>) -> Result<(), Error> {
    let host = single(headers, &header::HOST)?.ok_or_else(|| refused("the request names no host"))?;
    if !ours.has(host) {
        return Err(refused(&format!("`{}` is not a name of this gateway", shown(host))));
    }
    // A request may name its target in the first line as well; both have to be right.
    if uri.authority().is_some_and(|authority| !ours.has(authority.as_str())) {
        return Err(refused("the request was meant for another server"));
    }
    match single(headers, &header::ORIGIN)? {
        Some(origin) if !is_same(origin, host) => {
            Err(refused(&format!("pages of `{}` may not speak to this gateway", shown(origin))))
        }
        _ => Ok(()),
    }
}

impl Ours<'_> {
    fn has(&self, host: &str) -> bool {
        let Some((name, port)) = split(host) else { return false };
        if self.allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(name)) {
            return true;
        }
        if port.unwrap_or(self.usual_port) != self.local.port() {
            return false;
        }
        if name.eq_ignore_ascii_case("localhost") {
            return true;
        }
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let literal = bare.parse::<IpAddr>();
        literal.is_ok_and(|ip| is_loopback_name(ip) || ip.to_canonical() == self.local.ip().to_canonical())
    }
}

/// The addresses everybody writes; other loopback addresses count only where somebody listens there.
fn is_loopback_name(ip: IpAddr) -> bool {
    ip == IpAddr::V4(std::net::Ipv4Addr::LOCALHOST) || ip == IpAddr::V6(std::net::Ipv6Addr::LOCALHOST)
}

/// The name and the port. `None` when it is neither a name nor an address.
fn split(host: &str) -> Option<(&str, Option<u16>)> {
    let end = if host.starts_with('[') { host.find(']')? + 1 } else { host.find(':').unwrap_or(host.len()) };
    let (name, rest) = host.split_at(end);
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '[' | ']' | ':');
    if name.is_empty() || !name.chars().all(fits) {
        return None;
    }
    match rest.strip_prefix(':') {
        None if rest.is_empty() => Some((name, None)),
        Some(port) if port.bytes().all(|digit| digit.is_ascii_digit()) => Some((name, Some(port.parse().ok()?))),
        _ => None,
    }
}

fn is_same(origin: &str, host: &str) -> bool {
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

/// The value of a header that may be there once.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Error> {
    let mut values = headers.get_all(name).iter();
    let Some(first) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(refused(&format!("the request has several `{name}` headers")));
    }
    first.to_str().map(Some).map_err(|_| refused(&format!("the `{name}` header is not text")))
}

fn shown(text: &str) -> String {
    text.chars().take(80).collect()
}

fn refused(why: &str) -> Error {
    Error::new(Code::Denied, why).hint("use the address `convoke serve` prints; for a proxy see `--allow-host`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn ours(host: &str, expected: bool) {
        let allowed = ["convoke.example".into()];
        let ours = Ours { local: "127.0.0.1:7000".parse().unwrap(), usual_port: 80, allowed: &allowed };
        assert_eq!(ours.has(host), expected, "{host}");
    }

    #[test]
    fn only_our_own_names_are_ours() {
        for host in ["127.0.0.1:7000", "localhost:7000", "LOCALHOST:7000", "[::1]:7000", "convoke.example"] {
            ours(host, true);
        }
        for host in [
            "",
            ":7000",
            "evil.example",
            "evil.example:7000",
            "127.0.0.1.evil.example:7000",
            "127.0.0.1",
            "localhost:7001",
            "localhost:",
            "localhost:+7000",
            "127.0.0.2:7000",
            "[::1",
            "[::1]x:7000",
            "user@127.0.0.1:7000",
            "localhost.:7000",
            "a b:7000",
        ] {
            ours(host, false);
        }
    }

    #[test]
    fn the_address_somebody_connected_to_is_ours() {
        let ours = Ours { local: "192.0.2.7:443".parse().unwrap(), usual_port: 443, allowed: &[] };
        assert!(ours.has("192.0.2.7:443") && ours.has("192.0.2.7") && !ours.has("192.0.2.8"));
    }

    #[test]
    fn an_origin_equals_its_host() {
        assert!(is_same("http://localhost:7000", "localhost:7000") && is_same("https://a.example", "A.example"));
        for origin in ["null", "", "http://localhost:1", "http://127.0.0.1.nip.io", "localhost:7000", "file://x"] {
            assert!(!is_same(origin, "localhost:7000"), "{origin}");
        }
    }
}
