//! Rules of mail under a person's eye: held letters, and the pages of what sessions wrote to each other.

use super::Bed;
use super::bed::{control, prompt, request, take};
use crate::{Error, Held, HeldQuery, HeldState, Hold, Mail, MailKey, Post, Receipt, Release, SentQuery, Session};
use proto::letter::Sender;
use proto::{Class, Letter, LetterId, Status};

/// When the letters of these tests expire.
const END: i64 = 100;

fn hold(to: &Session) -> Hold {
    let letter = prompt(to, Class::Steer).letter;
    Hold { letter, sender: "bridge:far".into(), expires: END, queue: None }
}

async fn keep(bed: &Bed, at: i64, hold: Hold) -> Result<Receipt, Error> {
    let mail = Mail { at, hold: vec![hold], ..Mail::default() };
    Ok(bed.store.deliver(mail).await?.pop().unwrap())
}

async fn held(bed: &Bed, to: &Session) -> LetterId {
    keep(bed, 10, hold(to)).await.unwrap().letter
}

async fn decide(bed: &Bed, at: i64, id: &LetterId, accept: bool) -> Result<Vec<Receipt>, Error> {
    let release = Release { id: id.clone(), accept, reason: (!accept).then(|| "no strangers".into()) };
    bed.store.deliver(Mail { at, release: vec![release], ..Mail::default() }).await
}

async fn look(bed: &Bed, now: i64, id: &LetterId) -> Held {
    let query = HeldQuery { id: Some(id.clone()), now, limit: 9, ..HeldQuery::default() };
    bed.store.held(&query).await.unwrap().pop().unwrap()
}

pub async fn a_held_letter_waits_outside_the_inbox(bed: Bed) {
    let session = bed.root("a").await;
    let hold = hold(&session);
    let receipt = keep(&bed, 10, hold.clone()).await.unwrap();
    assert!(!receipt.duplicate && receipt.letter == hold.letter.id && receipt.to == session.id);
    let row = bed.row(&session).await;
    assert_eq!((row.pending, row.status), (0, Status::Idle));
    let kept = look(&bed, 11, &receipt.letter).await;
    assert_eq!((kept.to, kept.root, kept.sender.as_str()), (session.id.clone(), session.id, "bridge:far"));
    assert_eq!((kept.posted, kept.expires, kept.state, kept.decided), (10, END, HeldState::Held, None));
    assert_eq!(format!("{:?}", kept.letter.unwrap()), format!("{:?}", hold.letter));
}

pub async fn an_accepted_letter_is_posted_once(bed: Bed) {
    let session = bed.root("a").await;
    let hold = hold(&session);
    keep(&bed, 10, hold.clone()).await.unwrap();
    let id = hold.letter.id.clone();
    let receipts = decide(&bed, 20, &id, true).await.unwrap();
    assert_eq!((receipts.len(), receipts[0].duplicate, receipts[0].class), (1, false, Class::Steer));
    assert_eq!((bed.row(&session).await.pending, bed.row(&session).await.status), (1, Status::Queued));
    assert_eq!(bed.store.inbox(&session.id, 0).await.unwrap()[0].1.id, id);
    // The sender tries again, by either way.
    assert!(keep(&bed, 21, hold.clone()).await.unwrap().duplicate);
    assert!(bed.post(Post { letter: hold.letter, person: false, queue: None }).await.unwrap().duplicate);
    assert_eq!(bed.row(&session).await.pending, 1);
    let kept = look(&bed, 22, &id).await;
    assert_eq!((kept.state, kept.decided, kept.letter.is_none()), (HeldState::Accepted, Some(20), true));
    // One that came in by another way while it was held is not posted a second time.
    let other = super::held::hold(&session);
    keep(&bed, 30, other.clone()).await.unwrap();
    bed.post(Post { letter: other.letter.clone(), person: false, queue: None }).await.unwrap();
    assert!(decide(&bed, 31, &other.letter.id, true).await.unwrap()[0].duplicate);
    assert_eq!(bed.row(&session).await.pending, 2);
}

