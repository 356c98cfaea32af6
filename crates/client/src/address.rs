//! Where a gateway is, and what to say there to be let in. A token belongs to one address and is sent nowhere else.

use crate::Error;
use crate::tls::Tls;
use std::fmt;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone)]
pub(crate) enum Address {
    Socket(PathBuf),
    Tcp(Site),
}

#[derive(Debug, Clone)]
pub(crate) struct Site {
    /// The host and the port.
    pub(crate) authority: String,
    pub(crate) token: Token,
    /// How to make sure who answers, if it speaks TLS.
    pub(crate) tls: Option<Tls>,
}

/// Never printed.
#[derive(Clone)]
pub(crate) struct Token(pub(crate) String);

impl fmt::Debug for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("***")
    }
}

impl Site {
    /// From `http://host:port` or `https://host:port`, as `convoke serve` prints it. `ca` is whom the certificate of the
    /// gateway has to be signed by, as a PEM file; without it, whom this machine trusts.
    pub(crate) fn parse(url: &str, token: &str, ca: Option<&Path>) -> Result<Self, Error> {
        let uri: http::Uri = url.trim().parse().map_err(|_| refused(url, "it is not a URL"))?;
        let secure = match uri.scheme_str() {
            Some("http") if ca.is_some() => return Err(refused(url, "without `https://` there is no certificate")),
            Some("http") => false,
            Some("https") => true,
            _ => return Err(refused(url, "it has to begin with `http://` or `https://`")),
        };
        let authority = uri.authority().ok_or_else(|| refused(url, "it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(refused(url, "a name and a password have no place there"));
        }
        if uri.path() != "/" || uri.query().is_some() {
            return Err(refused(url, "it has to end with the port"));
        }
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let tls = secure.then(|| Tls::new(authority.host(), ca)).transpose()?;
        Ok(Self { authority: format!("{}:{port}", authority.host()), token: Token(token.trim().to_owned()), tls })
    }
}

fn refused(url: &str, why: &str) -> Error {
    let shown: String = url.chars().take(200).collect();
    Error::Address(format!("`{shown}` is not the address of a gateway: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_plain_address_of_a_gateway_is_one() {
        let site = Site::parse("http://127.0.0.1:7000", " secret\n", None).unwrap();
        assert_eq!((site.authority.as_str(), site.token.0.as_str()), ("127.0.0.1:7000", "secret"));
        assert!(!format!("{site:?}").contains("secret"));
        assert_eq!(Site::parse("http://[::1]:7000/", "x", None).unwrap().authority, "[::1]:7000");
        assert_eq!(Site::parse("http://a.example", "x", None).unwrap().authority, "a.example:80");
        for bad in
            ["", "x", "wss://a:1", "ftp://a:1", "http://u:p@a:1", "http://a:1/x", "http://a:1?token=x", "http://"]
        {
            assert!(matches!(Site::parse(bad, "x", None), Err(Error::Address(_))), "{bad}");
        }
        let ca = Path::new("/nowhere/ca.pem");
        for url in ["http://a:1", "https://a:1"] {
            assert!(matches!(Site::parse(url, "x", Some(ca)), Err(Error::Address(_))), "{url}");
        }
    }
}
