//! Rules of what is under way: runs, asks, waits, and the check of it all.

use super::Bed;
use super::bed::{child, control, notice, prompt, request, take};
use crate::{Ask, AskChange, Batch, Error, RowChange, Run, RunChange, RunEnd, Session, WaitChange};
use proto::event::SettledBy;
use proto::letter::{AskReply, Report};
use proto::{AskId, CallId, Class, Code, Outcome, RunId, Status, Usage};

async fn change(bed: &Bed, session: &Session, at: i64, runs: Vec<RunChange>) {
    bed.commit(session, Batch { at, runs, ..Batch::default() }).await.unwrap();
}

fn end(run: &RunId) -> RunEnd {
    RunEnd {
        run: run.clone(),
        outcome: Outcome::Error,
        code: Some(Code::Provider),
        message: Some("no answer".into()),
        hint: Some("try again".into()),
        answer: Some(4),
        usage: Usage { input: 1, output: 2, cache_read: 3, cache_write: 4, cost_usd: 0.5 },
    }
}

pub async fn a_prompt_queues_its_run(bed: Bed) {
    let top = bed.root("top").await;
    let session = bed.child(&top, "a").await;
    let report = Report { session: top.id.clone(), call: Some(CallId::new()), late: false };
    let mut post = request(&session);
    post.letter.report = Some(report.clone());
    let letter = bed.post(post).await.unwrap().letter;
    let run = bed.store.run(&letter.run()).await.unwrap().unwrap();
    let expected = Run {
        id: letter.run(),
        session: session.id.clone(),
        root: top.id,
        report: Some(report),
        created: 2,
        started: None,
        ended: None,
        outcome: None,
        code: None,
        message: None,
        hint: None,
        answer: None,
        usage: Usage::default(),
    };
    assert_eq!(run, expected);
    let other = bed.post(control(&session)).await.unwrap().letter;
    assert_eq!(bed.store.run(&other.run()).await.unwrap(), None);
}

pub async fn a_run_is_started_and_ended(bed: Bed) {
    let session = bed.root("a").await;
    let run = bed.post(request(&session)).await.unwrap().letter.run();
    change(&bed, &session, 10, vec![RunChange::Start { run: run.clone(), report: None, purse: None }]).await;
    let read = bed.store.run(&run).await.unwrap().unwrap();
    assert_eq!((read.created, read.started, read.ended), (2, Some(10), None));
    change(&bed, &session, 20, vec![RunChange::End(end(&run))]).await;
    let read = bed.store.run(&run).await.unwrap().unwrap();
    assert_eq!((read.started, read.ended, read.outcome), (Some(10), Some(20), Some(Outcome::Error)));
    assert_eq!((read.code, read.answer, read.usage), (Some(Code::Provider), Some(4), end(&run).usage));
    assert_eq!((read.message.as_deref(), read.hint.as_deref()), (Some("no answer"), Some("try again")));
}

pub async fn mail_that_opens_a_run_makes_its_row(bed: Bed) {
    let session = bed.root("a").await;
    let run = RunId::new();
    let report = Some(Report { session: session.id.clone(), call: None, late: false });
    change(&bed, &session, 10, vec![RunChange::Start { run: run.clone(), report: report.clone(), purse: None }]).await;
    let read = bed.store.run(&run).await.unwrap().unwrap();
    assert_eq!((read.created, read.started, read.report), (10, Some(10), report));
}

pub async fn an_alias_leads_to_the_run_it_joined(bed: Bed) {
    let session = bed.root("a").await;
    let run = bed.post(request(&session)).await.unwrap().letter.run();
    let steered = bed.post(prompt(&session, Class::Steer)).await.unwrap().letter.run();
    let again = bed.post(prompt(&session, Class::Steer)).await.unwrap().letter.run();
    let alias = |run: &RunId, of: &RunId| RunChange::Alias { run: run.clone(), of: of.clone() };
    let start = RunChange::Start { run: run.clone(), report: None, purse: None };
    change(&bed, &session, 10, vec![start, alias(&steered, &run)]).await;
    // Of an alias, and of itself: both end at the one run.
    change(&bed, &session, 11, vec![alias(&again, &steered), alias(&run, &run)]).await;
    change(&bed, &session, 20, vec![RunChange::End(end(&run))]).await;
    for id in [&run, &steered, &again] {
        let read = bed.store.run(id).await.unwrap().unwrap();
        assert_eq!((read.id, read.ended), (run.clone(), Some(20)), "{id}");
    }
}