pub async fn a_refused_letter_stays_out_for_good(bed: Bed) {
    let session = bed.root("a").await;
    let hold = hold(&session);
    keep(&bed, 10, hold.clone()).await.unwrap();
    assert!(decide(&bed, 20, &hold.letter.id, false).await.unwrap().is_empty());
    let kept = look(&bed, 21, &hold.letter.id).await;
    assert_eq!((kept.state, kept.reason.as_deref()), (HeldState::Refused, Some("no strangers")));
    assert!(kept.letter.is_none());
    assert!(keep(&bed, 22, hold.clone()).await.unwrap().duplicate);
    assert_eq!(look(&bed, 23, &hold.letter.id).await.state, HeldState::Refused);
    assert_eq!(bed.row(&session).await.pending, 0);
}

pub async fn a_letter_is_decided_once(bed: Bed) {
    let session = bed.root("a").await;
    for first in [true, false] {
        let id = held(&bed, &session).await;
        decide(&bed, 20, &id, first).await.unwrap();
        let state = if first { HeldState::Accepted } else { HeldState::Refused };
        for second in [true, false] {
            let again = decide(&bed, 21, &id, second).await;
            assert!(matches!(again, Err(Error::Released { letter, state: told }) if letter == id && told == state));
        }
        assert_eq!(look(&bed, 22, &id).await.decided, Some(20));
    }
    assert_eq!(bed.row(&session).await.pending, 1);
    let unknown = LetterId::new();
    assert!(matches!(decide(&bed, 20, &unknown, true).await, Err(Error::NoLetter(id)) if id == unknown));
}

pub async fn nobody_decides_after_the_expiry(bed: Bed) {
    let session = bed.root("a").await;
    let id = held(&bed, &session).await;
    assert_eq!(look(&bed, END - 1, &id).await.state, HeldState::Held);
    let late = look(&bed, END, &id).await;
    assert_eq!((late.state, late.letter.is_none()), (HeldState::Expired, true));
    let refused = decide(&bed, END, &id, true).await;
    assert!(matches!(refused, Err(Error::Released { state: HeldState::Expired, .. })));
    assert_eq!(bed.row(&session).await.pending, 0);
    decide(&bed, END - 1, &id, true).await.unwrap();
}

pub async fn a_letter_is_held_once(bed: Bed) {
    let (one, two) = (bed.root("one").await, bed.root("two").await);
    let first = hold(&one);
    keep(&bed, 10, first.clone()).await.unwrap();
    let again = Hold { sender: "somebody else".into(), expires: 9_999, ..first.clone() };
    assert!(keep(&bed, 11, again).await.unwrap().duplicate);
    let kept = look(&bed, 12, &first.letter.id).await;
    assert_eq!((kept.sender.as_str(), kept.expires, kept.posted), ("bridge:far", END, 10));
    let strange = Hold { letter: Letter { to: two.id.clone(), ..first.letter.clone() }, ..first };
    assert!(matches!(keep(&bed, 13, strange).await, Err(Error::Taken { holder, .. }) if holder == one.id.as_str()));
    let nobody = super::bed::root("nobody");
    assert!(matches!(keep(&bed, 14, hold(&nobody)).await, Err(Error::NoSession(id)) if id == nobody.id));
}

pub async fn held_letters_are_bounded_per_receiver(bed: Bed) {
    let (session, other) = (bed.root("a").await, bed.root("b").await);
    let full = |to: &Session| Hold { queue: Some(2), ..hold(to) };
    keep(&bed, 10, full(&session)).await.unwrap();
    let second = keep(&bed, 10, full(&session)).await.unwrap().letter;
    assert!(matches!(keep(&bed, 11, full(&session)).await, Err(Error::QueueFull(id)) if id == session.id));
    keep(&bed, 11, full(&other)).await.unwrap();
    decide(&bed, 12, &second, false).await.unwrap();
    keep(&bed, 13, full(&session)).await.unwrap();
    assert!(matches!(keep(&bed, 14, full(&session)).await, Err(Error::QueueFull(_))));
    // What has expired is in nobody's way.
    keep(&bed, END, Hold { expires: 2 * END, ..full(&session) }).await.unwrap();
}

