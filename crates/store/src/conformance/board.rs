//! Rules of the board: numbers, versions, claims that last as long as their holders, and limits.

use super::Bed;
use super::bed::notice;
use crate::{
    Batch, BoardChange, BoardQuery, BoardWork, Error, Fence, MAX_BLOCKERS, MAX_DESCRIPTION, MAX_NOTE, MAX_TASKS,
    MAX_TITLE, NewTask, Refused, RowChange, Session, TaskUpdate,
};
use proto::{BoardTask, Code, Holder, SessionId, Status, TaskState};

/// A tree with a board.
struct Board {
    bed: Bed,
    root: Session,
}

impl Board {
    async fn new(bed: Bed) -> Self {
        let root = bed.root("top").await;
        Self { bed, root }
    }

    async fn change(&self, at: i64, what: BoardWork) -> Result<BoardTask, Error> {
        self.bed.store.change_board(BoardChange { at, root: self.root.id.clone(), once: None, what }).await
    }

    async fn add(&self, title: &str, blocked_by: &[u64]) -> BoardTask {
        self.try_add(NewTask { title: title.into(), blocked_by: blocked_by.into(), ..NewTask::default() })
            .await
            .unwrap()
    }

    async fn try_add(&self, task: NewTask) -> Result<BoardTask, Error> {
        self.change(10, BoardWork::Add(task)).await
    }

    async fn update(&self, update: TaskUpdate) -> Result<BoardTask, Error> {
        self.change(20, BoardWork::Update(update)).await
    }

    async fn set(&self, number: u64, state: TaskState) -> BoardTask {
        let version = self.task(number).await.version;
        self.update(TaskUpdate { state: Some(state), ..update(number, version) }).await.unwrap()
    }

    async fn claim(&self, number: u64, by: &Holder) -> Result<BoardTask, Error> {
        self.change(30, BoardWork::Claim { number: Some(number), by: by.clone() }).await
    }

    async fn task(&self, number: u64) -> BoardTask {
        let query = BoardQuery { number: Some(number), limit: 9, ..BoardQuery::default() };
        self.bed.store.board(&self.root.id, &query).await.unwrap().pop().unwrap()
    }

    async fn worker(&self, name: &str) -> (Session, Holder) {
        let session = self.bed.child(&self.root, name).await;
        self.bed.status(&session, Status::Running).await;
        let holder = Holder::Session(session.id.clone());
        (session, holder)
    }
}

fn update(number: u64, version: u64) -> TaskUpdate {
    TaskUpdate {
        number,
        version,
        by: Holder::Person,
        title: None,
        description: None,
        state: None,
        blocked_by: None,
        note: None,
    }
}

