//! What was measured, beside what it should be: a table for people and a file for programs.

use anyhow::Context;
use serde::Serialize;
use std::fmt;
use std::path::Path;

/// One figure. Without a goal it is for information.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) value: f64,
    pub(super) unit: &'static str,
    pub(super) goal: Option<String>,
    pub(super) ok: Option<bool>,
}

impl Row {
    pub(super) fn info(name: &'static str, value: f64, unit: &'static str) -> Self {
        Self { name, value, unit, goal: None, ok: None }
    }

    pub(super) fn at_most(self, most: f64) -> Self {
        let goal = format!("<= {} {}", short(most), self.unit);
        Self { ok: Some(self.value <= most), goal: Some(goal), ..self }
    }

    pub(super) fn at_least(self, least: f64) -> Self {
        let goal = format!(">= {} {}", short(least), self.unit);
        Self { ok: Some(self.value >= least), goal: Some(goal), ..self }
    }

    /// What our own work may take in ms, and how often it may wait for a disk on which a sync takes `fsync` ms.
    pub(super) fn with_fsyncs(self, own: f64, count: u32, fsync: f64) -> Self {
        let most = own + f64::from(count) * fsync;
        let goal = format!("<= {} ms + {count} fsyncs = {}", short(own), short(most));
        Self { ok: Some(self.value <= most), goal: Some(goal), ..self }
    }

    fn verdict(&self) -> &'static str {
        match self.ok {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "",
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let goal = self.goal.as_deref().unwrap_or("");
        write!(f, "| {} | {} {} | {goal} | {} |", self.name, short(self.value), self.unit, self.verdict())
    }
}

/// Prints the table and writes the file.
pub(super) fn publish(rows: &[Row], file: &Path) -> anyhow::Result<()> {
    print(&table(rows));
    let json = serde_json::to_string_pretty(rows).context("cannot write the figures as JSON")?;
    std::fs::write(file, json + "\n").with_context(|| format!("cannot write `{}`", file.display()))
}

#[expect(clippy::print_stdout, reason = "the table is what the command is for")]
fn print(table: &str) {
    print!("{table}");
}

fn table(rows: &[Row]) -> String {
    let lines = rows.iter().map(|row| format!("{row}\n"));
    ["| figure | measured | goal | met |\n|---|---|---|---|\n".to_owned()].into_iter().chain(lines).collect()
}

/// Three digits that matter, and whole numbers whole.
fn short(value: f64) -> String {
    let text = match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, expected) in [(0.0, "0"), (0.534, "0.53"), (30.0, "30"), (31.24, "31.2"), (1_234.5, "1234")] {
            assert_eq!(short(value), expected);
        }
    }

    #[test]
    fn a_goal_counts_the_disk_and_says_so() {
        let row = |value| Row::info("first_request_ms", value, "ms").with_fsyncs(30.0, 2, 0.6);
        assert_eq!(row(31.0).goal.as_deref(), Some("<= 30 ms + 2 fsyncs = 31.2"));
        assert_eq!((row(31.2).ok, row(31.3).ok), (Some(true), Some(false)));
    }

    #[test]
    fn the_table_marks_what_was_missed_and_leaves_information_alone() {
        let rows = [
            Row::info("a_ratio", 0.4, "").at_least(0.5),
            Row::info("b_mib", 9.0, "MiB").at_most(10.0),
            Row::info("c_ms", 1.5, "ms"),
        ];
        let table = table(&rows);
        assert!(table.contains("| a_ratio | 0.4  | >= 0.5  | NO |"), "{table}");
        assert!(table.contains("| b_mib | 9 MiB | <= 10 MiB | yes |"), "{table}");
        assert!(table.ends_with("| c_ms | 1.5 ms |  |  |\n"), "{table}");
    }
}
