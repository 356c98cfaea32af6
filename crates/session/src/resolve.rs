//! Whom a word means: an id or the end of one, a key, an agent's name, a label.
//!
//! A session means the names of its own tree, a person those of every tree. Of several sessions that fit, a caller is told
//! only those it may see.

use crate::directory::Guard;
use crate::runtime::Inner;
use proto::{AgentId, Code, Error, Key, Reference, SessionId};
use rules::access::Act;
use store::{Find, MIN_ENDING, Session};

/// Addresses of the session that started the caller.
const LEAD: [&str; 2] = ["lead", "team-lead"];

/// How long the end of an id is that people are shown: long enough to stay the only one for a while.
const SHORT: usize = 6;

impl Inner {
    /// The session that a person means.
    pub(crate) async fn find(&self, reference: &str) -> Result<Session, Error> {
        self.find_for(reference, &Guard::Person, Act::Status).await
    }

    /// The session that a caller means, who wants to do something to it. Whether that is allowed is still to be checked.
    pub(crate) async fn find_for(&self, reference: &str, guard: &Guard, act: Act) -> Result<Session, Error> {
        self.resolve(&Reference::parse(reference)?, guard, act).await
    }

    pub(crate) async fn resolve(&self, reference: &Reference, guard: &Guard, act: Act) -> Result<Session, Error> {
        match reference {
            Reference::Id(id) => self.session(id).await,
            Reference::Key(key) => self.by_key(key).await?.ok_or_else(|| nobody(&key.to_string())),
            Reference::Main => {
                let key = Key::main(&AgentId::parse(self.settings.global().agents.default_agent())?);
                self.by_key(&key).await?.ok_or_else(|| nobody("main"))
            }
            Reference::Current => match guard.own() {
                // Read anew: the caller has the row as it was when its call began.
                Some(own) => self.session(&own.id).await,
                None => Err(Error::invalid("`current` means something only inside a session").hint("name the session")),
            },
            Reference::Word(word) => {
                let named = self.named(guard.own().map(|own| &own.root), word).await?;
                if let Some(found) = self.called(word, named, guard, act).await? {
                    return Ok(found);
                }
                match self.lead(word, guard).await? {
                    Some(lead) => Ok(lead),
                    None => Err(nobody(word)),
                }
            }
        }
    }

    /// The one session that a word means which is neither an id nor a key, when `named` are those it is the name of.
    pub(crate) async fn called(
        &self,
        word: &str,
        named: Vec<Session>,
        guard: &Guard,
        act: Act,
    ) -> Result<Option<Session>, Error> {
        let mut found = named;
        found.extend(self.labelled(word, None).await?);
        if found.is_empty() {
            found = self.ending(word, guard, act).await?;
        }
        self.one_of(word, found, guard, act)
    }

    /// Who goes by a name in a tree, or in any: `name`, or `name#…` with the end of an id for one that had it before.
    pub(crate) async fn named(&self, root: Option<&SessionId>, word: &str) -> Result<Vec<Session>, Error> {
        let (name, end) = word.split_once('#').map_or((word, None), |(name, end)| (name, Some(end)));
        let name = name.to_ascii_lowercase();
        let find = match root {
            Some(root) => Find::Named { root: root.clone(), name },
            None => Find::Called { name },
        };
        let mut found = self.store.find(&find).await?;
        match end.filter(|end| !end.is_empty()) {
            Some(end) => found.retain(|row| row.id.as_str().ends_with(end)),
            None if root.is_some() => found.truncate(1),
            None => {}
        }
        Ok(found)
    }

    pub(crate) async fn labelled(&self, label: &str, owner: Option<&str>) -> Result<Vec<Session>, Error> {
        let find = Find::Label { label: label.to_owned(), owner: owner.map(str::to_owned) };
        Ok(self.store.find(&find).await?)
    }

    /// Those whose id ends so, as far as the caller may see them: an end is tried out too easily.
    pub(crate) async fn ending(&self, word: &str, guard: &Guard, act: Act) -> Result<Vec<Session>, Error> {
        // As our own lists and messages write it.
        let end = word.strip_prefix('…').unwrap_or(word);
        if end.len() < MIN_ENDING {
            return Ok(Vec::new());
        }
        let mut found = self.store.find(&Find::Ending(end.to_owned())).await?;
        found.retain(|row| guard.sees(row, act));
        Ok(found)
    }

    /// The session that started the caller, when the word says so.
    pub(crate) async fn lead(&self, word: &str, guard: &Guard) -> Result<Option<Session>, Error> {
        match guard.own().and_then(|own| own.parent.as_ref()).filter(|_| LEAD.contains(&word)) {
            Some(lead) => self.session(lead).await.map(Some),
            None => Ok(None),
        }
    }

    /// The one that is left of those found.
    pub(crate) fn one_of(
        &self,
        word: &str,
        mut found: Vec<Session>,
        guard: &Guard,
        act: Act,
    ) -> Result<Option<Session>, Error> {
        found.sort_by(|a, b| b.id.cmp(&a.id));
        found.dedup_by(|a, b| a.id == b.id);
        if found.len() > 1 {
            let seen: Vec<Session> = found.iter().filter(|row| guard.sees(row, act)).cloned().collect();
            // One that it may not reach is refused by the guard, in words of its own.
            found = if seen.is_empty() { found.into_iter().take(1).collect() } else { seen };
        }
        match found.len() {
            0 | 1 => Ok(found.pop()),
            _ => Err(ambiguous(word, &found)),
        }
    }

    /// The shortest end of an id, of at least [`SHORT`] characters, that no other session's id has.
    pub(crate) async fn short_id(&self, id: &SessionId) -> Result<String, Error> {
        let whole = id.as_str();
        let end = |length: usize| &whole[whole.len().saturating_sub(length)..];
        let others = self.store.find(&Find::Ending(end(SHORT).to_owned())).await?;
        let shared = others.iter().filter(|other| other.id != *id).map(|other| shared_end(whole, other.id.as_str()));
        Ok(end(shared.max().map_or(SHORT, |shared| SHORT.max(shared + 1))).to_owned())
    }

    pub(crate) async fn by_key(&self, key: &Key) -> Result<Option<Session>, Error> {
        Ok(self.store.find(&Find::Key(key.to_string())).await?.pop())
    }

    pub(crate) async fn session(&self, id: &SessionId) -> Result<Session, Error> {
        self.store.session(id).await?.ok_or_else(|| nobody(id.as_str()))
    }
}

fn shared_end(one: &str, other: &str) -> usize {
    one.bytes().rev().zip(other.bytes().rev()).take_while(|(a, b)| a == b).count()
}

fn ambiguous(word: &str, found: &[Session]) -> Error {
    let shown: String = word.chars().take(80).collect();
    let keys: Vec<&str> = found.iter().map(|row| row.key.as_str()).collect();
    let told = found.iter().map(|row| format!("{} ({}, {})", row.id, row.agent, row.status.as_str()));
    let error = Error::new(Code::Ambiguous, format!("`{shown}` means several sessions"));
    Error { details: Some(serde_json::json!({ "candidates": keys })), ..error }
        .hint(format!("use an id instead: {}", told.collect::<Vec<_>>().join(", ")))
}

pub(crate) fn nobody(name: &str) -> Error {
    let shown: String = name.chars().take(80).collect();
    Error::not_found(format!("there is no session `{shown}`")).hint("`convoke ps` lists the sessions")
}
