//! An empty store to test, with the few words that tests are written in.

use crate::{
    Batch, Committed, Error, Fence, Halt, Kept, Mail, Mode, OnKept, Post, Receipt, RowChange, Session, Span, Store,
};
use proto::entry::{Input, Notice, Stored};
use proto::letter::{Abort, InputPart, Prompt, Reason, Sender};
use proto::{Body, Class, Entry, Letter, LetterId, SessionId, Status, Usage};
use std::any::Any;
use std::sync::{Arc, Mutex};

/// A store under test, and what its watchers heard.
pub struct Bed {
    pub store: Arc<dyn Store>,
    pub heard: Arc<Mutex<Vec<Kept>>>,
    _keep: Box<dyn Any + Send + Sync>,
}

impl Bed {
    /// `keep` lives as long as the store: a temporary directory, say.
    pub fn new<S: Store + 'static>(keep: impl Any + Send + Sync, open: impl FnOnce(OnKept) -> S) -> Self {
        let heard: Arc<Mutex<Vec<Kept>>> = Arc::default();
        let ear = heard.clone();
        let on_kept: OnKept = Arc::new(move |kept| ear.lock().unwrap().extend_from_slice(kept));
        Self { store: Arc::new(open(on_kept)), heard, _keep: Box::new(keep) }
    }

    pub async fn open(&self, session: Session) -> Session {
        self.store.deliver(Mail { at: 1, open: vec![session.clone()], ..Mail::default() }).await.unwrap();
        session
    }

    pub async fn root(&self, name: &str) -> Session {
        self.open(root(name)).await
    }

    pub async fn child(&self, parent: &Session, name: &str) -> Session {
        self.open(child(parent, name)).await
    }

    pub async fn fork(&self, of: &Session, seq: u64, name: &str) -> Session {
        self.open(fork(of, seq, name)).await
    }

    /// Takes the session over and commits.
    pub async fn commit(&self, session: &Session, batch: Batch) -> Result<Committed, Error> {
        self.store.commit(&session.id, Fence::Claim, batch).await
    }

    pub async fn say(&self, session: &Session, texts: &[&str]) {
        let entries = texts.iter().map(|text| notice(text)).collect();
        self.commit(session, Batch { at: 5, entries, ..Batch::default() }).await.unwrap();
    }

    pub async fn set(&self, session: &Session, row: RowChange) {
        self.commit(session, Batch { at: 5, row, ..Batch::default() }).await.unwrap();
    }

    pub async fn status(&self, session: &Session, status: Status) {
        self.set(session, RowChange { status: Some(status), ..RowChange::default() }).await;
    }

    pub async fn post(&self, post: Post) -> Result<Receipt, Error> {
        let mut receipts =
            self.store.deliver(Mail { at: 2, open: vec![], post: vec![post], ..Mail::default() }).await?;
        Ok(receipts.pop().unwrap())
    }

    pub async fn row(&self, session: &Session) -> Session {
        self.store.session(&session.id).await.unwrap().unwrap()
    }

    /// The whole log as `seq text`.
    pub async fn log(&self, session: &Session) -> Vec<String> {
        let all = Span::After { seq: 0, limit: usize::MAX };
        lines(&self.store.entries(&session.id, all).await.unwrap())
    }
}

pub(super) fn lines(entries: &[Stored]) -> Vec<String> {
    entries.iter().map(|stored| format!("{} {}", stored.seq, told(&stored.entry))).collect()
}

fn told(entry: &Entry) -> &str {
    match entry {
        Entry::Notice(notice) => &notice.text,
        other => other.tag(),
    }
}

pub(super) fn root(name: &str) -> Session {
    let id = SessionId::new();
    Session {
        key: format!("agent:build:{name}"),
        owner: "build".into(),
        agent: "build".into(),
        model: None,
        parent: None,
        root: id.clone(),
        depth: 0,
        path: format!("{id}/"),
        kind: "main".into(),
        driver: "loop".into(),
        mode: Mode::Session,
        title: None,
        label: None,
        cwd: "/home".into(),
        policy: "[]".into(),
        fork: None,
        archived: false,
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
        name: None,
        halt: Halt::No,
        worktree: None,
        attempt_seq: 0,
        undone: 0,
        id,
    }
}

/// A worktree in that directory, entered from another.
pub(super) fn worktree(path: &str, from: &str) -> proto::Worktree {
    proto::Worktree {
        name: "x".into(),
        path: path.into(),
        branch: None,
        base: None,
        original_branch: None,
        original_cwd: from.into(),
        by_hook: false,
        isolated: false,
    }
}

pub(super) fn child(parent: &Session, name: &str) -> Session {
    let child = root(name);
    Session {
        parent: Some(parent.id.clone()),
        root: parent.root.clone(),
        depth: parent.depth + 1,
        path: format!("{}{}/", parent.path, child.id),
        mode: Mode::Run,
        ..child
    }
}

pub(super) fn fork(of: &Session, seq: u64, name: &str) -> Session {
    Session { fork: Some(crate::Fork { of: of.id.clone(), seq }), ..child(of, name) }
}

pub(super) fn notice(text: &str) -> Entry {
    Entry::Notice(Notice { text: text.into() })
}

/// The entry that a taken letter becomes.
pub(super) fn input(letter: &LetterId) -> Entry {
    Entry::Input(Input {
        letter: letter.clone(),
        run: letter.run(),
        parts: vec![InputPart::Text { text: "hello".into() }],
        agent: "build".into(),
        name: None,
        model: "offline/plain".into(),
        provenance: None,
        conversation: None,
        until: None,
        purse: None,
        shutdown: None,
        compact: None,
    })
}

pub(super) fn prompt(to: &Session, class: Class) -> Post {
    let letter = Letter {
        id: LetterId::new(),
        to: to.id.clone(),
        from: Sender::Person,
        class,
        body: Body::Prompt(Prompt::text("hello")),
        provenance: None,
        conversation: None,
        report: None,
        expires: None,
    };
    Post { letter, person: false, queue: None }
}

pub(super) fn request(to: &Session) -> Post {
    prompt(to, Class::Request)
}

pub(super) fn control(to: &Session) -> Post {
    let mut post = prompt(to, Class::Control);
    post.letter.body = Body::Abort(Abort { reason: Reason::User, run: None, wave: None });
    post
}

/// A commit that takes these letters into the log.
pub(super) fn take(letters: &[&LetterId]) -> Batch {
    Batch {
        at: 6,
        entries: letters.iter().map(|letter| input(letter)).collect(),
        consume: letters.iter().map(|letter| (*letter).clone()).collect(),
        ..Batch::default()
    }
}
