//! How fast one server is asked (A8): so many requests and tokens a minute, and not at all while it wants to be left alone.
//! No clock: what time it is says the caller.
//!
//! Nobody is promised a place: whoever has to wait looks again when the time it was told is over. When a server's wish is
//! over one request goes first, and the others only once that was answered; they would come back all at once otherwise.

use std::time::Duration;

const MINUTE: f64 = 60.0;

/// When those look again who wait for the one that goes first.
const LOOK: Duration = Duration::from_millis(100);

/// Who went first and was never heard of again does not hold up the others for longer.
const FIRST: Duration = Duration::from_secs(60);

/// What may be asked in a minute; unset: as much as anybody likes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PerMinute {
    pub requests: Option<u32>,
    pub tokens: Option<u64>,
}

/// How long to wait before looking again, and what for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    pub time: Duration,
    pub why: String,
}

#[derive(Debug)]
pub(crate) struct Pace {
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    alone: Option<Alone>,
}

/// A server that wants to be left alone.
#[derive(Debug)]
struct Alone {
    until: Duration,
    /// Since when somebody tries whether that is over.
    tried: Option<Duration>,
}

impl Pace {
    pub(crate) fn new(most: PerMinute) -> Self {
        let bucket = |most: f64| Bucket { most, left: most, at: Duration::ZERO };
        Self {
            requests: most.requests.map(|most| bucket(f64::from(most))),
            tokens: most.tokens.map(|most| bucket(most as f64)),
            alone: None,
        }
    }

    /// Takes a turn for a request of about so many tokens, or says how long there is none.
    pub(crate) fn take(&mut self, tokens: u64, now: Duration) -> Result<(), Wait> {
        if let Some(Alone { until, tried }) = &self.alone {
            let first = tried.is_none_or(|since| now.saturating_sub(since) >= FIRST);
            let time = if now < *until { *until - now } else { LOOK };
            if now < *until || !first {
                return Err(Wait { time, why: "the model's server asked to be left alone for a while".into() });
            }
        }
        let (requests, tokens) = ((&mut self.requests, 1.0, "requests"), (&mut self.tokens, tokens as f64, "tokens"));
        let both = [requests, tokens].map(|(bucket, amount, what)| (bucket.as_mut(), amount, what));
        let mut buckets: Vec<(&mut Bucket, f64, &str)> =
            both.into_iter().filter_map(|(bucket, amount, what)| Some((bucket?, amount, what))).collect();
        for (bucket, amount, what) in &mut buckets {
            bucket.fill(now);
            if let Some(time) = bucket.lacks(*amount) {
                return Err(Wait {
                    time,
                    why: format!("the provider's limit of {} {what} a minute is used up", bucket.most),
                });
            }
        }
        buckets.iter_mut().for_each(|(bucket, amount, _)| bucket.left -= *amount);
        if let Some(alone) = &mut self.alone {
            alone.tried = Some(now);
        }
        Ok(())
    }

    /// The server wants to be left alone until then.
    pub(crate) fn leave_alone(&mut self, until: Duration) {
        let until = self.alone.as_ref().map_or(until, |alone| alone.until.max(until));
        self.alone = Some(Alone { until, tried: None });
    }

    /// A request was answered: it was taken to be of `guessed` tokens, and used `used`.
    pub(crate) fn answered(&mut self, guessed: u64, used: u64, now: Duration) {
        if let Some(bucket) = &mut self.tokens {
            bucket.left = (bucket.left + guessed as f64 - used as f64).min(bucket.most);
        }
        // Requests that were on their way before say nothing about how the server feels now.
        self.alone.take_if(|alone| now >= alone.until);
    }

    /// A request failed for another reason: somebody else may go first.
    pub(crate) fn failed(&mut self) {
        if let Some(alone) = &mut self.alone {
            alone.tried = None;
        }
    }
}

/// What is left of a minute's worth; it fills up all the time.
#[derive(Debug)]
struct Bucket {
    most: f64,
    left: f64,
    at: Duration,
}

