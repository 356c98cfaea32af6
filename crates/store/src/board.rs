//! The board's words and its rules. The rules are here once, over a [`Shelf`] that each backend is: what may be claimed,
//! what is stale, what would wait in a circle.

use crate::Error;
use proto::{BoardTask, Code, Holder, Millis, SessionId, TaskState};
use std::collections::BTreeSet;

/// Most tasks a tree may have, those that are over included.
pub const MAX_TASKS: u64 = 10_000;
/// The longest title, in characters.
pub const MAX_TITLE: usize = 500;
/// The longest description, in bytes.
pub const MAX_DESCRIPTION: usize = 32 << 10;
/// The longest note, in bytes.
pub const MAX_NOTE: usize = 4 << 10;
/// Most tasks that one may wait for; a task that needs more wants another task in between.
pub const MAX_BLOCKERS: usize = 100;

/// One change of a tree's board.
#[derive(Debug, Clone)]
pub struct BoardChange {
    pub at: Millis,
    /// The root of the tree.
    pub root: SessionId,
    /// The id of the call that makes it: the same one again changes nothing and is answered the same.
    pub once: Option<String>,
    pub what: BoardWork,
}

#[derive(Debug, Clone)]
pub enum BoardWork {
    Add(NewTask),
    Update(TaskUpdate),
    Claim {
        /// The first that is free, without one.
        number: Option<u64>,
        by: Holder,
    },
}

#[derive(Debug, Clone, Default)]
pub struct NewTask {
    pub title: String,
    pub description: String,
    pub blocked_by: Vec<u64>,
}

/// What is to change of a task; `None` leaves it.
#[derive(Debug, Clone)]
pub struct TaskUpdate {
    pub number: u64,
    /// The version the caller has seen.
    pub version: u64,
    /// Who holds it if this makes it `in_progress`.
    pub by: Holder,
    pub title: Option<String>,
    pub description: Option<String>,
    pub state: Option<TaskState>,
    pub blocked_by: Option<Vec<u64>>,
    /// An empty one takes the old one away.
    pub note: Option<String>,
}

/// Which tasks of a tree, by number.
#[derive(Debug, Clone, Default)]
pub struct BoardQuery {
    pub number: Option<u64>,
    /// Any without one.
    pub states: Vec<TaskState>,
    pub owner: Option<Holder>,
    /// Those with a larger number.
    pub after: u64,
    pub limit: usize,
}

/// Why a board stays as it is.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Refused {
    #[error("the board has no task {0}")]
    NoTask(u64),
    #[error("no task is free: each is claimed, blocked or over")]
    NothingFree,
    /// Carries the task as it is now.
    #[error("task {} has changed: it has version {} now, not {asked}", task.number, task.version)]
    Stale { asked: u64, task: Box<BoardTask> },
    #[error("task {} is claimed by `{holder}`", task.number)]
    Claimed { holder: Holder, task: Box<BoardTask> },
    #[error("task {} is blocked by {}", task.number, listed(&task.waiting_for))]
    Blocked { task: Box<BoardTask> },
    #[error("task {} is {}", task.number, task.state.as_str())]
    Over { task: Box<BoardTask> },
    #[error("task {number} cannot wait for task {on}, which waits for it")]
    Circle { number: u64, on: u64 },
    #[error("the board is full: a tree has at most {MAX_TASKS} tasks")]
    Full,
    #[error("the {what} of a task has {least} to {most}")]
    Size { what: &'static str, least: u32, most: String },
    /// Whoever ended cannot hold anything.
    #[error("session `{0}` has ended, so it can claim nothing")]
    Ended(SessionId),
}

fn listed(numbers: &[u64]) -> String {
    let words: Vec<String> = numbers.iter().map(|number| format!("task {number}")).collect();
    words.join(", ")
}

impl Refused {
    pub(crate) fn code(&self) -> Code {
        match self {
            Self::NoTask(_) | Self::NothingFree => Code::NotFound,
            Self::Circle { .. } => Code::Cycle,
            Self::Size { .. } => Code::InvalidInput,
            Self::Stale { .. }
            | Self::Claimed { .. }
            | Self::Blocked { .. }
            | Self::Over { .. }
            | Self::Full
            | Self::Ended(_) => Code::Conflict,
        }
    }

    pub(crate) fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::NoTask(_) => "list the board to see what there is",
            Self::NothingFree => "list the board to see who works on what",
            Self::Stale { .. } => "look at the task as it is now, then update it with that version",
            Self::Claimed { .. } => "choose another task, or write to its owner",
            Self::Blocked { .. } => "finish what blocks it first, or choose another task",
            Self::Over { .. } => "set its state to pending if it is to be done again",
            Self::Circle { .. } => "leave that one out",
            Self::Full => "start another session for what is left",
            Self::Size { .. } | Self::Ended(_) => return None,
        })
    }

    /// The task it is about, as it is now.
    pub fn task(&self) -> Option<&BoardTask> {
        match self {
            Self::Stale { task, .. } | Self::Claimed { task, .. } | Self::Blocked { task } | Self::Over { task } => {
                Some(task)
            }
            _ => None,
        }
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        Self::Board(Box::new(refused))
    }
}

