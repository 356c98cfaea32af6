//! Boards in tables: one tree's shelf for the rules of [`crate::board`], claims that end with their owners, and pages.

use super::apply::Desk;
use super::fault::{Fault, Result};
use super::read::{Clauses, all, most, number};
use super::value::{from_json, from_word, int, json, status, text, text_or_null, word};
use crate::board::{self, Shelf};
use crate::{BoardChange, BoardQuery};
use proto::{BoardTask, Holder, SessionId, TaskState};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};

/// What [`task`] reads, in its order.
const TASK: &str = "number, title, description, state, owner, version, blocked_by, note, created, updated";

impl Desk<'_> {
    /// A call that was made before is answered from what was kept of it.
    pub(super) fn change_board(&self, change: &BoardChange) -> Result<BoardTask> {
        let key = change.once_key();
        if let Some(key) = &key
            && let Some(answer) = self.one::<String>("SELECT answer FROM calls WHERE key = ?1", [key])?
        {
            return from_json(&answer);
        }
        let tree = self.number(&change.root)?;
        let task = board::change(&mut Tasks { desk: self, tree }, self.at, &change.what)?;
        if let Some(key) = &key {
            self.run("INSERT INTO calls (key, answer, at) VALUES (?1, ?2, ?3)", params![key, json(&task)?, self.at])?;
        }
        Ok(task)
    }

    /// A claim lasts as long as its holder: what a session that ends has in hand is free again.
    pub(super) fn return_tasks(&self, session: &SessionId, tree: i64) -> Result<Vec<BoardTask>> {
        let sql = format!(
            "UPDATE board SET state = 'pending', owner = NULL, version = version + 1, updated = ?2
             WHERE owner = ?1 AND state = 'in_progress' RETURNING {TASK}"
        );
        let mut tasks = all(self.connection, &sql, params![session.as_str(), self.at], task)?;
        for task in &mut tasks {
            task.waiting_for = open_blockers(self.connection, tree, task)?;
        }
        // The order of an update is nobody's.
        tasks.sort_by_key(|task| task.number);
        Ok(tasks)
    }
}

/// The board of one tree.
struct Tasks<'d, 'c> {
    desk: &'d Desk<'c>,
    tree: i64,
}

impl Shelf for Tasks<'_, '_> {
    type Fault = Fault;

    fn get(&self, number: u64) -> Result<Option<BoardTask>> {
        get(self.desk.connection, self.tree, number)
    }

    fn last(&self) -> Result<u64> {
        let last: Option<Option<i64>> = self.desk.one("SELECT max(number) FROM board WHERE tree = ?1", [self.tree])?;
        Ok(last.flatten().unwrap_or(0).max(0) as u64)
    }

    fn pending(&self) -> Result<Vec<u64>> {
        let sql = "SELECT number FROM board WHERE tree = ?1 AND state = 'pending' ORDER BY number";
        all(self.desk.connection, sql, [self.tree], |row| Ok(row.get::<_, i64>(0)?.max(0) as u64))
    }

    fn put(&mut self, task: &BoardTask) -> Result<()> {
        self.desk.run(
            "INSERT INTO board (tree, number, title, description, state, owner, version, blocked_by, note, created, updated)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
             ON CONFLICT (tree, number) DO UPDATE SET title = excluded.title, description = excluded.description,
                 state = excluded.state, owner = excluded.owner, version = excluded.version,
                 blocked_by = excluded.blocked_by, note = excluded.note, updated = excluded.updated",
            params![
                self.tree,
                int(task.number),
                task.title,
                task.description,
                word(&task.state)?,
                task.owner.as_ref().map(Holder::as_str),
                int(task.version),
                json(&task.blocked_by)?,
                task.note,
                task.created_at,
                task.updated_at,
            ],
        )?;
        Ok(())
    }

    fn lives(&self, session: &SessionId) -> Result<bool> {
        let sql = "SELECT status FROM sessions WHERE id = ?1 AND tree = ?2 AND archived = 0";
        let found: Option<String> = self.desk.one(sql, params![session.as_str(), self.tree])?;
        Ok(found.map(|found| status(&found)).transpose()?.is_some_and(|status| !status.is_ended()))
    }
}

fn get(connection: &Connection, tree: i64, number: u64) -> Result<Option<BoardTask>> {
    let sql = format!("SELECT {TASK} FROM board WHERE tree = ?1 AND number = ?2");
    Ok(all(connection, &sql, params![tree, int(number)], task)?.pop())
}

fn task(row: &Row<'_>) -> Result<BoardTask> {
    let owner = text_or_null(row, 4)?.map(Holder::parse).transpose();
    Ok(BoardTask {
        number: row.get::<_, i64>(0)?.max(0) as u64,
        title: row.get(1)?,
        description: row.get(2)?,
        state: from_word(text(row, 3)?)?,
        owner: owner.map_err(|error| Fault::Unreadable(error.to_string()))?,
        owner_name: None,
        version: row.get::<_, i64>(5)?.max(0) as u64,
        blocked_by: from_json(text(row, 6)?)?,
        waiting_for: Vec::new(),
        note: row.get(7)?,
        created_at: row.get(8)?,
        updated_at: row.get(9)?,
    })
}

pub(super) fn board(connection: &Connection, root: &SessionId, query: &BoardQuery) -> Result<Vec<BoardTask>> {
    let Some(tree) = number(connection, root)? else { return Ok(Vec::new()) };
    let mut clauses = Clauses::default();
    if let Some(number) = query.number {
        clauses.and("number = ?", [Value::Integer(int(number))]);
    }
    if !query.states.is_empty() {
        let marks = vec!["?"; query.states.len()].join(", ");
        let words = query.states.iter().map(|state| Value::Text(state.as_str().into()));
        clauses.and(&format!("+state IN ({marks})"), words);
    }
    if let Some(owner) = &query.owner {
        clauses.and_text("+owner = ?", owner.as_str());
    }
    let sql = format!("SELECT {TASK} FROM board WHERE tree = ? AND number > ?{} ORDER BY number LIMIT ?", clauses.sql);
    let mut values = vec![Value::Integer(tree), Value::Integer(int(query.after))];
    values.extend(clauses.values);
    values.push(Value::Integer(most(query.limit)));
    let mut tasks = all(connection, &sql, params_from_iter(values), task)?;
    for task in &mut tasks {
        task.waiting_for = open_blockers(connection, tree, task)?;
    }
    Ok(tasks)
}

fn open_blockers(connection: &Connection, tree: i64, task: &BoardTask) -> Result<Vec<u64>> {
    let sql = "SELECT state FROM board WHERE tree = ?1 AND number = ?2";
    let mut open = Vec::new();
    for number in &task.blocked_by {
        let state = all(connection, sql, params![tree, int(*number)], |row| from_word::<TaskState>(text(row, 0)?))?;
        if state.iter().any(|state| !state.lets_others_go_on()) {
            open.push(*number);
        }
    }
    Ok(open)
}
