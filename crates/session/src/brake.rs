//! The brake on senders: so many letters at once, and then one now and then. In memory only: a restart lets a sender
//! begin anew, which is no harm, since everything it posts is bounded elsewhere too.

use proto::{Code, Error, Millis, SessionId};
use std::collections::HashMap;
use std::sync::Mutex;

/// How fast a sender may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Letters at once.
    pub(crate) burst: u32,
    /// And then one in so many milliseconds.
    pub(crate) every: Millis,
}

/// Messages of one session to any others (C3).
pub(crate) const MESSAGES: Pace = Pace { burst: 30, every: 1_000 };
/// Words of one session to one child while it works (S11).
pub(crate) const STEERS: Pace = Pace { burst: 1, every: 2_000 };

/// Senders remembered; past it those that have rested are forgotten.
const REMEMBERED: usize = 4_096;

#[derive(Default)]
pub(crate) struct Brake {
    /// By sender, and by receiver where each counts for itself: until when what was sent is paid for.
    until: Mutex<HashMap<(SessionId, Option<SessionId>), Millis>>,
}

impl Brake {
    /// Counts one letter, or says when the next one may be sent.
    pub(crate) fn pass(&self, pace: Pace, from: &SessionId, to: Option<&SessionId>, now: Millis) -> Result<(), Error> {
        let mut until = self.until.lock().expect("no holder of this lock panics");
        if until.len() >= REMEMBERED {
            until.retain(|_, at| *at > now);
        }
        let paid = until.entry((from.clone(), to.cloned())).or_insert(now);
        let next = (*paid).max(now) + pace.every;
        let over = next - now - pace.every * Millis::from(pace.burst);
        if over > 0 {
            return Err(too_fast(pace, over));
        }
        *paid = next;
        Ok(())
    }
}

fn too_fast(pace: Pace, wait: Millis) -> Error {
    let what = if pace.burst == 1 {
        format!("one message in {} seconds is the limit here", pace.every / 1_000)
    } else {
        format!("{} messages at once are the limit of one session", pace.burst)
    };
    Error {
        retryable: true,
        retry_after_ms: u64::try_from(wait).ok(),
        ..Error::new(Code::LimitRate, what).hint("say more in one message, or wait a little")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_one_at_a_time() {
        let (brake, from, other) = (Brake::default(), SessionId::new(), SessionId::new());
        let pass = |from, now| brake.pass(MESSAGES, from, None, now);
        for _ in 0..30 {
            pass(&from, 1_000_000).unwrap();
        }
        let refused = pass(&from, 1_000_000).unwrap_err();
        assert_eq!((refused.code, refused.retry_after_ms), (Code::LimitRate, Some(1_000)));
        assert!(pass(&other, 1_000_000).is_ok(), "another sender is another matter");
        assert!(pass(&from, 1_000_500).is_err());
        assert!(pass(&from, 1_001_000).is_ok());
        assert!(pass(&from, 1_001_000).is_err());
        assert!((0..30).all(|_| pass(&from, 2_000_000).is_ok()), "whoever rests may burst again");
    }

    #[test]
    fn each_child_is_steered_at_its_own_pace() {
        let (brake, from) = (Brake::default(), SessionId::new());
        let (one, two) = (SessionId::new(), SessionId::new());
        let pass = |to: &SessionId, now| brake.pass(STEERS, &from, Some(to), now);
        assert!(pass(&one, 0).is_ok() && pass(&two, 0).is_ok());
        assert_eq!(pass(&one, 500).unwrap_err().retry_after_ms, Some(1_500));
        assert!(pass(&one, 2_000).is_ok());
    }
}
