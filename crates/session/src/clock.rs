//! Two clocks. What people are told is stamped with the date of this machine; how long something may take is counted by
//! a clock that nobody can set.

use proto::Millis;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since the epoch, as the machine has them now.
pub(crate) fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The date when this process first asked, and how long the machine had been up.
static ORIGIN: LazyLock<(Millis, Duration)> = LazyLock::new(|| (now(), uptime()));

/// The same without leaps: goes on evenly while this process lives, whatever becomes of the date. For limits and what is
/// compared with them. A stored limit means the date again after a restart.
pub(crate) fn steady() -> Millis {
    let (began, up) = *ORIGIN;
    let since = uptime().saturating_sub(up);
    began.saturating_add(i64::try_from(since.as_millis()).unwrap_or(i64::MAX / 2))
}

/// Time while the machine sleeps counts too: a question that may be answered until eight is not open at nine.
fn uptime() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}