pub async fn held_letters_come_in_pages(bed: Bed) {
    let (one, two) = (bed.root("one").await, bed.root("two").await);
    let mut ids = Vec::new();
    for at in 0..6 {
        let to = if at % 2 == 0 { &one } else { &two };
        // Two share each moment, so that the id has to decide.
        ids.push(keep(&bed, at / 2, hold(to)).await.unwrap().letter);
    }
    let newest_first: Vec<LetterId> = ids.iter().rev().cloned().collect();
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = bed.store.held(&HeldQuery { after, limit: 4, ..HeldQuery::default() }).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(MailKey { posted: last.posted, id: last.id.clone() });
        seen.extend(page.into_iter().map(|held| held.id));
    }
    assert_eq!(seen, newest_first);
    decide(&bed, 9, &ids[0], false).await.unwrap();
    decide(&bed, 9, &ids[1], true).await.unwrap();
    let ask = async |states: &[HeldState], session: Option<&Session>, now| {
        let session = session.map(|session| session.id.clone());
        let query = HeldQuery { states: states.into(), session, now, limit: 9, ..HeldQuery::default() };
        bed.store.held(&query).await.unwrap().into_iter().map(|held| held.id).collect::<Vec<_>>()
    };
    assert_eq!(ask(&[HeldState::Held], None, 9).await, newest_first[..4]);
    assert_eq!(ask(&[HeldState::Held], Some(&one), 9).await, [ids[4].clone(), ids[2].clone()]);
    assert_eq!(ask(&[HeldState::Refused], None, 9).await, [ids[0].clone()]);
    assert_eq!(ask(&[HeldState::Accepted], Some(&two), 9).await, [ids[1].clone()]);
    assert_eq!(ask(&[HeldState::Expired], None, 9).await, []);
    assert_eq!(ask(&[HeldState::Expired], None, END).await, newest_first[..4]);
    let but_accepted = [HeldState::Held, HeldState::Refused, HeldState::Expired];
    for now in [9, END] {
        assert_eq!(ask(&but_accepted, Some(&one), now).await, [ids[4].clone(), ids[2].clone(), ids[0].clone()]);
    }
    assert_eq!(ask(&[], Some(&super::bed::root("nobody")), 9).await, []);
}

pub async fn letters_between_sessions_are_listed(bed: Bed) {
    let (one, two, three) = (bed.root("one").await, bed.root("two").await, bed.root("three").await);
    let from = |sender: &Session, to: &Session, post: fn(&Session) -> Post| {
        let post = post(to);
        Post { letter: Letter { from: Sender::Session { id: sender.id.clone() }, ..post.letter }, ..post }
    };
    let first = bed.post(from(&one, &two, request)).await.unwrap().letter;
    let second = bed.post(from(&two, &one, request)).await.unwrap().letter;
    let third = bed.post(from(&three, &two, request)).await.unwrap().letter;
    let own = bed.post(from(&one, &one, request)).await.unwrap().letter;
    // What people and the runtime say is not mail between sessions.
    bed.post(request(&one)).await.unwrap();
    bed.post(from(&one, &two, control)).await.unwrap();
    bed.commit(&two, take(&[&first])).await.unwrap();
    let ask = async |session: Option<&Session>, unread, after, limit| {
        let session = session.map(|session| session.id.clone());
        let query = SentQuery { session, unread, after, limit, ..SentQuery::default() };
        bed.store.sent(&query).await.unwrap().into_iter().map(|sent| sent.id).collect::<Vec<_>>()
    };
    let all = [own.clone(), third.clone(), second.clone(), first.clone()];
    assert_eq!(ask(None, None, None, 9).await, all);
    assert_eq!(ask(None, None, Some(MailKey { posted: 2, id: third.clone() }), 1).await, all[2..3]);
    assert_eq!(ask(Some(&one), None, None, 9).await, [own.clone(), second.clone(), first.clone()]);
    assert_eq!(ask(Some(&one), None, None, 2).await, [own.clone(), second.clone()]);
    assert_eq!(ask(None, Some(true), None, 9).await, [own.clone(), third.clone(), second.clone()]);
    assert_eq!(ask(Some(&two), Some(true), None, 9).await, [third, second]);
    assert_eq!(ask(Some(&two), Some(false), None, 9).await, all[3..]);
    let query = SentQuery { id: Some(first), limit: 1, ..SentQuery::default() };
    let taken = bed.store.sent(&query).await.unwrap().pop().unwrap();
    assert_eq!((taken.sender.as_str(), taken.to, taken.root), (one.id.as_str(), two.id.clone(), two.id));
    assert_eq!((taken.posted, taken.consumed, taken.seq, taken.letter.is_none()), (2, Some(6), Some(1), true));
    let query = SentQuery { id: Some(own), limit: 1, ..SentQuery::default() };
    let unread = bed.store.sent(&query).await.unwrap().pop().unwrap();
    assert_eq!((unread.consumed, unread.letter.unwrap().class), (None, Class::Request));
}
