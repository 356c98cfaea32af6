//! Mail as a person oversees it: what sessions write to each other, what is held, and letting it in or keeping it out
//! (C3, C5).

use crate::now;
use crate::runtime::{Inner, Runtime};
use proto::letter::InputPart;
use proto::methods::{MailState, MessageRow, MessagesInput, MessagesOutput};
use proto::{Body, Error, Letter, LetterId, SessionId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use store::{Held, HeldQuery, HeldState, Mail, MailKey, Release, Sent, SentQuery};

/// Messages of a page, when nobody says how many.
const PAGE: u32 = 50;
const MAX_PAGE: u32 = 200;
/// So much of a message is shown in a list.
const SHOWN: usize = 4_000;
/// The longest reason for a refusal, in characters.
const MAX_REASON: usize = 1_000;

impl Runtime {
    /// A page of mail, newest first.
    pub async fn messages(&self, input: &MessagesInput) -> Result<MessagesOutput, Error> {
        let limit = input.limit.unwrap_or(PAGE).clamp(1, MAX_PAGE) as usize;
        let session = match &input.session {
            Some(reference) => Some(self.inner().find(reference).await?.id),
            None => None,
        };
        let after = input.cursor.as_deref().map(key).transpose()?;
        let mut rows = self.inner().mail_of(input.state, session, after, limit + 1).await?;
        let more = rows.len() > limit;
        rows.truncate(limit);
        self.inner().name_ends(&mut rows).await?;
        let next_cursor = rows.last().filter(|_| more).map(|last| format!("{}.{}", last.posted_at, last.id));
        Ok(MessagesOutput { count: rows.len(), messages: rows, next_cursor })
    }

    /// Decides about a held message, once.
    pub async fn release(&self, id: &LetterId, accept: bool, reason: Option<String>) -> Result<MessageRow, Error> {
        let reason = reason.map(|reason| reason.trim().to_owned()).filter(|reason| !reason.is_empty());
        if reason.as_ref().is_some_and(|reason| reason.chars().count() > MAX_REASON) {
            return Err(Error::invalid(format!("the reason has more than {MAX_REASON} characters")));
        }
        let release = Release { id: id.clone(), accept, reason };
        let mail = Mail { at: now(), release: vec![release], ..Mail::default() };
        for receipt in self.inner().store.deliver(mail).await? {
            self.inner().wake(&receipt.to);
        }
        let mut row = self.inner().message(id).await?;
        self.inner().name_ends(std::slice::from_mut(&mut row)).await?;
        Ok(row)
    }
}

impl Inner {
    async fn mail_of(
        &self,
        state: Option<MailState>,
        session: Option<SessionId>,
        after: Option<MailKey>,
        limit: usize,
    ) -> Result<Vec<MessageRow>, Error> {
        // By id: a letter that is accepted between the two looks is in both, and what was read later counts. The other
        // way round it could be in neither.
        let mut rows = BTreeMap::new();
        if let Some(states) = held_states(state)? {
            let (session, after) = (session.clone(), after.clone());
            let query = HeldQuery { id: None, session, states, now: now(), after, limit };
            let held = self.store.held(&query).await?;
            rows.extend(held.into_iter().map(|held| (held.id.clone(), self.held_row(held))));
        }
        if let Some(unread) = sent_unread(state) {
            let sent = self.store.sent(&SentQuery { session, unread, after, limit, ..SentQuery::default() }).await?;
            rows.extend(sent.into_iter().map(|sent| (sent.id.clone(), self.sent_row(sent))));
        }
        let mut rows: Vec<MessageRow> = rows.into_values().collect();
        rows.sort_by_key(|row| Reverse((row.posted_at, row.id.clone())));
        rows.truncate(limit);
        Ok(rows)
    }

    /// Says what the two ends of each message are called.
    async fn name_ends(&self, rows: &mut [MessageRow]) -> Result<(), Error> {
        let mut names: HashMap<SessionId, Option<String>> = HashMap::new();
        for row in rows {
            let from = SessionId::parse(&row.from).ok().filter(|from| SessionId::looks_like(from.as_str()));
            for id in from.iter().chain([&row.to]) {
                if !names.contains_key(id) {
                    let found = self.store.session(id).await?;
                    names.insert(id.clone(), found.and_then(|found| found.name.or(found.label)));
                }
            }
            row.from_name = from.and_then(|from| names[&from].clone());
            row.to_name.clone_from(&names[&row.to]);
        }
        Ok(())
    }

    /// What became of one message.
    pub(crate) async fn message(&self, id: &LetterId) -> Result<MessageRow, Error> {
        let query = HeldQuery { id: Some(id.clone()), now: now(), limit: 1, ..HeldQuery::default() };
        let held = self.store.held(&query).await?.pop();
        if let Some(held) = held.as_ref().filter(|held| held.state != HeldState::Accepted) {
            return Ok(self.held_row(held.clone()));
        }
        let decided_at = held.as_ref().and_then(|held| held.decided);
        let query = SentQuery { id: Some(id.clone()), limit: 1, ..SentQuery::default() };
        match (self.store.sent(&query).await?.pop(), held) {
            (Some(sent), _) => Ok(MessageRow { decided_at, ..self.sent_row(sent) }),
            // Let in, but not from a session: then it is in the inbox or in the log, and not in the list of mail.
            (None, Some(held)) => Ok(self.held_row(held)),
            (None, None) => Err(Error::not_found(format!("there is no message `{id}`"))),
        }
    }

    fn held_row(&self, held: Held) -> MessageRow {
        let state = match held.state {
            HeldState::Held => MailState::Held,
            HeldState::Accepted => MailState::Queued,
            HeldState::Refused => MailState::Refused,
            HeldState::Expired => MailState::Expired,
        };
        MessageRow {
            id: held.id,
            from: held.sender,
            from_name: None,
            to: held.to,
            to_name: None,
            state,
            posted_at: held.posted,
            expires_at: Some(held.expires),
            delivered_at: None,
            seq: None,
            decided_at: held.decided,
            reason: held.reason,
            text: held.letter.and_then(|letter| self.shown(&letter)),
        }
    }

    fn sent_row(&self, sent: Sent) -> MessageRow {
        MessageRow {
            id: sent.id,
            from: sent.sender,
            from_name: None,
            to: sent.to,
            to_name: None,
            state: if sent.consumed.is_some() { MailState::Delivered } else { MailState::Queued },
            posted_at: sent.posted,
            expires_at: None,
            delivered_at: sent.consumed,
            seq: sent.seq,
            decided_at: None,
            reason: None,
            text: sent.letter.and_then(|letter| self.shown(&letter)),
        }
    }

    /// What a letter says, without secrets and not all of it.
    fn shown(&self, letter: &Letter) -> Option<String> {
        let text = match &letter.body {
            Body::Prompt(prompt) => prompt.parts.iter().map(part).collect::<Vec<_>>().join("\n"),
            Body::Completion(finished) => finished.text.clone(),
            _ => return None,
        };
        // Blanked first: a secret that a cut goes through must not be half left.
        let text = self.blanked(&text);
        Some(match text.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        })
    }
}

