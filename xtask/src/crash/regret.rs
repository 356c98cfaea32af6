//! A person who takes back what a session did, and takes that back: in sessions of their own, so that nobody else touches
//! the files. What was acknowledged is done, in the files and in the conversation, and no file is ever there in part.

use super::job::{Job, Step};
use super::ledger::{Kind, Violation};
use super::load::Load;
use crate::random::Random;
use anyhow::{Context, bail, ensure};
use proto::methods::{AgentWait, RedoInput, SessionsRedo, SessionsUndo, UndoInput, UndoOutput, WaitInput};
use proto::{Entry, LetterId, RunId, SessionId};
use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// The folder that holds a folder for each of these sessions.
const FOLDER: &str = "drafts";
/// Files of one session, which are changed by one call.
const FILES: u64 = 6;
/// Lines of one file: so that half of it is not it.
const LINES: usize = 40;
/// The version in which one file is gone.
const SHORTER: u64 = 2;
/// How long a run may take that is killed again and again.
const PATIENCE: Duration = Duration::from_secs(60);

/// The files of one session, as they are.
type Files = Vec<Option<String>>;

/// What was acknowledged of one session.
#[derive(Debug, Clone)]
pub(super) struct Regret {
    session: SessionId,
    /// Its folder, and what is in it now.
    folder: String,
    files: Files,
    prompts: Vec<RunId>,
    /// How many of them are not taken back.
    standing: usize,
    /// Letters that asked for an undo or a redo, and whether it was the latter.
    asked: Vec<(LetterId, bool)>,
}

fn name(file: u64) -> String {
    format!("{file}.txt")
}

fn line(folder: &str, file: u64, version: u64) -> String {
    format!("version {version} of file {file} of {folder}")
}

/// The patch that makes the next version of all files of a job.
pub(super) fn patch(job: &str, version: u64) -> String {
    let folder = job.rsplit_once('-').map_or(job, |(folder, _)| folder);
    let mut patch = "*** Begin Patch\n".to_owned();
    for file in 0..FILES {
        let path = format!("{FOLDER}/{folder}/{}", name(file));
        let lines = |mark: &str, version| format!("{mark}{}\n", line(folder, file, version)).repeat(LINES);
        patch.push_str(&match version {
            0 => format!("*** Add File: {path}\n{}", lines("+", 0)),
            SHORTER if file == 1 => format!("*** Delete File: {path}\n"),
            _ => format!("*** Update File: {path}\n{}{}", lines("-", version - 1), lines("+", version)),
        });
    }
    patch + "*** End Patch\n"
}

/// The files of a session. Neither the tools nor an undo leaves one in part, whenever the gateway is killed.
fn look(directory: &Path, folder: &str) -> anyhow::Result<Files> {
    let read = |file: u64| {
        let path = directory.join(FOLDER).join(folder).join(name(file));
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot read `{}`", path.display())),
        };
        let whole = |version| text == format!("{}\n", line(folder, file, version)).repeat(LINES);
        ensure!((0..=SHORTER).any(whole), "`{}` is there in part", path.display());
        Ok(Some(text))
    };
    (0..FILES).map(read).collect()
}

/// Looks at all of them; to be called while no gateway runs as well.
pub(super) fn whole(directory: &Path) -> anyhow::Result<()> {
    let folders = std::fs::read_dir(directory.join(FOLDER)).context("cannot read the drafts")?.flatten();
    let mut names = folders.filter_map(|entry| entry.file_name().into_string().ok());
    names.try_for_each(|folder| look(directory, &folder).map(drop))
}

/// The place for them.
pub(super) fn furnish(directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir(directory.join(FOLDER)).context("cannot furnish the directory")
}

