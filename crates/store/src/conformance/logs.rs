//! Rules of the log: order, fences, forks, watchers.

use super::bed::{child, fork, lines, notice, root, worktree};
use super::{Bed, bed};
use crate::{Batch, Error, Fence, Halt, RowChange, Span};
use proto::{RunId, Status, Usage};

pub async fn entries_keep_their_order(bed: Bed) {
    let session = bed.root("a").await;
    bed.say(&session, &["one", "two"]).await;
    bed.say(&session, &["three"]).await;
    assert_eq!(bed.log(&session).await, ["1 one", "2 two", "3 three"]);
    assert_eq!(bed.row(&session).await.seq, 3);
}

pub async fn a_lost_race_is_fenced(bed: Bed) {
    let session = bed.root("a").await;
    let say = |text: &str| Batch { entries: vec![notice(text)], ..Batch::default() };
    let first = bed.commit(&session, say("first")).await.unwrap();
    assert_eq!((first.epoch, first.seq), (1, 1));
    let go_on = bed.store.commit(&session.id, Fence::Epoch(1), say("go on")).await.unwrap();
    assert_eq!((go_on.epoch, go_on.seq), (1, 2));
    assert_eq!(bed.commit(&session, say("taken over")).await.unwrap().epoch, 2);
    let late = bed.store.commit(&session.id, Fence::Epoch(1), say("late")).await;
    assert!(matches!(late, Err(Error::Fenced(id)) if id == session.id));
    let early = bed.store.commit(&session.id, Fence::Epoch(3), say("early")).await;
    assert!(matches!(early, Err(Error::Fenced(_))));
    assert_eq!(bed.log(&session).await, ["1 first", "2 go on", "3 taken over"]);
}

pub async fn of_many_claims_the_last_one_holds(bed: Bed) {
    let session = bed.root("a").await;
    let claims = (0..16).map(|_| {
        let (store, id) = (bed.store.clone(), session.id.clone());
        tokio::spawn(async move { store.commit(&id, Fence::Claim, Batch::default()).await.unwrap().epoch })
    });
    let mut epochs = Vec::new();
    for claim in claims.collect::<Vec<_>>() {
        epochs.push(claim.await.unwrap());
    }
    epochs.sort_unstable();
    assert_eq!(epochs, (1..=16).collect::<Vec<u64>>());
    for epoch in 1..16 {
        let late = bed.store.commit(&session.id, Fence::Epoch(epoch), Batch::default()).await;
        assert!(matches!(late, Err(Error::Fenced(_))), "{epoch}");
    }
    bed.store.commit(&session.id, Fence::Epoch(16), Batch::default()).await.unwrap();
}

pub async fn a_missing_session_is_named(bed: Bed) {
    let ghost = root("ghost");
    let is_named = |error: Error| matches!(error, Error::NoSession(id) if id == ghost.id);
    assert!(is_named(bed.commit(&ghost, Batch::default()).await.unwrap_err()));
    assert!(is_named(bed.store.wake(&ghost.id).await.unwrap_err()));
    assert!(is_named(bed.store.inbox(&ghost.id, 0).await.unwrap_err()));
    assert!(is_named(bed.store.entries(&ghost.id, Span::After { seq: 0, limit: 1 }).await.unwrap_err()));
    assert!(is_named(bed.post(bed::request(&ghost)).await.unwrap_err()));
    assert!(bed.store.session(&ghost.id).await.unwrap().is_none());
    assert!(bed.store.tree(&ghost.id, 10).await.unwrap().is_empty());
}

pub async fn a_refused_commit_changes_nothing(bed: Bed) {
    let session = bed.root("a").await;
    let letter = bed.post(bed::request(&session)).await.unwrap().letter;
    let before = format!("{:?}", bed.store.wake(&session.id).await.unwrap());
    let free = child(&session, "free");
    let batch = Batch {
        open: vec![free.clone(), child(&session, "a")],
        row: RowChange { status: Some(Status::Running), ..RowChange::default() },
        runs: vec![crate::RunChange::Start { run: RunId::parse("other").unwrap(), report: None, purse: None }],
        ..bed::take(&[&letter])
    };
    assert!(matches!(bed.commit(&session, batch).await, Err(Error::Taken { .. })));
    assert_eq!(format!("{:?}", bed.store.wake(&session.id).await.unwrap()), before);
    assert!(bed.store.session(&free.id).await.unwrap().is_none());
    assert!(bed.store.run(&RunId::parse("other").unwrap()).await.unwrap().is_none());
    assert!(bed.heard.lock().unwrap().is_empty());
}

