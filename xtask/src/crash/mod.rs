//! `cargo xtask crash`: kills a real gateway at many moments of a busy life, restarts it, and checks that nothing was
//! lost, doubled or stuck.
//!
//! The load goes through the real client, the model is scripted and answers from the request alone, and each round of
//! kills ends in a rest in which every log is read. A seed repeats the choices, not the moments: those are the machine's.

mod answers;
mod background;
mod gateway;
mod job;
mod ledger;
mod load;
mod model;
mod oversight;
mod questions;
mod regret;
mod talk;
mod team;
mod tidy;
mod trees;
mod verify;

use crate::random::Random;
use anyhow::{Context, ensure};
use gateway::Gateway;
use ledger::{Kind, Violation};
use load::Load;
use model::Script;
use proto::Millis;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant, SystemTime};
use testkit::{FakeModel, Options, RepoDir, TempHome};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use verify::Verify;

/// Kills between two rests.
const ROUND: u32 = 25;
/// Clients that post at once.
const CLIENTS: u32 = 5;
/// The longest time between something that was posted and the kill.
const DELAY_MS: u64 = 60;

/// Restarts after which what is still unfinished counts as stuck.
const RESTS: usize = 3;
/// Violations that are told; more say nothing new.
const SHOWN: usize = 20;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many kills.
    #[arg(long, default_value_t = 60)]
    points: u32,
    /// What the choices follow from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Lose power instead: what was not synced is gone with the process.
    #[arg(long)]
    power: bool,
    /// A binary to kill that is there already, instead of a new release build.
    #[arg(long, value_name = "PATH", conflicts_with = "power")]
    program: Option<PathBuf>,
}

pub(crate) fn main(args: Args) -> anyhow::Result<()> {
    let program = args.program.clone().map_or_else(|| build(args.power), Ok)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start a runtime")?;
    let (script, repo) = stage()?;
    let fake = {
        let script = script.clone();
        FakeModel::with(Options { keep: 1 }, move |received| script.reply(received))
    };
    let tools = json!({ "sessions": { "visibility": "all" }, "subagents": { "allow": ["task"] } });
    let beside = format!("{}/*", repo.path().canonicalize()?.display());
    let home = TempHome::new(&fake).config_json(json!({
        "tools": tools, "inbound": "hold", "limits": { "shutdownSeconds": 1 },
        // Its jobs do the same again and again, and mean it; and those in worktrees leave their tokens beside the others.
        "permission": { "doom_loop": "allow", "external_directory": { (beside): "allow" } },
    }));
    let mut suite = Suite::new(&args, program, &home, &repo, script, fake);
    let played = runtime.block_on(suite.play(&args));
    let found = match played {
        Ok(found) => found,
        Err(error) => vec![Violation::new(Kind::Wrong, format!("{error:#}"))],
    };
    let points = suite.points;
    drop(suite);
    report(&args, points, &found, &[home.path(), repo.path()])
}

/// The directory that sessions work in, and the model that knows it.
fn stage() -> anyhow::Result<(Script, RepoDir)> {
    let repo = RepoDir::new();
    let tokens = load::furnish(repo.path())?;
    Ok((Script { tokens, life: Arc::new(AtomicU32::new(0)), nonce: std::process::id() }, repo))
}

/// The last line, and before it all that went wrong; then the directories are kept for a closer look.
fn report(args: &Args, points: u32, found: &[Violation], directories: &[&Path]) -> anyhow::Result<()> {
    let count = |kind: Kind| found.iter().filter(|violation| violation.kind == kind).count();
    let mut told: Vec<&Violation> = found.iter().collect();
    told.sort_by_key(|violation| violation.kind);
    for violation in told.into_iter().take(SHOWN) {
        eprintln!("{violation}");
    }
    if !found.is_empty() {
        directories.iter().for_each(|directory| keep(directory));
    }
    let (lost, doubled, stuck) = (count(Kind::Lost), count(Kind::Doubled), count(Kind::Stuck));
    writeln!(std::io::stdout(), "points={points} lost={lost} doubled={doubled} stuck={stuck}")?;
    ensure!(found.is_empty(), "the crash suite failed with seed {}: {} violations", args.seed, found.len());
    Ok(())
}

