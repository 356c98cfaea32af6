//! Reads all that the store has kept since the last look.
//!
//! Only while no gateway runs: one that loses power (`--power`) has writes in its own memory that no other process sees.

use super::background::Background;
use super::ledger::{Kind, Ledger, Promises, Violation};
use super::oversight::{Board, check_held};
use super::questions::Questions;
use super::regret::Regrets;
use super::talk::Talk;
use super::team::Team;
use super::trees::Trees;
use anyhow::Context;
use config::Paths;
use proto::{Entry, SessionId};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use store::sqlite::Sqlite;
use store::{BoardQuery, HeldQuery, Store};

/// Entries read at once.
const PAGE: usize = 2_000;

pub(super) struct Verify {
    state: PathBuf,
    directory: PathBuf,
    tokens: PathBuf,
    cursor: u64,
    /// Prompts whose runs were looked at.
    asked: usize,
    roots: HashMap<SessionId, SessionId>,
    /// Tasks on all boards, and held letters that were decided, at the last look.
    pub(super) overseen: (usize, usize),
    pub(super) ledger: Ledger,
    pub(super) talk: Talk,
    pub(super) background: Background,
    pub(super) questions: Questions,
    pub(super) regrets: Regrets,
    pub(super) trees: Trees,
    pub(super) team: Team,
}

impl Verify {
    pub(super) fn new(home: &Path, directory: &Path, tokens: &Path) -> Self {
        let state = Paths::under(home).state;
        Self {
            state,
            directory: directory.to_owned(),
            tokens: tokens.to_owned(),
            cursor: 0,
            asked: 0,
            roots: HashMap::new(),
            overseen: (0, 0),
            ledger: Ledger::default(),
            talk: Talk::default(),
            background: Background::default(),
            questions: Questions::default(),
            regrets: Regrets::default(),
            trees: Trees::new(directory),
            team: Team::default(),
        }
    }

    fn open(&self) -> anyhow::Result<Sqlite> {
        Sqlite::open_read(&self.state).context("cannot read the store")
    }

    /// Sessions that a restart would wake, in words. To be asked while no gateway runs, as everything here.
    pub(super) async fn unfinished(&self) -> anyhow::Result<Option<String>> {
        let store = self.open()?;
        let mut words = Vec::new();
        for id in store.unfinished(None, 10).await? {
            let row = store.session(&id).await?;
            let (status, pending) = row.map_or(("gone", 0), |row| (row.status.as_str(), row.pending));
            words.push(format!("`{id}` ({status}, {pending} unread)"));
        }
        Ok((!words.is_empty()).then(|| words.join(", ")))
    }

    /// Reads what is new and checks all of it.
    pub(super) async fn check(&mut self, promises: &Promises) -> anyhow::Result<Vec<Violation>> {
        let store = self.open()?;
        self.read(&store).await?;
        let tokens = self.tokens()?;
        let mut found = self.ledger.check(promises, &tokens);
        found.extend(self.talk.check(&promises.answers));
        found.extend(self.team.check(promises));
        found.extend(self.background.check(&promises.aborted, &tokens));
        found.extend(self.questions.check(&promises.said));
        found.extend(self.regrets.check(&promises.regrets, &self.directory));
        found.extend(self.trees.check(self.ledger.written())?);
        found.extend(self.check_rows(&store).await?);
        found.extend(self.check_prompts(&store, promises).await?);
        found.extend(self.check_boards(&store, promises).await?);
        found.extend(self.check_mail(&store, promises).await?);
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
                self.talk.apply(&kept.session, kept.seq, &entry);
                self.team.apply(&kept.session, kept.at, &entry);
                self.background.apply(&kept.session, kept.at, &entry);
                self.questions.apply(&kept.session, &entry);
                self.regrets.apply(&kept.session, kept.seq, &entry);
                self.ledger.apply(&kept.session, kept.seq, kept.at, entry);
                self.cursor = kept.cursor;
            }
            // A page is bounded in bytes as well: only an empty one is the last.
            if page.is_empty() {
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

    /// Boards as they are, against what calls and people were told of them.
    async fn check_boards(&mut self, store: &Sqlite, promises: &Promises) -> anyhow::Result<Vec<Violation>> {
        let mut boards: BTreeMap<SessionId, Board> = BTreeMap::new();
        let titles = self.ledger.board_titles().map(|(session, title)| (session.clone(), title.to_owned()));
        let titles: Vec<(SessionId, String)> = titles.chain(promises.titles.iter().cloned()).collect();
        let changes: Vec<_> = self.ledger.board_changes().chain(promises.changes.iter().cloned()).collect();
        for (session, title) in titles {
            boards.entry(self.root(store, &session).await?).or_default().titles.insert(title);
        }
        for change in changes {
            boards.entry(self.root(store, &change.session).await?).or_default().told.push(change);
        }
        let (mut found, mut tasks) = (Vec::new(), 0);
        for (root, mut board) in boards {
            let all = BoardQuery { limit: usize::MAX, ..BoardQuery::default() };
            board.tasks = store.board(&root, &all).await?;
            tasks += board.tasks.len();
            found.extend(board.check(&root));
        }
        self.overseen = (tasks, promises.decided.len());
        Ok(found)
    }

    /// A session's root never changes.
    async fn root(&mut self, store: &Sqlite, session: &SessionId) -> anyhow::Result<SessionId> {
        if let Some(root) = self.roots.get(session) {
            return Ok(root.clone());
        }
        let row = store.session(session).await?.with_context(|| format!("there is no session `{session}`"))?;
        self.roots.insert(session.clone(), row.root.clone());
        Ok(row.root)
    }

    async fn check_mail(&self, store: &Sqlite, promises: &Promises) -> anyhow::Result<Vec<Violation>> {
        let rows = store.held(&HeldQuery { limit: usize::MAX, ..HeldQuery::default() }).await?;
        Ok(check_held(&rows, &promises.held, &promises.decided, |id| self.ledger.answered_by(&id.run()).is_some()))
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
