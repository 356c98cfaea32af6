//! Medians, the cost of a sync on this disk, and what a process holds in memory.

use super::Bench;
use super::report::Row;
use anyhow::{Context, ensure};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Samples of one measurement of the disk.
const SYNCS: u64 = 60;

/// In which Linux tells programs how long they worked, whatever it counts in itself.
const TICKS: f64 = 100.0;

pub(super) fn median(mut values: Vec<f64>) -> anyhow::Result<f64> {
    ensure!(!values.is_empty(), "nothing was measured");
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    Ok(if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) })
}

/// The value that this share of all values does not exceed.
pub(super) fn percentile(mut values: Vec<f64>, share: f64) -> anyhow::Result<f64> {
    ensure!(!values.is_empty(), "nothing was measured");
    values.sort_by(f64::total_cmp);
    let place = (values.len() as f64 * share).ceil() as usize;
    Ok(values[place.clamp(1, values.len()) - 1])
}

pub(super) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The time of one sync of 4 KiB in ms, in the directory that temporary homes are made in.
pub(super) fn fsync() -> anyhow::Result<f64> {
    // A named one: a file without a name has less to keep, and some disks know.
    let file = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
    let (file, block) = (file.as_file(), [7; 4096]);
    let mut times = Vec::new();
    for n in 0..SYNCS {
        let start = Instant::now();
        file.write_all_at(&block, n * 4096).and_then(|()| file.sync_data()).context("cannot write a temporary file")?;
        times.push(millis(start.elapsed()));
    }
    median(times)
}

pub(super) fn disk(_: &Bench) -> anyhow::Result<Vec<Row>> {
    Ok(vec![Row::info("fsync_ms", fsync()?, "ms")])
}

/// What a process holds that is not backed by a file, in MiB; `None` when it is gone.
pub(super) fn anonymous(pid: u32) -> Option<f64> {
    let kib: f64 =
        field(&std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?, "Anonymous:")?.parse().ok()?;
    Some(kib / 1024.0)
}

/// The same, when it no longer changes: a process that has just started is still giving memory back.
pub(super) fn settled(pid: u32) -> anyhow::Result<f64> {
    let mut last = f64::NAN;
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(150));
        let now = anonymous(pid).context("the gateway is gone: its last words are above")?;
        if (now - last).abs() < 0.05 {
            return Ok(now);
        }
        last = now;
    }
    Ok(last)
}

/// The time a process has spent on a core so far, in s: what a busy machine does not change.
pub(super) fn worked(pid: u32) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).context("the gateway is gone")?;
    // The name before it may hold anything; the two figures are the 12th and 13th after it.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    let ticks: f64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
    Ok(ticks / TICKS)
}

/// The child of a process, if it has one by now.
pub(super) fn child_of(parent: u32) -> Option<u32> {
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| status(*pid, "PPid:").is_some_and(|value| value == parent.to_string()))
}

/// Gone, or dead and not yet collected by whoever should.
pub(super) fn is_gone(pid: u32) -> bool {
    status(pid, "State:").is_none_or(|state| state == "Z")
}

fn status(pid: u32, name: &str) -> Option<String> {
    field(&std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?, name).map(str::to_owned)
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![9.0, 1.0, 2.0]).unwrap(), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 9.0]).unwrap(), 3.0);
        assert!(median(Vec::new()).is_err());
    }

    #[test]
    fn a_percentile_is_a_value_that_was_measured() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(hundred.clone(), 0.99).unwrap(), 99.0);
        assert_eq!(percentile(hundred, 0.0).unwrap(), 1.0);
        assert_eq!(percentile(vec![7.0], 0.99).unwrap(), 7.0);
        assert!(percentile(Vec::new(), 0.5).is_err());
    }

    #[test]
    fn this_process_has_memory_and_its_child_is_found() {
        let own = std::process::id();
        assert!(anonymous(own).unwrap() > 0.1);
        assert!(worked(own).unwrap() < 3600.0);
        assert!(!is_gone(own));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let found = child_of(own);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.is_some());
        assert!(is_gone(child.id()));
    }
}
