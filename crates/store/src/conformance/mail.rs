//! Rules of the inbox: exactly once, in order, and what mail does to its receiver.

use super::Bed;
use super::bed::{child, control, notice, prompt, request, root, take};
use crate::{Batch, Error, Fate, Fence, Mail, MailKey, OutboxQuery, Parcel, Post, RowChange};
use proto::letter::Prompt;
use proto::methods::MailState;
use proto::{Body, Class, LetterId, SessionId, Status};

pub async fn a_letter_is_consumed_exactly_once(bed: Bed) {
    let session = bed.root("a").await;
    let letter = bed.post(request(&session)).await.unwrap().letter;
    assert_eq!(bed.row(&session).await.pending, 1);
    bed.commit(&session, take(&[&letter])).await.unwrap();
    let awake = bed.store.wake(&session.id).await.unwrap();
    assert_eq!((awake.row.pending, awake.inbox.len(), awake.entries.len()), (0, 0, 1));
    let again = bed.commit(&session, take(&[&letter])).await;
    assert!(matches!(again, Err(Error::Fenced(id)) if id == session.id));
    let twice = bed.post(request(&session)).await.unwrap().letter;
    assert!(matches!(bed.commit(&session, take(&[&twice, &twice])).await, Err(Error::Fenced(_))));
    assert_eq!((bed.log(&session).await.len(), bed.row(&session).await.pending), (1, 1));
}

pub async fn of_two_owners_one_gets_the_letter(bed: Bed) {
    let session = bed.root("a").await;
    let letter = bed.post(request(&session)).await.unwrap().letter;
    let racers = (0..8).map(|_| {
        let (store, id, batch) = (bed.store.clone(), session.id.clone(), take(&[&letter]));
        tokio::spawn(async move { store.commit(&id, Fence::Claim, batch).await.is_ok() })
    });
    let mut winners = 0;
    for racer in racers.collect::<Vec<_>>() {
        winners += u32::from(racer.await.unwrap());
    }
    assert_eq!((winners, bed.log(&session).await.len(), bed.row(&session).await.epoch), (1, 1, 1));
}

pub async fn only_the_receiver_consumes_a_letter(bed: Bed) {
    let (one, two) = (bed.root("one").await, bed.root("two").await);
    let letter = bed.post(request(&one)).await.unwrap().letter;
    assert!(matches!(bed.commit(&two, take(&[&letter])).await, Err(Error::Fenced(id)) if id == two.id));
    let unknown = take(&[&LetterId::new()]);
    assert!(matches!(bed.commit(&one, unknown).await, Err(Error::Fenced(_))));
    assert_eq!((bed.row(&one).await.pending, bed.row(&two).await.pending), (1, 0));
}

pub async fn a_letter_id_is_good_for_life(bed: Bed) {
    let session = bed.root("a").await;
    let post = Post { person: true, ..request(&session) };
    assert!(!bed.post(post.clone()).await.unwrap().duplicate);
    let again = bed.post(post.clone()).await.unwrap();
    // By now the session is queued, so a new letter would be a steer.
    assert!(again.duplicate && again.class == Class::Request);
    assert_eq!(bed.row(&session).await.pending, 1);
    bed.commit(&session, take(&[&post.letter.id])).await.unwrap();
    bed.status(&session, Status::Idle).await;
    let again = bed.post(Post { queue: Some(0), ..post }).await.unwrap();
    assert!(again.duplicate && again.class == Class::Request);
    let row = bed.row(&session).await;
    assert_eq!((row.pending, row.status), (0, Status::Idle));
}

pub async fn a_letter_id_is_good_for_one_receiver(bed: Bed) {
    let (one, two) = (bed.root("one").await, bed.root("two").await);
    let mut post = request(&one);
    bed.post(post.clone()).await.unwrap();
    post.letter.to = two.id.clone();
    let taken = bed.post(post).await;
    assert!(matches!(taken, Err(Error::Taken { holder, .. }) if holder == one.id.as_str()));
    assert_eq!(bed.row(&two).await.pending, 0);
}

