//! The conversation after a message (S7): two sessions take turns, and then the receiver tells its channel.
//!
//! It has no state of its own. Each leg is a request letter that carries all there is to know; the commit that ends one leg
//! posts the next. So a crash can neither lose a leg nor play it twice.

use crate::steady;
use proto::letter::{Conversation, Leg, Prompt, Provenance, Sender};
use proto::{Body, Class, Letter, LetterId, Outcome, RunId};
use std::time::Duration;
use store::{Post, Session};
use tools::doors::Message;

/// Words that end a turn without saying anything.
const SKIP_REPLY: &str = "REPLY_SKIP";
const SKIP_ANNOUNCE: [&str; 2] = ["ANNOUNCE_SKIP", "NO_REPLY"];
/// How long a leg may take when the sender did not wait at all.
const UNWAITED: Duration = Duration::from_secs(30);

pub(super) fn begin(run: &RunId, own: &Session, target: &Session, message: &Message, max: u32) -> Conversation {
    let limit = if message.wait.is_zero() { UNWAITED } else { message.wait };
    Conversation {
        id: run.clone(),
        requester: own.id.clone(),
        target: target.id.clone(),
        turn: 0,
        max,
        leg: Leg::Message,
        request: message.text.clone(),
        first: None,
        limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
        posted: steady(),
    }
}

/// After a person's message: nobody talks it over with the receiver, and it tells its channel.
pub(crate) fn announced(run: &RunId, target: &Session, text: &str, wait: Duration) -> Conversation {
    let message = Message {
        key: None,
        label: None,
        agent: None,
        text: text.to_owned(),
        wait,
        delivery: tools::doors::Delivery::Announce,
        spoken: false,
    };
    begin(run, target, target, &message, 0)
}

/// The letter that follows a leg whose answer is `text`, if one does; `hops` sessions came before its receiver.
pub(crate) fn next(leg: &Conversation, by: &Session, hops: u32, outcome: Outcome, text: &str) -> Option<Post> {
    let text = text.trim();
    let late = steady() - leg.posted > i64::try_from(leg.limit_ms).unwrap_or(i64::MAX);
    if outcome != Outcome::Ok || late || leg.leg == Leg::Announce {
        return None;
    }
    let first = leg.first.clone().unwrap_or_else(|| text.to_owned());
    let over = text.is_empty() || text == SKIP_REPLY || leg.turn >= leg.max;
    // Nobody answered the message itself: there is nothing to talk over, and nothing to tell.
    if over && leg.leg == Leg::Message && (text.is_empty() || text == SKIP_REPLY) {
        return None;
    }
    let (turn, kind) = if over { (leg.turn, Leg::Announce) } else { (leg.turn + 1, Leg::Turn) };
    // The requester goes first, then they alternate; the announcement is the receiver's.
    let to = if kind == Leg::Turn && turn % 2 == 1 { &leg.requester } else { &leg.target };
    let next = Conversation { turn, leg: kind, first: Some(first), posted: steady(), ..leg.clone() };
    let prompt = match kind {
        Leg::Announce => announce(&next, text),
        Leg::Message | Leg::Turn => reply(by, text),
    };
    let letter = Letter {
        id: LetterId::derived("talk_", &format!("{}_{}{turn}", leg.id, if kind == Leg::Announce { "a" } else { "" })),
        to: to.clone(),
        from: Sender::Session { id: by.id.clone() },
        class: Class::Request,
        body: Body::Prompt(Prompt::text(prompt)),
        provenance: Some(Provenance {
            kind: "inter_session".into(),
            source_session_key: Some(by.key.clone()),
            source_name: by.name.clone(),
            source_tool: Some("sessions_send".into()),
            hops,
            ..Provenance::default()
        }),
        conversation: Some(next),
        report: None,
        expires: None,
    };
    // Not held to the receiver's queue: it is one letter for one, and a refusal would keep this run from ending.
    Some(Post { letter, person: false, queue: None })
}

fn reply(by: &Session, text: &str) -> String {
    format!(
        "The session `{}` answered you:\n<message>\n{text}\n</message>\nReply if there is something left to say. To end the \
         conversation, answer exactly {SKIP_REPLY}.",
        by.key
    )
}

fn announce(leg: &Conversation, latest: &str) -> String {
    format!(
        "The conversation with the other session is over.\nYou were asked: {}\nYou answered first: {}\nThe last word was: \
         {latest}\nWrite what should be told to the people of your own channel about it. To tell them nothing, answer \
         exactly {}.",
        leg.request,
        leg.first.as_deref().unwrap_or_default(),
        SKIP_ANNOUNCE[0]
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doors::new_row;
    use crate::grant::Grant;
    use proto::{AgentId, Key, SessionId};

    fn session(name: &str) -> Session {
        let id = SessionId::parse(&format!("ses_{name}")).unwrap();
        let key = Key::chat(&AgentId::parse("build").unwrap(), &id);
        new_row(id, &key, "build", "/".into(), &Grant::default())
    }

    /// Plays a conversation with these answers and tells who was asked, in order.
    fn play(max: u32, answers: &[&str]) -> Vec<String> {
        let (a, b) = (session("a"), session("b"));
        let message = Message {
            key: None,
            label: None,
            agent: None,
            text: "hello".into(),
            wait: Duration::ZERO,
            delivery: tools::doors::Delivery::Announce,
            spoken: false,
        };
        let mut leg = begin(&RunId::parse("run_1").unwrap(), &a, &b, &message, max);
        let (mut by, mut asked) = (&b, Vec::new());
        for answer in answers {
            let Some(post) = next(&leg, by, 1, Outcome::Ok, answer) else { break };
            by = if post.letter.to == a.id { &a } else { &b };
            let talk = post.letter.conversation.unwrap();
            let kind = if talk.leg == Leg::Announce { "announces" } else { "replies" };
            asked.push(format!("{} {kind}", by.id));
            leg = talk;
        }
        asked
    }

    #[test]
    fn the_requester_goes_first_and_the_receiver_announces() {
        let five = ["1", "2", "3", "4", "5", "6", "told"];
        let turns =
            ["ses_a replies", "ses_b replies", "ses_a replies", "ses_b replies", "ses_a replies", "ses_b announces"];
        assert_eq!(play(5, &five), turns);
        assert_eq!(play(0, &["1", "told"]), ["ses_b announces"]);
    }

    #[test]
    fn a_skip_or_silence_ends_the_turns() {
        assert_eq!(play(5, &["1", "REPLY_SKIP", "told"]), ["ses_a replies", "ses_b announces"]);
        assert_eq!(play(5, &["1", "  ", "told"]), ["ses_a replies", "ses_b announces"]);
        assert!(play(5, &["", "x"]).is_empty());
    }

    #[test]
    fn a_late_or_failed_leg_ends_it() {
        let (a, b) = (session("a"), session("b"));
        let message = Message {
            key: None,
            label: None,
            agent: None,
            text: "hello".into(),
            wait: Duration::from_secs(1),
            delivery: tools::doors::Delivery::Announce,
            spoken: false,
        };
        let mut leg = begin(&RunId::parse("run_1").unwrap(), &a, &b, &message, 5);
        assert!(next(&leg, &b, 1, Outcome::Error, "x").is_none());
        leg.posted -= 2_000;
        assert!(next(&leg, &b, 1, Outcome::Ok, "x").is_none());
    }
}
