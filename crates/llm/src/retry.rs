//! When a model call that failed is made again, and after how long (A8). No clock, no dice: both are the caller's.
//!
//! The caller waits without holding a run slot and asks from scratch: nothing of the broken answer is kept.

use crate::Error;
use std::time::Duration;

/// A call is made at most so many times more.
pub const MOST: u32 = 5;

/// Before the first further try; doubled with each.
const FIRST: Duration = Duration::from_millis(500);

/// Between two tries, unless the server names a time.
const LONGEST: Duration = Duration::from_secs(30);

/// A server that asks for more patience than this gets none: the person is told instead.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60 * 60);

/// How long to wait before the call is made again, or `None` if that would not help. `tried`: how often it was made
/// again already, of at most `most`; `dice` is between 0 and 1 and spreads those who failed together.
pub fn after(error: &Error, tried: u32, most: u32, dice: f64) -> Option<Duration> {
    if tried >= most.min(MOST) {
        return None;
    }
    let own = FIRST.saturating_mul(1 << tried).min(LONGEST);
    match error {
        Error::RateLimited { retry_after: Some(asked), .. } if *asked > PATIENCE => None,
        // Never earlier than asked, and not all at once.
        Error::RateLimited { retry_after: Some(asked), .. } => Some(*asked + FIRST.mul_f64(dice.clamp(0.0, 1.0))),
        Error::RateLimited { retry_after: None, .. } | Error::Network(_) => {
            Some(own.mul_f64(0.5 + dice.clamp(0.0, 1.0) / 2.0))
        }
        Error::Overflow(_)
        | Error::Auth(_)
        | Error::NoKey(_)
        | Error::Refused(_)
        | Error::Declined(_)
        | Error::Garbage(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(seconds: Option<u64>) -> Error {
        Error::RateLimited { message: "busy".into(), retry_after: seconds.map(Duration::from_secs) }
    }

    #[track_caller]
    fn check(error: &Error, tried: u32, dice: f64, expected: Option<u64>) {
        let after = after(error, tried, MOST, dice).map(|wait| wait.as_millis() as u64);
        assert_eq!(after, expected, "{error:?} after {tried} tries");
    }

    #[test]
    fn the_wait_doubles_is_spread_and_ends_after_five() {
        let lost = Error::Network("gone".into());
        for (tried, expected) in [(0, 500), (1, 1_000), (2, 2_000), (3, 4_000), (4, 8_000)] {
            check(&lost, tried, 1.0, Some(expected));
            check(&lost, tried, 0.0, Some(expected / 2));
            check(&busy(None), tried, 1.0, Some(expected));
        }
        check(&lost, 5, 1.0, None);
        check(&busy(Some(1)), 5, 1.0, None);
    }

    #[test]
    fn a_server_that_names_a_time_is_never_asked_earlier() {
        check(&busy(Some(7)), 0, 0.0, Some(7_000));
        check(&busy(Some(7)), 4, 1.0, Some(7_500));
        check(&busy(Some(0)), 0, 0.0, Some(0));
        check(&busy(Some(3_601)), 0, 0.0, None);
    }

    #[test]
    fn what_will_not_mend_itself_is_not_tried_again() {
        let text = String::new;
        for error in [
            Error::Overflow(text()),
            Error::Auth(text()),
            Error::Refused(text()),
            Error::Declined(text()),
            Error::Garbage(text()),
        ] {
            check(&error, 0, 1.0, None);
        }
    }

    #[test]
    fn a_provider_may_want_fewer_tries_and_never_more() {
        let lost = Error::Network("gone".into());
        assert_eq!(after(&lost, 0, 0, 1.0), None);
        assert!(after(&lost, 1, 2, 1.0).is_some());
        assert_eq!((after(&lost, 2, 2, 1.0), after(&lost, 5, 99, 1.0)), (None, None));
    }
}
