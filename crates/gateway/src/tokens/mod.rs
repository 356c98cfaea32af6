//! Tokens: who may come in over TCP, and what they may do there.
//!
//! The file is the truth. It is looked at for every request, so that a token that was revoked opens nothing from that
//! moment on, and while somebody is connected it is looked at a few times a second, so that what the token had opened
//! closes too. Only hashes are kept: whoever reads the file cannot come in with it.

mod file;

pub(crate) use file::save;
pub use file::{Added, Info, TokenFile, add, ensure_admin, list, revoke};

use crate::caller::Caller;
use file::{Stamp, Token};
use session::clock::due;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use subtle::ConstantTimeEq;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Between two looks at the file while somebody is connected.
const GLANCE: Duration = Duration::from_millis(100);

type Hash = [u8; 32];

fn hash(token: &str) -> Hash {
    Sha256::digest(token.as_bytes()).into()
}

/// The tokens of a home as a gateway uses them. Cloning shares it.
#[derive(Clone)]
pub(crate) struct Tokens {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    read: Mutex<Read>,
    held: Mutex<HashMap<Hash, Held>>,
    somebody: Notify,
}

/// The file as it was when last read.
#[derive(Default)]
struct Read {
    stamp: Option<Stamp>,
    tokens: Arc<Vec<Token>>,
}

/// A token that somebody came in with and has not left.
struct Held {
    revoked: CancellationToken,
    count: usize,
}

/// Counts one caller; dropping it leaves.
pub(crate) struct Hold {
    inner: Arc<Inner>,
    hash: Hash,
}

impl Tokens {
    pub(crate) fn new(state: &Path) -> Self {
        session::clock::open(state);
        let inner =
            Inner { path: file::path(state), read: Mutex::default(), held: Mutex::default(), somebody: Notify::new() };
        Self { inner: Arc::new(inner) }
    }

    /// Who presents this token, if anybody may.
    pub(crate) fn caller(&self, presented: &str) -> Option<Caller> {
        let presented = hash(presented);
        let tokens = self.inner.current();
        // All of them are compared, each in constant time: how long it takes says nothing about what is stored.
        let mut found = None;
        for token in tokens.iter() {
            if bool::from(token.hash.ct_eq(&presented)) {
                found = Some(token);
            }
        }
        let token = found.filter(|token| token.is_valid(due()))?;
        let (hold, revoked) = self.hold(presented);
        Some(Caller::with_token(&token.name, token.scopes.clone(), revoked, hold))
    }

    fn hold(&self, hash: Hash) -> (Hold, CancellationToken) {
        let mut held = self.inner.held.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = held.entry(hash).or_insert_with(|| Held { revoked: CancellationToken::new(), count: 0 });
        entry.count += 1;
        self.inner.somebody.notify_one();
        (Hold { inner: Arc::clone(&self.inner), hash }, entry.revoked.clone())
    }

    /// Closes what revoked and expired tokens have opened, for as long as the gateway lives.
    pub(crate) async fn watch(self) {
        loop {
            while self.inner.nobody() {
                self.inner.somebody.notified().await;
            }
            tokio::time::sleep(GLANCE).await;
            self.inner.sweep();
        }
    }
}

impl Inner {
    fn current(&self) -> Arc<Vec<Token>> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = Stamp::of(&self.path);
        if read.stamp.is_none() || read.stamp != stamp {
            // What cannot be read lets nobody in.
            let tokens = file::read(&self.path).unwrap_or_else(|error| {
                tracing::error!(%error, "nobody can come in over TCP");
                Vec::new()
            });
            *read = Read { stamp, tokens: Arc::new(tokens) };
        }
        Arc::clone(&read.tokens)
    }

    fn nobody(&self) -> bool {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn sweep(&self) {
        let (tokens, now) = (self.current(), due());
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|hash, held| {
            let valid = tokens.iter().any(|token| token.hash == *hash && token.is_valid(now));
            if !valid {
                held.revoked.cancel();
            }
            valid
        });
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = self.inner.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = held.get_mut(&self.hash) {
            entry.count = entry.count.saturating_sub(1);
            if entry.count == 0 {
                held.remove(&self.hash);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::methods::Scope;

    #[test]
    fn a_token_opens_what_is_stored_with_it_until_it_is_revoked() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = Tokens::new(dir.path());
        assert!(tokens.caller("anything").is_none(), "no file, nobody");
        let added = add(dir.path(), "ci", &[Scope::Read], None).unwrap();
        let caller = tokens.caller(&added.token).unwrap();
        assert!(caller.require(Scope::Read).is_ok() && caller.require(Scope::Write).is_err());
        assert!(tokens.caller(&added.token[1..]).is_none() && tokens.caller("").is_none());
        revoke(dir.path(), "ci").unwrap();
        assert!(tokens.caller(&added.token).is_none());
        assert!(!caller.revoked().is_cancelled());
        tokens.inner.sweep();
        assert!(caller.revoked().is_cancelled());
    }

    #[test]
    fn an_expired_token_opens_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = Tokens::new(dir.path());
        let added = add(dir.path(), "ci", &[Scope::Read], Some(Duration::from_secs(3600))).unwrap();
        assert!(tokens.caller(&added.token).is_some());
        let gone = add(dir.path(), "gone", &[Scope::Admin], Some(Duration::ZERO)).unwrap();
        assert!(tokens.caller(&gone.token).is_none());
    }

    #[test]
    fn a_damaged_file_lets_nobody_in() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = Tokens::new(dir.path());
        let added = add(dir.path(), "ci", &[Scope::Read], None).unwrap();
        std::fs::write(file::path(dir.path()), "{").unwrap();
        assert!(tokens.caller(&added.token).is_none());
        assert!(add(dir.path(), "more", &[Scope::Read], None).is_err(), "and is not written over");
    }

    #[test]
    fn whoever_left_is_not_watched() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = Tokens::new(dir.path());
        let added = add(dir.path(), "ci", &[Scope::Read], None).unwrap();
        let (one, two) = (tokens.caller(&added.token).unwrap(), tokens.caller(&added.token).unwrap());
        drop(one);
        assert!(!tokens.inner.nobody());
        drop(two);
        assert!(tokens.inner.nobody());
    }
}