/// Moves a temporary directory to where nobody deletes it.
fn keep(directory: &Path) {
    let kept = directory.with_extension("kept");
    match std::fs::rename(directory, &kept) {
        Ok(()) => eprintln!("kept: {}", kept.display()),
        Err(error) => eprintln!("cannot keep `{}`: {error}", directory.display()),
    }
}

struct Suite {
    seed: u64,
    random: Random,
    gateway: Gateway,
    fake: FakeModel,
    verify: Verify,
    directory: PathBuf,
    points: u32,
    began: Instant,
}

impl Suite {
    fn new(args: &Args, program: PathBuf, home: &TempHome, repo: &RepoDir, script: Script, fake: FakeModel) -> Self {
        let power = args.power.then_some(args.seed);
        Self {
            seed: args.seed,
            random: Random::new(args.seed),
            verify: Verify::new(home.path(), repo.path(), &script.tokens),
            gateway: Gateway::new(program, home, power, script.nonce, script.life),
            fake,
            directory: repo.path().to_owned(),
            points: 0,
            began: Instant::now(),
        }
    }

    /// All rounds; what went wrong ends it.
    async fn play(&mut self, args: &Args) -> anyhow::Result<Vec<Violation>> {
        self.gateway.start()?;
        self.gateway.ready().await?;
        let first = Load::new(self.gateway.socket(), &self.directory, self.seed).await?;
        let done = CancellationToken::new();
        let mut person = JoinSet::new();
        person.spawn(first.clone().answer(done.clone()));
        let mut round = 0;
        while self.points < args.points {
            round += 1;
            let load = first.again();
            let kills = ROUND.min(args.points - self.points);
            let mut found = self.round(&load, round, kills).await?;
            if found.is_empty() {
                found = self.rest(&load).await?;
            }
            // Without its person everything seems stuck: say first what is the cause.
            while let Some(ended) = person.try_join_next() {
                ended.context("the person broke down")??;
            }
            if !found.is_empty() {
                return Ok(found);
            }
        }
        done.cancel();
        while let Some(ended) = person.join_next().await {
            ended.context("the person broke down")??;
        }
        self.last_life().await
    }

    /// The end of the last gateway leaves nothing behind either.
    async fn last_life(&mut self) -> anyhow::Result<Vec<Violation>> {
        self.gateway.kill()?;
        tokio::time::sleep(gateway::LINGERING).await;
        Ok(self.gateway.stray().map(|stray| Violation::new(Kind::Wrong, stray)).into_iter().collect())
    }

    /// Clients at work, and so many kills among it.
    async fn round(&mut self, load: &Load, round: u32, kills: u32) -> anyhow::Result<Vec<Violation>> {
        let peers = load.peers(round).await?;
        let mut clients = JoinSet::new();
        for client in 0..CLIENTS {
            clients.spawn(load.clone().drive(format!("r{round}c{client}"), peers.clone()));
        }
        clients.spawn(load.clone().lead(format!("r{round}t"), peers.clone()));
        for _ in 0..kills {
            self.strike(load).await?;
            while let Some(ended) = clients.try_join_next() {
                ended.context("a client broke down")??;
            }
            if let Some(stray) = self.gateway.stray() {
                return Ok(vec![Violation::new(Kind::Wrong, stray)]);
            }
        }
        load.over.cancel();
        while let Some(ended) = clients.join_next().await {
            ended.context("a client broke down")??;
        }
        Ok(Vec::new())
    }

