//! `sessions.*`: the sessions there are.

use crate::{Gateway, reference};
use proto::letter::Switch;
use proto::methods::{
    Accepted, CompactInput, CreateInput, ForkInput, Handle, ListInput, ListOutput, PatchInput, Resolved, RetireInput,
    Retired, Selector, SessionInfo, SessionsArchive, SessionsCompact, SessionsCreate, SessionsDelete, SessionsFork,
    SessionsGet, SessionsList, SessionsPatch, SessionsReset, SessionsResolve, SessionsStatus, SessionsSummary,
    SessionsTree, StatusInput, StatusReport, SummaryInput, SummaryOutput, TreeInput, TreeOutput, TreeRow,
};
use proto::{Error, SessionId};
use session::NewSession;
use store::Find;

/// Sessions of one tree that are shown; far above what the limits let a tree grow to.
const MAX_TREE: usize = 10_000;

impl Handle<SessionsList> for Gateway {
    async fn handle(&self, input: ListInput) -> Result<ListOutput, Error> {
        self.runtime.directory().list(&input).await
    }
}

impl Handle<SessionsStatus> for Gateway {
    async fn handle(&self, input: StatusInput) -> Result<StatusReport, Error> {
        self.runtime.directory().status(&input.session_key).await
    }
}

impl Handle<SessionsGet> for Gateway {
    async fn handle(&self, input: Selector) -> Result<SessionInfo, Error> {
        self.runtime.directory().info(self.selected(&input).await?).await
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
            name: session.name,
            label: session.label,
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
            model: proto::model::choice(input.model, input.thinking.as_deref()),
            cwd: reference::directory(input.cwd.as_deref().unwrap_or(&self.home))?,
            label: input.label.as_deref().map(proto::key::label).transpose()?,
            title: input.title.as_deref().map(proto::key::title).transpose()?,
            permission: input.permission,
            mode: None,
            system: input.system_prompt,
            append: input.append_system_prompt,
            once: super::agent::chosen(input.idempotency_key)?,
        };
        self.runtime.directory().info(self.runtime.create(new).await?).await
    }
}

impl Handle<SessionsPatch> for Gateway {
    async fn handle(&self, input: PatchInput) -> Result<SessionInfo, Error> {
        let change = Switch {
            title: input.title.as_deref().map(proto::key::title).transpose()?,
            agent: input.agent_id,
            model: proto::model::choice(input.model, input.thinking.as_deref()),
            mode: input.permission,
            ..Switch::default()
        };
        let label =
            input.label.map(|label| if label.is_empty() { Ok(None) } else { proto::key::label(&label).map(Some) });
        let label = label.transpose()?;
        let once = super::agent::chosen(input.idempotency_key)?;
        let session = self.named(&input.reference).await?.id;
        if let Some(label) = label {
            self.runtime.relabel(&session, label).await?;
        }
        if let Some(paused) = input.paused {
            self.runtime.pause(&session, paused).await?;
        }
        if change == Switch::default() {
            return self.runtime.directory().info(self.named(session.as_str()).await?).await;
        }
        self.runtime.directory().info(self.runtime.patch(&session, change, once.as_deref()).await?).await
    }
}

impl Handle<SessionsFork> for Gateway {
    async fn handle(&self, input: ForkInput) -> Result<SessionInfo, Error> {
        let session = self.named(&input.reference).await?;
        self.runtime
            .directory()
            .info(self.runtime.fork(&session.id, input.seq, super::agent::chosen(input.idempotency_key)?).await?)
            .await
    }
}

impl Handle<SessionsCompact> for Gateway {
    async fn handle(&self, input: CompactInput) -> Result<Accepted, Error> {
        let session = self.named(&input.reference).await?;
        let run = super::agent::run_id(input.idempotency_key)?;
        let posted = self.runtime.compact(session, input.instructions.as_deref(), run).await?;
        Ok(super::agent::accepted(self, posted, None))
    }
}

impl Handle<SessionsSummary> for Gateway {
    async fn handle(&self, input: SummaryInput) -> Result<SummaryOutput, Error> {
        let session = self.named(&input.reference).await?.id;
        self.runtime.summary(&session).await
    }
}

impl Handle<SessionsReset> for Gateway {
    async fn handle(&self, input: RetireInput) -> Result<SessionInfo, Error> {
        let session = self.named(&input.reference).await?.id;
        let heir = self.runtime.reset(&session, super::agent::chosen(input.idempotency_key)?).await?;
        self.runtime.directory().info(heir).await
    }
}

impl Handle<SessionsArchive> for Gateway {
    async fn handle(&self, input: RetireInput) -> Result<Retired, Error> {
        let session_id = self.named(&input.reference).await?.id;
        self.runtime.archive(&session_id, super::agent::chosen(input.idempotency_key)?).await?;
        Ok(Retired { session_id, archived: true })
    }
}

impl Handle<SessionsDelete> for Gateway {
    async fn handle(&self, input: RetireInput) -> Result<Retired, Error> {
        let session_id = self.named(&input.reference).await?.id;
        self.runtime.delete(&session_id, super::agent::chosen(input.idempotency_key)?).await?;
        Ok(Retired { session_id, archived: true })
    }
}
