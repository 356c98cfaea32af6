//! The benchmarks: `cargo xtask bench [NAME]` measures the release binary from outside, the way a user meets it.
//!
//! Each figure is a median or a ratio of things measured in the same run, so that a slower machine moves both sides.
//! What a disk costs is measured beside each figure and is part of its goal.

mod append;
mod children;
mod files;
mod gateway;
mod history;
mod http;
mod idle;
mod letters;
mod list;
mod mail;
mod measure;
mod memory;
mod minds;
mod prompts;
mod report;
mod rows;
mod sandbox;
mod search;
mod start;
mod steps;
mod verdict;
mod watchers;
mod worktree;

use anyhow::{Context, bail, ensure};
use report::Row;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What a figure needs to know.
struct Bench {
    program: PathBuf,
}

/// Rows that are measured together.
struct Figure {
    names: &'static [&'static str],
    measure: fn(&Bench) -> anyhow::Result<Vec<Row>>,
}

const FIGURES: &[Figure] = &[
    Figure { names: &["fsync_ms"], measure: measure::disk },
    Figure { names: &["first_request_ms", "first_request_warm_gateway_ms"], measure: start::first_request },
    Figure { names: &["serve_ready_ms", "serve_idle_anon_mib", "create_session_ms"], measure: start::serve },
    Figure { names: &["run_peak_anon_mib", "run_client_anon_mib", "run_gateway_anon_mib"], measure: memory::peak },
    Figure { names: &["step_ms"], measure: steps::step },
    Figure { names: &["bash_step_ms"], measure: steps::bash_step },
    Figure { names: &["step_2000_ratio"], measure: steps::late_steps },
    Figure { names: &["wires_ratio", "wires_2000_ratio"], measure: steps::wires },
    Figure { names: &["argument_100k_ratio", "argument_100k_ms"], measure: minds::argument },
    Figure { names: &["config_eight_layers_ms"], measure: minds::layers },
    Figure { names: &["append_ratio", "append_per_s"], measure: append::append },
    Figure { names: &["child_first_request_ms", "child_back_ms"], measure: children::one },
    Figure { names: &["children_8_last_ms"], measure: children::eight },
    Figure {
        names: &["subtasks_1000_s", "subtasks_1000_anon_mib", "subtasks_1000_end_s"],
        measure: children::thousand,
    },
    Figure { names: &["broadcast_1000"], measure: mail::broadcast },
    Figure { names: &["drain_10000_ratio", "drain_letter_us"], measure: mail::drain },
    Figure { names: &["fork_2000"], measure: mail::fork },
    Figure { names: &["tool_search_2000"], measure: search::search },
    Figure { names: &["shell_verdict_20"], measure: verdict::verdict },
    Figure { names: &["sandbox_command_ms", "sandbox_start_ms"], measure: sandbox::command },
    Figure { names: &["grep_100k_ratio", "grep_100k_ms"], measure: files::grep },
    Figure { names: &["read_1gb_mib"], measure: files::read },
    Figure { names: &["worktree_enter_ratio", "worktree_enter_ms"], measure: worktree::enter },
    Figure { names: &["idle_100k_mib", "ps_100k_ratio", "ps_100k_ms"], measure: idle::idle },
    Figure { names: &["idle_gateway"], measure: start::idle },
    Figure {
        names: &[
            "list_page_1000",
            "list_page_1000_median_ms",
            "list_page_1000_p99_ms",
            "list_page_1000000",
            "list_page_1000000_median_ms",
            "list_page_1000000_p99_ms",
            "list_page_1000000_core_us",
            "list_page_1000000_median_ratio",
            "list_page_1000000_p99_ratio",
        ],
        measure: list::pages,
    },
    Figure {
        names: &["history_200", "history_200_median_ms", "history_200_p99_ms", "history_200_core_us"],
        measure: history::history,
    },
    Figure {
        names: &["post_64", "post_64_per_s", "post_64_sqlite_per_s", "post_64_core_us", "post_64_sqlite_core_us"],
        measure: letters::post,
    },
    Figure { names: &["send_to_request", "send_to_request_p99_ms"], measure: letters::send },
    Figure { names: &["prompts_200", "prompts_200_anon_mib"], measure: prompts::prompts },
    Figure { names: &["sse_10000", "sse_10000_each_kib"], measure: watchers::idle },
    Figure {
        names: &["slow_client", "slow_client_p99_ratio", "slow_client_with_ms", "slow_client_without_ms"],
        measure: watchers::slow,
    },
];

/// Runs the figures whose name contains `name`, or all of them.
pub(crate) fn main(name: Option<String>) -> anyhow::Result<()> {
    let wanted = name.unwrap_or_default();
    let figures: Vec<&Figure> = FIGURES.iter().filter(|figure| figure.matches(&wanted)).collect();
    if figures.is_empty() {
        let names: Vec<&str> = FIGURES.iter().flat_map(|figure| figure.names).copied().collect();
        bail!("no figure is called `{wanted}`; there is: {}", names.join(", "));
    }
    if cfg!(debug_assertions) {
        // The fake model runs in this process, and must not be what is measured.
        return cargo(&["run", "--quiet", "--release", "--package", "xtask", "--", "bench", &wanted]);
    }
    cargo(&["build", "--quiet", "--release", "--package", "convoke"])?;
    raise_file_limit();
    let bench = Bench { program: target().join("release/convoke") };
    let (mut rows, mut missing) = (Vec::new(), Vec::new());
    for figure in figures {
        eprintln!("{} ...", figure.names.join(", "));
        let measured = match (figure.measure)(&bench) {
            Ok(measured) => measured,
            // The figures after it are worth having all the same.
            Err(error) => {
                eprintln!("  not measured: {error:#}");
                missing.push(figure.names[0]);
                continue;
            }
        };
        for row in measured.into_iter().filter(|row| row.name.contains(&wanted)) {
            eprintln!("  {row}");
            rows.push(row);
        }
    }
    report::publish(&rows, &target().join("bench.json"))?;
    ensure!(missing.is_empty(), "not measured: {}; the output above says why", missing.join(", "));
    Ok(())
}

impl Figure {
    fn matches(&self, wanted: &str) -> bool {
        self.names.iter().any(|name| name.contains(wanted))
    }
}

fn cargo(arguments: &[&str]) -> anyhow::Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo).args(arguments).current_dir(root()).stdin(Stdio::null()).status();
    let status = status.context("cannot start cargo: is it in the path?")?;
    ensure!(status.success(), "`cargo {}` failed: its output above says why", arguments.join(" "));
    Ok(())
}

fn root() -> PathBuf {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    own.parent().map(PathBuf::from).unwrap_or(own)
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A thousand sessions hold a thousand connections to the fake model.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_figure_is_found_by_its_own_name_and_no_two_share_one() {
        let names: Vec<&str> = FIGURES.iter().flat_map(|figure| figure.names).copied().collect();
        assert_eq!(names.len(), names.iter().collect::<BTreeSet<_>>().len());
        for name in names {
            assert!(FIGURES.iter().any(|figure| figure.matches(name)), "{name}");
        }
        assert!(!FIGURES.iter().any(|figure| figure.matches("no such figure")));
    }

    #[test]
    fn a_name_that_is_no_figure_is_refused_before_anything_is_built() {
        let error = main(Some("no such figure".into())).unwrap_err().to_string();
        assert!(error.contains("step_ms"), "{error}");
    }
}
