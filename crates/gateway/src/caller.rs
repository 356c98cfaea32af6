//! Who makes a request, and what they may do. Made by a door, after its checks; nothing is served without one.

use crate::tokens::Hold;
use axum::extract::FromRequestParts;
use axum::response::Response;
use http::request::Parts;
use proto::methods::Scope;
use proto::{Code, Error};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

tokio::task_local! {
    /// Who makes the call that is being answered, for the few methods that answer differently.
    static CALLING: Caller;
}

/// The name of the token behind the call that is being answered; none for the owner of this gateway, and for a call that
/// was made inside the process.
pub(crate) fn calling() -> Option<Arc<str>> {
    CALLING.try_with(|caller| caller.token.clone()).ok().flatten()
}

/// Whether the call that is being answered may use this scope too. A call that was made inside the process may.
pub(crate) fn calling_may(scope: Scope) -> bool {
    CALLING.try_with(|caller| caller.require(scope).is_ok()).unwrap_or(true)
}

/// Answers a call in the name of whoever made it.
pub(crate) async fn in_the_name_of<T>(caller: &Caller, answer: impl Future<Output = T>) -> T {
    CALLING.scope(caller.clone(), answer).await
}

/// Proof that a door has let somebody in.
#[derive(Clone)]
pub(crate) struct Caller {
    scopes: Arc<[Scope]>,
    /// The token's name; the owner needs none.
    token: Option<Arc<str>>,
    revoked: CancellationToken,
    _hold: Option<Arc<Hold>>,
}

impl Caller {
    /// The user whose gateway this is, known to the kernel.
    pub(crate) fn owner() -> Self {
        Self { scopes: Arc::new([Scope::Admin]), token: None, revoked: CancellationToken::new(), _hold: None }
    }

    /// Somebody with a token. What they may do is what is stored with it.
    pub(crate) fn with_token(name: &str, scopes: Vec<Scope>, revoked: CancellationToken, hold: Hold) -> Self {
        Self { scopes: scopes.into(), token: Some(name.into()), revoked, _hold: Some(Arc::new(hold)) }
    }

    /// Refuses what the caller may not do.
    pub(crate) fn require(&self, scope: Scope) -> Result<(), Error> {
        if self.scopes.iter().any(|held| *held == scope || *held == Scope::Admin) {
            return Ok(());
        }
        let name = name(scope);
        Err(Error::new(Code::ForbiddenScope, format!("this token may not do that: it lacks the scope `{name}`"))
            .hint(format!("make one that may: convoke token add NAME --scope {name}")))
    }

    /// The user whose gateway this is, by the socket.
    pub(crate) fn is_owner(&self) -> bool {
        self.token.is_none()
    }

    /// Whether they may see secrets that are in transcripts.
    pub(crate) fn is_admin(&self) -> bool {
        self.scopes.contains(&Scope::Admin)
    }

    /// Cancelled when the token ends: whatever it opened is to be closed.
    pub(crate) fn revoked(&self) -> &CancellationToken {
        &self.revoked
    }
}

pub(crate) fn name(scope: Scope) -> &'static str {
    match scope {
        Scope::Read => "read",
        Scope::Write => "write",
        Scope::Approve => "approve",
        Scope::Admin => "admin",
    }
}

/// A route that was reached past the doors denies.
impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Response> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| crate::router::failure(unauthorized()))
    }
}

pub(crate) fn unauthorized() -> Error {
    Error::new(Code::Unauthorized, "a valid token is needed")
        .hint("send `Authorization: Bearer <token>`; `convoke token add NAME` makes one")
}
