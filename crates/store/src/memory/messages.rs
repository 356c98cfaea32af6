//! Mail under a person's eye, in memory: keeping letters back and letting them in, and the pages of both kinds.

use super::state::State;
use crate::ready::{Holding, Posting};
use crate::{Error, Held, HeldQuery, HeldState, MailKey, Receipt, Release, Sent, SentQuery};
use proto::{Class, Letter, LetterId, Millis};
use std::cmp::Reverse;

/// A letter that was held, and its text while it is.
#[derive(Clone)]
pub(super) struct HeldRow {
    held: Held,
    body: Option<String>,
}

impl State {
    pub(super) fn hold(&mut self, holding: &Holding, at: Millis) -> Result<Receipt, Error> {
        let posting = &holding.posting;
        let receipt = |class, duplicate| Receipt {
            letter: posting.id.clone(),
            to: posting.to.clone(),
            class,
            duplicate,
            paused: false,
        };
        let posted = self.letters.get(&posting.id).map(|letter| (&letter.to, letter.class));
        let before = posted.or_else(|| self.held.get(&posting.id).map(|row| (&row.held.to, posting.class)));
        if let Some((to, class)) = before {
            if *to != posting.to {
                let holder = to.to_string();
                return Err(Error::Taken { what: format!("letter id `{}`", posting.id), holder });
            }
            return Ok(receipt(class, true));
        }
        let receiver = self.known(&posting.to)?.clone();
        if receiver.archived {
            return Err(Error::NoSession(posting.to.clone()));
        }
        let waits = |row: &&HeldRow| row.held.to == posting.to && row.at(at) == HeldState::Held;
        let held = self.held.rows().values().filter(waits).count();
        if posting.queue.is_some_and(|queue| held >= queue as usize) {
            return Err(Error::QueueFull(posting.to.clone()));
        }
        let held = Held {
            id: posting.id.clone(),
            to: posting.to.clone(),
            root: receiver.root,
            sender: holding.sender.clone(),
            posted: at,
            expires: holding.expires,
            state: HeldState::Held,
            decided: None,
            reason: None,
            letter: None,
        };
        self.held.put(posting.id.clone(), HeldRow { held, body: Some(posting.body.clone()) });
        Ok(receipt(posting.class, false))
    }

    pub(super) fn release(&mut self, release: &Release, at: Millis) -> Result<Option<Receipt>, Error> {
        let row = self.held.get(&release.id).cloned().ok_or_else(|| Error::NoLetter(release.id.clone()))?;
        let state = row.at(at);
        let (HeldState::Held, Some(body)) = (state, row.body) else {
            return Err(Error::Released { letter: release.id.clone(), state });
        };
        let (state, receipt) = match release.accept {
            true => (HeldState::Accepted, Some(self.post(&Posting::again(letter(&body)?, body), at)?)),
            false => (HeldState::Refused, None),
        };
        self.held.change(&release.id, |row| {
            (row.held.state, row.held.decided, row.body) = (state, Some(at), None);
            row.held.reason.clone_from(&release.reason);
        });
        Ok(receipt)
    }

    pub(super) fn held_letters(&self, query: &HeldQuery) -> Result<Vec<Held>, Error> {
        let fits = |row: &&HeldRow| {
            query.id.as_ref().is_none_or(|id| row.held.id == *id)
                && query.session.as_ref().is_none_or(|session| row.held.to == *session)
                && (query.states.is_empty() || query.states.contains(&row.at(query.now)))
                && is_after(query.after.as_ref(), row.held.posted, &row.held.id)
        };
        let mut rows: Vec<&HeldRow> = self.held.rows().values().filter(fits).collect();
        rows.sort_by_key(|row| Reverse((row.held.posted, row.held.id.clone())));
        rows.truncate(query.limit);
        rows.into_iter().map(|row| row.shown(query.now)).collect()
    }

    pub(super) fn sent_letters(&self, query: &SentQuery) -> Result<Vec<Sent>, Error> {
        let mut out = Vec::new();
        for (id, stored) in self.letters.rows() {
            let Some(sender) = stored.sender.as_ref().filter(|_| stored.class != Class::Control) else { continue };
            let fits = query.id.as_ref().is_none_or(|wanted| id == wanted)
                && query.session.as_ref().is_none_or(|session| stored.to == *session || sender == session.as_str())
                && query.sender.as_ref().is_none_or(|wanted| sender == wanted)
                && query.unread.is_none_or(|unread| stored.body.is_some() == unread)
                && is_after(query.after.as_ref(), stored.posted, id);
            // Only who is here has mail of their own.
            if !fits || query.session.as_ref().is_some_and(|session| self.known(session).is_err()) {
                continue;
            }
            out.push(Sent {
                id: id.clone(),
                to: stored.to.clone(),
                root: self.known(&stored.to)?.root.clone(),
                sender: sender.clone(),
                class: stored.class,
                posted: stored.posted,
                consumed: stored.consumed,
                seq: stored.input,
                letter: stored.letter()?,
            });
        }
        out.sort_by_key(|sent| Reverse((sent.posted, sent.id.clone())));
        out.truncate(query.limit);
        Ok(out)
    }
}

impl HeldRow {
    fn at(&self, now: Millis) -> HeldState {
        self.held.state.at(now, self.held.expires)
    }

    fn shown(&self, now: Millis) -> Result<Held, Error> {
        let state = self.at(now);
        let body = self.body.as_deref().filter(|_| state == HeldState::Held);
        Ok(Held { state, letter: body.map(letter).transpose()?, ..self.held.clone() })
    }
}

fn letter(body: &str) -> Result<Letter, Error> {
    serde_json::from_str(body).map_err(|error| Error::Internal(format!("a stored letter does not read back: {error}")))
}

fn is_after(key: Option<&MailKey>, posted: Millis, id: &LetterId) -> bool {
    key.is_none_or(|key| (posted, id) < (key.posted, &key.id))
}