/// Good and bad operations at once, so that a backend that groups them has both in one transaction.
pub async fn a_refused_operation_leaves_its_neighbours_intact(bed: Bed) {
    let session = bed.root("taken").await;
    let mut tasks = Vec::new();
    for index in 0..64 {
        let (store, own) = (bed.store.clone(), bed.root(&format!("s{index}")).await);
        let bad = index % 4 == 0;
        let open = if bad { vec![child(&own, "taken")] } else { vec![child(&own, &format!("c{index}"))] };
        tasks.push(tokio::spawn(async move {
            let batch = Batch { entries: vec![notice("kept")], open, ..Batch::default() };
            (store.commit(&own.id, Fence::Claim, batch).await, bad, own)
        }));
    }
    for task in tasks {
        let (outcome, bad, own) = task.await.unwrap();
        let children = bed.store.live_children(&own.id).await.unwrap();
        if bad {
            assert!(matches!(outcome, Err(Error::Taken { holder, .. }) if holder == session.id.as_str()));
            assert_eq!((bed.row(&own).await.seq, bed.row(&own).await.epoch, children), (0, 0, 0));
        } else {
            assert_eq!(outcome.unwrap().seq, 1);
            assert_eq!((bed.log(&own).await.len(), children), (1, 1));
        }
    }
    assert_eq!(bed.heard.lock().unwrap().len(), 48);
    assert_eq!(bed.store.check().await.unwrap(), Vec::<String>::new());
}

pub async fn waking_reads_from_the_base(bed: Bed) {
    let session = bed.root("a").await;
    bed.say(&session, &["one", "two", "three"]).await;
    assert_eq!(lines(&bed.store.wake(&session.id).await.unwrap().entries).len(), 3);
    bed.set(&session, RowChange { base: Some(3), ..RowChange::default() }).await;
    let awake = bed.store.wake(&session.id).await.unwrap();
    assert_eq!((awake.row.base, lines(&awake.entries)), (3, vec!["3 three".into()]));
    assert_eq!(bed.log(&session).await.len(), 3);
}

pub async fn spans_page_both_ways(bed: Bed) {
    let session = bed.root("a").await;
    bed.say(&session, &["a", "b", "c", "d", "e"]).await;
    let read = async |span| lines(&bed.store.entries(&session.id, span).await.unwrap());
    assert_eq!(read(Span::Before { seq: u64::MAX, limit: 2 }).await, ["4 d", "5 e"]);
    assert_eq!(read(Span::Before { seq: 4, limit: 2 }).await, ["2 b", "3 c"]);
    assert_eq!(read(Span::Before { seq: 2, limit: 9 }).await, ["1 a"]);
    assert_eq!(read(Span::Before { seq: 0, limit: 9 }).await, Vec::<String>::new());
    assert_eq!(read(Span::After { seq: 0, limit: 2 }).await, ["1 a", "2 b"]);
    assert_eq!(read(Span::After { seq: 3, limit: 9 }).await, ["4 d", "5 e"]);
    assert_eq!(read(Span::After { seq: u64::MAX, limit: 9 }).await, Vec::<String>::new());
    assert_eq!(read(Span::After { seq: 0, limit: 0 }).await, Vec::<String>::new());
}

