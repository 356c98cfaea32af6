//! Whatever is done to them, the two backends answer alike and end up alike.

use convoke_store::{
    Ask, AskChange, Batch, BoardChange, BoardQuery, BoardWork, Error, Fence, Find, Fork, Halt, HeldQuery, Hold, Mail,
    Memory, Mode, NewTask, Post, Query, Release, RowChange, RunChange, RunEnd, Scope, SentQuery, Session, Span, Sqlite,
    Store, TaskUpdate, WaitChange,
};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use proto::entry::{Input, Notice};
use proto::event::SettledBy;
use proto::letter::{Abort, AskReply, Prompt, Reason, Sender};
use proto::{
    AskId, Body, CallId, Class, Entry, Holder, Letter, LetterId, Outcome, RunId, SessionId, Status, TaskState, Usage,
};
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

/// How many of each thing there are: few, so that they collide.
const SESSIONS: usize = 8;
const LETTERS: usize = 30;
const CALLS: usize = 4;

/// The first of the sessions are open from the start, or most steps would find nobody.
const OPEN: usize = 4;

#[derive(Debug, Clone)]
enum Step {
    Deliver {
        open: Vec<Opening>,
        post: Vec<Posting>,
    },
    Commit(Commit),
    /// Letters to keep back, and some to decide about.
    Hold {
        hold: Vec<Posting>,
        release: Vec<(usize, bool)>,
    },
    Board {
        root: usize,
        once: Option<u8>,
        work: Work,
    },
}

#[derive(Debug, Clone)]
enum Work {
    Add {
        blockers: Vec<u64>,
    },
    /// `off` is how far from the right version.
    Update {
        number: u64,
        off: u64,
        by: usize,
        state: Option<TaskState>,
        blockers: Option<Vec<u64>>,
    },
    Claim {
        number: Option<u64>,
        by: usize,
    },
}

#[derive(Debug, Clone)]
struct Opening {
    session: usize,
    key: usize,
    parent: Option<usize>,
    fork: Option<u64>,
    label: Option<u8>,
    plan: bool,
    archived: bool,
}

#[derive(Debug, Clone)]
struct Posting {
    letter: usize,
    to: usize,
    class: Class,
    prompt: bool,
    person: bool,
    queue: Option<u32>,
}

#[derive(Debug, Clone)]
struct Commit {
    session: usize,
    /// `None` claims; else how far from the right epoch.
    off: Option<u64>,
    notices: usize,
    /// So many of what is unread, and perhaps one that may not be.
    consume: usize,
    stray: Option<usize>,
    expect: Option<u32>,
    open: Vec<Opening>,
    post: Vec<Posting>,
    runs: Vec<(u8, usize, usize)>,
    asks: Vec<(u8, usize)>,
    waits: Vec<(bool, usize, usize)>,
    status: Option<Status>,
    base: Option<u64>,
    activity: Option<i64>,
    spent: bool,
    archive: Option<usize>,
}

fn rarely<T: Debug + Clone>(strategy: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    prop::option::weighted(0.06, strategy)
}

fn anyone() -> impl Strategy<Value = usize> {
    prop_oneof![9 => 0..OPEN, 2 => OPEN..SESSIONS]
}

fn opening() -> impl Strategy<Value = Opening> {
    let names = (OPEN..SESSIONS, rarely(0..SESSIONS), of(anyone()), of(0..4_u64));
    (names, of(0..2_u8), any::<bool>(), prop::bool::weighted(0.1)).prop_map(
        |((session, key, parent, fork), label, plan, archived)| Opening {
            session,
            key: key.unwrap_or(session),
            parent: parent.filter(|parent| *parent != session),
            fork,
            label,
            plan,
            archived,
        },
    )
}

fn posting() -> impl Strategy<Value = Posting> {
    let class = select(vec![Class::Control, Class::Steer, Class::Request]);
    (0..LETTERS, anyone(), class, any::<bool>(), any::<bool>(), of(2..5_u32))
        .prop_map(|(letter, to, class, prompt, person, queue)| Posting { letter, to, class, prompt, person, queue })
}

