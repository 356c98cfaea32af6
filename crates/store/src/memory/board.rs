//! Boards in memory: one tree's shelf for the rules of [`crate::board`], claims that end with their owners, and pages.

use super::state::{State, is_live};
use crate::board::{self, Shelf};
use crate::{BoardChange, BoardQuery, Error};
use proto::{BoardTask, Holder, Millis, SessionId, TaskState};

impl State {
    pub(super) fn change_board(&mut self, change: &BoardChange) -> Result<BoardTask, Error> {
        let key = change.once_key();
        if let Some(answer) = key.as_ref().and_then(|key| self.calls.get(key)) {
            return serde_json::from_str(answer)
                .map_err(|error| Error::Internal(format!("a kept answer does not read back: {error}")));
        }
        self.known(&change.root)?;
        let task = board::change(&mut Tasks { state: self, root: &change.root }, change.at, &change.what)?;
        if let Some(key) = key {
            let answer = serde_json::to_string(&task)
                .map_err(|error| Error::Internal(format!("cannot write as JSON: {error}")))?;
            self.calls.put(key, answer);
        }
        Ok(task)
    }

    pub(super) fn return_tasks(&mut self, session: &SessionId, at: Millis) -> Vec<BoardTask> {
        let holder = Some(Holder::Session(session.clone()));
        let theirs = self.board.rows().iter();
        let theirs = theirs.filter(|(_, task)| task.owner == holder && task.state == TaskState::InProgress);
        let keys: Vec<_> = theirs.map(|(key, _)| key.clone()).collect();
        for key in &keys {
            self.board.change(key, |task| {
                (task.state, task.owner, task.updated_at) = (TaskState::Pending, None, at);
                task.version += 1;
            });
        }
        let returned = keys.iter().filter_map(|key| Some((&key.0, self.board.get(key)?)));
        returned.map(|(root, task)| BoardTask { waiting_for: self.open_blockers(root, task), ..task.clone() }).collect()
    }

    pub(super) fn tasks(&self, root: &SessionId, query: &BoardQuery) -> Vec<BoardTask> {
        let fits = |task: &&BoardTask| {
            query.number.is_none_or(|number| task.number == number)
                && (query.states.is_empty() || query.states.contains(&task.state))
                && query.owner.as_ref().is_none_or(|owner| task.owner.as_ref() == Some(owner))
        };
        let range = (root.clone(), query.after.saturating_add(1))..=(root.clone(), u64::MAX);
        let tasks = self.board.rows().range(range).map(|(_, task)| task).filter(fits);
        tasks
            .take(query.limit)
            .map(|task| BoardTask { waiting_for: self.open_blockers(root, task), ..task.clone() })
            .collect()
    }

    fn open_blockers(&self, root: &SessionId, task: &BoardTask) -> Vec<u64> {
        let is_open = |number: &&u64| {
            self.board.get(&(root.clone(), **number)).is_some_and(|blocker| !blocker.state.lets_others_go_on())
        };
        task.blocked_by.iter().filter(is_open).copied().collect()
    }
}

/// The board of one tree.
struct Tasks<'s> {
    state: &'s mut State,
    root: &'s SessionId,
}

impl Shelf for Tasks<'_> {
    type Fault = Error;

    fn get(&self, number: u64) -> Result<Option<BoardTask>, Error> {
        Ok(self.state.board.get(&(self.root.clone(), number)).cloned())
    }

    fn last(&self) -> Result<u64, Error> {
        let range = (self.root.clone(), 0)..=(self.root.clone(), u64::MAX);
        Ok(self.state.board.rows().range(range).next_back().map_or(0, |((_, number), _)| *number))
    }

    fn pending(&self) -> Result<Vec<u64>, Error> {
        let range = (self.root.clone(), 0)..=(self.root.clone(), u64::MAX);
        let tasks = self.state.board.rows().range(range);
        Ok(tasks.filter(|(_, task)| task.state == TaskState::Pending).map(|((_, number), _)| *number).collect())
    }

    fn put(&mut self, task: &BoardTask) -> Result<(), Error> {
        let task = BoardTask { waiting_for: Vec::new(), ..task.clone() };
        self.state.board.put((self.root.clone(), task.number), task);
        Ok(())
    }

    fn lives(&self, session: &SessionId) -> Result<bool, Error> {
        Ok(self.state.known(session).is_ok_and(|row| row.root == *self.root && is_live(row)))
    }
}
