//! Mail under a person's eye: keeping letters back and letting them in, and the pages of both kinds.

use super::apply::Desk;
use super::fault::Result;
use super::read::{Clauses, all, most, number};
use super::value::{from_json, from_word, session_id, text, text_or_null, word};
use crate::ready::{Holding, Posting};
use crate::{Error, Held, HeldQuery, HeldState, MailKey, Receipt, Release, Sent, SentQuery};
use proto::{Class, Letter, LetterId, Millis};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Row, params, params_from_iter};

/// As in the partial indexes, word for word.
const MESSAGE: &str = "l.sender IS NOT NULL AND l.class <> 'control'";

impl Desk<'_> {
    pub(super) fn hold(&self, holding: &Holding) -> Result<Receipt> {
        let posting = &holding.posting;
        if let Some(receipt) = self.posted_before(posting)? {
            return Ok(receipt);
        }
        let receipt = |duplicate| Receipt {
            letter: posting.id.clone(),
            to: posting.to.clone(),
            class: posting.class,
            duplicate,
            paused: false,
        };
        let before: Option<String> = self
            .one("SELECT s.id FROM held h JOIN sessions s ON s.n = h.session WHERE h.id = ?1", [posting.id.as_str()])?;
        if let Some(holder) = before {
            if holder != posting.to.as_str() {
                return Err(Error::Taken { what: format!("letter id `{}`", posting.id), holder }.into());
            }
            return Ok(receipt(true));
        }
        let receiver = self.receiver(&posting.to, None)?;
        self.forget_expired(receiver.n)?;
        if let Some(queue) = posting.queue {
            let held: i64 =
                self.one("SELECT count(*) FROM held WHERE session = ?1 AND state = 'held'", [receiver.n])?.unwrap_or(0);
            if held >= i64::from(queue) {
                return Err(Error::QueueFull(posting.to.clone()).into());
            }
        }
        self.run(
            "INSERT INTO held (id, session, tree, sender, posted, expires, state, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'held', ?7)",
            params![
                posting.id.as_str(),
                receiver.n,
                receiver.tree,
                holding.sender,
                self.at,
                holding.expires,
                posting.body
            ],
        )?;
        Ok(receipt(false))
    }

    /// Whoever is sent mail that nobody looks at does not fill up with it.
    fn forget_expired(&self, receiver: i64) -> Result<()> {
        self.run(
            "UPDATE held SET state = 'expired', body = NULL WHERE session = ?1 AND state = 'held' AND expires <= ?2",
            params![receiver, self.at],
        )?;
        Ok(())
    }

    /// A receipt when it was let in.
    pub(super) fn release(&self, release: &Release) -> Result<Option<Receipt>> {
        let held = self
            .connection
            .prepare_cached("SELECT state, expires, body FROM held WHERE id = ?1")?
            .query_row([release.id.as_str()], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, Millis>(1)?, row.get::<_, Option<String>>(2)?))
            })
            .optional()?;
        let Some((state, expires, body)) = held else { return Err(Error::NoLetter(release.id.clone()).into()) };
        let state = from_word::<HeldState>(&state)?.at(self.at, expires);
        let (HeldState::Held, Some(body)) = (state, body) else {
            return Err(Error::Released { letter: release.id.clone(), state }.into());
        };
        let (state, receipt) = match release.accept {
            true => (HeldState::Accepted, Some(self.post(&Posting::again(from_json(&body)?, body))?)),
            false => (HeldState::Refused, None),
        };
        self.run(
            "UPDATE held SET state = ?2, decided = ?3, reason = ?4, body = NULL WHERE id = ?1",
            params![release.id.as_str(), word(&state)?, self.at, release.reason],
        )?;
        Ok(receipt)
    }
}

const HELD: &str = "SELECT h.id, s.id, s.root, h.sender, h.posted, h.expires, h.state, h.decided, h.reason, h.body
     FROM held h CROSS JOIN sessions s ON s.n = h.session WHERE ";

pub(super) fn held(connection: &Connection, query: &HeldQuery) -> Result<Vec<Held>> {
    let mut clauses = Clauses::default();
    if let Some(id) = &query.id {
        clauses.and_text("h.id = ?", id.as_str());
    }
    if let Some(session) = &query.session {
        let Some(n) = number(connection, session)? else { return Ok(Vec::new()) };
        clauses.and("h.session = ?", [Value::Integer(n)]);
    }
    in_states(query, &mut clauses)?;
    after(&mut clauses, "h", query.after.as_ref());
    let sql = format!("{HELD}1{} ORDER BY h.posted DESC, h.id DESC LIMIT ?", clauses.sql);
    clauses.values.push(Value::Integer(most(query.limit)));
    all(connection, &sql, params_from_iter(clauses.values), |row| held_row(row, query.now))
}