fn commit() -> impl Strategy<Value = Commit> {
    let log = (anyone(), of(prop_oneof![19 => Just(0), 1 => Just(1_u64)]), 0..3_usize);
    let taken = (0..3_usize, rarely(0..LETTERS), prop::option::weighted(0.2, 0..2_u32));
    let mail = (taken, prop_oneof![9 => vec(opening(), 0..1), 1 => vec(opening(), 1..3)], vec(posting(), 0..3));
    let runs = vec((0..3_u8, 0..LETTERS, 0..LETTERS), 0..2);
    let asks = vec((0..3_u8, 0..CALLS), 0..2);
    let waits = vec((any::<bool>(), 0..CALLS, anyone()), 0..2);
    let row = (
        of(select(Status::ALL.to_vec())),
        of(0..4_u64),
        of(0..5_i64),
        any::<bool>(),
        prop::option::weighted(0.03, 1..SESSIONS),
    );
    (log, mail, (runs, asks, waits), row).prop_map(
        |((session, off, notices), ((consume, stray, expect), open, post), (runs, asks, waits), row)| Commit {
            session,
            off,
            notices,
            consume,
            stray,
            expect,
            open,
            post,
            runs,
            asks,
            waits,
            status: row.0,
            base: row.1,
            activity: row.2,
            spent: row.3,
            archive: row.4,
        },
    )
}

fn work() -> impl Strategy<Value = Work> {
    let blockers = || vec(1..5_u64, 0..3);
    let state = of(select(TaskState::ALL.to_vec()));
    let off = prop_oneof![5 => Just(0_u64), 1 => Just(1)];
    let update = (1..5_u64, off, anyone(), state, rarely(blockers()))
        .prop_map(|(number, off, by, state, blockers)| Work::Update { number, off, by, state, blockers });
    prop_oneof![
        blockers().prop_map(|blockers| Work::Add { blockers }),
        update,
        (of(1..5_u64), anyone()).prop_map(|(number, by)| Work::Claim { number, by }),
    ]
}

fn board() -> impl Strategy<Value = Step> {
    // Mostly the first tree, or the boards stay empty.
    let root = prop_oneof![8 => Just(0_usize), 1 => anyone()];
    (root, rarely(0..3_u8), work()).prop_map(|(root, once, work)| Step::Board { root, once, work })
}

fn holding() -> impl Strategy<Value = Step> {
    (vec(posting(), 0..2), vec((0..LETTERS, any::<bool>()), 0..2))
        .prop_map(|(hold, release)| Step::Hold { hold, release })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (vec(opening(), 0..2), vec(posting(), 0..3)).prop_map(|(open, post)| Step::Deliver { open, post }),
        3 => commit().prop_map(Step::Commit),
        1 => holding(),
        2 => board(),
    ]
}

fn session_id(index: usize) -> SessionId {
    SessionId::parse(&format!("ses_{index}")).unwrap()
}

fn letter_id(index: usize) -> LetterId {
    LetterId::parse(&format!("ltr_{index}")).unwrap()
}

fn call_id(index: usize) -> CallId {
    CallId::parse(&format!("call_{index}")).unwrap()
}

fn ask_id(index: usize) -> AskId {
    AskId::parse(&format!("ask_{index}")).unwrap()
}

/// One backend with a clock, seen through the door only.
struct Side {
    store: Arc<dyn Store>,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Side {
    fn new<S: Store + 'static>(open: impl FnOnce(convoke_store::OnKept) -> S) -> Self {
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let ear = heard.clone();
        let store = open(Arc::new(move |kept| ear.lock().unwrap().extend(kept.iter().map(|k| format!("{k:?}")))));
        Self { store: Arc::new(store), heard }
    }

