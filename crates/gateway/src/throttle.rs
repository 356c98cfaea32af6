//! Counts failed attempts to come in, by address. Nothing switches it off: not where they come from, not what else they
//! say. Whoever has a right token is let in whatever others at the same address do.

use proto::{Code, Error};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Failures an address may have at once: a person who mistypes.
const BURST: f64 = 10.0;

/// One failure is forgotten in this time.
const FORGET: Duration = Duration::from_secs(6);

/// Addresses remembered. When all of them failed lately, nobody new may fail.
const MAX_ADDRESSES: usize = 4096;

#[derive(Default)]
pub(crate) struct Throttle {
    failures: Mutex<HashMap<IpAddr, Failures>>,
}

struct Failures {
    count: f64,
    at: Instant,
}

impl Failures {
    fn count(&self, now: Instant) -> f64 {
        (self.count - now.saturating_duration_since(self.at).as_secs_f64() / FORGET.as_secs_f64()).max(0.0)
    }
}

impl Throttle {
    /// Counts an attempt as failed before anything is compared. `Err` when there were too many.
    pub(crate) fn attempt(&self, address: IpAddr, now: Instant) -> Result<(), Error> {
        let address = group(address);
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if !failures.contains_key(&address) && failures.len() >= MAX_ADDRESSES {
            failures.retain(|_, failures| failures.count(now) > 0.0);
            if failures.len() >= MAX_ADDRESSES {
                return Err(too_many(FORGET));
            }
        }
        let known = failures.entry(address).or_insert(Failures { count: 0.0, at: now });
        let count = known.count(now);
        if count + 1.0 > BURST {
            return Err(too_many(FORGET.mul_f64(count + 1.0 - BURST)));
        }
        *known = Failures { count: count + 1.0, at: now };
        Ok(())
    }

    /// The attempt was none: the token is right.
    pub(crate) fn forgive(&self, address: IpAddr) {
        let address = group(address);
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = failures.get_mut(&address) {
            known.count -= 1.0;
            if known.count <= 0.0 {
                failures.remove(&address);
            }
        }
    }
}

/// A whole network is one guest in IPv6: it has addresses to waste.
fn group(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if !v6.is_loopback() => {
            let [a, b, c, d, ..] = v6.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        other => other,
    }
}

fn too_many(wait: Duration) -> Error {
    let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
    Error {
        retryable: true,
        retry_after_ms: Some(wait),
        ..Error::new(Code::LimitRate, "too many wrong tokens from this address").hint("wait, and use a right one")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn failures_add_up_and_are_forgotten() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        for _ in 0..10 {
            throttle.attempt(HERE, start).unwrap();
        }
        let error = throttle.attempt(HERE, start).unwrap_err();
        assert!(error.code == Code::LimitRate && error.retry_after_ms.is_some_and(|wait| wait <= 6000), "{error:?}");
        assert!(throttle.attempt("10.0.0.1".parse().unwrap(), start).is_ok(), "others are not concerned");
        assert!(throttle.attempt(HERE, start + FORGET).is_ok());
        assert!(throttle.attempt(HERE, start + FORGET).is_err());
    }

    #[test]
    fn right_tokens_leave_no_trace() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        for _ in 0..100 {
            throttle.attempt(HERE, start).unwrap();
            throttle.forgive(HERE);
        }
        assert!(throttle.failures.lock().unwrap().is_empty());
    }

    #[test]
    fn a_network_is_one_guest_and_memory_is_bounded() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        for n in 0..10u16 {
            throttle.attempt(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, n).into(), start).unwrap();
        }
        assert!(throttle.attempt(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 9, 9, 9, 9).into(), start).is_err());
        for n in 0..MAX_ADDRESSES as u32 + 100 {
            let _ = throttle.attempt(IpAddr::V4((0x0a00_0000 + n).into()), start);
        }
        assert_eq!(throttle.failures.lock().unwrap().len(), MAX_ADDRESSES);
        let later = start + Duration::from_secs(60);
        assert!(throttle.attempt("192.0.2.1".parse().unwrap(), later).is_ok(), "the old ones made room");
    }
}
