//! Coming to rest, and then reading all that the store has kept since the last look.

use super::ledger::{Kind, Ledger, Promises, Violation};
use anyhow::Context;
use config::Paths;
use proto::Entry;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use store::Store;
use store::sqlite::Sqlite;
use testkit::FakeModel;

/// How long nothing may happen while something is unfinished.
const STUCK: Duration = Duration::from_secs(10);
/// How soon after a restart what was cut off goes on.
const GOES_ON: Duration = Duration::from_secs(2);
/// Entries read at once.
const PAGE: usize = 2_000;

pub(super) struct Verify {
    state: PathBuf,
    tokens: PathBuf,
    cursor: u64,
    /// Prompts whose runs were looked at.
    asked: usize,
    pub(super) ledger: Ledger,
}

impl Verify {
    pub(super) fn new(home: &Path, tokens: &Path) -> Self {
        let state = Paths::under(home).state;
        Self { state, tokens: tokens.to_owned(), cursor: 0, asked: 0, ledger: Ledger::default() }
    }

    fn open(&self) -> anyhow::Result<Sqlite> {
        Sqlite::open_read(&self.state).context("cannot read the store")
    }

    /// Waits until every run has ended; tells who is unfinished when nothing happens for too long.
    pub(super) async fn rest(&self, model: &FakeModel) -> anyhow::Result<Option<Violation>> {
        let store = self.open()?;
        let (mut last, mut since, mut patience) = ((store.cursor().await?, model.count()), Instant::now(), GOES_ON);
        loop {
            let unfinished = store.unfinished(None, 5).await?;
            if unfinished.is_empty() {
                return Ok(None);
            }
            let now = (store.cursor().await?, model.count());
            if now != last {
                (last, since, patience) = (now, Instant::now(), STUCK);
            }
            if since.elapsed() > patience {
                let mut what = format!("nothing happens for {} s; unfinished:", patience.as_secs());
                for id in unfinished {
                    let status = store.session(&id).await?.map_or("gone", |session| session.status.as_str());
                    what.push_str(&format!(" `{id}` ({status})"));
                }
                return Ok(Some(Violation::new(Kind::Stuck, what)));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Reads what is new and checks all of it.
    pub(super) async fn check(&mut self, promises: &Promises) -> anyhow::Result<Vec<Violation>> {
        let store = self.open()?;
        self.read(&store).await?;
        let mut found = self.ledger.check(promises, &self.tokens()?);
        found.extend(self.check_rows(&store).await?);
        found.extend(self.check_prompts(&store, promises).await?);
        let asks = store.asks(None).await?;
        found.extend(asks.iter().map(|ask| {
            Violation::new(
                Kind::Stuck,
                format!("question `{}` of `{}` is open, but nothing waits", ask.id, ask.session),
            )
        }));
        found.extend(store.check().await?.into_iter().map(|what| Violation::new(Kind::Wrong, what)));
        Ok(found)
    }

    async fn read(&mut self, store: &Sqlite) -> anyhow::Result<()> {
        loop {
            let page = store.kept_since(None, self.cursor, PAGE).await?;
            for kept in &page {
                let entry: Entry = serde_json::from_str(&kept.body)
                    .with_context(|| format!("entry {} of `{}` does not read back", kept.seq, kept.session))?;
                self.ledger.apply(&kept.session, kept.seq, entry);
                self.cursor = kept.cursor;
            }
            if page.len() < PAGE {
                return Ok(());
            }
        }
    }

    /// The rows of runs tell the same story as the logs.
    async fn check_rows(&mut self, store: &Sqlite) -> anyhow::Result<Vec<Violation>> {
        let mut found = Vec::new();
        for (run, outcome) in std::mem::take(&mut self.ledger.fresh) {
            let kept = store.run(&run).await?.and_then(|row| row.outcome);
            if kept != Some(outcome) {
                let what = format!("run `{run}` ended as {outcome:?} in the log and as {kept:?} in its row");
                found.push(Violation::new(Kind::Wrong, what));
            }
        }
        Ok(found)
    }

    /// Whoever waits for a prompt is told of the end of the run that answered it.
    async fn check_prompts(&mut self, store: &Sqlite, promises: &Promises) -> anyhow::Result<Vec<Violation>> {
        let mut found = Vec::new();
        for (run, _) in &promises.prompts[self.asked..] {
            let Some(answered_by) = self.ledger.answered_by(run) else { continue };
            match store.run(run).await? {
                Some(row) if &row.id == answered_by && row.outcome.is_some() => {}
                Some(row) => {
                    let what = format!(
                        "prompt `{run}` leads to run `{}` ({:?}), not to the end of `{answered_by}`",
                        row.id, row.outcome
                    );
                    found.push(Violation::new(Kind::Wrong, what));
                }
                None => found.push(Violation::new(Kind::Lost, format!("prompt `{run}` has no run"))),
            }
        }
        self.asked = promises.prompts.len();
        Ok(found)
    }

    fn tokens(&self) -> anyhow::Result<HashMap<String, u32>> {
        let text = match std::fs::read_to_string(&self.tokens) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error).context("cannot read the tokens"),
        };
        let mut tokens = HashMap::new();
        for line in text.lines() {
            *tokens.entry(line.to_owned()).or_default() += 1;
        }
        Ok(tokens)
    }
}