pub async fn a_fork_shares_its_prefix(bed: Bed) {
    let old = bed.root("old").await;
    bed.say(&old, &["one", "two", "three"]).await;
    let new = bed.fork(&old, 2, "new").await;
    assert_eq!(bed.row(&new).await.seq, 2);
    bed.say(&new, &["mine"]).await;
    bed.say(&old, &["theirs"]).await;
    assert_eq!(bed.log(&new).await, ["1 one", "2 two", "3 mine"]);
    assert_eq!(bed.log(&old).await, ["1 one", "2 two", "3 three", "4 theirs"]);
    assert_eq!(lines(&bed.store.wake(&new.id).await.unwrap().entries), bed.log(&new).await);
    let newest = Span::Before { seq: u64::MAX, limit: 2 };
    assert_eq!(lines(&bed.store.entries(&new.id, newest).await.unwrap()), ["2 two", "3 mine"]);
    assert_eq!(bed.store.check().await.unwrap(), Vec::<String>::new());
}

pub async fn a_fork_of_a_fork_reads_through_both(bed: Bed) {
    let first = bed.root("first").await;
    bed.say(&first, &["a", "b", "c"]).await;
    let second = bed.fork(&first, 2, "second").await;
    bed.say(&second, &["d", "e"]).await;
    let third = bed.fork(&second, 3, "third").await;
    bed.say(&third, &["f"]).await;
    assert_eq!(bed.log(&third).await, ["1 a", "2 b", "3 d", "4 f"]);
    let middle = Span::After { seq: 1, limit: 2 };
    assert_eq!(lines(&bed.store.entries(&third.id, middle).await.unwrap()), ["2 b", "3 d"]);
}

pub async fn a_fork_below_its_parents_prefix_skips_the_parent(bed: Bed) {
    let first = bed.root("first").await;
    bed.say(&first, &["a", "b", "c"]).await;
    let second = bed.fork(&first, 3, "second").await;
    bed.say(&second, &["d"]).await;
    let third = bed.fork(&second, 1, "third").await;
    assert_eq!(bed.log(&third).await, ["1 a"]);
    bed.say(&third, &["e"]).await;
    assert_eq!(bed.log(&third).await, ["1 a", "2 e"]);
}

pub async fn a_fork_wakes_from_its_own_base(bed: Bed) {
    let old = bed.root("old").await;
    bed.say(&old, &["one", "two", "three"]).await;
    bed.set(&old, RowChange { base: Some(3), ..RowChange::default() }).await;
    let new = bed.open(crate::Session { base: 2, ..fork(&old, 3, "new") }).await;
    bed.say(&new, &["mine"]).await;
    assert_eq!(lines(&bed.store.wake(&new.id).await.unwrap().entries), ["2 two", "3 three", "4 mine"]);
}

pub async fn a_fork_needs_an_entry_to_stand_on(bed: Bed) {
    let old = bed.root("old").await;
    bed.say(&old, &["one"]).await;
    let open = async |session| {
        bed.store.deliver(crate::Mail { at: 1, open: vec![session], ..crate::Mail::default() }).await.map(drop)
    };
    assert!(matches!(open(fork(&old, 2, "early")).await, Err(Error::Internal(_))));
    assert!(matches!(open(fork(&root("ghost"), 0, "ghostly")).await, Err(Error::NoSession(_))));
    // The commit that appends an entry may fork right there.
    let batch = Batch { entries: vec![notice("two")], open: vec![fork(&old, 2, "now")], ..Batch::default() };
    bed.commit(&old, batch).await.unwrap();
}

