//! The load: several clients that post prompts, answer questions and stop things, and repeat what a crash cut off.

use super::job::Job;
use super::ledger::Promises;
use super::random::Random;
use anyhow::{Context, bail};
use client::Client;
use proto::letter::AskReply;
use proto::methods::{
    AbortInput, Accepted, Agent, AgentInput, AgentWait, AskAnswer, AsksInput, ChatAbort, ChatInput, ChatSend,
    CreateInput, Method, PermissionsList, PermissionsReply, SessionsCreate, SessionsSpawn, SpawnInput, WaitInput,
};
use proto::{Code, RunId, SessionId};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How long a call is repeated before the gateway counts as gone for good.
const PATIENCE: Duration = Duration::from_secs(30);
/// Sessions that others write to, anew for every round.
const PEERS: usize = 4;
/// Sessions that one client goes on with.
const KEPT: usize = 3;

/// What all clients share.
#[derive(Clone)]
pub(super) struct Load {
    client: Client,
    directory: String,
    seed: u64,
    promises: Arc<Mutex<Promises>>,
    /// Something was posted.
    pub(super) posted: Arc<Notify>,
    /// No more of it.
    pub(super) over: CancellationToken,
}

/// A session with a name.
#[derive(Clone)]
pub(super) struct Peer {
    label: String,
    id: SessionId,
}

impl Load {
    pub(super) async fn new(socket: &Path, directory: &Path, seed: u64) -> anyhow::Result<Self> {
        Ok(Self {
            client: Client::connect(socket).await.context("cannot reach the gateway")?,
            directory: directory.display().to_string(),
            seed,
            promises: Arc::default(),
            posted: Arc::default(),
            over: CancellationToken::new(),
        })
    }

    /// The same for another round, with the promises of those before.
    pub(super) fn again(&self) -> Self {
        Self { over: CancellationToken::new(), ..self.clone() }
    }

    pub(super) fn promises(&self) -> MutexGuard<'_, Promises> {
        self.promises.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the sessions that this round's messages go to.
    pub(super) async fn peers(&self, round: u32) -> anyhow::Result<Vec<Peer>> {
        let mut peers = Vec::new();
        for n in 0..PEERS {
            let label = format!("peer-{round}-{n}");
            let made = self
                .call::<SessionsCreate>(|| CreateInput {
                    label: Some(label.clone()),
                    cwd: Some(self.directory.clone()),
                    idempotency_key: Some(format!("make-{}-{label}", self.seed)),
                    ..CreateInput::default()
                })
                .await?
                .with_context(|| format!("cannot make `{label}`"))?;
            peers.push(Peer { label, id: made.session_id });
        }
        Ok(peers)
    }

    /// Calls until there is an answer: with a connection that broke, nobody knows what was done.
    async fn call<M: Method>(&self, input: impl Fn() -> M::Input) -> anyhow::Result<Result<M::Output, proto::Error>> {
        let start = Instant::now();
        loop {
            match self.client.call::<M>(input()).await {
                Ok(output) => return Ok(Ok(output)),
                Err(error) if error.is_lost() => {
                    if start.elapsed() > PATIENCE {
                        return Err(error).with_context(|| format!("`{}` is never answered", M::NAME));
                    }
                    tokio::time::sleep(Duration::from_millis(3)).await;
                }
                Err(client::Error::Refused(error)) => return Ok(Err(error)),
                Err(error) => return Err(error).with_context(|| format!("`{}` broke", M::NAME)),
            }
        }
    }

    /// One client, until the round is over.
    pub(super) async fn drive(self, name: String, peers: Vec<Peer>) -> anyhow::Result<()> {
        let mut random = Random::named(&format!("{}-{name}", self.seed));
        let mut sessions: Vec<SessionId> = Vec::new();
        let mut count = 0_u32;
        while !self.over.is_cancelled() {
            count += 1;
            let id = format!("{name}-{count}");
            let accepted = self.post(&id, &mut random, &mut sessions, &peers).await?;
            if random.percent(10) {
                self.hire(&id, &accepted.session_id).await?;
            }
            if random.percent(8) {
                self.abort(&accepted, &mut random).await?;
            }
            if random.percent(75) {
                self.wait(&accepted.run_id, 20 + random.below(400)).await?;
            }
        }
        Ok(())
    }

    /// A prompt: to a new session, to one that this client had before, or to a peer.
    async fn post(
        &self,
        id: &str,
        random: &mut Random,
        sessions: &mut Vec<SessionId>,
        peers: &[Peer],
    ) -> anyhow::Result<Accepted> {
        let key = format!("crash-{}-{id}", self.seed);
        let labels: Vec<String> = peers.iter().map(|peer| peer.label.clone()).collect();
        let choice = random.below(100);
        let accepted = if choice < 45 || sessions.is_empty() {
            let job = Job::draw(id.to_owned(), random, &labels);
            let accepted = self.ask(&key, &job, None).await?;
            if sessions.len() == KEPT {
                sessions.remove(0);
            }
            sessions.push(accepted.session_id.clone());
            accepted
        } else {
            // A peer writes to peers behind it only, so that nobody waits in a circle.
            let at = random.below(peers.len() as u64) as usize;
            let to_peer = choice >= 88;
            let (session, labels) =
                if to_peer { (&peers[at].id, &labels[at + 1..]) } else { (random.pick(sessions), &labels[..]) };
            let job = Job::draw(id.to_owned(), random, labels);
            if choice < 65 { self.ask(&key, &job, Some(session)).await? } else { self.say(&key, &job, session).await? }
        };
        self.promises().prompts.push((accepted.run_id.clone(), accepted.session_id.clone()));
        Ok(accepted)
    }