fn ask(session: &Session, created: i64) -> Ask {
    Ask {
        id: AskId::new(),
        session: session.id.clone(),
        root: session.root.clone(),
        call: CallId::new(),
        agent: "build".into(),
        tool: "bash".into(),
        permission: "bash".into(),
        patterns: vec!["git push".into()],
        always: vec!["git *".into()],
        rules: vec![proto::Rule::new("bash", "git *", proto::Action::Allow)],
        keeps: vec![vec![proto::Rule::new("bash", "git *", proto::Action::Allow)]],
        about: proto::methods::AskAbout { seq: Some(3), may_be_denied: true, ..Default::default() },
        created,
        until: 99,
        reply: None,
        to: None,
        questions: vec![proto::Question {
            question: "Which one?".into(),
            header: None,
            options: Vec::new(),
            multiple: true,
        }],
    }
}

async fn change_asks(bed: &Bed, session: &Session, asks: Vec<AskChange>) {
    bed.commit(session, Batch { asks, ..Batch::default() }).await.unwrap();
}

pub async fn asks_are_open_until_answered_or_withdrawn(bed: Bed) {
    let (one, two) = (bed.root("one").await, bed.root("two").await);
    let below = bed.child(&one, "below").await;
    let (late, early, other) = (ask(&one, 30), ask(&below, 10), ask(&two, 20));
    for (session, ask) in [(&one, &late), (&below, &early), (&two, &other)] {
        change_asks(&bed, session, vec![AskChange::Open(Box::new(ask.clone()))]).await;
    }
    assert_eq!(bed.store.asks(None).await.unwrap(), [early.clone(), other.clone(), late.clone()]);
    assert_eq!(bed.store.asks(Some(&one.id)).await.unwrap(), [early.clone(), late.clone()]);
    assert_eq!(bed.store.wake(&one.id).await.unwrap().asks, std::slice::from_ref(&late));
    assert_eq!(bed.store.ask(&late.id).await.unwrap(), Some(late.clone()));
    let close = |ask: &Ask, reply| AskChange::Close { ask: ask.id.clone(), reply, by: SettledBy::Person };
    change_asks(&bed, &one, vec![close(&late, Some(AskReply::Always))]).await;
    change_asks(&bed, &two, vec![close(&other, None)]).await;
    assert_eq!(bed.store.asks(None).await.unwrap(), [early]);
    assert_eq!(bed.store.ask(&late.id).await.unwrap().unwrap().reply, Some(AskReply::Always));
    assert_eq!(bed.store.ask(&other.id).await.unwrap(), None);
    assert!(bed.store.wake(&one.id).await.unwrap().asks.is_empty());
}

pub async fn the_first_answer_stands(bed: Bed) {
    let (one, two) = (bed.root("one").await, bed.root("two").await);
    let question = ask(&one, 10);
    let close = |reply| AskChange::Close { ask: question.id.clone(), reply, by: SettledBy::Person };
    change_asks(&bed, &one, vec![AskChange::Open(Box::new(question.clone()))]).await;
    // Only the one who asked can close it.
    change_asks(&bed, &two, vec![close(Some(AskReply::Reject)), close(None)]).await;
    assert_eq!(bed.store.ask(&question.id).await.unwrap().unwrap().reply, None);
    change_asks(&bed, &one, vec![close(Some(AskReply::Once)), close(Some(AskReply::Reject)), close(None)]).await;
    change_asks(&bed, &one, vec![AskChange::Open(Box::new(question.clone()))]).await;
    assert_eq!(bed.store.ask(&question.id).await.unwrap().unwrap().reply, Some(AskReply::Once));
}