impl Bucket {
    fn fill(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        self.left = (self.left + passed * self.most / MINUTE).min(self.most);
        self.at = self.at.max(now);
    }

    /// How long until there is enough. What is more than a minute's worth goes when nothing is taken.
    fn lacks(&self, amount: f64) -> Option<Duration> {
        let missing = amount.min(self.most) - self.left;
        // A little less than nothing is how numbers are rounded.
        (missing > 1e-6).then(|| Duration::from_secs_f64((missing * MINUTE / self.most).max(0.001)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(requests: Option<u32>, tokens: Option<u64>) -> Pace {
        Pace::new(PerMinute { requests, tokens })
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// How long a request of so many tokens has to wait, in milliseconds; 0: it went.
    fn wait(pace: &mut Pace, tokens: u64, now: Duration) -> u128 {
        pace.take(tokens, now).map_or_else(|wait| wait.time.as_millis(), |()| 0)
    }

    #[test]
    fn without_limits_nobody_waits() {
        let mut pace = pace(None, None);
        assert!((0..10_000).all(|_| wait(&mut pace, 1_000_000, at(0)) == 0));
    }

    #[test]
    fn a_minutes_worth_goes_at_once_and_then_one_by_one() {
        let mut pace = pace(Some(6), None);
        assert!((0..6).all(|_| wait(&mut pace, 0, at(0)) == 0));
        assert_eq!(wait(&mut pace, 0, at(0)), 10_000);
        assert_eq!(wait(&mut pace, 0, at(4)), 6_000);
        assert_eq!((wait(&mut pace, 0, at(10)), wait(&mut pace, 0, at(10))), (0, 10_000));
        let why = pace.take(0, at(10)).unwrap_err().why;
        assert!(why.contains("6 requests a minute"), "{why}");
    }

    #[test]
    fn tokens_count_as_guessed_until_it_is_known_how_many_they_were() {
        let mut pace = pace(None, Some(6_000));
        assert_eq!((wait(&mut pace, 5_000, at(0)), wait(&mut pace, 2_000, at(0))), (0, 10_000));
        pace.answered(5_000, 1_000, at(0));
        assert_eq!(wait(&mut pace, 2_000, at(0)), 0);
        pace.answered(2_000, 6_000, at(0));
        assert_eq!(wait(&mut pace, 1_000, at(0)), 20_000);
        // Larger than any minute's worth: it goes alone.
        assert_eq!((wait(&mut pace, 50_000, at(60)), wait(&mut pace, 50_000, at(61))), (10_000, 9_000));
        assert_eq!((wait(&mut pace, 50_000, at(70)), wait(&mut pace, 1, at(71))), (0, 439_010));
    }

    #[test]
    fn a_server_is_left_alone_for_all_and_one_goes_first() {
        let mut pace = pace(None, None);
        pace.leave_alone(at(30));
        pace.leave_alone(at(20));
        assert_eq!(wait(&mut pace, 1, at(5)), 25_000);
        // One that was on its way before.
        pace.answered(1, 1, at(6));
        assert_eq!(wait(&mut pace, 1, at(29)), 1_000);
        let look = LOOK.as_millis();
        assert_eq!(
            (wait(&mut pace, 1, at(30)), wait(&mut pace, 1, at(30)), wait(&mut pace, 1, at(31))),
            (0, look, look)
        );
        pace.answered(1, 1, at(32));
        assert_eq!((wait(&mut pace, 1, at(32)), wait(&mut pace, 1, at(32))), (0, 0));
    }

    #[test]
    fn who_went_first_and_failed_or_was_lost_holds_up_nobody() {
        let mut pace = pace(None, None);
        pace.leave_alone(at(1));
        assert_eq!((wait(&mut pace, 1, at(1)), wait(&mut pace, 1, at(2))), (0, 100));
        pace.failed();
        assert_eq!((wait(&mut pace, 1, at(2)), wait(&mut pace, 1, at(60))), (0, 100));
        assert_eq!(wait(&mut pace, 1, at(62)), 0);
        pace.leave_alone(at(90));
        assert_eq!(wait(&mut pace, 1, at(63)), 27_000);
    }
}
