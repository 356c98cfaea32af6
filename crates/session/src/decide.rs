//! What to do next: a pure function of what the log says and what waits in the inbox.
//!
//! Called after every commit, and after a restart on what was committed: the same answer. The order of the checks is the
//! contract (row A7).

use crate::view::View;
use proto::letter::Sender;
use proto::{Class, Letter, LetterId};
use std::collections::{HashSet, VecDeque};
use store::Unread;

/// What an actor does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Control letters wait: obey them, whatever else is under way.
    Obey,
    /// Calls are open: wait for their outcomes.
    Settle,
    /// Move this many due letters into the log.
    Take(usize),
    /// A person stopped the session, and the next letter is none of theirs: keep it without starting a run.
    Shelve,
    /// Nothing is under way and nothing waits.
    Rest,
    /// The turn is answered: end the run.
    End,
    /// The session agreed to be shut down: end the run and take no more mail.
    Close,
    /// Mentions are to be dispatched before the model is called.
    RunSubtask,
    /// The budget is spent: end the run.
    Spent,
    /// The context is full, or somebody asked to make room.
    Compact,
    /// The context is full, and making room does not help: end the run.
    Full,
    /// The last step: the model gets no tools and is told to conclude.
    Conclude,
    /// It was told to, and called tools all the same: end the run.
    Exhausted,
    /// It goes in circles, whatever it is told: end the run.
    Hopeless,
    CallModel,
}

/// The numbers that a decision depends on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    /// Model calls a run may make.
    pub steps: Option<u32>,
    /// Tokens a conversation may fill; 0 means unknown.
    pub context: u64,
    /// Nothing is left to spend.
    pub spent: bool,
    /// A person stopped the session: only their word starts it again.
    pub stopped: bool,
}

pub fn decide(view: &View, inbox: &Inbox, limits: &Limits) -> Next {
    if inbox.has_control() {
        return Next::Obey;
    }
    if !view.open().is_empty() {
        return Next::Settle;
    }
    if view.closing() {
        return Next::Close;
    }
    if view.paused() {
        // What is answered may still end; nothing new begins.
        return if view.answering().is_some_and(|now| now.answered) { Next::End } else { Next::Rest };
    }
    // Steer letters are due at any boundary, a request only when idle: so a turn never ends over unread mail.
    let due = inbox.due(view.answering().is_some());
    if due > 0 {
        let starts = !limits.stopped || view.answering().is_some() || inbox.next_is_from_outside();
        return if starts { Next::Take(due) } else { Next::Shelve };
    }
    let Some(now) = view.answering() else { return Next::Rest };
    // Whoever asks for room gets it; what makes it by itself has to see that it helps.
    let (pending, wanted) = (view.pending().is_some(), view.pending().is_some_and(|pending| !pending.auto));
    if now.answered && !wanted {
        // Whoever asks to shut it down gets an answer first; the actor's clock ends that wait.
        return if view.shutdown().is_some() { Next::Settle } else { Next::End };
    }
    if !view.subtasks().is_empty() {
        return Next::RunSubtask;
    }
    if limits.spent {
        return Next::Spent;
    }
    if pending || (limits.context > 0 && view.context() >= limits.context) {
        return if wanted || view.can_make_room(limits.context) { Next::Compact } else { Next::Full };
    }
    if now.is_hopeless() {
        return Next::Hopeless;
    }
    match limits.steps {
        Some(steps) if now.steps >= steps.max(1) => Next::Exhausted,
        Some(steps) if now.steps + 1 >= steps => Next::Conclude,
        _ => Next::CallModel,
    }
}

/// What is read at once of the letters that are due, in bytes, unless the first alone has more.
const LOT: usize = 1 << 20;

/// Unread letters, in the order they were posted. Control letters stand apart: they do not wait in line. What the others say
/// is read when they are taken.
#[derive(Debug, Default)]
pub struct Inbox {
    controls: VecDeque<Letter>,
    mail: VecDeque<Unread>,
    steers: usize,
    /// Letters among them that ask whether the session may be shut down.
    questions: usize,
    /// How far the stored inbox has been read.
    read: u64,
}

impl Inbox {
    pub fn extend(&mut self, letters: impl IntoIterator<Item = (u64, Unread)>) {
        for (position, mut letter) in letters {
            self.read = self.read.max(position);
            if let Some(control) = letter.control.take() {
                self.controls.push_back(*control);
                continue;
            }
            self.steers += usize::from(letter.class == Class::Steer);
            self.questions += usize::from(letter.asks_to_end);
            self.mail.push_back(letter);
        }
    }

    pub fn read_up_to(&self) -> u64 {
        self.read
    }

    pub fn len(&self) -> usize {
        self.controls.len() + self.mail.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn has_control(&self) -> bool {
        !self.controls.is_empty()
    }

    /// How many letters may be taken now: all steers while answering; when idle one letter of either kind.
    fn due(&self, answering: bool) -> usize {
        if answering { self.steers } else { self.mail.len().min(1) }
    }

    /// Whether the next letter is a person's, or came from another gateway and was let in.
    fn next_is_from_outside(&self) -> bool {
        self.mail.front().is_some_and(|letter| matches!(letter.from, Sender::Person | Sender::Peer { .. }))
    }

    /// The first of the letters that `Next::Take` means: as many as are read at once.
    pub fn due_letters(&self, answering: bool, count: usize) -> Vec<LetterId> {
        let due = self.mail.iter().filter(|letter| !answering || letter.class == Class::Steer).take(count);
        let mut bytes = 0;
        let fits = |letter: &&Unread| {
            let first = bytes == 0;
            bytes += letter.bytes.max(1);
            first || bytes <= LOT
        };
        due.take_while(fits).map(|letter| letter.id.clone()).collect()
    }

    pub fn controls(&self) -> impl Iterator<Item = &Letter> {
        self.controls.iter()
    }

    /// Requests and steers that nobody has taken.
    pub fn queued(&self) -> impl Iterator<Item = &Unread> {
        self.mail.iter()
    }

    /// Forgets letters that a commit moved into the log.
    pub fn consumed(&mut self, ids: &[LetterId]) {
        let mut gone: HashSet<&LetterId> = ids.iter().collect();
        let (steers, questions) = (&mut self.steers, &mut self.questions);
        let mut forget = |letter: &Unread| {
            *steers -= usize::from(letter.class == Class::Steer);
            *questions -= usize::from(letter.asks_to_end);
        };
        // Letters are taken from the front: what is behind them, however much, is not looked at.
        while let Some(letter) = self.mail.pop_front_if(|letter| gone.remove(&letter.id)) {
            forget(&letter);
        }
        self.controls.retain(|letter| !gone.remove(&letter.id));
        if !gone.is_empty() {
            self.mail.retain(|letter| {
                let goes = gone.contains(&letter.id);
                if goes {
                    forget(letter);
                }
                !goes
            });
        }
    }

    /// Whether somebody asks to shut the session down, and it has not read that yet.
    pub fn asks_to_end(&self) -> bool {
        self.questions > 0
    }
}

#[cfg(test)]
mod tests;