impl BoardChange {
    /// Trimmed, and of a size that fits.
    pub(crate) fn checked(mut self) -> Result<Self, Error> {
        match &mut self.what {
            BoardWork::Add(task) => {
                check_title(&mut task.title)?;
                check_bytes("description", &task.description, MAX_DESCRIPTION)?;
                check_blockers(&mut task.blocked_by)?;
            }
            BoardWork::Update(update) => {
                update.title.as_mut().map_or(Ok(()), check_title)?;
                check_bytes("description", update.description.as_deref().unwrap_or_default(), MAX_DESCRIPTION)?;
                check_bytes("note", update.note.as_deref().unwrap_or_default(), MAX_NOTE)?;
                update.blocked_by.as_mut().map_or(Ok(()), check_blockers)?;
            }
            BoardWork::Claim { .. } => {}
        }
        Ok(self)
    }

    /// The key under which its answer is kept.
    pub(crate) fn once_key(&self) -> Option<String> {
        self.once.as_ref().map(|once| format!("board:{}:{once}", self.root))
    }

    /// Roughly what it weighs.
    pub(crate) fn bytes(&self) -> usize {
        match &self.what {
            BoardWork::Add(task) => task.title.len() + task.description.len(),
            BoardWork::Update(update) => {
                let texts = [&update.title, &update.description, &update.note];
                texts.into_iter().flatten().map(String::len).sum()
            }
            BoardWork::Claim { .. } => 0,
        }
    }
}

fn check_title(title: &mut String) -> Result<(), Error> {
    let trimmed = title.trim();
    if trimmed.is_empty() || trimmed.chars().count() > MAX_TITLE {
        return Err(Refused::Size { what: "title", least: 1, most: format!("{MAX_TITLE} characters") }.into());
    }
    *title = trimmed.to_owned();
    Ok(())
}

fn check_bytes(what: &'static str, text: &str, most: usize) -> Result<(), Error> {
    if text.len() > most {
        return Err(Refused::Size { what, least: 0, most: format!("{} KiB", most >> 10) }.into());
    }
    Ok(())
}

fn check_blockers(numbers: &mut Vec<u64>) -> Result<(), Error> {
    numbers.sort_unstable();
    numbers.dedup();
    if numbers.len() > MAX_BLOCKERS {
        let most = format!("{MAX_BLOCKERS} tasks that block it");
        return Err(Refused::Size { what: "list of blockers", least: 0, most }.into());
    }
    Ok(())
}

/// The tasks of one tree, inside a transaction.
pub(crate) trait Shelf {
    type Fault: From<Error>;

    /// `waiting_for` is left empty: it follows from the others.
    fn get(&self, number: u64) -> Result<Option<BoardTask>, Self::Fault>;
    /// The largest number there is.
    fn last(&self) -> Result<u64, Self::Fault>;
    /// Numbers of pending tasks, in order.
    fn pending(&self) -> Result<Vec<u64>, Self::Fault>;
    /// Makes it, or replaces the one of the same number.
    fn put(&mut self, task: &BoardTask) -> Result<(), Self::Fault>;
    /// Whether a session is of this tree and neither ended nor archived.
    fn lives(&self, session: &SessionId) -> Result<bool, Self::Fault>;
}

/// Makes a change, or says why not. Answers with the task as it is then.
pub(crate) fn change<S: Shelf>(shelf: &mut S, at: Millis, what: &BoardWork) -> Result<BoardTask, S::Fault> {
    let mut task = match what {
        BoardWork::Add(new) => add(shelf, at, new)?,
        BoardWork::Update(update) => updated(shelf, at, update)?,
        BoardWork::Claim { number, by } => match number {
            Some(number) => claimed(shelf, at, known(shelf, *number)?, by)?,
            None => claimed(shelf, at, first_free(shelf)?, by)?,
        },
    };
    task.waiting_for = waiting_for(shelf, &task)?;
    Ok(task)
}

/// The blockers of a task that are not over.
pub(crate) fn waiting_for<S: Shelf>(shelf: &S, task: &BoardTask) -> Result<Vec<u64>, S::Fault> {
    let mut open = Vec::new();
    for number in &task.blocked_by {
        if shelf.get(*number)?.is_some_and(|blocker| !blocker.state.lets_others_go_on()) {
            open.push(*number);
        }
    }
    Ok(open)
}