pub async fn watchers_hear_in_cursor_order(bed: Bed) {
    let mut tasks = Vec::new();
    for index in 0..32 {
        let (store, session) = (bed.store.clone(), bed.root(&format!("s{index}")).await);
        tasks.push(tokio::spawn(async move {
            for _ in 0..8 {
                let batch = Batch { entries: vec![notice("a"), notice("b")], ..Batch::default() };
                store.commit(&session.id, Fence::Claim, batch).await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let kept = bed.store.kept_since(None, 0, usize::MAX).await.unwrap();
    let tell = |kept: &crate::Kept| format!("{kept:?}");
    let heard: Vec<String> = bed.heard.lock().unwrap().iter().map(tell).collect();
    assert_eq!(heard, kept.iter().map(tell).collect::<Vec<_>>());
    assert_eq!(kept.len(), 32 * 8 * 2);
    assert!(kept.is_sorted_by(|a, b| a.cursor < b.cursor));
    assert_eq!(bed.store.cursor().await.unwrap(), kept.last().unwrap().cursor);
}

pub async fn what_was_kept_is_read_by_tree(bed: Bed) {
    let (one, two) = (bed.root("one").await, bed.root("two").await);
    let below = bed.child(&one, "below").await;
    assert_eq!(bed.store.cursor().await.unwrap(), 0);
    bed.say(&one, &["a"]).await;
    bed.say(&two, &["b"]).await;
    bed.say(&below, &["c"]).await;
    let read = async |root, cursor, limit| {
        let kept = bed.store.kept_since(root, cursor, limit).await.unwrap();
        kept.into_iter().map(|kept| (kept.session, kept.root)).collect::<Vec<_>>()
    };
    let (a, b) = ((one.id.clone(), one.id.clone()), (two.id.clone(), two.id.clone()));
    let c = (below.id.clone(), one.id.clone());
    assert_eq!(read(None, 0, 9).await, [a.clone(), b.clone(), c.clone()]);
    assert_eq!(read(Some(&one.id), 0, 9).await, [a.clone(), c.clone()]);
    assert_eq!(read(Some(&one.id), 0, 1).await, [a]);
    assert_eq!(read(Some(&two.id), 0, 9).await, [b]);
    let newest = bed.store.cursor().await.unwrap();
    assert_eq!(read(None, newest - 1, 9).await, [c]);
    assert!(read(None, newest, 9).await.is_empty());
    let body = bed.store.kept_since(None, 0, 1).await.unwrap().remove(0).body;
    assert_eq!(&*body, r#"{"type":"notice","text":"a"}"#);
}

pub async fn row_changes_change_what_they_name(bed: Bed) {
    let session = bed.root("a").await;
    let run = RunId::new();
    let spent = Usage { input: 1, output: 2, cache_read: 3, cache_write: 4, cost_usd: 0.5 };
    let row = RowChange {
        status: Some(Status::Running),
        run: Some(Some(run.clone())),
        agent: Some("plan".into()),
        model: Some("m".into()),
        cwd: Some("/tmp".into()),
        worktree: Some(Some(worktree("/tmp", "/home"))),
        title: Some("t".into()),
        policy: Some("p".into()),
        halt: Some(Halt::Stopped),
        base: Some(1),
        undone: Some(3),
        activity: Some(50),
        started: Some(40),
        ended: Some(Some(60)),
        spent: Some(spent),
        context_tokens: Some(9),
        attempts: Some((2, 7)),
    };
    bed.set(&session, row.clone()).await;
    bed.set(&session, RowChange { spent: Some(spent), ..RowChange::default() }).await;
    let read = bed.row(&session).await;
    let expected = crate::Session {
        status: Status::Running,
        run: Some(run),
        agent: "plan".into(),
        model: Some("m".into()),
        cwd: "/tmp".into(),
        worktree: Some(worktree("/tmp", "/home")),
        title: Some("t".into()),
        policy: "p".into(),
        halt: Halt::Stopped,
        base: 1,
        undone: 3,
        activity: 50,
        started: Some(40),
        ended: Some(60),
        usage: Usage { input: 2, output: 4, cache_read: 6, cache_write: 8, cost_usd: 1.0 },
        context_tokens: 9,
        attempts: 2,
        attempt_seq: 7,
        epoch: 2,
        ..session.clone()
    };
    assert_eq!(format!("{read:?}"), format!("{expected:?}"));
    let cleared = RowChange { run: Some(None), ended: Some(None), worktree: Some(None), ..RowChange::default() };
    bed.set(&session, cleared).await;
    let read = bed.row(&session).await;
    assert_eq!((read.run, read.ended, read.started, read.worktree), (None, None, Some(40), None));
}

pub async fn a_closed_store_says_so(bed: Bed) {
    let session = bed.root("a").await;
    bed.store.close().await;
    assert!(matches!(bed.commit(&session, Batch::default()).await, Err(Error::Closed)));
    assert!(matches!(bed.store.session(&session.id).await, Err(Error::Closed)));
    bed.store.close().await;
}