impl Load {
    /// Two prompts that change files, and then back and forth between what there was before and after each.
    pub(super) async fn regret(&self, id: &str, random: &mut Random) -> anyhow::Result<()> {
        let directory = Path::new(&self.directory);
        let plans = [vec![Step::Draft(0), Step::Draft(1)], vec![Step::Draft(SHORTER), Step::Read]];
        let (mut states, mut session) = (vec![look(directory, id)?], None);
        let mut prompts = Vec::new();
        for (plan, nth) in plans.into_iter().zip(1..) {
            let job = Job { id: format!("{id}-{nth}"), plan };
            let accepted = self.ask(&format!("draft-{}-{}", self.seed, job.id), &job, session.as_ref()).await?;
            self.promises().prompts.push((accepted.run_id.clone(), accepted.session_id.clone()));
            self.end(&accepted.run_id).await?;
            states.push(look(directory, id)?);
            prompts.push(accepted.run_id);
            session = Some(accepted.session_id);
        }
        let session = session.context("there is a session")?;
        let files = states[prompts.len()].clone();
        let (folder, standing) = (id.to_owned(), prompts.len());
        let mut regret = Regret { session, folder, files, prompts, standing, asked: Vec::new() };
        for nth in 0..2 + random.below(4) {
            let redo = regret.standing == 0 || (regret.standing < regret.prompts.len() && random.percent(50));
            let key = format!("{}-{id}-{nth}", self.seed);
            let done = self.take_back(&regret.session, &key, redo).await?;
            regret.asked.push((LetterId::derived("undo_", &key), redo));
            regret.standing = if redo { regret.standing + 1 } else { regret.standing - 1 };
            regret.files.clone_from(&states[regret.standing]);
            if let Some(left) = done.files.iter().find(|file| !file.state.is_changed()) {
                bail!("`{key}` of `{}` left a file that nobody else touched: {left:?}", regret.session);
            }
            self.promises().regrets.insert(id.to_owned(), regret.clone());
            let now = look(directory, id)?;
            ensure!(now == regret.files, "`{key}` of `{}` (redo: {redo}) is done, and files are not", regret.session);
        }
        Ok(())
    }

    async fn take_back(&self, session: &SessionId, key: &str, redo: bool) -> anyhow::Result<UndoOutput> {
        self.posted.notify_waiters();
        let (reference, key) = (session.to_string(), Some(key.to_owned()));
        let done = if redo {
            let input = RedoInput { reference, idempotency_key: key.clone(), ..RedoInput::default() };
            self.call::<SessionsRedo>(|| input.clone()).await?
        } else {
            let input = UndoInput { reference, idempotency_key: key.clone(), ..UndoInput::default() };
            self.call::<SessionsUndo>(|| input.clone()).await?
        };
        done.with_context(|| format!("`{key:?}` of `{session}` (redo: {redo}) was refused"))
    }

    /// Waits for the end of a run, over all crashes.
    async fn end(&self, run: &RunId) -> anyhow::Result<()> {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            let input = || WaitInput { run_id: run.clone(), timeout_ms: Some(1_000), tree: false };
            let waited = self.call::<AgentWait>(input).await?;
            if waited.with_context(|| format!("`agent.wait` for `{run}`"))?.ended_at.is_some() {
                return Ok(());
            }
        }
        bail!("run `{run}` does not end")
    }
}

/// Undos and redos in logs. Folded entry by entry; pure, but for the look at the files.
#[derive(Debug, Default)]
pub(super) struct Regrets {
    /// Where prompts are.
    inputs: HashMap<String, u64>,
    done: HashMap<SessionId, Vec<proto::entry::Undone>>,
}

impl Regrets {
    pub(super) fn apply(&mut self, session: &SessionId, seq: u64, entry: &Entry) {
        match entry {
            Entry::Input(input) => drop(self.inputs.insert(input.letter.to_string(), seq)),
            Entry::Undo(undone) => self.done.entry(session.clone()).or_default().push(undone.clone()),
            Entry::Reply(_)
            | Entry::Started(_)
            | Entry::Waiting(_)
            | Entry::Result(_)
            | Entry::Ended(_)
            | Entry::Compaction(_)
            | Entry::Switch(_)
            | Entry::Notice(_)
            | Entry::ToolsLoaded(_)
            | Entry::Todo(_) => {}
        }
    }

    /// How many undos and redos there were.
    pub(super) fn count(&self) -> usize {
        self.done.values().map(Vec::len).sum()
    }

    pub(super) fn check(&self, promised: &HashMap<String, Regret>, directory: &Path) -> Vec<Violation> {
        let mut found = Vec::new();
        for regret in promised.values() {
            found.extend(self.check_log(regret));
            match look(directory, &regret.folder) {
                Ok(files) if files == regret.files => {}
                Ok(_) => {
                    let what =
                        format!("what was taken back in the files of `{}` (`{}`)", regret.session, regret.folder);
                    found.push(Violation::new(Kind::Lost, what));
                }
                Err(error) => found.push(Violation::new(Kind::Wrong, format!("{error:#}"))),
            }
        }
        found
    }