fn known<S: Shelf>(shelf: &S, number: u64) -> Result<BoardTask, S::Fault> {
    let mut task = shelf.get(number)?.ok_or_else(|| Error::from(Refused::NoTask(number)))?;
    task.waiting_for = waiting_for(shelf, &task)?;
    Ok(task)
}

fn add<S: Shelf>(shelf: &mut S, at: Millis, new: &NewTask) -> Result<BoardTask, S::Fault> {
    let number = shelf.last()? + 1;
    if number > MAX_TASKS {
        return Err(Error::from(Refused::Full).into());
    }
    for blocker in &new.blocked_by {
        known(shelf, *blocker)?;
    }
    let task = BoardTask {
        number,
        title: new.title.clone(),
        description: new.description.clone(),
        state: TaskState::Pending,
        owner: None,
        owner_name: None,
        version: 1,
        blocked_by: new.blocked_by.clone(),
        waiting_for: Vec::new(),
        note: None,
        created_at: at,
        updated_at: at,
    };
    shelf.put(&task)?;
    Ok(task)
}

fn updated<S: Shelf>(shelf: &mut S, at: Millis, update: &TaskUpdate) -> Result<BoardTask, S::Fault> {
    let mut task = known(shelf, update.number)?;
    if task.version != update.version {
        return Err(Error::from(Refused::Stale { asked: update.version, task: Box::new(task) }).into());
    }
    if let Some(blockers) = &update.blocked_by {
        check_circle(shelf, update.number, blockers)?;
        task.blocked_by.clone_from(blockers);
        task.waiting_for = waiting_for(shelf, &task)?;
    }
    if let Some(state) = update.state.filter(|state| *state != task.state) {
        match state {
            TaskState::InProgress => take(shelf, &mut task, &update.by)?,
            // Whoever takes it up next owns it.
            TaskState::Pending => task.owner = None,
            TaskState::Done | TaskState::Failed | TaskState::Cancelled => {}
        }
        task.state = state;
    }
    if let Some(title) = &update.title {
        task.title.clone_from(title);
    }
    if let Some(description) = &update.description {
        task.description.clone_from(description);
    }
    if let Some(note) = &update.note {
        task.note = Some(note.trim()).filter(|note| !note.is_empty()).map(Into::into);
    }
    store(shelf, at, task)
}

/// Whoever claims what they hold is answered with it.
fn claimed<S: Shelf>(shelf: &mut S, at: Millis, mut task: BoardTask, by: &Holder) -> Result<BoardTask, S::Fault> {
    let refused = match (task.state, task.owner.clone()) {
        (TaskState::Pending, _) => {
            take(shelf, &mut task, by)?;
            task.state = TaskState::InProgress;
            return store(shelf, at, task);
        }
        (TaskState::InProgress, Some(holder)) if holder == *by => return Ok(task),
        (TaskState::InProgress, Some(holder)) => Refused::Claimed { holder, task: Box::new(task) },
        _ => Refused::Over { task: Box::new(task) },
    };
    Err(Error::from(refused).into())
}

fn first_free<S: Shelf>(shelf: &S) -> Result<BoardTask, S::Fault> {
    for number in shelf.pending()? {
        let task = known(shelf, number)?;
        if task.waiting_for.is_empty() {
            return Ok(task);
        }
    }
    Err(Error::from(Refused::NothingFree).into())
}

fn take<S: Shelf>(shelf: &S, task: &mut BoardTask, by: &Holder) -> Result<(), S::Fault> {
    if !task.waiting_for.is_empty() {
        return Err(Error::from(Refused::Blocked { task: Box::new(task.clone()) }).into());
    }
    // A call that outlived its session must not hold what nobody would give back.
    if let Holder::Session(id) = by
        && !shelf.lives(id)?
    {
        return Err(Error::from(Refused::Ended(id.clone())).into());
    }
    task.owner = Some(by.clone());
    Ok(())
}

fn store<S: Shelf>(shelf: &mut S, at: Millis, mut task: BoardTask) -> Result<BoardTask, S::Fault> {
    task.version += 1;
    task.updated_at = at;
    shelf.put(&task)?;
    Ok(task)
}

/// Follows what each blocker waits for; the board is finite, and nothing is followed twice.
fn check_circle<S: Shelf>(shelf: &S, number: u64, blockers: &[u64]) -> Result<(), S::Fault> {
    for on in blockers {
        known(shelf, *on)?;
        let (mut seen, mut next) = (BTreeSet::from([*on]), vec![*on]);
        while let Some(at) = next.pop() {
            if at == number {
                return Err(Error::from(Refused::Circle { number, on: *on }).into());
            }
            let before = shelf.get(at)?.map(|task| task.blocked_by).unwrap_or_default();
            next.extend(before.into_iter().filter(|blocker| seen.insert(*blocker)));
        }
    }
    Ok(())
}
