//! Two clocks. What people are told is stamped with the date of this machine; how long something may take, and when it
//! expires, goes by a clock that cannot be set back.
//!
//! A gateway saves now and then what time it was, so that the next one goes on from there: a date that was set back keeps
//! nothing open for longer than was promised. While the machine is not restarted, the time between two gateways is known
//! as well.

use proto::Millis;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Beside the database.
const FILE: &str = "clock.json";
/// The file has three short values.
const LARGEST: u64 = 4096;

/// Milliseconds since the epoch, as the machine has them now.
pub(crate) fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The same without leaps: goes on evenly while this process lives, whatever becomes of the date. For limits and what is
/// compared with them.
pub(crate) fn steady() -> Millis {
    clock().steady(uptime())
}

/// The time that expiry goes by: the date, unless that was set back.
pub fn due() -> Millis {
    clock().due(now(), uptime())
}

/// Goes on from what a gateway of this home saw last. To be called before anything asks what time it is.
pub fn open(state: &Path) {
    CLOCK.get_or_init(|| {
        let file = state.join(FILE);
        let seen = foreign::read_text(&file, LARGEST).ok().and_then(|text| serde_json::from_str(&text).ok());
        Clock { file: Some(file), ..Clock::new(seen, now(), uptime(), boot().as_deref()) }
    });
}

/// Saves what time it is, where there is a home to save it in.
pub(crate) fn save() -> io::Result<()> {
    let clock = clock();
    let Some(file) = &clock.file else { return Ok(()) };
    let up = u64::try_from(uptime().as_millis()).unwrap_or(u64::MAX);
    let seen = Seen { seen: due(), boot: boot(), up };
    let part = file.with_extension("part");
    let mut writing = std::fs::File::options().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
    serde_json::to_writer(&mut writing, &seen)?;
    writing.flush().and_then(|()| writing.sync_all())?;
    std::fs::rename(&part, file)
}

/// What time it was.
#[derive(Debug, Serialize, Deserialize)]
struct Seen {
    seen: Millis,
    /// Which start of the machine that was, and how long it had been up.
    #[serde(default)]
    boot: Option<String>,
    #[serde(default)]
    up: u64,
}

struct Clock {
    /// The time when this process first asked, and how long the machine had been up.
    began: Millis,
    up: Duration,
    /// How far the date was ever ahead of the steady time: it may have been corrected.
    ahead: AtomicI64,
    file: Option<PathBuf>,
}

/// One for the process: two would tell different times.
static CLOCK: OnceLock<Clock> = OnceLock::new();

fn clock() -> &'static Clock {
    CLOCK.get_or_init(|| Clock::new(None, now(), uptime(), None))
}

impl Clock {
    fn new(seen: Option<Seen>, date: Millis, up: Duration, boot: Option<&str>) -> Self {
        let since = seen.map(|seen| {
            let same = boot.is_some() && seen.boot.as_deref() == boot;
            seen.seen.saturating_add(if same { millis(up.saturating_sub(Duration::from_millis(seen.up))) } else { 0 })
        });
        Self { began: since.map_or(date, |since| since.max(date)), up, ahead: AtomicI64::new(0), file: None }
    }

    fn steady(&self, up: Duration) -> Millis {
        self.began.saturating_add(millis(up.saturating_sub(self.up)))
    }

    fn due(&self, date: Millis, up: Duration) -> Millis {
        let steady = self.steady(up);
        let ahead = date.saturating_sub(steady);
        steady.saturating_add(self.ahead.fetch_max(ahead, Ordering::SeqCst).max(ahead))
    }
}

fn millis(duration: Duration) -> Millis {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 2)
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

/// Tells one start of the machine from another.
fn boot() -> Option<String> {
    let text = foreign::read_text(Path::new("/proc/sys/kernel/random/boot_id"), LARGEST).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Millis = 3_600_000;

    fn hours(count: u64) -> Duration {
        Duration::from_secs(count * 3600)
    }

    fn seen(hour: Millis, up: u64) -> Option<Seen> {
        Some(Seen { seen: hour * HOUR, boot: Some("a".into()), up: up * HOUR as u64 })
    }

    #[test]
    fn time_does_not_go_back_with_the_date_and_does_not_stand_still() {
        let clock = Clock::new(None, 100 * HOUR, hours(1), None);
        assert_eq!(clock.due(101 * HOUR, hours(2)), 101 * HOUR);
        // A day back, and an hour later.
        assert_eq!(clock.due(77 * HOUR, hours(2)), 101 * HOUR);
        assert_eq!(clock.due(78 * HOUR, hours(3)), 102 * HOUR);
        // A date that was behind is corrected; one that was ahead by mistake is not believed less afterwards.
        assert_eq!(clock.due(110 * HOUR, hours(4)), 110 * HOUR);
        assert_eq!(clock.due(104 * HOUR, hours(5)), 111 * HOUR);
        assert_eq!(clock.steady(hours(5)), 104 * HOUR);
    }

    #[test]
    fn the_next_gateway_goes_on_from_where_the_last_one_was() {
        // The machine was not restarted: three hours passed, whatever the date says.
        assert_eq!(Clock::new(seen(100, 1), 50 * HOUR, hours(4), Some("a")).steady(hours(4)), 103 * HOUR);
        // It was: how long it was off is not known, but not less than nothing.
        assert_eq!(Clock::new(seen(100, 7), 50 * HOUR, hours(1), Some("b")).steady(hours(1)), 100 * HOUR);
        assert_eq!(Clock::new(seen(100, 7), 50 * HOUR, hours(1), None).steady(hours(2)), 101 * HOUR);
        // The date is right.
        assert_eq!(Clock::new(seen(100, 1), 120 * HOUR, hours(2), Some("a")).steady(hours(2)), 120 * HOUR);
        assert_eq!(Clock::new(None, 50 * HOUR, hours(4), Some("a")).steady(hours(4)), 50 * HOUR);
    }
}
