//! The load: several clients that post prompts, answer questions and stop things, and repeat what a crash cut off.

use super::job::Job;
use super::ledger::Promises;
use super::oversight::Change;
use crate::random::Random;
use anyhow::{Context, bail};
use client::Client;
use proto::letter::AskReply;
use proto::methods::{
    AbortInput, AcceptInput, Accepted, Agent, AgentInput, AgentWait, AskAnswer, AsksInput, BoardAdd, BoardAddInput,
    BoardUpdate, BoardUpdateInput, ChatAbort, ChatInput, ChatSend, CreateInput, DeliverInput, Health, MailState,
    MessagesAccept, MessagesDeliver, MessagesInput, MessagesList, MessagesRefuse, Method, Nothing, PermissionsList,
    PermissionsReply, RefuseInput, SessionsCreate, SessionsSpawn, SpawnInput, WaitInput,
};
use proto::{AskId, BoardTask, Code, LetterId, RunId, SessionId};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use testkit::FakeModel;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How long a call is repeated before the gateway counts as gone for good.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long nothing may happen while something is unfinished.
const STUCK: Duration = Duration::from_secs(10);
/// How soon after a restart what was cut off goes on.
const GOES_ON: Duration = Duration::from_secs(2);
/// How old a gateway is before its word counts that nothing is under way.
const SETTLING_MS: u64 = 300;
/// How often it has to say so: between a session's end and the start of whoever is told there is a moment of silence.
const LOOKS: u32 = 5;
/// How often a person looks before they answer a plan that was put to somebody else.
const LEFT_TO_THE_LEAD: u32 = 100;
/// Sessions that others write to, anew for every round.
const PEERS: usize = 4;
/// Sessions that one client goes on with.
const KEPT: usize = 3;

/// What all clients share.
#[derive(Clone)]
pub(super) struct Load {
    client: Client,
    pub(super) directory: String,
    pub(super) seed: u64,
    promises: Arc<Mutex<Promises>>,
    /// Something was posted.
    pub(super) posted: Arc<Notify>,
    /// No more of it.
    pub(super) over: CancellationToken,
}