    /// What was asked for is there once and in that order, and of the conversation stands what should.
    fn check_log(&self, regret: &Regret) -> Vec<Violation> {
        let mut found = Vec::new();
        let session = &regret.session;
        let done = self.done.get(session).map(Vec::as_slice).unwrap_or_default();
        let kept: Vec<(&LetterId, bool)> = done.iter().map(|one| (&one.letter, one.redoes.is_some())).collect();
        let asked: Vec<(&LetterId, bool)> = regret.asked.iter().map(|(letter, redo)| (letter, *redo)).collect();
        if kept != asked {
            let kind = match kept.len().cmp(&asked.len()) {
                std::cmp::Ordering::Less => Kind::Lost,
                std::cmp::Ordering::Equal => Kind::Wrong,
                std::cmp::Ordering::Greater => Kind::Doubled,
            };
            found.push(Violation::new(kind, format!("`{session}` was asked for {asked:?} and did {kept:?}")));
        }
        for (prompt, nth) in regret.prompts.iter().zip(1..) {
            let Some(seq) = self.inputs.get(prompt.as_str()) else { continue };
            let aside = done.last().is_some_and(|newest| newest.sets_aside(*seq));
            if aside != (nth > regret.standing) {
                let what = format!("prompt {nth} of `{session}` is set aside: {aside}; {} stand", regret.standing);
                found.push(Violation::new(Kind::Wrong, what));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use testkit::RepoDir;

    fn session() -> SessionId {
        SessionId::parse("ses_1").unwrap()
    }

    /// By which letter, what it takes back, and what is set aside.
    type Undo<'a> = (&'a str, Option<u64>, &'a [(u64, u64)]);

    /// A session with two prompts, of which the second was taken back, as its log tells it.
    fn kinds(undos: &[Undo<'_>]) -> Vec<Kind> {
        let mut regrets = Regrets::default();
        for (letter, seq) in [("p1", 1), ("p2", 5)] {
            let entry = json!({
                "type": "input", "letter": letter, "run": letter, "parts": [], "agent": "a", "model": "m",
            });
            regrets.apply(&session(), seq, &serde_json::from_value(entry).unwrap());
        }
        for ((letter, redoes, aside), seq) in undos.iter().zip(9..) {
            let entry = json!({
                "type": "undo", "letter": letter, "to": 4, "redoes": redoes, "files": true, "conversation": true,
                "aside": aside,
            });
            regrets.apply(&session(), seq, &serde_json::from_value(entry).unwrap());
        }
        let promised = Regret {
            session: session(),
            folder: "a".into(),
            files: vec![None; FILES as usize],
            prompts: ["p1", "p2"].map(|run| RunId::parse(run).unwrap()).into(),
            standing: 1,
            asked: vec![(LetterId::parse("undo_1").unwrap(), false)],
        };
        regrets.check_log(&promised).iter().map(|violation| violation.kind).collect()
    }

    #[test]
    fn an_undo_is_done_once_and_sets_aside_what_it_should() {
        let second: &[(u64, u64)] = &[(5, 8)];
        assert_eq!(kinds(&[("undo_1", None, second)]), []);
        assert_eq!(kinds(&[]), [Kind::Lost, Kind::Wrong]);
        assert_eq!(kinds(&[("undo_1", None, second), ("undo_1", None, second)]), [Kind::Doubled]);
        assert_eq!(kinds(&[("undo_2", None, second)]), [Kind::Wrong]);
        assert_eq!(kinds(&[("undo_1", Some(3), second)]), [Kind::Wrong]);
        assert_eq!(kinds(&[("undo_1", None, &[])]), [Kind::Wrong]);
        assert_eq!(kinds(&[("undo_1", None, &[(1, 8)])]), [Kind::Wrong]);
    }

    #[test]
    fn a_file_is_there_whole_or_not_at_all() {
        let repo = RepoDir::new();
        furnish(repo.path()).unwrap();
        assert_eq!(look(repo.path(), "a").unwrap(), vec![None; FILES as usize]);
        let text = format!("{}\n", line("a", 1, 2)).repeat(LINES);
        repo.write("drafts/a/1.txt", &text);
        assert_eq!(look(repo.path(), "a").unwrap()[..3], [None, Some(text.clone()), None]);
        whole(repo.path()).unwrap();
        repo.write("drafts/a/1.txt", &text[..text.len() / 2]);
        assert!(whole(repo.path()).is_err());
    }

    #[test]
    fn files_that_are_not_as_they_were_promised_are_noticed() {
        let repo = RepoDir::new();
        furnish(repo.path()).unwrap();
        let regret = Regret {
            session: session(),
            folder: "a".into(),
            files: vec![None; FILES as usize],
            prompts: Vec::new(),
            standing: 0,
            asked: Vec::new(),
        };
        let promised = HashMap::from([("a".to_owned(), regret)]);
        assert_eq!(Regrets::default().check(&promised, repo.path()), []);
        repo.write("drafts/a/0.txt", &format!("{}\n", line("a", 0, 0)).repeat(LINES));
        assert_eq!(Regrets::default().check(&promised, repo.path())[0].kind, Kind::Lost);
    }
}
