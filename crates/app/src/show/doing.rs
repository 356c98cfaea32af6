//! What sessions do while nothing is shown of it: for one line that says for how long.

use super::Line;
use proto::{CallId, SessionId};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A shorter silence needs no words.
const SILENCE: Duration = Duration::from_secs(1);

/// Sessions that are told of in one line.
const MOST: usize = 4;

#[derive(Default)]
pub(crate) struct Doing {
    busy: BTreeMap<SessionId, Work>,
    /// When something was heard last.
    heard: Option<Instant>,
}

struct Work {
    since: Instant,
    /// The tool of a call that the model is writing.
    writes: Option<String>,
    calls: Vec<(CallId, String, Instant)>,
}

impl Doing {
    /// A model is asked.
    pub(crate) fn thinks(&mut self, session: &SessionId, now: Instant) {
        self.heard = Some(now);
        self.busy.entry(session.clone()).or_insert_with(|| Work::new(now));
    }

    /// A model or a command is heard.
    pub(crate) fn speaks(&mut self, session: &SessionId, now: Instant) {
        self.thinks(session, now);
    }

    pub(crate) fn writes(&mut self, session: &SessionId, tool: &str, now: Instant) {
        self.thinks(session, now);
        if let Some(work) = self.busy.get_mut(session) {
            (work.writes, work.since) = (Some(tool.to_owned()), now);
        }
    }

    /// The model is done. What it asks for is told by [`Self::calls`].
    pub(crate) fn replied(&mut self, session: &SessionId, now: Instant) {
        self.heard = Some(now);
        self.busy.insert(session.clone(), Work::new(now));
    }

    pub(crate) fn calls(&mut self, session: &SessionId, call: &CallId, words: &str, now: Instant) {
        self.thinks(session, now);
        if let Some(work) = self.busy.get_mut(session) {
            work.calls.push((call.clone(), words.to_owned(), now));
        }
    }

    /// A call that was asked about starts.
    pub(crate) fn starts(&mut self, session: &SessionId, call: &CallId, now: Instant) {
        self.heard = Some(now);
        let calls = self.busy.get_mut(session).into_iter().flat_map(|work| &mut work.calls);
        calls.filter(|(known, ..)| known == call).for_each(|(_, _, since)| *since = now);
    }

    /// A call is over, and with the last one the model is asked again.
    pub(crate) fn done(&mut self, session: &SessionId, call: &CallId, now: Instant) {
        self.heard = Some(now);
        if let Some(work) = self.busy.get_mut(session) {
            work.calls.retain(|(known, ..)| known != call);
            work.since = now;
        }
    }

    pub(crate) fn ends(&mut self, session: &SessionId) {
        self.busy.remove(session);
    }

    /// Who does what, and for how long; the longest first. `called` has a name for all but one.
    pub(crate) fn status<'a>(&self, now: Instant, called: impl Fn(&SessionId) -> Option<&'a str>) -> Option<Line> {
        if self.busy.is_empty() || self.heard.is_some_and(|heard| now.duration_since(heard) < SILENCE) {
            return None;
        }
        let mut busy: Vec<(Option<&str>, &Work)> =
            self.busy.iter().map(|(session, work)| (called(session), work)).collect();
        busy.sort_by_key(|(called, work)| (called.is_some(), work.since));
        let told = busy.iter().take(MOST).map(|(called, work)| match called {
            Some(called) => format!("{called}: {}", work.words(now)),
            None => work.words(now),
        });
        let more = busy.len().saturating_sub(MOST);
        let more = (more > 0).then(|| format!("{more} more"));
        let told: Vec<String> = told.chain(more).collect();
        Some(Line::dim(format!("… {}", told.join(" · "))))
    }
}

impl Work {
    fn new(since: Instant) -> Self {
        Self { since, writes: None, calls: Vec::new() }
    }

    fn words(&self, now: Instant) -> String {
        match (self.calls.as_slice(), &self.writes) {
            ([], None) => format!("thinking {}", elapsed(now.duration_since(self.since))),
            ([], Some(tool)) => format!("writing {tool} {}", elapsed(now.duration_since(self.since))),
            ([(_, words, since)], _) => format!("{words} {}", elapsed(now.duration_since(*since))),
            ([(_, words, since), more @ ..], _) => {
                format!("{words} {} (+{})", elapsed(now.duration_since(*since)), more.len())
            }
        }
    }
}

/// `5 s`, `2 min 5 s`, `1 h 2 min`.
pub(crate) fn elapsed(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_says_who_does_what_and_for_how_long() {
        let (root, child, start) = (SessionId::new(), SessionId::new(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut doing = Doing::default();
        let status = |doing: &Doing, seconds| {
            let line = doing.status(at(seconds), |session| (*session == child).then_some("writer"));
            line.map(|line| line.pieces().map(|(_, text)| text.to_owned()).collect::<String>())
        };
        assert_eq!(status(&doing, 5), None);
        doing.thinks(&root, at(0));
        assert_eq!(status(&doing, 0), None, "nobody is impatient yet");
        assert_eq!(status(&doing, 12).as_deref(), Some("… thinking 12 s"));
        doing.writes(&root, "edit", at(13));
        assert_eq!(status(&doing, 15).as_deref(), Some("… writing edit 2 s"));
        let (one, two) = (CallId::new(), CallId::new());
        doing.replied(&root, at(16));
        doing.calls(&root, &one, "bash cargo test", at(16));
        doing.calls(&root, &two, "read a.rs", at(16));
        doing.thinks(&child, at(17));
        assert_eq!(status(&doing, 18).as_deref(), Some("… bash cargo test 2 s (+1) · writer: thinking 1 s"));
        doing.done(&root, &two, at(20));
        assert_eq!(status(&doing, 95).as_deref(), Some("… bash cargo test 1 min 19 s · writer: thinking 1 min 18 s"));
        doing.ends(&root);
        doing.ends(&child);
        assert_eq!(status(&doing, 99), None);
    }
}