/// A session with a name.
#[derive(Clone)]
pub(super) struct Peer {
    pub(super) label: String,
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
    pub(super) async fn call<M: Method>(
        &self,
        input: impl Fn() -> M::Input,
    ) -> anyhow::Result<Result<M::Output, proto::Error>> {
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

    /// Calls once, if there is somebody to call.
    pub(super) async fn try_call<M: Method>(&self, input: M::Input) -> anyhow::Result<Option<M::Output>> {
        match self.client.call::<M>(input).await {
            Ok(output) => Ok(Some(output)),
            Err(error) if error.is_lost() => Ok(None),
            Err(error) => Err(error).with_context(|| format!("`{}` broke", M::NAME)),
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
            if random.percent(20) {
                self.pin(&id, &accepted.session_id, &mut random).await?;
            }
            if random.percent(20) {
                self.write_from_afar(&id, random.pick(&peers)).await?;
            }
            if random.percent(10) {
                self.tidy(&mut random).await?;
            }
            if random.percent(8) {
                self.regret(&id, &mut random).await?;
            }
            if random.percent(8) {
                self.abort(&accepted, &mut random).await?;
            }
            if random.percent(75) {
                self.wait(&accepted.run_id, 20 + random.below(400)).await?;
            }
        }
        // Started when the last crash is over: it must come to its own end.
        let last = Job::last(&name);
        let accepted = self.ask(&format!("crash-{}-{}", self.seed, last.id), &last, None).await?;
        self.promises().prompts.push((accepted.run_id, accepted.session_id));
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

    pub(super) async fn ask(&self, key: &str, job: &Job, session: Option<&SessionId>) -> anyhow::Result<Accepted> {
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

    /// A task on the session's board, and now and then a word to it.
    async fn pin(&self, id: &str, session: &SessionId, random: &mut Random) -> anyhow::Result<()> {
        let title = format!("pinned-{id}");
        let key = format!("pin-{}-{id}", self.seed);
        // Asked for before it is answered: what a crash cuts off may be there all the same.
        self.promises().titles.push((session.clone(), title.clone()));
        self.posted.notify_waiters();
        let added = self
            .call::<BoardAdd>(|| BoardAddInput {
                session: Some(session.to_string()),
                title: title.clone(),
                idempotency_key: Some(key.clone()),
                ..BoardAddInput::default()
            })
            .await?
            .with_context(|| format!("`board.add` refused `{key}`"))?;
        self.promises().changes.push(change(session, &added));
        if random.percent(50) {
            let noted = self
                .call::<BoardUpdate>(|| BoardUpdateInput {
                    session: Some(session.to_string()),
                    number: added.number,
                    note: Some(key.clone()),
                    idempotency_key: Some(format!("note-{key}")),
                    ..BoardUpdateInput::default()
                })
                .await?
                .with_context(|| format!("`board.update` refused `{key}`"))?;
            self.promises().changes.push(change(session, &noted));
        }
        Ok(())
    }

    /// Mail from elsewhere, which is held until a person decides.
    async fn write_from_afar(&self, id: &str, to: &Peer) -> anyhow::Result<()> {
        let key = format!("{}-{id}", self.seed);
        self.posted.notify_waiters();
        let receipt = self
            .call::<MessagesDeliver>(|| DeliverInput {
                id: key.clone(),
                to: to.label.clone(),
                from: "ses_far".into(),
                message: format!("news of {key}"),
                hops: 1,
                ..DeliverInput::default()
            })
            .await?
            .with_context(|| format!("`messages.deliver` refused `{key}`"))?;
        // Whoever a person stopped is not written to.
        if receipt.state == MailState::Refused {
            return Ok(());
        }
        let letter = receipt.message_id.context("a message that is held has an id")?;
        self.promises().held.push(LetterId::parse(&letter)?);
        Ok(())
    }

    /// Decides about what is held, if there is any, one at a time.
    async fn decide(&self, random: &mut Random) -> anyhow::Result<()> {
        let input = MessagesInput { state: Some(MailState::Held), limit: Some(1), ..MessagesInput::default() };
        let held = match self.client.call::<MessagesList>(input).await {
            Ok(page) => page.messages,
            Err(error) if error.is_lost() => return Ok(()),
            Err(error) => return Err(error).context("`messages.list` broke"),
        };
        let Some(id) = held.into_iter().next().map(|message| message.id) else { return Ok(()) };
        let accept = random.percent(70);
        self.posted.notify_waiters();
        let told = if accept {
            self.call::<MessagesAccept>(|| AcceptInput { id: id.clone() }).await?
        } else {
            self.call::<MessagesRefuse>(|| RefuseInput { id: id.clone(), reason: None }).await?
        };
        match told {
            Ok(_) => {}
            // It was kept before the crash that cut its acknowledgement off.
            Err(error) if error.code == Code::Conflict => {}
            Err(error) => bail!("`messages.accept` or `refuse` refused `{id}`: {error}"),
        }
        self.promises().decided.insert(id, accept);
        Ok(())
    }

    async fn abort(&self, accepted: &Accepted, random: &mut Random) -> anyhow::Result<()> {
        tokio::time::sleep(Duration::from_millis(random.below(60))).await;
        let whole = random.percent(50);
        self.promises().aborted.insert(accepted.session_id.clone());
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

    /// Waits until nothing is under way. False when something is, and nothing happens.
    pub(super) async fn quiet(&self, model: &FakeModel) -> anyhow::Result<bool> {
        let (mut last, mut since, mut patience) = ((0, model.count()), Instant::now(), GOES_ON);
        let mut looks = 0;
        while since.elapsed() < patience {
            let health = self.call::<Health>(|| Nothing {}).await?.context("`health` was refused")?;
            // A gateway that has just started has not looked yet at what it is to go on with.
            looks = if health.busy == 0 && health.uptime_ms > SETTLING_MS { looks + 1 } else { 0 };
            if looks == LOOKS {
                return Ok(true);
            }
            let now = (health.busy, model.count());
            if now != last {
                // The first change is only the first look.
                patience = if last.0 == 0 && now.1 == last.1 { patience } else { STUCK };
                (last, since) = (now, Instant::now());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(false)
    }

    /// The person: answers what is asked, until told to stop. Goes on while everything comes to rest.
    pub(super) async fn answer(self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut random = Random::named(&format!("{}-person", self.seed));
        let mut answered = HashSet::new();
        let mut seen: HashMap<AskId, u32> = HashMap::new();
        while !stop.is_cancelled() {
            tokio::time::sleep(Duration::from_millis(10 + random.below(30))).await;
            if random.percent(20) {
                self.decide(&mut random).await?;
            }
            self.reply().await?;
            let Some(open) = self.try_call::<PermissionsList>(AsksInput::default()).await? else { continue };
            for ask in open.asks {
                let looks = seen.entry(ask.ask_id.clone()).or_default();
                *looks += 1;
                // A lead that was stopped does not answer any more.
                let is_mine = ask.to.is_none() || *looks > LEFT_TO_THE_LEAD;
                if !is_mine || !answered.insert(ask.ask_id.clone()) {
                    continue;
                }
                let reply = *random.pick(&[AskReply::Once, AskReply::Once, AskReply::Always, AskReply::Reject]);
                self.posted.notify_waiters();
                let told = self
                    .call::<PermissionsReply>(|| AskAnswer {
                        ask_id: ask.ask_id.clone(),
                        reply,
                        keep: None,
                        message: None,
                    })
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

fn change(session: &SessionId, task: &BoardTask) -> Change {
    Change { session: session.clone(), number: task.number, version: task.version }
}

/// The directory that the sessions work in.
pub(super) fn furnish(directory: &Path) -> anyhow::Result<PathBuf> {
    std::fs::write(directory.join(".env"), "SECRET=none\n").context("cannot furnish the directory")?;
    super::regret::furnish(directory)?;
    super::trees::found(directory)?;
    Ok(directory.join("tokens.log"))
}