pub async fn a_retry_in_the_same_mail_is_one_letter(bed: Bed) {
    let session = bed.root("a").await;
    let post = request(&session);
    let mail = Mail { at: 2, open: vec![], post: vec![post.clone(), post], ..Mail::default() };
    let receipts = bed.store.deliver(mail).await.unwrap();
    assert_eq!(receipts.iter().map(|receipt| receipt.duplicate).collect::<Vec<_>>(), [false, true]);
    assert_eq!(bed.row(&session).await.pending, 1);
}

pub async fn going_idle_fails_while_letters_are_unread(bed: Bed) {
    let session = bed.root("a").await;
    let first = bed.post(request(&session)).await.unwrap().letter;
    let go_idle = |consume: &[&LetterId], left| Batch {
        expect_unread: Some(left),
        row: RowChange { status: Some(Status::Idle), ..RowChange::default() },
        ..take(consume)
    };
    let second = bed.post(request(&session)).await.unwrap().letter;
    let missed = bed.commit(&session, go_idle(&[&first], 0)).await;
    assert!(matches!(missed, Err(Error::Unread(id)) if id == session.id));
    let row = bed.row(&session).await;
    assert_eq!((row.pending, row.seq, row.epoch, row.status), (2, 0, 0, Status::Queued));
    bed.commit(&session, go_idle(&[&first], 1)).await.unwrap();
    assert!(matches!(bed.commit(&session, go_idle(&[&second], 1)).await, Err(Error::Unread(_))));
    bed.commit(&session, go_idle(&[&second], 0)).await.unwrap();
    assert_eq!((bed.row(&session).await.pending, bed.row(&session).await.status), (0, Status::Idle));
}

pub async fn a_persons_text_is_a_request_to_the_idle_and_a_steer_to_the_busy(bed: Bed) {
    for status in Status::ALL {
        let session = bed.root(status.as_str()).await;
        bed.status(&session, status).await;
        let expected = if status.is_busy() { Class::Steer } else { Class::Request };
        // What the sender wrote in it does not matter.
        let receipt = bed.post(Post { person: true, ..prompt(&session, Class::Control) }).await.unwrap();
        assert_eq!(receipt.class, expected, "{status:?}");
        let inbox = bed.store.inbox(&session.id, 0).await.unwrap();
        assert_eq!(inbox[0].1.class, expected, "{status:?}");
    }
}

pub async fn mail_queues_whoever_is_neither_busy_nor_paused(bed: Bed) {
    for (class, status) in [Class::Steer, Class::Request].into_iter().flat_map(|c| Status::ALL.map(|s| (c, s))) {
        let session = bed.root(&format!("{class:?}{status:?}")).await;
        let row = RowChange { status: Some(status), started: Some(7), ended: Some(Some(8)), ..RowChange::default() };
        bed.set(&session, row).await;
        let receipt = bed.post(prompt(&session, class)).await.unwrap();
        assert_eq!(receipt.paused, status == Status::Paused);
        let row = bed.row(&session).await;
        let stays = status.is_busy() || status == Status::Paused;
        let expected = if stays { (status, Some(8)) } else { (Status::Queued, None) };
        assert_eq!((row.status, row.ended), expected, "{class:?} {status:?}");
        assert_eq!((row.started, row.activity), (Some(7), 1));
    }
}

pub async fn control_letters_change_no_status(bed: Bed) {
    for status in Status::ALL {
        let session = bed.root(status.as_str()).await;
        let row = RowChange { status: Some(status), ended: Some(Some(8)), ..RowChange::default() };
        bed.set(&session, row).await;
        bed.post(control(&session)).await.unwrap();
        let row = bed.row(&session).await;
        assert_eq!((row.status, row.ended, row.pending), (status, Some(8), 1), "{status:?}");
    }
}

pub async fn a_letter_to_oneself_is_queued_by_the_commit_that_goes_idle(bed: Bed) {
    let session = bed.root("a").await;
    bed.status(&session, Status::Running).await;
    let batch = Batch {
        expect_unread: Some(0),
        post: vec![prompt(&session, Class::Steer)],
        row: RowChange { status: Some(Status::Idle), ..RowChange::default() },
        ..Batch::default()
    };
    bed.commit(&session, batch).await.unwrap();
    let row = bed.row(&session).await;
    assert_eq!((row.status, row.pending), (Status::Queued, 1));
}