    async fn ask(&self, key: &str, job: &Job, session: Option<&SessionId>) -> anyhow::Result<Accepted> {
        self.posted.notify_waiters();
        let accepted = self
            .call::<Agent>(|| AgentInput {
                message: job.to_string(),
                session_id: session.map(SessionId::to_string),
                cwd: session.is_none().then(|| self.directory.clone()),
                idempotency_key: Some(key.to_owned()),
                ..AgentInput::default()
            })
            .await?;
        accepted.with_context(|| format!("`agent` refused `{key}`"))
    }

    async fn say(&self, key: &str, job: &Job, session: &SessionId) -> anyhow::Result<Accepted> {
        self.posted.notify_waiters();
        let accepted = self
            .call::<ChatSend>(|| ChatInput {
                reference: session.to_string(),
                message: job.to_string(),
                idempotency_key: Some(key.to_owned()),
                ..ChatInput::default()
            })
            .await?;
        accepted.with_context(|| format!("`chat.send` refused `{key}`"))
    }

    /// A child that a person starts: the session above it hears of its end.
    async fn hire(&self, id: &str, parent: &SessionId) -> anyhow::Result<()> {
        let key = format!("hire-{}-{id}", self.seed);
        let job = Job { id: id.to_owned(), plan: Vec::new() }.piece("hired");
        self.posted.notify_waiters();
        let hired = self
            .call::<SessionsSpawn>(|| SpawnInput {
                task: job.to_string(),
                parent: Some(parent.to_string()),
                agent_id: Some("general".into()),
                idempotency_key: Some(key.clone()),
                ..SpawnInput::default()
            })
            .await?
            .with_context(|| format!("`sessions.spawn` refused `{key}`"))?;
        let mut promises = self.promises();
        promises.prompts.push((hired.run_id.clone(), hired.session_id));
        promises.hired.push((hired.run_id, parent.clone()));
        Ok(())
    }

    async fn abort(&self, accepted: &Accepted, random: &mut Random) -> anyhow::Result<()> {
        tokio::time::sleep(Duration::from_millis(random.below(60))).await;
        let whole = random.percent(50);
        let stopped = self
            .call::<ChatAbort>(|| AbortInput {
                reference: accepted.session_id.to_string(),
                run_id: (!whole).then(|| accepted.run_id.clone()),
            })
            .await?;
        stopped.map(drop).context("`chat.abort` was refused")
    }

    /// Waits a while for an end; a crash may cut it short.
    async fn wait(&self, run: &RunId, ms: u64) -> anyhow::Result<()> {
        let input = WaitInput { run_id: run.clone(), timeout_ms: Some(ms), tree: false };
        match self.client.call::<AgentWait>(input).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_lost() => Ok(()),
            Err(error) => Err(error).with_context(|| format!("`agent.wait` for `{run}`, which was acknowledged")),
        }
    }

    /// The person: answers what is asked, until told to stop. Goes on while everything comes to rest.
    pub(super) async fn answer(self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut random = Random::named(&format!("{}-person", self.seed));
        let mut answered = HashSet::new();
        while !stop.is_cancelled() {
            tokio::time::sleep(Duration::from_millis(10 + random.below(30))).await;
            let open = match self.client.call::<PermissionsList>(AsksInput::default()).await {
                Ok(open) => open,
                Err(error) if error.is_lost() => continue,
                Err(error) => return Err(error).context("`permissions.list` broke"),
            };
            for ask in open.asks {
                if !answered.insert(ask.ask_id.clone()) {
                    continue;
                }
                let reply = *random.pick(&[AskReply::Once, AskReply::Once, AskReply::Always, AskReply::Reject]);
                self.posted.notify_waiters();
                let told = self
                    .call::<PermissionsReply>(|| AskAnswer { ask_id: ask.ask_id.clone(), reply, message: None })
                    .await?;
                match told {
                    Ok(_) => {}
                    // The answer was kept before the crash that cut its acknowledgement off.
                    Err(error) if error.code == Code::Conflict => {}
                    // Its call was stopped meanwhile.
                    Err(error) if error.code == Code::NotFound => continue,
                    Err(error) => bail!("`permissions.reply` refused `{}`: {error}", ask.ask_id),
                }
                self.promises().answers.insert(ask.ask_id, reply);
            }
        }
        Ok(())
    }
}

/// The directory that the sessions work in.
pub(super) fn furnish(directory: &Path) -> anyhow::Result<PathBuf> {
    std::fs::write(directory.join(".env"), "SECRET=none\n").context("cannot furnish the directory")?;
    Ok(directory.join("tokens.log"))
}
