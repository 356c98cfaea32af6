//! Lengths of time as people write and read them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const HOW: &str = "use a number with `ms`, `s`, `m`, `h` or `d`";

/// A number with `ms`, `s`, `m`, `h` or `d`; seconds without.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "ms" => 1,
        "" | "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(HOW.into()),
    };
    let number: u64 = number.parse().map_err(|_| HOW.to_owned())?;
    number.checked_mul(factor).map(Duration::from_millis).ok_or_else(|| "that is too long".into())
}

/// Seconds, with a fraction if need be.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "use a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|_| "use a number of seconds that is not below zero".into())
}

/// The largest unit alone: nobody plans a month by the second.
pub(crate) fn rough(millis: i64) -> String {
    let seconds = millis.max(0) / 1000;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Milliseconds since the epoch.
pub(crate) fn now() -> proto::Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("30s"), parse("30"));
        assert_eq!(parse("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse("1d"), parse("24h"));
        for bad in ["", "s", "1w", "-1s", "99999999999999999999h", "18446744073709551615h"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn seconds_may_have_a_fraction() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(seconds("0"), Ok(Duration::ZERO));
        for bad in ["", "x", "-1", "NaN", "inf", "1e300"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_left_is_told_roughly() {
        assert_eq!((rough(-5), rough(90_000)), ("0 s".into(), "90 s".into()));
        assert_eq!((rough(7_199_000), rough(30 * 86_400_000)), ("119 min".into(), "30 days".into()));
    }
}