    async fn opened(&self, opening: &Opening) -> Session {
        let id = session_id(opening.session);
        let parent = match opening.parent {
            Some(parent) => self.store.session(&session_id(parent)).await.unwrap(),
            None => None,
        };
        let fork = parent.as_ref().and_then(|parent| opening.fork.map(|seq| Fork { of: parent.id.clone(), seq }));
        let (root, depth, above) = match &parent {
            Some(parent) => (parent.root.clone(), parent.depth + 1, parent.path.clone()),
            None => (id.clone(), 0, String::new()),
        };
        Session {
            key: format!("agent:build:{}", opening.key),
            owner: if opening.plan { "plan".into() } else { "build".into() },
            agent: "build".into(),
            model: None,
            // A parent that is not there must be refused alike.
            parent: opening.parent.map(session_id),
            root,
            depth,
            path: format!("{above}{id}/"),
            kind: "main".into(),
            driver: "loop".into(),
            mode: Mode::Session,
            title: None,
            label: opening.label.map(|label| format!("label{label}")),
            cwd: format!("/{}", opening.key % 2),
            policy: "[]".into(),
            fork,
            archived: opening.archived,
            cleanup: false,
            status: Status::Idle,
            run: None,
            created: 1,
            activity: 1,
            started: None,
            ended: None,
            seq: 0,
            base: 0,
            pending: 0,
            epoch: 0,
            usage: Usage::default(),
            context_tokens: 0,
            attempts: 0,
            name: opening.label.map(|label| format!("name{label}")),
            halt: Halt::No,
            worktree: None,
            attempt_seq: 0,
            undone: 0,
            id,
        }
    }

    async fn all_opened(&self, openings: &[Opening]) -> Vec<Session> {
        let mut out = Vec::new();
        for opening in openings {
            out.push(self.opened(opening).await);
        }
        out
    }

    /// Does the step, and tells how it went.
    async fn take(&self, at: i64, step: &Step) -> String {
        match step {
            Step::Deliver { open, post } => {
                let mail = Mail {
                    at,
                    open: self.all_opened(open).await,
                    post: post.iter().map(posted).collect(),
                    ..Mail::default()
                };
                told(self.store.deliver(mail).await)
            }
            Step::Hold { hold, release } => {
                let hold = hold.iter().map(|posting| held(posting, at)).collect();
                let release = release.iter().map(|&(letter, accept)| Release {
                    id: letter_id(letter),
                    accept,
                    reason: Some("why".into()),
                });
                let mail = Mail { at, hold, release: release.collect(), ..Mail::default() };
                told(self.store.deliver(mail).await)
            }
            Step::Board { root, once, work } => {
                let root = session_id(*root);
                let what = self.worked(&root, work).await;
                let once = once.map(|once| format!("call_{once}"));
                told(self.store.change_board(BoardChange { at, root, once, what }).await)
            }
            Step::Commit(commit) => {
                let id = session_id(commit.session);
                let row = self.store.session(&id).await.unwrap();
                let epoch = row.as_ref().map_or(0, |row| row.epoch);
                let fence = commit.off.map_or(Fence::Claim, |off| Fence::Epoch(epoch + off));
                let root = row.map_or_else(|| id.clone(), |row| row.root);
                let inbox = self.store.inbox(&id, 0).await.unwrap_or_default();
                let unread = inbox.into_iter().map(|(_, letter)| letter.id);
                let consume = unread.take(commit.consume).chain(commit.stray.map(letter_id)).collect();
                let open = self.all_opened(&commit.open).await;
                let batch = Batch { open, ..batch(at, commit, &id, &root, consume) };
                told(self.store.commit(&id, fence, batch).await)
            }
        }
    }

    async fn worked(&self, root: &SessionId, work: &Work) -> BoardWork {
        let holder = |by: &usize| if *by == 0 { Holder::Person } else { Holder::Session(session_id(*by)) };
        match work {
            Work::Add { blockers } => {
                BoardWork::Add(NewTask { title: "t".into(), blocked_by: blockers.clone(), ..NewTask::default() })
            }
            Work::Claim { number, by } => BoardWork::Claim { number: *number, by: holder(by) },
            Work::Update { number, off, by, state, blockers } => {
                let query = BoardQuery { number: Some(*number), limit: 1, ..BoardQuery::default() };
                let found = self.store.board(root, &query).await.unwrap().pop();
                BoardWork::Update(TaskUpdate {
                    number: *number,
                    version: found.map_or(0, |task| task.version) + off,
                    by: holder(by),
                    title: None,
                    description: None,
                    state: *state,
                    blocked_by: blockers.clone(),
                    note: None,
                })
            }
        }
    }

