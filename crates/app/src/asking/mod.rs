//! Asks in front of a person: shown one after the other, while everything else waits, and answered under their own id.
//!
//! `run` and `attach` pass every event through here. What comes back is to be shown now; what belongs to an ask goes to
//! the person, if there is one, and what happens while an ask stands on the screen is held back until it is answered.

mod keys;
mod pager;
mod person;

pub(crate) use person::{Person, Said};

use client::Client;
use proto::event::Seen;
use proto::letter::AskReply;
use proto::methods::{
    AskAnswer, AskInput, AsksInput, PermissionsGet, PermissionsList, PermissionsReply, QuestionsList, QuestionsReply,
};
use proto::{AskId, Code, SessionId};
use std::collections::{HashSet, VecDeque};

/// Events that are held back while somebody thinks: minutes of a busy tree. Of more, the oldest go.
const MOST_HELD: usize = 4096;

pub(crate) struct Asking {
    person: Option<Person>,
    /// Every ask that was taken, so that none is shown twice.
    known: HashSet<AskId>,
    /// What this terminal has answered.
    answered: HashSet<AskId>,
    held: VecDeque<Seen>,
    dropped: u64,
    /// What was answered here is told like the rest: a program reads it.
    tells_own: bool,
    /// The person is gone: what is asked now is for others to answer.
    left: bool,
}

impl Asking {
    pub(crate) fn new(person: Option<Person>) -> Self {
        let (known, answered) = (HashSet::new(), HashSet::new());
        Self { person, known, answered, held: VecDeque::new(), dropped: 0, tells_own: false, left: false }
    }

    /// For a program, which reads everything.
    pub(crate) fn for_a_program() -> Self {
        Self { tells_own: true, ..Self::new(None) }
    }

    /// Takes an event. What comes back is to be shown now, and an ask that does is nobody's here.
    pub(crate) fn sort(&mut self, seen: Seen) -> Option<Seen> {
        match seen {
            Seen::Ask(_) | Seen::Question(_) if self.left => None,
            Seen::Ask(ask) if !self.known.insert(ask.ask_id.clone()) => None,
            Seen::Question(asked) if !self.known.insert(asked.id.clone()) => None,
            // A plan waits for the lead it was put to, whether a person is there or not.
            Seen::Ask(ask)
                if ask.to.is_none()
                    && let Some(person) = &mut self.person =>
            {
                person.ask(ask);
                None
            }
            Seen::Question(asked) if let Some(person) = &mut self.person => {
                person.wonder(asked);
                None
            }
            Seen::Settled { ref ask_id, by, reply, .. } => {
                let here = self.answered.remove(ask_id) && !self.tells_own;
                let waited = self.person.as_mut().is_some_and(|person| person.settled(ask_id, by, reply));
                if here || waited { None } else { self.show_or_hold(seen) }
            }
            seen => self.show_or_hold(seen),
        }
    }

    fn show_or_hold(&mut self, seen: Seen) -> Option<Seen> {
        if !self.is_asked() && self.held.is_empty() {
            return Some(seen);
        }
        if self.held.len() == MOST_HELD {
            self.held.pop_front();
            self.dropped += 1;
        }
        self.held.push_back(seen);
        None
    }

    /// What was held back, one by one, when nothing stands on the screen any more.
    pub(crate) fn released(&mut self) -> Option<Released> {
        if self.is_asked() {
            return None;
        }
        match std::mem::take(&mut self.dropped) {
            0 => self.held.pop_front().map(Released::Event),
            count => Some(Released::Missing(count)),
        }
    }

    /// Shows the next question, if one waits. Everything that was held back is shown by then.
    pub(crate) fn show_next(&mut self) {
        self.person.iter_mut().for_each(Person::show_next);
    }

    /// Whether one waits to be shown, and nothing stands on the screen.
    pub(crate) fn has_next(&self) -> bool {
        self.person.as_ref().is_some_and(Person::has_next)
    }

    /// Whether a question stands on the screen.
    pub(crate) fn is_asked(&self) -> bool {
        self.person.as_ref().is_some_and(Person::is_asked)
    }

    /// It is over: nothing is asked any more.
    pub(crate) fn leave(&mut self) {
        if let Some(mut person) = self.person.take() {
            person.leave();
            self.left = true;
        }
    }

    /// What the person says, if there is one. Safe to drop.
    pub(crate) async fn said(&mut self) -> Said {
        match &mut self.person {
            Some(person) => person.answer().await,
            None => std::future::pending().await,
        }
    }

    /// Does what they said.
    pub(crate) async fn act(&mut self, client: &Client, said: Said) -> Result<(), client::Error> {
        match said {
            Said::Later => Ok(()),
            Said::Leave { ask, reply, keep, message } => self.reply(client, ask, (reply, keep), message).await,
            Said::Answers(answer) => {
                let id = answer.id.clone();
                self.answered.insert(id.clone());
                let sent = client.call::<QuestionsReply>(answer).await;
                self.sent(&id, sent.map(drop))
            }
            Said::Whole(ask_id) => {
                let found = client.call::<PermissionsGet>(AskInput { ask_id: ask_id.clone() }).await;
                let Some(person) = &mut self.person else { return Ok(()) };
                match found {
                    Ok(ask) => person.page(&ask),
                    Err(client::Error::Refused(error)) => person.again(&error.message),
                    Err(error) => {
                        person.again("the gateway is gone for the moment");
                        return Err(error);
                    }
                }
                Ok(())
            }
        }
    }

    pub(crate) async fn reply(
        &mut self,
        client: &Client,
        ask_id: AskId,
        (reply, keep): (AskReply, Option<u32>),
        message: Option<String>,
    ) -> Result<(), client::Error> {
        self.answered.insert(ask_id.clone());
        let answer = AskAnswer { ask_id: ask_id.clone(), reply, keep, message };
        let sent = client.call::<PermissionsReply>(answer).await;
        self.sent(&ask_id, sent.map(drop))
    }

    fn sent(&mut self, ask: &AskId, sent: Result<(), client::Error>) -> Result<(), client::Error> {
        match sent {
            // Somebody else was faster, or the call is over.
            Err(client::Error::Refused(error)) if matches!(error.code, Code::NotFound | Code::Conflict) => Ok(()),
            Err(error) => {
                // The next gateway still has the question, so it has to be answered again.
                self.known.remove(ask);
                self.answered.remove(ask);
                Err(error)
            }
            Ok(()) => Ok(()),
        }
    }

    /// What is open in a tree, as the events that told of it. What is open no more is forgotten: it was answered while
    /// nobody watched.
    pub(crate) async fn open(&mut self, client: &Client, session: &SessionId) -> Result<Vec<Seen>, client::Error> {
        let input = || AsksInput { reference: Some(session.to_string()) };
        let asks = client.call::<PermissionsList>(input()).await?.asks;
        let questions = client.call::<QuestionsList>(input()).await?.questions;
        let ids = asks.iter().map(|ask| &ask.ask_id).chain(questions.iter().map(|asked| &asked.id));
        let ids: Vec<AskId> = ids.cloned().collect();
        self.person.iter_mut().for_each(|person| person.keep_only(&ids));
        let asks = asks.into_iter().map(|ask| Seen::Ask(Box::new(ask)));
        Ok(asks.chain(questions.into_iter().map(|asked| Seen::Question(Box::new(asked)))).collect())
    }
}

/// What was held back.
pub(crate) enum Released {
    Event(Seen),
    /// So many events before the next are not shown any more.
    Missing(u64),
}