#[track_caller]
fn refused(outcome: Result<BoardTask, Error>) -> Refused {
    match outcome {
        Err(Error::Board(refused)) => *refused,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

pub async fn tasks_are_numbered_in_their_tree(bed: Bed) {
    let board = Board::new(bed).await;
    let new = NewTask { title: " draw ".into(), description: "a map".into(), blocked_by: vec![] };
    let first = board.try_add(new).await.unwrap();
    assert_eq!((first.number, first.title.as_str(), first.description.as_str()), (1, "draw", "a map"));
    assert_eq!((first.state, first.owner.clone(), first.version), (TaskState::Pending, None, 1));
    assert_eq!((first.created_at, first.updated_at, first.note.clone()), (10, 10, None));
    assert_eq!(board.add("paint", &[1]).await.number, 2);
    assert_eq!(board.task(1).await, first);
    let other = Board { root: board.bed.root("other").await, bed: board.bed };
    assert_eq!(other.add("elsewhere", &[]).await.number, 1);
    let nowhere = Board { root: super::bed::root("nowhere"), ..other };
    let outcome = nowhere.try_add(NewTask { title: "x".into(), ..NewTask::default() }).await;
    assert!(matches!(outcome, Err(Error::NoSession(id)) if id == nowhere.root.id));
}

pub async fn a_stale_version_is_told_what_there_is_now(bed: Bed) {
    let board = Board::new(bed).await;
    board.add("draw", &[]).await;
    let changed = TaskUpdate { title: Some("sketch".into()), note: Some(" soon ".into()), ..update(1, 1) };
    let changed = board.update(changed).await.unwrap();
    assert_eq!((changed.title.as_str(), changed.note.as_deref()), ("sketch", Some("soon")));
    assert_eq!((changed.version, changed.created_at, changed.updated_at), (2, 10, 20));
    let stale = board.update(TaskUpdate { title: Some("scrawl".into()), ..update(1, 1) }).await;
    let error = proto::Error::from(stale.clone().unwrap_err());
    assert_eq!((error.code, error.details.unwrap()["task"]["version"].as_u64()), (Code::Conflict, Some(2)));
    assert!(matches!(refused(stale), Refused::Stale { asked: 1, task } if *task == changed));
    assert_eq!(board.task(1).await, changed);
    let emptied = board.update(TaskUpdate { note: Some(String::new()), ..update(1, 2) }).await.unwrap();
    assert_eq!((emptied.note, emptied.version), (None, 3));
    assert!(matches!(refused(board.update(update(7, 1)).await), Refused::NoTask(7)));
}

pub async fn of_many_updates_of_one_version_one_counts(bed: Bed) {
    let board = Board::new(bed).await;
    board.add("draw", &[]).await;
    let racers = (0..8).map(|n| {
        let (store, root) = (board.bed.store.clone(), board.root.id.clone());
        let what = BoardWork::Update(TaskUpdate { title: Some(format!("by {n}")), ..update(1, 1) });
        tokio::spawn(async move { store.change_board(BoardChange { at: 20, root, once: None, what }).await.is_ok() })
    });
    let mut winners = 0;
    for racer in racers.collect::<Vec<_>>() {
        winners += u32::from(racer.await.unwrap());
    }
    assert_eq!((winners, board.task(1).await.version), (1, 2));
}

pub async fn a_claim_of_a_claimed_task_names_its_holder(bed: Bed) {
    let board = Board::new(bed).await;
    let ((_, one), (_, two)) = (board.worker("one").await, board.worker("two").await);
    board.add("draw", &[]).await;
    let claimed = board.claim(1, &one).await.unwrap();
    assert_eq!((claimed.state, claimed.owner.clone(), claimed.version), (TaskState::InProgress, Some(one.clone()), 2));
    let taken = board.claim(1, &two).await;
    assert!(taken.as_ref().unwrap_err().to_string().contains(one.as_str()));
    assert!(matches!(refused(taken), Refused::Claimed { holder, task } if holder == one && *task == claimed));
    assert!(matches!(refused(board.claim(1, &Holder::Person).await), Refused::Claimed { .. }));
    // Whoever holds it may ask again.
    assert_eq!(board.claim(1, &one).await.unwrap(), claimed);
    board.set(1, TaskState::Done).await;
    assert!(matches!(refused(board.claim(1, &two).await), Refused::Over { task } if task.owner == Some(one)));
    assert!(matches!(refused(board.claim(9, &two).await), Refused::NoTask(9)));
}

pub async fn of_many_claims_of_a_task_one_counts(bed: Bed) {
    let board = Board::new(bed).await;
    board.add("draw", &[]).await;
    let mut racers = Vec::new();
    for n in 0..6 {
        let (_, by) = board.worker(&format!("w{n}")).await;
        let (store, root) = (board.bed.store.clone(), board.root.id.clone());
        let what = BoardWork::Claim { number: Some(1), by };
        racers.push(tokio::spawn(async move {
            store.change_board(BoardChange { at: 30, root, once: None, what }).await.is_ok()
        }));
    }
    let mut winners = 0;
    for racer in racers {
        winners += u32::from(racer.await.unwrap());
    }
    assert_eq!((winners, board.task(1).await.version), (1, 2));
}

pub async fn a_claim_without_a_number_takes_the_first_that_is_free(bed: Bed) {
    let board = Board::new(bed).await;
    let next = async || board.change(30, BoardWork::Claim { number: None, by: Holder::Person }).await;
    assert!(matches!(refused(next().await), Refused::NothingFree));
    board.add("draw", &[]).await;
    board.add("paint", &[1]).await;
    board.add("frame", &[]).await;
    assert_eq!(next().await.unwrap().number, 1);
    assert_eq!(next().await.unwrap().number, 3);
    assert!(matches!(refused(next().await), Refused::NothingFree));
    board.set(1, TaskState::Done).await;
    assert_eq!(next().await.unwrap().number, 2);
}

pub async fn a_blocked_task_cannot_be_claimed(bed: Bed) {
    let board = Board::new(bed).await;
    for title in ["draw", "mix", "think"] {
        board.add(title, &[]).await;
    }
    let blocked = board.add("paint", &[3, 1, 2, 1]).await;
    assert_eq!((blocked.blocked_by.clone(), blocked.waiting_for.clone()), (vec![1, 2, 3], vec![1, 2, 3]));
    let outcome = board.claim(4, &Holder::Person).await;
    assert!(outcome.as_ref().unwrap_err().to_string().contains("task 1, task 2, task 3"));
    assert!(matches!(refused(outcome), Refused::Blocked { task } if *task == blocked));
    board.set(1, TaskState::Done).await;
    board.set(2, TaskState::Cancelled).await;
    // What failed is not there for those who need it.
    board.set(3, TaskState::Failed).await;
    assert_eq!(board.task(4).await.waiting_for, [3]);
    let by_state = TaskUpdate { state: Some(TaskState::InProgress), ..update(4, 1) };
    assert!(matches!(refused(board.update(by_state).await), Refused::Blocked { task } if task.waiting_for == [3]));
    board.set(3, TaskState::Done).await;
    assert_eq!(board.claim(4, &Holder::Person).await.unwrap().waiting_for, Vec::<u64>::new());
}

pub async fn tasks_do_not_wait_in_a_circle(bed: Bed) {
    let board = Board::new(bed).await;
    board.add("one", &[]).await;
    board.add("two", &[1]).await;
    board.add("three", &[2]).await;
    let block = async |number, blockers: &[u64]| {
        board.update(TaskUpdate { blocked_by: Some(blockers.into()), ..update(number, 1) }).await
    };
    assert!(matches!(refused(block(1, &[3]).await), Refused::Circle { number: 1, on: 3 }));
    assert!(matches!(refused(block(1, &[1]).await), Refused::Circle { number: 1, on: 1 }));
    assert!(matches!(refused(block(2, &[9]).await), Refused::NoTask(9)));
    let unknown = board.try_add(NewTask { title: "four".into(), blocked_by: vec![4], ..NewTask::default() }).await;
    assert!(matches!(refused(unknown), Refused::NoTask(4)));
    assert_eq!((board.task(1).await.version, board.task(2).await.blocked_by), (1, vec![1]));
    // Once the middle lets go, the ends may turn round.
    block(2, &[]).await.unwrap();
    assert_eq!(block(1, &[3]).await.unwrap().waiting_for, [3]);
}

pub async fn taking_a_task_up_is_claiming_it(bed: Bed) {
    let board = Board::new(bed).await;
    let ((_, one), (_, two)) = (board.worker("one").await, board.worker("two").await);
    board.add("draw", &[]).await;
    let take =
        |by: &Holder, version| TaskUpdate { by: by.clone(), state: Some(TaskState::InProgress), ..update(1, version) };
    assert_eq!(board.update(take(&one, 1)).await.unwrap().owner, Some(one.clone()));
    // It is in progress already: nobody takes it from its owner by saying so.
    assert_eq!(board.update(take(&two, 2)).await.unwrap().owner, Some(one));
}

pub async fn a_task_can_be_given_back_and_done_again(bed: Bed) {
    let board = Board::new(bed).await;
    let (_, one) = board.worker("one").await;
    board.add("draw", &[]).await;
    board.claim(1, &one).await.unwrap();
    assert_eq!(board.set(1, TaskState::Pending).await.owner, None);
    board.claim(1, &one).await.unwrap();
    assert_eq!(board.set(1, TaskState::Failed).await.owner, Some(one));
    assert_eq!(board.set(1, TaskState::Pending).await.owner, None);
    board.claim(1, &Holder::Person).await.unwrap();
    assert_eq!(board.set(1, TaskState::Done).await.owner, Some(Holder::Person));
}

pub async fn a_claim_ends_with_its_owner(bed: Bed) {
    let board = Board::new(bed).await;
    board.add("first", &[]).await;
    for status in Status::ALL {
        let (session, holder) = board.worker(status.as_str()).await;
        let number = board.add(status.as_str(), &[]).await.number;
        let finished = board.add("finished", &[]).await.number;
        board.claim(number, &holder).await.unwrap();
        board.claim(finished, &holder).await.unwrap();
        board.set(finished, TaskState::Done).await;
        let row = RowChange { status: Some(status), ..RowChange::default() };
        let committed = board.bed.commit(&session, Batch { at: 40, row, ..Batch::default() }).await.unwrap();
        let task = board.task(number).await;
        if status.is_ended() {
            assert_eq!((task.state, task.owner.clone(), task.version), (TaskState::Pending, None, 3), "{status:?}");
            assert_eq!((task.updated_at, committed.returned), (40, vec![task]));
        } else {
            assert_eq!((task.state, task.owner, task.version), (TaskState::InProgress, Some(holder.clone()), 2));
            assert!(committed.returned.is_empty(), "{status:?}");
        }
        assert_eq!(board.task(finished).await.owner, Some(holder));
    }
    let (session, holder) = board.worker("hidden").await;
    board.claim(1, &holder).await.unwrap();
    let batch = Batch { at: 50, archive: vec![session.id], ..Batch::default() };
    let returned = board.bed.commit(&board.root, batch).await.unwrap().returned;
    assert_eq!((returned.len(), returned[0].number), (1, 1));
    assert_eq!((board.task(1).await.state, board.task(1).await.owner), (TaskState::Pending, None));
}

pub async fn the_end_of_a_claim_is_part_of_the_commit(bed: Bed) {
    let board = Board::new(bed).await;
    let (session, holder) = board.worker("one").await;
    board.add("draw", &[]).await;
    board.claim(1, &holder).await.unwrap();
    let row = RowChange { status: Some(Status::Done), ..RowChange::default() };
    let batch = Batch { entries: vec![notice("over")], row, ..Batch::default() };
    let fenced = board.bed.store.commit(&session.id, Fence::Epoch(77), batch.clone()).await;
    assert!(matches!(fenced, Err(Error::Fenced(_))));
    assert_eq!(board.task(1).await.owner, Some(holder));
    board.bed.commit(&session, batch).await.unwrap();
    assert_eq!(board.task(1).await.owner, None);
}

pub async fn whoever_has_ended_claims_nothing(bed: Bed) {
    let board = Board::new(bed).await;
    let (session, holder) = board.worker("one").await;
    board.add("draw", &[]).await;
    board.bed.status(&session, Status::Killed).await;
    assert!(matches!(refused(board.claim(1, &holder).await), Refused::Ended(id) if id == session.id));
    // Nor does somebody of another tree, or nobody at all.
    let strange = board.bed.root("strange").await;
    assert!(matches!(refused(board.claim(1, &Holder::Session(strange.id)).await), Refused::Ended(_)));
    assert!(matches!(refused(board.claim(1, &Holder::Session(SessionId::new())).await), Refused::Ended(_)));
    assert_eq!(board.task(1).await.version, 1);
}

pub async fn the_same_call_changes_a_board_once(bed: Bed) {
    let board = Board::new(bed).await;
    let other = board.bed.root("other").await;
    let add = async |root: &Session, once: &str| {
        let what = BoardWork::Add(NewTask { title: "draw".into(), ..NewTask::default() });
        let change = BoardChange { at: 10, root: root.id.clone(), once: Some(once.into()), what };
        board.bed.store.change_board(change).await.unwrap()
    };
    let first = add(&board.root, "call_1").await;
    board.claim(1, &Holder::Person).await.unwrap();
    assert_eq!(add(&board.root, "call_1").await, first);
    assert_eq!(add(&board.root, "call_2").await.number, 2);
    // Another tree's calls are its own.
    assert_eq!(add(&other, "call_1").await.number, 1);
    assert_eq!(board.task(1).await.version, 2);
    // What was refused may be tried again with the same id.
    let claim = |number| BoardChange {
        at: 30,
        root: board.root.id.clone(),
        once: Some("call_3".into()),
        what: BoardWork::Claim { number: Some(number), by: Holder::Person },
    };
    assert!(matches!(refused(board.bed.store.change_board(claim(9)).await), Refused::NoTask(9)));
    assert_eq!(board.bed.store.change_board(claim(2)).await.unwrap().number, 2);
}

pub async fn a_board_has_limits(bed: Bed) {
    let board = Board::new(bed).await;
    let title = |title: String| NewTask { title, ..NewTask::default() };
    let text = |description: String| NewTask { title: "x".into(), description, ..NewTask::default() };
    for bad in [title(" ".into()), title("ü".repeat(MAX_TITLE + 1)), text("x".repeat(MAX_DESCRIPTION + 1))] {
        let outcome = board.try_add(bad).await;
        assert_eq!(proto::Error::from(outcome.clone().unwrap_err()).code, Code::InvalidInput);
        assert!(matches!(refused(outcome), Refused::Size { .. }));
    }
    board.try_add(title("ü".repeat(MAX_TITLE))).await.unwrap();
    board.try_add(text("x".repeat(MAX_DESCRIPTION))).await.unwrap();
    let many = (1..=MAX_BLOCKERS as u64 + 1).collect();
    for bad in [
        TaskUpdate { title: Some(String::new()), ..update(1, 1) },
        TaskUpdate { note: Some("x".repeat(MAX_NOTE + 1)), ..update(1, 1) },
        TaskUpdate { blocked_by: Some(many), ..update(1, 1) },
    ] {
        assert!(matches!(refused(board.update(bad).await), Refused::Size { .. }));
    }
    // All at a time, so that they share their transactions.
    let mut adding = tokio::task::JoinSet::new();
    for n in 3..=MAX_TASKS {
        let (store, root) = (board.bed.store.clone(), board.root.id.clone());
        let what = BoardWork::Add(NewTask { title: n.to_string(), ..NewTask::default() });
        adding.spawn(async move { store.change_board(BoardChange { at: 10, root, once: None, what }).await });
    }
    while let Some(added) = adding.join_next().await {
        added.unwrap().unwrap();
    }
    assert!(matches!(refused(board.try_add(title("one more".into())).await), Refused::Full));
    assert_eq!(board.task(MAX_TASKS).await.version, 1);
}

pub async fn a_board_is_read_in_pages(bed: Bed) {
    let board = Board::new(bed).await;
    for title in ["one", "two", "three", "four", "five"] {
        board.add(title, &[]).await;
    }
    board.claim(2, &Holder::Person).await.unwrap();
    board.set(4, TaskState::Done).await;
    let ask = async |query: BoardQuery| {
        let tasks = board.bed.store.board(&board.root.id, &query).await.unwrap();
        tasks.into_iter().map(|task| task.number).collect::<Vec<_>>()
    };
    let all = || BoardQuery { limit: 9, ..BoardQuery::default() };
    assert_eq!(ask(all()).await, [1, 2, 3, 4, 5]);
    assert_eq!(ask(BoardQuery { limit: 2, ..all() }).await, [1, 2]);
    assert_eq!(ask(BoardQuery { after: 2, limit: 2, ..all() }).await, [3, 4]);
    assert_eq!(ask(BoardQuery { states: vec![TaskState::Pending, TaskState::Done], ..all() }).await, [1, 3, 4, 5]);
    assert_eq!(ask(BoardQuery { owner: Some(Holder::Person), ..all() }).await, [2]);
    assert_eq!(ask(BoardQuery { number: Some(3), ..all() }).await, [3]);
    let nobody = super::bed::root("nobody").id;
    assert!(board.bed.store.board(&nobody, &all()).await.unwrap().is_empty());
}