pub async fn circles_of_waits_are_seen(bed: Bed) {
    let (a, b, c, d) = (bed.root("a").await, bed.root("b").await, bed.root("c").await, bed.root("d").await);
    let wait = async |session: &Session, on: &Session| {
        let call = CallId::new();
        let waits = vec![WaitChange::Add { call: call.clone(), on: on.id.clone() }];
        bed.commit(session, Batch { waits, ..Batch::default() }).await.unwrap();
        call
    };
    let stop = async |session: &Session, call: &CallId| {
        let waits = vec![WaitChange::Remove { call: call.clone() }];
        bed.commit(session, Batch { waits, ..Batch::default() }).await.unwrap();
    };
    let circle = async |session: &Session| bed.store.waits_for(&session.id, &session.id).await.unwrap();
    let a_on_b = wait(&a, &b).await;
    wait(&a, &d).await;
    assert!(!circle(&a).await && !circle(&b).await);
    let b_on_a = wait(&b, &a).await;
    assert!(circle(&a).await && circle(&b).await);
    // Somebody else's wait is not taken away.
    stop(&a, &b_on_a).await;
    assert!(circle(&a).await);
    stop(&b, &b_on_a).await;
    assert!(!circle(&a).await);
    wait(&b, &c).await;
    wait(&c, &a).await;
    assert!(circle(&a).await && circle(&b).await && circle(&c).await);
    // One who waits for a circle is not in it, and asking about it ends.
    wait(&d, &d).await;
    assert!(circle(&d).await);
    let e = bed.root("e").await;
    wait(&e, &a).await;
    assert!(!circle(&e).await);
    stop(&a, &a_on_b).await;
    assert!(!circle(&a).await && !circle(&c).await);
}

pub async fn a_wait_needs_somebody_to_wait_for(bed: Bed) {
    let session = bed.root("a").await;
    let waits = vec![WaitChange::Add { call: CallId::new(), on: child(&session, "ghost").id }];
    let batch = Batch { entries: vec![notice("waiting")], waits, ..Batch::default() };
    assert!(matches!(bed.commit(&session, batch).await, Err(Error::NoSession(_))));
    assert_eq!(bed.row(&session).await.seq, 0);
}

pub async fn a_spawn_is_one_commit(bed: Bed) {
    let top = bed.root("top").await;
    let new = child(&top, "new");
    let post = request(&new);
    let batch = Batch {
        entries: vec![notice("spawned")],
        waits: vec![WaitChange::Add { call: CallId::new(), on: new.id.clone() }],
        open: vec![new.clone()],
        post: vec![post.clone()],
        ..Batch::default()
    };
    let committed = bed.commit(&top, batch).await.unwrap();
    assert_eq!(
        (committed.receipts[0].letter.clone(), committed.receipts[0].to.clone()),
        (post.letter.id, new.id.clone())
    );
    let row = bed.row(&new).await;
    assert_eq!((row.status, row.pending, row.root), (Status::Queued, 1, top.id));
    assert_eq!(bed.store.run(&committed.receipts[0].letter.run()).await.unwrap().unwrap().session, new.id);
}

pub async fn checking_finds_nothing_in_a_sound_store(bed: Bed) {
    let top = bed.root("top").await;
    bed.say(&top, &["one", "two"]).await;
    let fork = bed.fork(&top, 1, "fork").await;
    bed.fork(&top, 2, "empty").await;
    bed.say(&fork, &["three"]).await;
    let (first, order) = (request(&top), control(&top));
    bed.post(first.clone()).await.unwrap();
    bed.post(order.clone()).await.unwrap();
    bed.post(request(&fork)).await.unwrap();
    let run = first.letter.id.run();
    bed.commit(&top, Batch { runs: vec![RunChange::End(end(&run))], ..take(&[&first.letter.id]) }).await.unwrap();
    bed.commit(&top, Batch { consume: vec![order.letter.id], ..Batch::default() }).await.unwrap();
    bed.status(&top, Status::Done).await;
    assert_eq!(bed.store.check().await.unwrap(), Vec::<String>::new());
}

pub async fn checking_names_what_is_wrong(bed: Bed) {
    let session = bed.root("a").await;
    let letter = bed.post(request(&session)).await.unwrap().letter;
    let batch = Batch {
        consume: vec![letter.clone()],
        row: RowChange { status: Some(Status::Done), ..RowChange::default() },
        ..Batch::default()
    };
    bed.commit(&session, batch).await.unwrap();
    let found = bed.store.check().await.unwrap();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with(&format!("letter `{letter}`: was consumed")), "{found:?}");
    assert!(found[1].starts_with(&format!("run `{letter}`: is open")), "{found:?}");
}