pub async fn a_full_inbox_refuses(bed: Bed) {
    let (session, sender) = (bed.root("a").await, bed.root("b").await);
    let post = |queue| Post { queue, ..request(&session) };
    bed.post(post(Some(2))).await.unwrap();
    let second = bed.post(post(Some(2))).await.unwrap().letter;
    assert!(matches!(bed.post(post(Some(2))).await, Err(Error::QueueFull(id)) if id == session.id));
    let batch = Batch { entries: vec![notice("sent")], post: vec![post(Some(2))], ..Batch::default() };
    assert!(matches!(bed.commit(&sender, batch).await, Err(Error::QueueFull(_))));
    assert_eq!((bed.row(&session).await.pending, bed.row(&sender).await.seq), (2, 0));
    bed.post(post(None)).await.unwrap();
    bed.commit(&session, take(&[&second])).await.unwrap();
    assert!(matches!(bed.post(post(Some(2))).await, Err(Error::QueueFull(_))));
    bed.post(post(Some(3))).await.unwrap();
    assert_eq!(bed.row(&session).await.pending, 3);
}

pub async fn large_letters_fill_an_inbox_by_their_bytes(bed: Bed) {
    let (session, other) = (bed.root("a").await, bed.root("b").await);
    let post = |to: &crate::Session, bytes: usize| {
        let mut post = Post { queue: Some(1000), ..request(to) };
        post.letter.body = Body::Prompt(Prompt::text("x".repeat(bytes)));
        post
    };
    // One alone always fits, others only beside what is there.
    let first = bed.post(post(&session, crate::INBOX_BYTES as usize + 1)).await.unwrap().letter;
    assert!(matches!(bed.post(post(&session, 1 << 20)).await, Err(Error::InboxTooLarge(id)) if id == session.id));
    let refused = proto::Error::from(bed.post(post(&session, 1 << 20)).await.unwrap_err());
    assert!(refused.retryable && refused.hint.is_some(), "{refused:?}");
    bed.post(post(&session, 100)).await.unwrap();
    bed.post(post(&other, 1 << 20)).await.unwrap();
    // What nobody can refuse comes in all the same.
    bed.post(Post { queue: None, ..post(&session, 1 << 20) }).await.unwrap();
    bed.commit(&session, take(&[&first])).await.unwrap();
    bed.post(post(&session, 1 << 20)).await.unwrap();
}

pub async fn an_archived_session_gets_no_mail(bed: Bed) {
    let root = bed.root("a").await;
    let session = bed.open(crate::Session { archived: true, ..child(&root, "gone") }).await;
    assert!(matches!(bed.post(request(&session)).await, Err(Error::NoSession(id)) if id == session.id));
    assert!(matches!(bed.post(control(&session)).await, Err(Error::NoSession(_))));
}

pub async fn an_inbox_is_read_in_order(bed: Bed) {
    let (session, other) = (bed.root("a").await, bed.root("b").await);
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(bed.post(request(&session)).await.unwrap().letter);
        bed.post(request(&other)).await.unwrap();
    }
    let inbox = bed.store.inbox(&session.id, 0).await.unwrap();
    assert_eq!(inbox.iter().map(|(_, letter)| letter.id.clone()).collect::<Vec<_>>(), ids);
    assert!(inbox.is_sorted_by(|a, b| a.0 < b.0));
    // What they say is read when they are taken, in any order.
    let named = [ids[2].clone(), ids[0].clone(), LetterId::new()];
    let letters = bed.store.letters(&session.id, &named).await.unwrap();
    assert_eq!(letters.iter().map(|letter| &letter.id).collect::<Vec<_>>(), [&ids[2], &ids[0]]);
    assert!(letters.iter().all(|letter| matches!(letter.body, Body::Prompt(_)) && letter.to == session.id));
    assert!(bed.store.letters(&other.id, &ids).await.unwrap().is_empty());
    bed.commit(&session, take(&[&ids[1]])).await.unwrap();
    let rest = bed.store.inbox(&session.id, inbox[0].0).await.unwrap();
    assert_eq!(rest.iter().map(|(_, letter)| letter.id.clone()).collect::<Vec<_>>(), ids[2..]);
    let awake = bed.store.wake(&session.id).await.unwrap();
    assert_eq!(awake.inbox.len(), 3);
    assert!(bed.store.letters(&session.id, &ids[1..2]).await.unwrap().is_empty());
    assert!(bed.store.inbox(&session.id, inbox[3].0).await.unwrap().is_empty());
}