    /// Everything that the door shows.
    async fn look(&self, now: i64) -> Vec<String> {
        let store = &self.store;
        let mut out = vec![
            told(store.unfinished(None, 99).await),
            told(store.asks(None).await),
            told(store.kept_since(None, 0, 999).await),
            told(store.cursor().await),
            told(store.held(&HeldQuery { now, limit: 99, ..HeldQuery::default() }).await),
            told(store.sent(&SentQuery { limit: 99, ..SentQuery::default() }).await),
            told(store.sent(&SentQuery { limit: 4, unread: Some(true), ..SentQuery::default() }).await),
            told(store.find(&Find::Newest).await),
            told(store.find(&Find::NewestIn("/0".into())).await),
            told(store.find(&Find::Label { label: "label0".into(), owner: None }).await),
            told(store.find(&Find::Called { name: "name0".into() }).await),
            told(store.find(&Find::Ending(session_id(0).as_str()[1..].into())).await),
            told(store.list(&Query { limit: 3, ..Query::default() }).await),
            told(store.list(&Query { limit: 9, scope: Scope::Owner("plan".into()), ..Query::default() }).await),
            format!("{:?}", self.heard.lock().unwrap()),
        ];
        for id in (0..SESSIONS).map(session_id) {
            out.push(told(store.session(&id).await));
            out.push(told(store.wake(&id).await));
            out.push(told(store.inbox(&id, 2).await));
            out.push(told(store.entries(&id, Span::Before { seq: 4, limit: 2 }).await));
            out.push(told(store.entries(&id, Span::After { seq: 1, limit: 3 }).await));
            out.push(told(store.tree(&id, 99).await));
            out.push(told(store.board(&id, &BoardQuery { limit: 99, ..BoardQuery::default() }).await));
            let mail = SentQuery { session: Some(id.clone()), limit: 5, ..SentQuery::default() };
            out.push(told(store.sent(&mail).await));
            let held = HeldQuery { session: Some(id.clone()), now, limit: 5, ..HeldQuery::default() };
            out.push(told(store.held(&held).await));
            out.push(told(store.busy_below(&id, 99).await));
            out.push(told(store.live_children(&id).await));
            out.push(told(store.asks(Some(&id)).await));
            out.push(told(store.waits_for(&id, &id).await));
            out.push(told(store.kept_since(Some(&id), 1, 3).await));
            let below = Query { limit: 9, scope: Scope::Below(id.clone()), ..Query::default() };
            out.push(told(store.list(&below).await));
        }
        for letter in (0..LETTERS).map(letter_id) {
            out.push(told(store.run(&letter.run()).await));
        }
        for ask in (0..CALLS).map(ask_id) {
            out.push(told(store.ask(&ask).await));
        }
        out
    }
}

fn told<T: Debug>(outcome: Result<T, Error>) -> String {
    format!("{outcome:?}")
}

fn posted(posting: &Posting) -> Post {
    let body = match posting.prompt {
        true => Body::Prompt(Prompt::text("hello")),
        false => Body::Abort(Abort { reason: Reason::User, run: None, wave: None }),
    };
    let letter = Letter {
        id: letter_id(posting.letter),
        to: session_id(posting.to),
        // Every third is from a session.
        from: match posting.letter % 3 {
            0 => Sender::Session { id: session_id(posting.letter % SESSIONS) },
            _ => Sender::Runtime,
        },
        class: posting.class,
        body,
        provenance: None,
        conversation: None,
        report: None,
        expires: None,
    };
    Post { letter, person: posting.person, queue: posting.queue }
}

/// Every other one expires before the test looks.
fn held(posting: &Posting, at: i64) -> Hold {
    let expires = if posting.letter.is_multiple_of(2) { at + 5 } else { 1_000 };
    Hold { letter: posted(posting).letter, sender: "far".into(), expires, queue: posting.queue }
}

