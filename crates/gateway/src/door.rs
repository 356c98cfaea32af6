//! What a request has to pass before anything is served, in this order: throttle, host, origin, token, content type. The
//! size of the body is checked where it is read.

use crate::caller::{Caller, unauthorized};
use crate::hosts;
use crate::throttle::Throttle;
use crate::tokens::Tokens;
use http::request::Parts;
use http::{HeaderMap, Method, header};
use proto::methods::Scope;
use proto::{Code, Error};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Where a connection came in.
#[derive(Clone)]
pub(crate) enum Door {
    /// The kernel has told who it is: the user whose gateway this is.
    Socket,
    /// The same user, in a process that a sandbox holds: it may do what a token says that it presents.
    Held(Arc<Presented>),
    Tcp {
        peer: SocketAddr,
        local: SocketAddr,
        checks: Arc<Checks>,
    },
}

/// What sandboxed commands have to present.
pub(crate) struct Presented {
    pub(crate) tokens: Tokens,
    throttle: Throttle,
}

impl Presented {
    /// Without a place where tokens are kept nothing opens.
    pub(crate) fn new(state: Option<&Path>) -> Self {
        let nowhere = Path::new("/dev/null");
        Self { tokens: Tokens::new(state.unwrap_or(nowhere)), throttle: Throttle::default() }
    }

    fn caller(&self, request: &Parts) -> Result<Caller, Error> {
        // Apart from those over TCP: a command that guesses locks out nobody else.
        let here = Ipv4Addr::LOCALHOST.into();
        let Some(token) = bearer(&request.headers) else { return Err(held()) };
        self.throttle.attempt(here, Instant::now())?;
        let caller = self.tokens.caller(token).ok_or_else(held)?;
        self.throttle.forgive(here);
        // Files of other homes can be read in a sandbox, that of their owner's token among them.
        if caller.is_admin() || caller.require(Scope::Approve).is_ok() {
            return Err(too_much());
        }
        check_content(request)?;
        Ok(caller)
    }
}

fn held() -> Error {
    Error::new(Code::Unauthorized, "a command in a sandbox may not use a gateway without a token").hint(
        "run it outside of the sandbox, or send `Authorization: Bearer <token>`; `convoke token add NAME` makes one",
    )
}

fn too_much() -> Error {
    Error::new(Code::Denied, "a command in a sandbox may not use a token that has the scope `admin` or `approve`").hint(
        "run it outside of the sandbox, or make a token with fewer scopes: `convoke token add NAME --scope write`",
    )
}

/// What every TCP connection shares.
pub(crate) struct Checks {
    pub(crate) tokens: Tokens,
    pub(crate) throttle: Throttle,
    /// Further names of this gateway.
    pub(crate) hosts: Vec<String>,
    /// Whether TLS is spoken.
    pub(crate) secure: bool,
}

impl Checks {
    /// What a name without a port means.
    fn usual_port(&self) -> u16 {
        if self.secure { 443 } else { 80 }
    }
}

/// The one thing that is told to everybody: that somebody is there.
pub(crate) const OPEN: &str = "/healthz";

impl Door {
    /// Who this is. Nobody in particular only where everybody may enter.
    pub(crate) fn admit(&self, request: &Parts) -> Result<Option<Caller>, Error> {
        let (peer, local, checks) = match self {
            Self::Socket => return Ok(Some(Caller::owner())),
            Self::Held(_) if request.uri.path() == OPEN => return Ok(None),
            Self::Held(presented) => return presented.caller(request).map(Some),
            Self::Tcp { peer, local, checks } => (peer, local, checks),
        };
        let presents = request.headers.contains_key(header::AUTHORIZATION);
        let throttled = if presents { checks.throttle.attempt(peer.ip(), Instant::now()) } else { Ok(()) };
        let ours = hosts::Ours { local: *local, usual_port: checks.usual_port(), allowed: &checks.hosts };
        hosts::check(&request.uri, &request.headers, &ours)?;
        if request.uri.path() == OPEN {
            if presents && throttled.is_ok() {
                // Nothing was tried: nothing is asked here.
                checks.throttle.forgive(peer.ip());
            }
            return Ok(None);
        }
        let caller = bearer(&request.headers).and_then(|token| checks.tokens.caller(token));
        let Some(caller) = caller else {
            return Err(throttled.err().unwrap_or_else(unauthorized));
        };
        if throttled.is_ok() {
            checks.throttle.forgive(peer.ip());
        }
        check_content(request)?;
        Ok(Some(caller))
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Socket | Self::Held(_) => "socket",
            Self::Tcp { .. } => "tcp",
        }
    }
}

/// The token of exactly one well-formed header.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    let token = token.trim_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// What is only read: a body is not looked at there, whatever it is.
const READ_ONLY: [&str; 5] = [OPEN, "/events", "/ws", "/openapi.json", "/metrics"];

/// A form or a text is what a page of somebody else could send without asking.
fn check_content(request: &Parts) -> Result<(), Error> {
    if request.method != Method::POST || READ_ONLY.contains(&request.uri.path()) {
        return Ok(());
    }
    let kind = request.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(Error::invalid("the body has to be JSON").hint("send `Content-Type: application/json`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(values: &[&str], expected: Option<&str>) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, value.parse().unwrap());
        }
        assert_eq!(bearer(&headers), expected, "{values:?}");
    }

    #[test]
    fn one_bearer_header_and_nothing_else_presents_a_token() {
        check(&["Bearer x"], Some("x"));
        check(&["bearer  x "], Some("x"));
        check(&[], None);
        check(&["Bearer"], None);
        check(&["Bearer "], None);
        check(&["Basic eDp5"], None);
        check(&["x"], None);
        check(&["Bearer x", "Bearer x"], None);
    }
}