fn part(part: &InputPart) -> &str {
    match part {
        InputPart::Text { text } => text,
        InputPart::File { name, .. } => name,
        InputPart::Subtask { prompt, .. } => prompt,
    }
}

/// Which held letters a state means; an accepted one is mail like any other.
fn held_states(state: Option<MailState>) -> Result<Option<Vec<HeldState>>, Error> {
    Ok(match state {
        None => Some(vec![HeldState::Held, HeldState::Refused, HeldState::Expired]),
        Some(MailState::Held) => Some(vec![HeldState::Held]),
        Some(MailState::Refused) => Some(vec![HeldState::Refused]),
        Some(MailState::Expired) => Some(vec![HeldState::Expired]),
        Some(MailState::Queued | MailState::Delivered) => None,
        Some(MailState::Unreachable) => {
            return Err(Error::invalid("mail that reached nobody is not kept")
                .hint("ask for held, queued, delivered, refused or expired"));
        }
    })
}

/// Which of the posted letters a state means.
fn sent_unread(state: Option<MailState>) -> Option<Option<bool>> {
    match state {
        None => Some(None),
        Some(MailState::Queued) => Some(Some(true)),
        Some(MailState::Delivered) => Some(Some(false)),
        Some(_) => None,
    }
}

fn key(cursor: &str) -> Result<MailKey, Error> {
    let read = || {
        let (posted, id) = cursor.split_once('.')?;
        Some(MailKey { posted: posted.parse().ok()?, id: LetterId::parse(id).ok()? })
    };
    read().ok_or_else(|| Error::invalid("the cursor is not one of ours").hint("use `nextCursor` of the page before"))
}
