//! Boards and held mail: what was acknowledged of them, and what must be true of it once everything has come to rest.
//!
//! Pure: rows and promises in, violations out. That claims end with their holders is the store's own check.

use super::ledger::{Kind, Violation};
use proto::{BoardTask, LetterId, SessionId};
use std::collections::{HashMap, HashSet};
use store::{Held, HeldState};

/// A change of a board that somebody was told was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    /// A session of the tree, or its root.
    pub(super) session: SessionId,
    pub(super) number: u64,
    pub(super) version: u64,
}

/// The board of one tree: what there is, what was told, and the titles that somebody asked for.
#[derive(Debug, Default)]
pub(super) struct Board {
    pub(super) tasks: Vec<BoardTask>,
    pub(super) told: Vec<Change>,
    pub(super) titles: HashSet<String>,
}

impl Board {
    pub(super) fn check(&self, root: &SessionId) -> Vec<Violation> {
        let mut found = Vec::new();
        let versions: HashMap<u64, u64> = self.tasks.iter().map(|task| (task.number, task.version)).collect();
        let mut seen = HashSet::new();
        for Change { session, number, version } in &self.told {
            let what = format!("version {version} of task {number} of `{root}`, told to `{session}`");
            match versions.get(number) {
                Some(now) if now >= version => {}
                _ => found.push(Violation::new(Kind::Lost, what.clone())),
            }
            // Each change makes a version of its own.
            if !seen.insert((number, version)) {
                found.push(Violation::new(Kind::Doubled, what));
            }
        }
        let mut titles = HashSet::new();
        for task in &self.tasks {
            let what = format!("task {} of `{root}`: `{}`", task.number, task.title);
            if !titles.insert(&task.title) {
                found.push(Violation::new(Kind::Doubled, what));
            } else if !self.titles.contains(&task.title) {
                found.push(Violation::new(Kind::Wrong, format!("{what} was asked for by nobody")));
            }
        }
        found
    }
}

/// `kept` is what a sender was told was held, `decided` what a person was told was done; `taken` says whether a letter is in its receiver's log.
pub(super) fn check_held(
    rows: &[Held],
    kept: &[LetterId],
    decided: &HashMap<LetterId, bool>,
    taken: impl Fn(&LetterId) -> bool,
) -> Vec<Violation> {
    let mut found = Vec::new();
    for held in rows {
        let in_log = taken(&held.id);
        let what = || format!("held message `{}` to `{}` is {:?}", held.id, held.to, held.state);
        match decided.get(&held.id) {
            Some(true) if held.state != HeldState::Accepted || !in_log => {
                found.push(Violation::new(Kind::Lost, format!("{}, was accepted; in the log: {in_log}", what())));
            }
            Some(false) if held.state != HeldState::Refused => {
                found.push(Violation::new(Kind::Lost, format!("{}, but was refused", what())));
            }
            _ if in_log && held.state != HeldState::Accepted => {
                found.push(Violation::new(Kind::Wrong, format!("{} and in the log", what())));
            }
            _ => {}
        }
    }
    let there: HashSet<&LetterId> = rows.iter().map(|held| &held.id).collect();
    for id in kept.iter().chain(decided.keys()).filter(|id| !there.contains(id)) {
        found.push(Violation::new(Kind::Lost, format!("held message `{id}`")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::TaskState;

    fn task(number: u64, title: &str, version: u64) -> BoardTask {
        BoardTask {
            number,
            title: title.into(),
            description: String::new(),
            state: TaskState::Pending,
            owner: None,
            owner_name: None,
            version,
            blocked_by: Vec::new(),
            waiting_for: Vec::new(),
            note: None,
            created_at: 0,
            updated_at: 0,
        }
    }

    #[track_caller]
    fn check(tasks: &[(u64, &str, u64)], told: &[(u64, u64)], expected: &[Kind]) {
        let root = SessionId::parse("ses_1").unwrap();
        let board = Board {
            tasks: tasks.iter().map(|(number, title, version)| task(*number, title, *version)).collect(),
            told: told
                .iter()
                .map(|(number, version)| Change { session: root.clone(), number: *number, version: *version })
                .collect(),
            titles: ["a", "b"].map(str::to_owned).into(),
        };
        let found: Vec<Kind> = board.check(&root).iter().map(|violation| violation.kind).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_was_told_of_a_board_is_there_once() {
        check(&[(1, "a", 3), (2, "b", 1)], &[(1, 1), (1, 3), (2, 1)], &[]);
        check(&[(1, "a", 2)], &[(1, 3)], &[Kind::Lost]);
        check(&[], &[(1, 1)], &[Kind::Lost]);
        check(&[(1, "a", 2)], &[(1, 2), (1, 2)], &[Kind::Doubled]);
        check(&[(1, "a", 1), (2, "a", 1)], &[], &[Kind::Doubled]);
        check(&[(1, "c", 1)], &[], &[Kind::Wrong]);
    }

    #[test]
    fn what_was_decided_about_a_letter_holds() {
        let id = LetterId::parse("ltr_1").unwrap();
        let check = |state, decided: Option<bool>, in_log| {
            let held = Held {
                id: id.clone(),
                to: SessionId::parse("ses_1").unwrap(),
                root: SessionId::parse("ses_1").unwrap(),
                sender: "far".into(),
                posted: 0,
                expires: 9,
                state,
                decided: None,
                reason: None,
                letter: None,
            };
            let decided = decided.map(|accept| (id.clone(), accept)).into_iter().collect();
            check_held(&[held], std::slice::from_ref(&id), &decided, |_| in_log)
                .iter()
                .map(|violation| violation.kind)
                .collect::<Vec<_>>()
        };
        assert_eq!(check(HeldState::Held, None, false), []);
        assert_eq!(check(HeldState::Accepted, Some(true), true), []);
        assert_eq!(check(HeldState::Refused, Some(false), false), []);
        assert_eq!(check(HeldState::Accepted, None, true), []);
        assert_eq!(check(HeldState::Accepted, Some(true), false), [Kind::Lost]);
        assert_eq!(check(HeldState::Held, Some(true), false), [Kind::Lost]);
        assert_eq!(check(HeldState::Held, Some(false), false), [Kind::Lost]);
        assert_eq!(check(HeldState::Held, None, true), [Kind::Wrong]);
        assert_eq!(check_held(&[], &[], &HashMap::from([(id.clone(), true)]), |_| true).len(), 1);
        assert_eq!(check_held(&[], std::slice::from_ref(&id), &HashMap::new(), |_| true).len(), 1);
    }
}