pub async fn a_call_with_the_same_key_counts_once(bed: Bed) {
    let call = |name: &str, answer: &str| Mail {
        at: 1,
        open: vec![root(name)],
        once: Some(crate::Once { key: "key-1".into(), answer: answer.into() }),
        ..Mail::default()
    };
    bed.store.deliver(call("first", "the first")).await.unwrap();
    let again = bed.store.deliver(call("second", "the second")).await;
    assert!(matches!(again, Err(Error::Repeated { answer }) if answer == "the first"));
    let missing = bed.store.find(&crate::Find::Key(root("second").key)).await.unwrap();
    assert!(missing.is_empty(), "the second call made nothing");
    // A refused call leaves its key free: whoever mends and repeats it is heard.
    let refused = Mail {
        open: vec![root("first")],
        once: Some(crate::Once { key: "key-2".into(), answer: "no".into() }),
        ..call("x", "")
    };
    assert!(matches!(bed.store.deliver(refused).await, Err(Error::Taken { .. })));
    let mended = Mail { once: Some(crate::Once { key: "key-2".into(), answer: "yes".into() }), ..call("third", "") };
    bed.store.deliver(mended).await.unwrap();
}

pub async fn a_watcher_finds_what_a_letter_became(bed: Bed) {
    let session = bed.root("a").await;
    bed.say(&session, &["before"]).await;
    let newest = bed.store.cursor().await.unwrap();
    let letter = bed.post(request(&session)).await.unwrap().letter;
    assert_eq!(bed.store.cursor_before(&letter).await.unwrap(), newest, "an unread one is yet to become something");
    bed.commit(&session, take(&[&letter])).await.unwrap();
    bed.say(&session, &["after"]).await;
    let from = bed.store.cursor_before(&letter).await.unwrap();
    let seen = bed.store.kept_since(None, from, 10).await.unwrap();
    assert_eq!(seen.iter().map(|kept| kept.seq).collect::<Vec<_>>(), [2, 3]);
    let newest = bed.store.cursor().await.unwrap();
    assert_eq!(bed.store.cursor_before(&LetterId::new()).await.unwrap(), newest);
}

const OFFICE: &str = "bridge:office/main";

