//! The directory: sessions, their messages and their state, as those who may see them are shown.
//!
//! A person sees all; a session sees what the guard lets it (S3). Every answer costs what is in it, whatever is stored.

mod guard;
mod history;
mod rows;
mod status;

pub(crate) use guard::Guard;

use crate::now;
use crate::runtime::Inner;
use proto::message::{History, Message};
use proto::methods::{HistoryInput, ListInput, ListOutput, SessionInfo, StatusReport};
use proto::{Error, Key, Millis, SessionId};
use rules::access::Act;
use std::sync::Arc;
use store::{PageKey, Query, Session};

/// Rows of a page, when nobody says how many (S4).
const PAGE: usize = 50;
const MAX_PAGE: usize = 200;
/// Messages shown with a row, at most (S4).
const MAX_MESSAGES: u32 = 20;
/// Rows looked at for one page, so that a caller who may see almost nothing is answered all the same.
const MAX_SCAN: usize = 5_000;

/// A view of the sessions for one caller.
pub struct Directory<'a> {
    pub(crate) rt: &'a Arc<Inner>,
    pub(crate) guard: Guard,
}

impl Directory<'_> {
    /// A page of sessions, newest activity first (S4).
    pub async fn list(&self, input: &ListInput) -> Result<ListOutput, Error> {
        let limit = input.limit.map_or(PAGE, |limit| limit as usize).clamp(1, MAX_PAGE);
        let mut query = self.query(input, limit).await?;
        let (mut sessions, mut scanned) = (Vec::new(), 0);
        let next = loop {
            let page = self.rt.store.list(&query).await?;
            scanned += page.sessions.len();
            for (row, children) in page.sessions.into_iter().zip(page.children) {
                if sessions.len() < limit && rows::fits(input, &row) && self.guard.sees(&row, Act::List) {
                    query.after = Some(PageKey { activity: row.activity, id: row.id.clone() });
                    sessions.push(rows::info(self.rt, row, children));
                }
            }
            match page.next {
                None => break None,
                next if scanned >= MAX_SCAN => break next,
                Some(_) if sessions.len() >= limit => break query.after.clone(),
                next => query.after = next,
            }
        };
        let messages = input.message_limit.unwrap_or(0).min(MAX_MESSAGES);
        if messages > 0 {
            self.add_messages(&mut sessions, messages).await?;
        }
        if self.guard.is_person() {
            for row in &mut sessions {
                row.short_id = Some(self.rt.short_id(&row.session_id).await?);
            }
        } else {
            sessions.iter_mut().for_each(|row| self.shorten(row));
        }
        Ok(ListOutput { count: sessions.len(), sessions, next_cursor: next.as_ref().map(cursor) })
    }

    async fn query(&self, input: &ListInput, limit: usize) -> Result<Query, Error> {
        let parent = match &input.spawned_by {
            Some(reference) => Some(self.seen(reference, Act::List).await?.id),
            None => None,
        };
        if input.label.as_ref().is_some_and(|label| label.chars().count() > proto::key::LONGEST_LABEL) {
            let most = proto::key::LONGEST_LABEL;
            return Err(Error::invalid(format!("no label has more than {most} characters")));
        }
        let ago = |minutes: u32| now() - Millis::from(minutes.max(1)) * 60_000;
        Ok(Query {
            limit,
            after: input.cursor.as_deref().map(page_key).transpose()?,
            scope: self.guard.scope(input.agent_id.as_deref())?,
            kinds: rows::kinds(&input.kinds),
            active_since: input.active_minutes.map(ago),
            label: input.label.clone(),
            parent,
        })
    }

    /// One session as lists show it.
    pub async fn info(&self, session: Session) -> Result<SessionInfo, Error> {
        let query = Query { limit: 100, parent: Some(session.id.clone()), ..Query::default() };
        let children = self.rt.store.list(&query).await?.sessions;
        Ok(rows::info(self.rt, session, children.into_iter().map(|child| child.key).collect()))
    }

    /// The direct children of a session, newest first.
    pub async fn children(&self, parent: &SessionId) -> Result<Vec<SessionInfo>, Error> {
        let query = Query { limit: MAX_PAGE, parent: Some(parent.clone()), ..Query::default() };
        let page = self.rt.store.list(&query).await?;
        let info = |(row, children)| rows::info(self.rt, row, children);
        Ok(page.sessions.into_iter().zip(page.children).map(info).collect())
    }

    async fn add_messages(&self, sessions: &mut [SessionInfo], limit: u32) -> Result<(), Error> {
        for row in sessions {
            let Some(session) = self.rt.store.session(&row.session_id).await? else { continue };
            // Seeing that a session is there is less than reading it.
            if !self.guard.sees(&session, Act::History) {
                continue;
            }
            let input = HistoryInput { limit: Some(limit), ..HistoryInput::default() };
            row.messages = self.page(&session, &input).await?.messages;
        }
        Ok(())
    }

    /// A page of a session's messages (S5).
    pub async fn history(&self, input: &HistoryInput) -> Result<History, Error> {
        let session = self.seen(&input.session_key, Act::History).await?;
        let mut history = self.page(&session, input).await?;
        if !self.guard.is_person() {
            history.session_key = self.rt.display_key(&session.key);
        }
        Ok(history)
    }

    async fn page(&self, session: &Session, input: &HistoryInput) -> Result<History, Error> {
        let redact = |message: &mut Message| self.rt.redact(message);
        history::page(self.rt.store.as_ref(), session, input, &redact).await
    }

    /// What a session is, does and may do (S10).
    pub async fn status(&self, reference: &str) -> Result<StatusReport, Error> {
        let session = self.seen(reference, Act::Status).await?;
        status::report(self.rt, session, self.guard.is_person()).await
    }

    /// The session a reference names, if this caller may do that to it.
    pub async fn seen(&self, reference: &str, act: Act) -> Result<Session, Error> {
        let session = match self.rt.find_for(reference, &self.guard, act).await {
            Ok(session) => session,
            // No oracle: whoever is boxed in cannot tell what exists from what does not.
            Err(_) if self.guard.is_boxed() => return Err(Guard::nothing(act, reference)),
            Err(error) => return Err(error),
        };
        let shown = if self.guard.is_boxed() { reference.to_owned() } else { self.rt.display_key(&session.key) };
        self.guard.check(&session, act, &shown)?;
        Ok(session)
    }

    /// In tools keys are display keys.
    fn shorten(&self, row: &mut SessionInfo) {
        row.key.clone_from(&row.display_key);
        // A child's title is the beginning of its task.
        for text in [&mut row.title, &mut row.display_name].into_iter().flatten() {
            *text = self.rt.blanked(text);
        }
        for child in &mut row.child_sessions {
            *child = self.rt.display_key(child);
        }
    }
}

impl Inner {
    /// A key as models and people are shown it.
    pub(crate) fn display_key(&self, key: &str) -> String {
        Key::parse(key)
            .map_or_else(|_| key.to_owned(), |key| key.display(self.settings.global().agents.default_agent()))
    }
}

fn cursor(key: &PageKey) -> String {
    format!("{}.{}", key.activity, key.id)
}

fn page_key(text: &str) -> Result<PageKey, Error> {
    let read = || {
        let (activity, id) = text.split_once('.')?;
        Some(PageKey { activity: activity.parse().ok()?, id: SessionId::parse(id).ok()? })
    };
    read().ok_or_else(|| Error::invalid("the cursor is not one of ours").hint("use `nextCursor` of the page before"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_read_back_and_foreign_ones_are_refused() {
        let key = PageKey { activity: 1234, id: SessionId::new() };
        assert_eq!(page_key(&cursor(&key)).unwrap(), key);
        for bad in ["", "x", "1.", "x.ses_1", "1.a b"] {
            assert!(page_key(bad).is_err(), "{bad}");
        }
    }
}
