//! `cargo xtask test`: everything a change must pass, from a fresh clone with nothing but a Rust toolchain.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Programs the tests run, and the Debian package each comes from.
const NEEDED: &[(&str, &str)] = &[("git", "git"), ("bash", "bash"), ("cc", "gcc")];

pub(crate) fn main() -> Result<()> {
    let root = root()?;
    let mut run = Run { root, done: Vec::new() };
    run.step("packages", packages)?;
    run.cargo("format", &["fmt", "--all", "--check"], &[])?;
    let lints = ["clippy", "--workspace", "--all-targets", "--all-features", "--quiet", "--", "-D", "warnings"];
    run.cargo("lints", &lints, &[])?;
    run.step("tests", tests)?;
    run.cargo("doc tests", &["test", "--workspace", "--doc", "--quiet"], &[])?;
    run.cargo("documents", &["doc", "--workspace", "--no-deps", "--quiet"], &[("RUSTDOCFLAGS", "-D warnings")])?;
    run.step("10 s of every fuzz target", |root| again(root, &["fuzz", "--minutes", "0.17", "--seed", "1"]))?;
    // The ordinary program last: it is the one that stays in `target/release`.
    run.step("20 power cuts", |root| again(root, &["crash", "--power", "--points", "20", "--seed", "1"]))?;
    run.cargo("release build", &["build", "--release", "--package", "convoke", "--quiet"], &[])?;
    run.step("document freshness", fresh)?;
    run.step("60 crashes", |root| again(root, &["crash", "--points", "60", "--seed", "1"]))?;
    run.summary();
    Ok(())
}

/// What has been done, and how long each step took.
struct Run {
    root: PathBuf,
    done: Vec<(&'static str, Duration)>,
}

impl Run {
    fn cargo(&mut self, name: &'static str, args: &[&str], env: &[(&str, &str)]) -> Result<()> {
        self.step(name, |root| call(root, &cargo(), args, env))
    }

    fn step(&mut self, name: &'static str, work: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        eprintln!("\n== {name}");
        let begun = Instant::now();
        work(&self.root).with_context(|| format!("`{name}` failed"))?;
        let took = begun.elapsed();
        eprintln!("== {name}: ok, {:.1} s", took.as_secs_f64());
        self.done.push((name, took));
        Ok(())
    }

    fn summary(&self) {
        eprintln!();
        for (name, took) in &self.done {
            eprintln!("{:>8.1} s  {name}", took.as_secs_f64());
        }
        let all: Duration = self.done.iter().map(|(_, took)| *took).sum();
        eprintln!("{:>8.1} s  in all", all.as_secs_f64());
    }
}

/// Runs a program of ours; says how to run it alone when it fails.
fn call(root: &Path, program: &str, args: &[&str], env: &[(&str, &str)]) -> Result<()> {
    let status = Command::new(program)
        .args(args)
        .envs(env.iter().copied())
        .current_dir(root)
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot start `{program}`"))?;
    if status.success() {
        return Ok(());
    }
    let env: String = env.iter().map(|(name, value)| format!("{name}={value:?} ")).collect();
    bail!("{status}; run it alone with: {env}{program} {}", args.join(" "))
}

/// Another command of ours, in a process of its own, as whoever repeats it would.
fn again(root: &Path, args: &[&str]) -> Result<()> {
    let program = std::env::current_exe().context("this program has a name")?;
    call(root, &program.to_string_lossy(), args, &[])
}

/// nextest where it is installed: it shows slow and failing tests better.
fn tests(root: &Path) -> Result<()> {
    let nextest = Command::new(cargo()).args(["nextest", "--version"]).output().is_ok_and(|out| out.status.success());
    if nextest {
        let args = [
            "nextest",
            "run",
            "--workspace",
            "--no-fail-fast",
            "--status-level",
            "fail",
            "--final-status-level",
            "fail",
        ];
        call(root, &cargo(), &args, &[])
    } else {
        call(root, &cargo(), &["test", "--workspace", "--all-features", "--all-targets", "--quiet"], &[])
    }
}

/// Installs what is missing when it may; else says what to install.
fn packages(_: &Path) -> Result<()> {
    if !installed("bwrap") && install(&["bubblewrap"]).is_err() {
        eprintln!("without bubblewrap, tests of the sandbox say that they cannot run");
    }
    let missing: Vec<&str> =
        NEEDED.iter().filter(|(program, _)| !installed(program)).map(|(_, package)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    install(&missing)
}

fn install(missing: &[&str]) -> Result<()> {
    eprintln!("missing: {}", missing.join(", "));
    let root = Command::new("id").arg("-u").output().is_ok_and(|out| out.stdout.starts_with(b"0"));
    if !root || !installed("apt-get") {
        bail!("install these with your package manager, then run it again: {}", missing.join(" "));
    }
    call(Path::new("/"), "apt-get", &["update", "-qq"], &[])?;
    let args: Vec<&str> = ["install", "-y", "-qq", "--no-install-recommends"].iter().chain(missing).copied().collect();
    call(Path::new("/"), "apt-get", &args, &[("DEBIAN_FRONTEND", "noninteractive")])
}

fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// The documents speak of every crate and every command there is.
fn fresh(root: &Path) -> Result<()> {
    crate::docs::check(root)?;
    crate::contract::check(root)?;
    let read = |name: &str| std::fs::read_to_string(root.join(name)).with_context(|| format!("cannot read {name}"));
    let (readme, architecture) = (read("README.md")?, read("ARCHITECTURE.md")?);
    for entry in std::fs::read_dir(root.join("crates"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !architecture.contains(&format!("`{name}`")) {
            bail!("ARCHITECTURE.md does not speak of the crate `{name}`");
        }
    }
    let help = Command::new(root.join("target/release/convoke")).arg("--help").output()?;
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let commands = help.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1);
    for line in commands.take_while(|line| line.starts_with("  ")) {
        let Some(name) = line.strip_prefix("  ").and_then(|line| line.split_whitespace().next()) else { continue };
        if line.starts_with("   ") || name == "help" {
            continue;
        }
        let docs = read("docs/cli.md")?;
        if !readme.contains(&format!("convoke {name}")) && !docs.contains(&format!("convoke {name}")) {
            bail!("neither README.md nor docs/cli.md speaks of `convoke {name}`");
        }
    }
    Ok(())
}

fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".into())
}

pub(crate) fn root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(Path::to_owned).context("xtask stands in the workspace")
}
