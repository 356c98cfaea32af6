//! The board of a tree, for one who looks at it or changes it: a session of that tree, or a person.
//!
//! The store keeps the rules that hold for everybody: versions, claims, blockers. Here is whose task somebody may change,
//! and that watchers hear of it.

use crate::now;
use crate::runtime::Inner;
use proto::methods::{BoardAddInput, BoardClaimInput, BoardListInput, BoardPage, BoardUpdateInput};
use proto::{BoardTask, Code, Error, Event, Holder, SessionId};
use std::sync::Arc;
use store::{BoardChange, BoardQuery, BoardWork, NewTask, Refused, Session, TaskUpdate};

/// Tasks of a page, when nobody says how many.
const PAGE: u32 = 100;
const MAX_PAGE: u32 = 200;
/// How often an update without a version is tried on what others left in the meantime.
const ATTEMPTS: u32 = 16;

pub struct Board<'a> {
    pub(crate) rt: &'a Arc<Inner>,
    /// The root of the tree.
    pub(crate) root: SessionId,
    /// Nobody is a person.
    pub(crate) by: Option<&'a Session>,
}

impl Board<'_> {
    pub async fn list(&self, input: &BoardListInput) -> Result<BoardPage, Error> {
        let limit = input.limit.unwrap_or(PAGE).clamp(1, MAX_PAGE) as usize;
        let owner = input.owner.as_deref().map(|owner| self.holder(owner)).transpose()?;
        let after = input.cursor.as_deref().map_or(Ok(0), after)?;
        let (states, number) = (input.states.clone(), input.number);
        let query = BoardQuery { number, states, owner, after, limit: limit + 1 };
        let mut tasks = self.rt.store.board(&self.root, &query).await?;
        let more = tasks.len() > limit;
        tasks.truncate(limit);
        let next_cursor = tasks.last().filter(|_| more).map(|last| last.number.to_string());
        for task in &mut tasks {
            self.name_owner(task).await?;
        }
        Ok(BoardPage { root: self.root.clone(), count: tasks.len(), tasks, next_cursor })
    }

    pub async fn add(&self, input: BoardAddInput) -> Result<BoardTask, Error> {
        let BoardAddInput { title, description, blocked_by, idempotency_key: once, .. } = input;
        self.change(once, BoardWork::Add(NewTask { title, description, blocked_by })).await
    }

    pub async fn claim(&self, input: BoardClaimInput) -> Result<BoardTask, Error> {
        let work = BoardWork::Claim { number: input.number, by: self.own() };
        self.change(input.idempotency_key, work).await
    }

    /// Whose task it is was looked up for a version, and the store takes the change only if that is still the one.
    pub async fn update(&self, input: BoardUpdateInput) -> Result<BoardTask, Error> {
        for _ in 0..ATTEMPTS {
            let task = self.task(input.number).await?;
            self.check_owner(&task).await?;
            let update = TaskUpdate {
                number: input.number,
                version: input.version.unwrap_or(task.version),
                by: self.own(),
                title: input.title.clone(),
                description: input.description.clone(),
                state: input.state,
                blocked_by: blockers(&input, &task),
                note: input.note.clone(),
            };
            match self.try_change(input.idempotency_key.clone(), BoardWork::Update(update)).await {
                Err(store::Error::Board(refused))
                    if input.version.is_none() && matches!(*refused, Refused::Stale { .. }) => {}
                outcome => return self.told(outcome).await,
            }
        }
        let why = format!("task {} is being changed by many at once", input.number);
        Err(Error { retryable: true, ..Error::new(Code::Conflict, why) }.hint("try again"))
    }

    async fn task(&self, number: u64) -> Result<BoardTask, Error> {
        let query = BoardQuery { number: Some(number), limit: 1, ..BoardQuery::default() };
        let found = self.rt.store.board(&self.root, &query).await?.pop();
        found.ok_or_else(|| store::Error::from(Refused::NoTask(number)).into())
    }

    /// Somebody's task is changed by them, by whoever stands above them, or by a person.
    async fn check_owner(&self, task: &BoardTask) -> Result<(), Error> {
        let (Some(by), Some(owner)) = (self.by, &task.owner) else { return Ok(()) };
        let may = match owner {
            Holder::Person => false,
            Holder::Session(owner) if *owner == by.id => true,
            Holder::Session(owner) => {
                self.rt.store.session(owner).await?.is_some_and(|owner| owner.path.starts_with(&by.path))
            }
        };
        if may {
            return Ok(());
        }
        let (number, details) = (task.number, Some(serde_json::json!({ "task": task })));
        let why = format!("task {number} is `{owner}`'s: only its owner, a session above it or a person may change it");
        Err(Error { details, ..Error::new(Code::Denied, why) }.hint("write to its owner, or leave it"))
    }

    async fn change(&self, once: Option<String>, what: BoardWork) -> Result<BoardTask, Error> {
        let outcome = self.try_change(once, what).await;
        self.told(outcome).await
    }

    async fn try_change(&self, once: Option<String>, what: BoardWork) -> Result<BoardTask, store::Error> {
        let change = BoardChange { at: now(), root: self.root.clone(), once, what };
        self.rt.store.change_board(change).await
    }

    /// Kept, and now seen.
    async fn told(&self, outcome: Result<BoardTask, store::Error>) -> Result<BoardTask, Error> {
        let mut task = outcome?;
        self.name_owner(&mut task).await?;
        self.rt.tell_board(&self.root, &task);
        Ok(task)
    }

    async fn name_owner(&self, task: &mut BoardTask) -> Result<(), Error> {
        if let Some(Holder::Session(id)) = &task.owner {
            task.owner_name = self.rt.store.session(id).await?.and_then(|row| row.name);
        }
        Ok(())
    }

    fn own(&self) -> Holder {
        self.by.map_or(Holder::Person, |session| Holder::Session(session.id.clone()))
    }

    /// Whom a caller means by an owner.
    fn holder(&self, text: &str) -> Result<Holder, Error> {
        match text.trim() {
            "me" | "current" => Ok(self.own()),
            other => Holder::parse(other).map_err(|error| Error::invalid(format!("`owner`: {error}"))),
        }
    }
}

fn blockers(input: &BoardUpdateInput, task: &BoardTask) -> Option<Vec<u64>> {
    if input.add_blocked_by.is_empty() {
        return input.blocked_by.clone();
    }
    let before = input.blocked_by.as_ref().unwrap_or(&task.blocked_by);
    Some(before.iter().chain(&input.add_blocked_by).copied().collect())
}

fn after(cursor: &str) -> Result<u64, Error> {
    cursor
        .parse()
        .map_err(|_| Error::invalid("the cursor is not one of ours").hint("use `nextCursor` of the page before"))
}

impl Inner {
    /// Watchers of a tree hear that a task changed, not all that it says.
    pub(crate) fn tell_board(&self, root: &SessionId, task: &BoardTask) {
        let task = Box::new(BoardTask { description: String::new(), ..task.clone() });
        self.hub.publish(root, &Event::Board { session_id: root.clone(), task });
    }
}