/// Nobody writes down that a letter has expired before it is in somebody's way: until then its time tells.
fn in_states(query: &HeldQuery, clauses: &mut Clauses) -> Result<()> {
    if query.states.is_empty() {
        return Ok(());
    }
    let now = Value::Integer(query.now);
    if query.states == [HeldState::Held] {
        // As in the partial index, so that what waits is found among all that ever did.
        clauses.and("h.state = 'held' AND h.expires > ?", [now]);
        return Ok(());
    }
    let (mut any, mut values) = (Vec::new(), Vec::new());
    for state in &query.states {
        match state {
            HeldState::Held => any.push("+h.state = 'held' AND h.expires > ?"),
            HeldState::Expired => any.push("+h.state = 'expired' OR +h.state = 'held' AND h.expires <= ?"),
            HeldState::Accepted | HeldState::Refused => any.push("+h.state = ?"),
        }
        values.push(match state {
            HeldState::Held | HeldState::Expired => now.clone(),
            HeldState::Accepted | HeldState::Refused => Value::Text(word(state)?),
        });
    }
    clauses.and(&format!("({})", any.join(" OR ")), values);
    Ok(())
}

fn after(clauses: &mut Clauses, table: &str, key: Option<&MailKey>) {
    if let Some(MailKey { posted, id }) = key {
        let values = [Value::Integer(*posted), Value::Text(id.to_string())];
        clauses.and(&format!("({table}.posted, {table}.id) < (?, ?)"), values);
    }
}

fn held_row(row: &Row<'_>, now: Millis) -> Result<Held> {
    let expires = row.get(5)?;
    let state = from_word::<HeldState>(text(row, 6)?)?.at(now, expires);
    let letter: Option<Letter> = text_or_null(row, 9)?.map(from_json).transpose()?;
    Ok(Held {
        id: from_word(text(row, 0)?)?,
        to: session_id(text(row, 1)?)?,
        root: session_id(text(row, 2)?)?,
        sender: row.get(3)?,
        posted: row.get(4)?,
        expires,
        state,
        decided: row.get(7)?,
        reason: row.get(8)?,
        letter: letter.filter(|_| state == HeldState::Held),
    })
}

const SENT: &str = "SELECT l.id, s.id, s.root, l.sender, l.class, l.posted, l.consumed, l.consumed_seq, l.body FROM ";

pub(super) fn sent(connection: &Connection, query: &SentQuery) -> Result<Vec<Sent>> {
    let Some(session) = &query.session else { return sent_where(connection, query, None) };
    let Some(n) = number(connection, session)? else { return Ok(Vec::new()) };
    // Two ranges rather than one question with an `OR`, which would read and sort all of both.
    let mut out = sent_where(connection, query, Some(("l.session = ?", Value::Integer(n))))?;
    out.extend(sent_where(connection, query, Some(("l.sender = ?", Value::Text(session.to_string()))))?);
    out.sort_by(|a, b| (b.posted, &b.id).cmp(&(a.posted, &a.id)));
    out.dedup_by(|a, b| a.id == b.id);
    out.truncate(query.limit);
    Ok(out)
}

fn sent_where(connection: &Connection, query: &SentQuery, of: Option<(&str, Value)>) -> Result<Vec<Sent>> {
    let mut clauses = Clauses::default();
    // What is unread is found through those who have it: few, however much was ever sent.
    let from = match query.unread {
        Some(true) => {
            clauses.and("h.pending > 0 AND l.body IS NOT NULL", []);
            "heads h CROSS JOIN letters l ON l.session = h.n CROSS JOIN sessions s ON s.n = l.session"
        }
        Some(false) => {
            clauses.and("l.body IS NULL", []);
            "letters l CROSS JOIN sessions s ON s.n = l.session"
        }
        None => "letters l CROSS JOIN sessions s ON s.n = l.session",
    };
    if let Some(id) = &query.id {
        clauses.and_text("l.id = ?", id.as_str());
    }
    if let Some(sender) = &query.sender {
        clauses.and_text("l.sender = ?", sender);
    }
    if let Some((clause, value)) = of {
        clauses.and(clause, [value]);
    }
    after(&mut clauses, "l", query.after.as_ref());
    let sql = format!("{SENT}{from} WHERE {MESSAGE}{} ORDER BY l.posted DESC, l.id DESC LIMIT ?", clauses.sql);
    clauses.values.push(Value::Integer(most(query.limit)));
    all(connection, &sql, params_from_iter(clauses.values), sent_row)
}

fn sent_row(row: &Row<'_>) -> Result<Sent> {
    let class: Class = from_word(text(row, 4)?)?;
    let letter: Option<Letter> = text_or_null(row, 8)?.map(from_json).transpose()?;
    Ok(Sent {
        id: from_word::<LetterId>(text(row, 0)?)?,
        to: session_id(text(row, 1)?)?,
        root: session_id(text(row, 2)?)?,
        sender: row.get(3)?,
        class,
        posted: row.get(5)?,
        consumed: row.get(6)?,
        seq: row.get::<_, Option<i64>>(7)?.map(|seq| seq.max(0) as u64),
        letter: letter.map(|letter| Letter { class, ..letter }),
    })
}
