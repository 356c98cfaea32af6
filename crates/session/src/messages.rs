//! Mail as a person oversees it: what sessions write to each other, here and elsewhere, what is held, and letting it in or
//! keeping it out (C3, C5).
//!
//! A letter that was taken has no body any more: what it said is read from the log of its receiver.

use crate::doors::mail::unwrapped;
use crate::runtime::{Inner, Runtime};
use crate::{due, now};
use proto::letter::{InputPart, Provenance};
use proto::methods::{DeliverInput, MailState, MessageRow, MessagesInput, MessagesOutput};
use proto::{Body, Entry, Error, Letter, LetterId, Millis, SessionId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use store::{Held, HeldQuery, HeldState, Mail, MailKey, OutboxQuery, Parcel, Release, Sent, SentQuery, Span};

/// Messages of a page, when nobody says how many.
const PAGE: u32 = 50;
const MAX_PAGE: u32 = 200;
/// So much of a message is shown in a list.
const SHOWN: usize = 4_000;
/// The longest reason for a refusal, in characters.
const MAX_REASON: usize = 1_000;
/// Why mail to another gateway is not there yet.
const AWAY: &str = "the other gateway does not answer now: it gets the message when it does";
/// Old mail that is removed in one transaction.
const STEP: usize = 200;

/// What a message says, as far as that is kept.
#[derive(Default)]
struct Said {
    text: Option<String>,
    summary: Option<String>,
    tool: Option<String>,
}

impl Runtime {
    /// A page of mail, newest first; or one message, whole.
    pub async fn messages(&self, input: &MessagesInput) -> Result<MessagesOutput, Error> {
        if let Some(id) = &input.id {
            let row = self.inner().message(id, usize::MAX).await?;
            return Ok(MessagesOutput {
                count: 1,
                messages: self.inner().with_names(vec![row]).await?,
                next_cursor: None,
            });
        }
        let limit = input.limit.unwrap_or(PAGE).clamp(1, MAX_PAGE) as usize;
        let session = match &input.session {
            Some(reference) => Some(self.inner().find(reference).await?.id),
            None => None,
        };
        let after = input.cursor.as_deref().map(key).transpose()?;
        let mut rows = self.inner().mail_of(input.state, session, after, limit + 1).await?;
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next_cursor = rows.last().filter(|_| more).map(|last| format!("{}.{}", last.posted_at, last.id));
        Ok(MessagesOutput { count: rows.len(), messages: self.inner().with_names(rows).await?, next_cursor })
    }

    /// Decides about a held message, once.
    pub async fn release(&self, id: &LetterId, accept: bool, reason: Option<String>) -> Result<MessageRow, Error> {
        let reason = reason.map(|reason| reason.trim().to_owned()).filter(|reason| !reason.is_empty());
        if reason.as_ref().is_some_and(|reason| reason.chars().count() > MAX_REASON) {
            return Err(Error::invalid(format!("the reason has more than {MAX_REASON} characters")));
        }
        let release = Release { id: id.clone(), accept, reason };
        let mail = Mail { at: due(), release: vec![release], ..Mail::default() };
        for receipt in self.inner().store.deliver(mail).await? {
            self.inner().wake(&receipt.to);
        }
        self.inner().message(id, SHOWN).await
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
        if let Some(states) = held_states(state) {
            let (session, after) = (session.clone(), after.clone());
            let query = HeldQuery { id: None, session, states, now: due(), after, limit };
            let held = self.store.held(&query).await?;
            rows.extend(held.into_iter().map(|held| (held.id.clone(), self.held_row(held, SHOWN))));
        }
        let query = OutboxQuery { id: None, sender: session.clone(), state, after: after.clone(), limit };
        let outgoing = self.store.outgoing(&query).await?;
        rows.extend(outgoing.into_iter().map(|parcel| (parcel.id.clone(), self.outgoing_row(parcel, SHOWN))));
        if let Some(unread) = sent_unread(state) {
            let sent = self.store.sent(&SentQuery { session, unread, after, limit, ..SentQuery::default() }).await?;
            for sent in sent {
                rows.insert(sent.id.clone(), self.sent_row(sent, SHOWN).await?);
            }
        }
        let mut rows: Vec<MessageRow> = rows.into_values().collect();
        rows.sort_by_key(|row| Reverse((row.posted_at, row.id.clone())));
        rows.truncate(limit);
        Ok(rows)
    }

    /// What became of one message, with so much of what it says.
    pub(crate) async fn message(&self, id: &LetterId, shown: usize) -> Result<MessageRow, Error> {
        let query = HeldQuery { id: Some(id.clone()), now: due(), limit: 1, ..HeldQuery::default() };
        let held = self.store.held(&query).await?.pop();
        if let Some(held) = held.as_ref().filter(|held| held.state != HeldState::Accepted) {
            return Ok(self.held_row(held.clone(), shown));
        }
        let decided_at = held.as_ref().and_then(|held| held.decided);
        let query = SentQuery { id: Some(id.clone()), limit: 1, ..SentQuery::default() };
        if let Some(sent) = self.store.sent(&query).await?.pop() {
            return Ok(MessageRow { decided_at, ..self.sent_row(sent, shown).await? });
        }
        // Let in, but not from a session: then it is in the inbox or in the log, and not in the list of mail.
        if let Some(held) = held {
            return Ok(self.held_row(held, shown));
        }
        let query = OutboxQuery { id: Some(id.clone()), limit: 1, ..OutboxQuery::default() };
        let outgoing = self.store.outgoing(&query).await?.pop();
        let unknown =
            || Error::not_found(format!("there is no message `{id}`")).hint("`convoke mail --json` shows the ids");
        outgoing.map(|parcel| self.outgoing_row(parcel, shown)).ok_or_else(unknown)
    }

    /// The rows with the names of the sessions here.
    async fn with_names(&self, mut rows: Vec<MessageRow>) -> Result<Vec<MessageRow>, Error> {
        let mut known: HashMap<String, Option<String>> = HashMap::new();
        for row in &mut rows {
            for (id, name) in [(&row.from, &mut row.from_name), (&row.to, &mut row.to_name)] {
                if !known.contains_key(id) {
                    let found = match SessionId::parse(id) {
                        Ok(session) => self.store.session(&session).await?,
                        Err(_) => None,
                    };
                    known.insert(id.clone(), found.and_then(|session| session.name.or(session.label)));
                }
                name.clone_from(&known[id]);
            }
        }
        Ok(rows)
    }

    fn held_row(&self, held: Held, shown: usize) -> MessageRow {
        let state = match held.state {
            HeldState::Held => MailState::Held,
            HeldState::Accepted => MailState::Queued,
            HeldState::Refused => MailState::Refused,
            HeldState::Expired => MailState::Expired,
        };
        let row = MessageRow {
            expires_at: Some(held.expires),
            decided_at: held.decided,
            reason: held.reason,
            ..MessageRow::new(held.id, held.sender, held.to.to_string(), state, held.posted)
        };
        self.telling(row, held.letter.as_ref().map(said).unwrap_or_default(), shown)
    }

    async fn sent_row(&self, sent: Sent, shown: usize) -> Result<MessageRow, Error> {
        let said = match (&sent.letter, sent.seq) {
            (Some(letter), _) => said(letter),
            (None, Some(seq)) if self.is_kept(sent.posted) => self.said_in(&sent.to, seq, &sent.id).await?,
            (None, _) => Said::default(),
        };
        let state = if sent.consumed.is_some() { MailState::Delivered } else { MailState::Queued };
        let row = MessageRow {
            delivered_at: sent.consumed,
            seq: sent.seq,
            ..MessageRow::new(sent.id, sent.sender, sent.to.to_string(), state, sent.posted)
        };
        Ok(self.telling(row, said, shown))
    }

    fn outgoing_row(&self, parcel: Parcel, shown: usize) -> MessageRow {
        let message: Option<DeliverInput> = serde_json::from_str(&parcel.body).ok();
        let said = message.map(|message| Said { text: Some(message.message), summary: message.summary, tool: None });
        let (state, reason) =
            parcel.fate.map_or((MailState::Queued, Some(AWAY.into())), |fate| (fate.state, fate.reason));
        let from = parcel.sender.map_or_else(|| "person".into(), |sender| sender.to_string());
        let row = MessageRow::new(parcel.id, from, parcel.address, state, parcel.posted);
        let row = MessageRow { outgoing: true, reason, ..row };
        self.telling(row, said.unwrap_or_default(), shown)
    }

    /// A row with what the message says, without secrets and perhaps not all of it.
    fn telling(&self, row: MessageRow, said: Said, shown: usize) -> MessageRow {
        // Blanked first: a secret that a cut goes through must not be half left.
        let cut = |text: String| {
            let text = self.blanked(&text);
            match text.char_indices().nth(shown) {
                Some((end, _)) => format!("{}…", &text[..end]),
                None => text,
            }
        };
        let kind = Some(kind(&row.id, said.tool.as_deref()).to_owned());
        MessageRow { kind, text: said.text.map(cut), summary: said.summary.map(cut), ..row }
    }

    /// What a letter said that was taken into a log.
    async fn said_in(&self, log: &SessionId, seq: u64, letter: &LetterId) -> Result<Said, Error> {
        let entries = self.store.entries(log, Span::Before { seq: seq + 1, limit: 1 }).await?;
        Ok(match entries.into_iter().next().map(|stored| stored.entry) {
            Some(Entry::Input(input)) if input.letter == *letter => words(&input.parts, input.provenance.as_ref()),
            _ => Said::default(),
        })
    }

    /// Whether what a message of that time said is shown still (`limits.mailDays`).
    fn is_kept(&self, posted: Millis) -> bool {
        posted >= self.mail_since()
    }

    fn mail_since(&self) -> Millis {
        now().saturating_sub(i64::try_from(self.limits.mail_ms).unwrap_or(i64::MAX))
    }

    /// Removes old mail to other gateways, a little at a time.
    pub(crate) async fn tidy_mail(&self) -> Result<(), Error> {
        loop {
            let forget = self.store.settled_before(self.mail_since(), STEP).await?;
            let done = forget.len() < STEP;
            if !forget.is_empty() {
                self.store.deliver(Mail { at: now(), forget, ..Mail::default() }).await?;
            }
            if done || self.stop_token().is_cancelled() {
                return Ok(());
            }
        }
    }
}

/// The text of an unread letter.
fn said(letter: &Letter) -> Said {
    match &letter.body {
        Body::Prompt(prompt) => words(&prompt.parts, letter.provenance.as_ref()),
        Body::Completion(finished) => Said { text: Some(finished.text.clone()), ..Said::default() },
        _ => Said::default(),
    }
}

fn words(parts: &[InputPart], from: Option<&Provenance>) -> Said {
    let text = parts.iter().map(part).collect::<Vec<_>>().join("\n");
    let (text, summary) = match unwrapped(&text) {
        Some((text, summary)) => (text.to_owned(), summary.map(str::to_owned)),
        None => (text, None),
    };
    Said { text: Some(text), summary, tool: from.and_then(|from| from.source_tool.clone()) }
}

fn part(part: &InputPart) -> &str {
    match part {
        InputPart::Text { text } => text,
        InputPart::File { name, .. } => name,
        InputPart::Subtask { prompt, .. } => prompt,
    }
}

/// What sort of message it is: its id is made from what caused it.
fn kind(id: &LetterId, tool: Option<&str>) -> &'static str {
    let cause = id.as_str().split_once('_').map_or("", |(cause, _)| cause);
    match (cause, tool) {
        ("end", _) => "completion",
        ("late", _) => "reply",
        ("talk", _) => "conversation",
        ("steer", _) => "steer",
        ("run", Some("sessions_send") | None) => "request",
        ("run", Some(_)) => "task",
        _ => "message",
    }
}

/// Which held letters a state means; an accepted one is mail like any other.
fn held_states(state: Option<MailState>) -> Option<Vec<HeldState>> {
    match state {
        None => Some(vec![HeldState::Held, HeldState::Refused, HeldState::Expired]),
        Some(MailState::Held) => Some(vec![HeldState::Held]),
        Some(MailState::Refused) => Some(vec![HeldState::Refused]),
        Some(MailState::Expired) => Some(vec![HeldState::Expired]),
        Some(MailState::Queued | MailState::Delivered | MailState::Unreachable) => None,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_message_is_known_by_its_id() {
        for (id, tool, expected) in [
            ("mail_call_1_x", Some("send_message"), "message"),
            ("far_mail_1", None, "message"),
            ("end_run_1", None, "completion"),
            ("late_call_1", None, "reply"),
            ("talk_run_1_2", Some("sessions_send"), "conversation"),
            ("run_call_1", Some("sessions_send"), "request"),
            ("run_call_1", Some("task"), "task"),
            ("run_call_1", None, "request"),
        ] {
            assert_eq!(kind(&LetterId::parse(id).unwrap(), tool), expected, "{id}");
        }
    }
}