fn batch(at: i64, commit: &Commit, id: &SessionId, root: &SessionId, consume: Vec<LetterId>) -> Batch {
    let mut entries: Vec<Entry> =
        (0..commit.notices).map(|n| Entry::Notice(Notice { text: format!("{at}.{n}") })).collect();
    entries.extend(consume.iter().map(|letter| {
        let (agent, model) = ("build".into(), "m".into());
        Entry::Input(Input {
            letter: letter.clone(),
            run: letter.run(),
            parts: vec![],
            agent,
            name: None,
            model,
            provenance: None,
            conversation: None,
            until: None,
            purse: None,
            shutdown: None,
            compact: None,
        })
    }));
    let spent = Usage { input: 1, cost_usd: 0.25, ..Usage::default() };
    Batch {
        archive: commit.archive.map(session_id).into_iter().collect(),
        at,
        entries,
        consume,
        expect_unread: commit.expect,
        open: vec![],
        post: commit.post.iter().map(posted).collect(),
        hold: Vec::new(),
        runs: commit.runs.iter().map(run_change).collect(),
        asks: commit.asks.iter().map(|change| ask_change(change, id, root)).collect(),
        waits: commit.waits.iter().map(wait_change).collect(),
        send: vec![],
        row: RowChange {
            status: commit.status,
            base: commit.base,
            activity: commit.activity,
            spent: commit.spent.then_some(spent),
            ended: commit.status.map(|status| status.is_ended().then_some(at)),
            ..RowChange::default()
        },
    }
}

fn run_change(&(kind, run, of): &(u8, usize, usize)) -> RunChange {
    let (run, of): (RunId, RunId) = (letter_id(run).run(), letter_id(of).run());
    match kind {
        0 => RunChange::Start { run, report: None, purse: None },
        1 => RunChange::Alias { run, of },
        _ => RunChange::End(RunEnd {
            run,
            outcome: Outcome::Ok,
            code: None,
            message: None,
            hint: None,
            answer: Some(1),
            usage: Usage::default(),
        }),
    }
}

fn ask_change(&(kind, ask): &(u8, usize), session: &SessionId, root: &SessionId) -> AskChange {
    match kind {
        0 => AskChange::Open(Box::new(Ask {
            id: ask_id(ask),
            session: session.clone(),
            root: root.clone(),
            call: call_id(ask),
            agent: "build".into(),
            tool: "bash".into(),
            permission: "bash".into(),
            patterns: vec![],
            always: vec![],
            rules: vec![],
            keeps: vec![],
            about: Default::default(),
            created: 1,
            until: 9,
            reply: None,
            to: None,
            questions: Vec::new(),
        })),
        1 => AskChange::Close { ask: ask_id(ask), reply: Some(AskReply::Once), by: SettledBy::Person },
        _ => AskChange::Close { ask: ask_id(ask), reply: None, by: SettledBy::Timeout },
    }
}

fn wait_change(&(add, call, on): &(bool, usize, usize)) -> WaitChange {
    let call = call_id(call);
    if add { WaitChange::Add { call, on: session_id(on) } } else { WaitChange::Remove { call } }
}

/// Two trees.
fn prelude() -> [Step; OPEN] {
    [(0, None), (1, Some(0)), (2, None), (3, Some(1))].map(|(session, parent)| {
        let opening = Opening { session, key: session, parent, fork: None, label: None, plan: false, archived: false };
        Step::Deliver { open: vec![opening], post: vec![] }
    })
}

async fn compare(steps: Vec<Step>) {
    let dir = tempfile::tempdir().unwrap();
    let memory = Side::new(Memory::new);
    let sqlite = Side::new(|on_kept| Sqlite::open(dir.path(), on_kept).unwrap());
    for (at, step) in (1..).zip(prelude().iter().chain(&steps)) {
        let outcome = memory.take(at, step).await;
        assert_eq!(outcome, sqlite.take(at, step).await, "{step:?}");
        if at % 8 == 0 {
            assert_eq!(memory.look(at).await, sqlite.look(at).await, "after {step:?}");
        }
    }
    let end = steps.len() as i64 + OPEN as i64;
    assert_eq!(memory.look(end).await, sqlite.look(end).await);
    // Steps at random end runs and drop letters as no session would; but rows and counters must agree.
    for side in [&memory, &sqlite] {
        let mut found = side.store.check().await.unwrap();
        let kinds = ["session", "entry", "task", "board", "held"];
        found.retain(|line| kinds.iter().any(|kind| line.starts_with(kind)));
        assert_eq!(found, Vec::<String>::new());
        side.store.close().await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_backends_agree(steps in vec(step(), 20..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(compare(steps));
    }
}
