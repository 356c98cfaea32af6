//! `sessions.*`: the sessions there are.

use crate::{Gateway, now, reference};
use proto::methods::{
    CreateInput, ForkInput, Handle, ListInput, ListOutput, Resolved, Selector, SessionInfo, SessionsCreate,
    SessionsFork, SessionsGet, SessionsList, SessionsResolve, SessionsTree, TreeInput, TreeOutput, TreeRow,
};
use proto::{Error, Millis, SessionId};
use session::NewSession;
use store::{Find, PageKey, Query, Scope};

/// Rows of a page, when nobody says how many (S4).
const PAGE: usize = 50;

const MAX_PAGE: usize = 200;

/// Messages shown with a row, at most (S4).
const MAX_MESSAGES: u32 = 20;

/// Sessions of one tree that are shown; far above what the limits let a tree grow to.
const MAX_TREE: usize = 10_000;

const KINDS: [&str; 6] = ["main", "group", "cron", "hook", "node", "other"];

impl Handle<SessionsList> for Gateway {
    async fn handle(&self, input: ListInput) -> Result<ListOutput, Error> {
        let page = self.store().list(&self.query(&input).await?).await?;
        let mut sessions = Vec::with_capacity(page.sessions.len());
        for session in page.sessions {
            sessions.push(self.info(session).await?);
        }
        let messages = input.message_limit.unwrap_or(0).min(MAX_MESSAGES);
        if messages > 0 {
            self.add_messages(&mut sessions, messages).await?;
        }
        Ok(ListOutput { count: sessions.len(), sessions, next_cursor: page.next.map(|next| cursor(&next)) })
    }
}

impl Gateway {
    async fn query(&self, input: &ListInput) -> Result<Query, Error> {
        let parent = match &input.spawned_by {
            Some(reference) => Some(self.named(reference).await?.id),
            None => None,
        };
        let scope = match &input.agent_id {
            Some(agent) => Scope::Owner(proto::AgentId::parse(agent)?.as_str().to_owned()),
            None => Scope::All,
        };
        let ago = |minutes: u32| now() - Millis::from(minutes.max(1)) * 60_000;
        Ok(Query {
            limit: input.limit.map_or(PAGE, |limit| limit as usize).clamp(1, MAX_PAGE),
            after: input.cursor.as_deref().map(page_key).transpose()?,
            scope,
            kinds: kinds(&input.kinds),
            active_since: input.active_minutes.map(ago),
            label: input.label.clone(),
            parent,
        })
    }
}

/// Unknown names are passed over; none left means no filter.
fn kinds(wanted: &[String]) -> Vec<String> {
    let wanted = wanted.iter().map(|kind| kind.trim().to_ascii_lowercase());
    wanted.filter(|kind| KINDS.contains(&kind.as_str())).collect()
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

impl Handle<SessionsGet> for Gateway {
    async fn handle(&self, input: Selector) -> Result<SessionInfo, Error> {
        self.info(self.selected(&input).await?).await
    }
}

impl Handle<SessionsResolve> for Gateway {
    async fn handle(&self, input: Selector) -> Result<Resolved, Error> {
        let session = self.selected(&input).await?;
        Ok(Resolved { display_key: self.display_key(&session.key), session_id: session.id, key: session.key })
    }
}

impl Handle<SessionsTree> for Gateway {
    async fn handle(&self, input: TreeInput) -> Result<TreeOutput, Error> {
        let root = match &input.reference {
            Some(reference) => self.named(reference).await?.root,
            None => self.newest().await?,
        };
        let sessions = self.store().tree(&root, MAX_TREE).await?;
        let rows = sessions.into_iter().map(|session| TreeRow {
            session_id: session.id,
            key: session.key,
            parent_id: session.parent,
            agent: session.agent,
            status: session.status,
            title: session.title,
        });
        Ok(TreeOutput { root, sessions: rows.collect() })
    }
}

impl Gateway {
    async fn newest(&self) -> Result<SessionId, Error> {
        let found = self.store().find(&Find::Newest).await?;
        let newest = found.into_iter().next().map(|session| session.id);
        newest.ok_or_else(|| Error::not_found("there is no session yet").hint("start one with `convoke run`"))
    }
}

impl Handle<SessionsCreate> for Gateway {
    async fn handle(&self, input: CreateInput) -> Result<SessionInfo, Error> {
        let new = NewSession {
            agent: input.agent_id,
            model: input.model,
            cwd: reference::directory(input.cwd.as_deref().unwrap_or(&self.home))?,
            label: input.label.as_deref().map(proto::key::label).transpose()?,
            title: input.title,
            permission: input.permission,
            once: super::agent::chosen(input.idempotency_key)?,
        };
        self.info(self.runtime.create(new).await?).await
    }
}

impl Handle<SessionsFork> for Gateway {
    async fn handle(&self, input: ForkInput) -> Result<SessionInfo, Error> {
        let session = self.named(&input.reference).await?;
        self.info(self.runtime.fork(&session.id, input.seq, super::agent::chosen(input.idempotency_key)?).await?).await
    }
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

    #[test]
    fn unknown_kinds_are_passed_over() {
        assert_eq!(kinds(&[" MAIN ".into(), "nonsense".into()]), ["main"]);
        assert!(kinds(&["nonsense".into()]).is_empty());
    }
}