    /// One kill and one start; now and then the gateway gets no time to be ready in between.
    async fn strike(&mut self, load: &Load) -> anyhow::Result<()> {
        if self.random.percent(20) {
            tokio::time::sleep(Duration::from_millis(self.random.below(DELAY_MS / 2))).await;
        } else {
            self.gateway.ready().await?;
            // When nobody posts, everybody waits for something: a good moment too.
            let _ = tokio::time::timeout(Duration::from_millis(500), load.posted.notified()).await;
            tokio::time::sleep(Duration::from_millis(self.random.below(DELAY_MS))).await;
            // A run that is killed again and again in one step is given up: let some come further.
            if self.random.percent(40) {
                tokio::time::sleep(Duration::from_millis(self.random.below(500))).await;
            }
        }
        let at = self.kill()?;
        self.verify.background.kills.push(at);
        regret::whole(&self.directory)?;
        self.points += 1;
        self.gateway.start()
    }

    /// Says when: whatever is kept later than that is the next gateway's.
    fn kill(&mut self) -> anyhow::Result<Millis> {
        self.gateway.kill()?;
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).context("the clock is before 1970")?;
        let at = Millis::try_from(since.as_millis()).context("the clock is far ahead")?;
        self.verify.ledger.kills.push(at);
        Ok(at)
    }

    /// Lets everything come to its end, and looks at all of it.
    async fn rest(&mut self, load: &Load) -> anyhow::Result<Vec<Violation>> {
        let start = Instant::now();
        let mut unfinished = None;
        let mut quiet = false;
        for _ in 0..RESTS {
            self.gateway.ready().await?;
            quiet = load.quiet(&self.fake).await?;
            self.kill()?;
            unfinished = self.verify.unfinished().await?;
            if !quiet || unfinished.is_none() {
                break;
            }
            self.gateway.start()?;
        }
        if !quiet || unfinished.is_some() {
            let unfinished = unfinished.as_deref().unwrap_or("none, but the gateway says it is busy");
            return Ok(vec![Violation::new(Kind::Stuck, format!("nothing happens; unfinished: {unfinished}"))]);
        }
        let promises = load.promises().clone();
        let found = self.verify.check(&promises).await?;
        self.tell(start);
        self.gateway.start()?;
        self.gateway.ready().await?;
        Ok(found)
    }

    fn tell(&self, rest: Instant) {
        let (letters, runs, calls) = self.verify.ledger.counts();
        let (tasks, decided) = self.verify.overseen;
        let talk = self.verify.talk.counts;
        let (trees, snapshots) = self.verify.trees.counts;
        let (again, late) = self.verify.team.counts();
        let (moves, cut_off) = self.verify.ledger.moves();
        let (jobs, gone) = self.verify.background.counts();
        eprintln!(
            "{} points in {:.1} s: {letters} letters ({} mailed), {runs} runs ({} given up), {calls} calls, {} model calls, \
             {tasks} tasks on boards, {decided} held letters decided, {} plans, {} agreed to end and {} had to, \
             {again} second questions to members of a team, {late} messages to archived ones, {trees} worktrees ({moves} calls, {cut_off} cut off), {snapshots} snapshots, {jobs} jobs ({gone} gone), {} questions, \
             {} undos, rest {:.1} s",
            self.points,
            self.began.elapsed().as_secs_f64(),
            talk.letters,
            self.verify.ledger.given_up(),
            self.fake.count(),
            talk.plans,
            talk.agreed,
            talk.ended,
            self.verify.questions.count(),
            self.verify.regrets.count(),
            rest.elapsed().as_secs_f64(),
        );
    }
}

/// The release binary, with what `--power` needs.
fn build(power: bool) -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--release", "--package", "convoke"]);
    if power {
        command.args(["--features", "power"]);
    }
    let status = command.current_dir(root()).stdin(Stdio::null()).status().context("cannot start cargo")?;
    ensure!(status.success(), "the release build failed: its output above says why");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join("release/convoke"))
}

fn root() -> PathBuf {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    own.parent().map(PathBuf::from).unwrap_or(own)
}