pub async fn the_outbox_keeps_what_others_do_not_have_yet(bed: Bed) {
    let session = bed.root("a").await;
    let parcel = |name: &str, sender: Option<&SessionId>| Parcel {
        id: LetterId::parse(name).unwrap(),
        sender: sender.cloned(),
        address: OFFICE.into(),
        posted: 3,
        body: "hello".into(),
        fate: None,
    };
    let (first, second) = (parcel("mail_1", Some(&session.id)), parcel("mail_2", None));
    bed.commit(&session, Batch { send: vec![first.clone()], ..Batch::default() }).await.unwrap();
    // The same one again is the same one.
    let mail = Mail { send: vec![second.clone(), first.clone()], ..Mail::default() };
    bed.store.deliver(mail).await.unwrap();
    assert_eq!(bed.store.outbox(OFFICE, 10).await.unwrap(), [first.clone(), second.clone()]);
    assert_eq!(bed.store.outbox(OFFICE, 1).await.unwrap(), std::slice::from_ref(&first));
    let fate = Fate { state: MailState::Held, reason: Some("later".into()), at: 9 };
    bed.store.deliver(Mail { sent: vec![(first.id.clone(), fate.clone())], ..Mail::default() }).await.unwrap();
    assert_eq!(bed.store.outbox(OFFICE, 10).await.unwrap(), std::slice::from_ref(&second));
    // A commit that is refused sends nothing.
    let third = parcel("mail_9", None);
    let refused = bed.commit(&session, Batch { send: vec![third], expect_unread: Some(7), ..Batch::default() }).await;
    assert!(matches!(refused, Err(Error::Unread(_))));
    assert_eq!(bed.store.outbox(OFFICE, 10).await.unwrap().len(), 1);
    // Each address has its own order, however much waits for another.
    let cellar = |name: &str| Parcel { address: "bridge:cellar/main".into(), ..parcel(name, None) };
    let mail = Mail { send: vec![cellar("mail_3"), parcel("mail_4", None), cellar("mail_5")], ..Mail::default() };
    bed.store.deliver(mail).await.unwrap();
    assert_eq!(bed.store.outbox_addresses(10).await.unwrap(), [OFFICE, "bridge:cellar/main"]);
    assert_eq!(bed.store.outbox_addresses(1).await.unwrap(), [OFFICE]);
    assert_eq!(bed.store.outbox("bridge:cellar/main", 1).await.unwrap(), [cellar("mail_3")]);
    assert!(bed.store.outbox("bridge:attic/main", 10).await.unwrap().is_empty());
    // What became of it is kept, and is not sent a second time.
    bed.store.deliver(Mail { send: vec![first.clone()], ..Mail::default() }).await.unwrap();
    let first = Parcel { fate: Some(fate), ..first };
    let ask = async |query: OutboxQuery| bed.store.outgoing(&OutboxQuery { limit: 10, ..query }).await.unwrap();
    assert_eq!(
        ask(OutboxQuery { state: Some(MailState::Held), ..OutboxQuery::default() }).await,
        std::slice::from_ref(&first)
    );
    assert_eq!(
        ask(OutboxQuery { sender: Some(session.id.clone()), ..OutboxQuery::default() }).await,
        std::slice::from_ref(&first)
    );
    let waits = ask(OutboxQuery { state: Some(MailState::Queued), ..OutboxQuery::default() }).await;
    let names: Vec<&str> = waits.iter().map(|parcel| parcel.id.as_str()).collect();
    assert_eq!(names, ["mail_5", "mail_4", "mail_3", "mail_2"]);
    let after = Some(MailKey { posted: 3, id: LetterId::parse("mail_2").unwrap() });
    assert_eq!(ask(OutboxQuery { after, ..OutboxQuery::default() }).await, std::slice::from_ref(&first));
    // It goes when it is old; what waits does not.
    assert!(bed.store.settled_before(9, 10).await.unwrap().is_empty());
    assert_eq!(bed.store.settled_before(10, 10).await.unwrap(), std::slice::from_ref(&first.id));
    bed.store.deliver(Mail { forget: vec![first.id, second.id], ..Mail::default() }).await.unwrap();
    assert_eq!(ask(OutboxQuery::default()).await.len(), 4);
}

pub async fn the_outbox_is_bounded_in_number_and_in_bytes(bed: Bed) {
    let parcel = |n: usize, address: &str, bytes: usize| Parcel {
        id: LetterId::parse(&format!("mail_{n}")).unwrap(),
        sender: None,
        address: address.into(),
        posted: 3,
        body: "x".repeat(bytes),
        fate: None,
    };
    let send = async |send: Vec<Parcel>| bed.store.deliver(Mail { send, ..Mail::default() }).await;
    send((0..1000).map(|n| parcel(n, "bridge:many/main", 1)).collect()).await.unwrap();
    let full = send(vec![parcel(1000, "bridge:many/main", 1)]).await;
    assert!(matches!(full, Err(Error::OutboxFull { count: 1000, .. })), "{full:?}");
    // For one address, and for all.
    const MIB: usize = 1 << 20;
    for peer in 0..4 {
        let lot = (0..15).map(|n| parcel(2000 + peer * 100 + n, &format!("bridge:p{peer}/main"), MIB)).collect();
        send(lot).await.unwrap();
    }
    let full = send(vec![parcel(3000, "bridge:p0/main", 2 * MIB)]).await;
    assert!(matches!(&full, Err(Error::OutboxFull { to, .. }) if to == "bridge:p0/main"), "{full:?}");
    let full = send(vec![parcel(3001, "bridge:p9/main", 5 * MIB)]).await;
    assert!(matches!(&full, Err(Error::OutboxFull { to, .. }) if to == "other gateways"), "{full:?}");
    // One that the other side has already needs no room, and one that leaves makes some.
    let fate = Fate { state: MailState::Queued, reason: None, at: 9 };
    send(vec![Parcel { fate: Some(fate.clone()), ..parcel(3002, "bridge:p9/main", 5 * MIB) }]).await.unwrap();
    let sent = vec![(LetterId::parse("mail_2000").unwrap(), fate)];
    bed.store.deliver(Mail { sent, ..Mail::default() }).await.unwrap();
    send(vec![parcel(3000, "bridge:p0/main", 2 * MIB)]).await.unwrap();
}
