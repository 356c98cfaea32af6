//! `convoke doctor`: what this machine and this home can do, and what is wrong with them.

use super::block_on;
use crate::failure::{FAILED, Failure};
use crate::home::{VERSION, current};
use crate::{names, providers, terminal, wiring};
use client::Client;
use config::{Environment, Loaded, Paths};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tools::sandbox::Backend;

/// Look at this machine and this home: the sandbox, settings, database, disk, git, keys
///
/// Exit code 1 when settings or the database are broken.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    let env = Environment::capture();
    let paths = Paths::resolve(&env)?;
    let report = Report::of(&paths, &env, &current()?);
    if args.json {
        terminal::print_json(&report);
    } else {
        report.lines().iter().for_each(terminal::print);
    }
    Ok(if report.config.ok && report.database.ok { 0 } else { FAILED })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    version: &'static str,
    home: Places,
    config: Settings,
    sandbox: Sandbox,
    environment: CommandEnv,
    database: Database,
    disk: Disk,
    git: Option<Program>,
    gateway: Gateway,
    /// Which have a key, and where it is from.
    providers: Vec<Provider>,
}

#[derive(Serialize)]
struct Places {
    config: PathBuf,
    state: PathBuf,
    run: PathBuf,
}

#[derive(Serialize)]
struct Settings {
    ok: bool,
    errors: Vec<String>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Sandbox {
    backend: &'static str,
    /// What can be enforced in full.
    modes: Vec<&'static str>,
    program: Option<Program>,
    notes: Vec<String>,
}

/// What commands of agents get of this environment, by name.
#[derive(Serialize)]
struct CommandEnv {
    variables: Vec<String>,
    /// What settings add: `sandbox.env`.
    pass: Vec<String>,
    set: Vec<String>,
}

#[derive(Serialize)]
struct Program {
    path: PathBuf,
    version: String,
}

#[derive(Serialize)]
struct Database {
    path: PathBuf,
    bytes: u64,
    ok: bool,
    findings: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Disk {
    free_bytes: Option<u64>,
}

#[derive(Serialize)]
struct Gateway {
    running: bool,
    pid: Option<u32>,
    socket: PathBuf,
}

#[derive(Serialize)]
struct Provider {
    name: String,
    /// `env:VARIABLE`, `config`, `file`, `command` or `none`.
    key: String,
}

impl Report {
    fn of(paths: &Paths, env: &Environment, directory: &Path) -> Self {
        let (settings, loaded) = settings(paths, env, directory);
        Self {
            version: VERSION,
            home: Places { config: paths.config.clone(), state: paths.state.clone(), run: paths.run.clone() },
            config: settings,
            sandbox: sandbox(env),
            environment: environment(env, loaded.as_ref()),
            database: database(paths),
            disk: Disk { free_bytes: free(&paths.state) },
            git: program("git", env),
            gateway: gateway(paths),
            providers: loaded.map(|loaded| keys(paths, env, &loaded)).unwrap_or_default(),
        }
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut say = |name: &str, what: String| lines.push(format!("{name:<10} {}", terminal::flat(&what)));
        say("version", self.version.to_owned());
        say("home", self.home.state.display().to_string());
        let config = if self.config.ok { "settings can be read" } else { "settings cannot be read" };
        say("config", config.to_owned());
        self.config.errors.iter().for_each(|error| say("", format!("error: {error}")));
        self.config.warnings.iter().for_each(|warning| say("", format!("warning: {warning}")));
        let by = self.sandbox.program.as_ref().map_or_else(String::new, |by| format!(" ({})", by.path.display()));
        say("sandbox", format!("{}{by}: {}", self.sandbox.backend, self.sandbox.modes.join(", ")));
        self.sandbox.notes.iter().for_each(|note| say("", note.clone()));
        if self.sandbox.modes.len() < 3 {
            say("", "hint: install bubblewrap, so that commands can be held in full (docs/sandbox.md)".into());
        }
        say("env", format!("commands get {}", self.environment.variables.join(", ")));
        let absent = |name: &&String| !name.ends_with('*') && !self.environment.variables.contains(name);
        self.environment.pass.iter().filter(absent).for_each(|name| {
            say("", format!("`sandbox.env.pass` names `{name}`, which is not set here"));
        });
        let state = if self.database.ok { "no damage found" } else { "DAMAGED" };
        say("database", format!("{}, {state}", size(self.database.bytes)));
        self.database.findings.iter().for_each(|finding| say("", finding.clone()));
        say("disk", self.disk.free_bytes.map_or_else(|| "not known".into(), |free| format!("{} free", size(free))));
        let git = self.git.as_ref();
        let git = git.map_or_else(|| "missing: worktrees need it".into(), |git| git.version.clone());
        say("git", git);
        let gateway = match self.gateway.pid {
            Some(pid) if self.gateway.running => format!("runs as process {pid}"),
            _ if self.gateway.running => "runs".into(),
            _ => "does not run; the next command that needs it starts it".into(),
        };
        say("gateway", gateway);
        let keyed = self.providers.iter().filter(|provider| provider.key != "none");
        let keyed: Vec<String> = keyed.map(|provider| format!("{} ({})", provider.name, provider.key)).collect();
        let none = "none; `convoke auth login` takes one, and `offline/plain` needs none";
        say("keys", if keyed.is_empty() { none.into() } else { keyed.join(", ") });
        lines
    }
}

fn settings(paths: &Paths, env: &Environment, directory: &Path) -> (Settings, Option<Loaded>) {
    match crate::settings::load_at(paths, env, directory) {
        Ok(loaded) => {
            let odd = crate::settings::odd(&loaded).into_iter().chain(unasked(paths, env, &loaded));
            let warnings = loaded.warnings.iter().cloned().chain(odd).collect();
            let wrong = wrong(paths, env, &loaded);
            (Settings { ok: wrong.is_empty(), errors: wrong, warnings }, Some(loaded))
        }
        Err(error) => {
            let errors = vec![format!("{} ({})", error.message, error.hint)];
            (Settings { ok: false, errors, warnings: Vec::new() }, None)
        }
    }
}

/// What would keep a gateway or a run from starting.
fn wrong(paths: &Paths, env: &Environment, loaded: &Loaded) -> Vec<String> {
    let agents = crate::settings::agents(loaded, env).err();
    let access = wiring::access(loaded).err();
    let addresses = providers::check_addresses(env, loaded).err();
    let models = providers::models(paths, env, loaded).err();
    [agents, access, addresses, models].into_iter().flatten().map(told).collect()
}

/// Models that are set and cannot be asked, perhaps for want of a key.
fn unasked(paths: &Paths, env: &Environment, loaded: &Loaded) -> Vec<String> {
    let unknown = providers::models(paths, env, loaded).map(|models| names::unknown_models(loaded, &models));
    unknown.unwrap_or_default().into_iter().map(told).collect()
}

fn told(error: proto::Error) -> String {
    match &error.hint {
        Some(hint) => format!("{} ({hint})", error.message),
        None => error.message,
    }
}

fn sandbox(env: &Environment) -> Sandbox {
    let (backend, notes) = wiring::backend(env);
    let program = match &backend {
        Backend::Bubblewrap(path) => version(path).map(|version| Program { path: path.clone(), version }),
        Backend::Landlock | Backend::Nobody => None,
    };
    let modes = backend.modes().into_iter().map(tools::sandbox::Mode::as_str).collect();
    Sandbox { backend: backend.as_str(), modes, program, notes }
}

fn environment(env: &Environment, loaded: Option<&Loaded>) -> CommandEnv {
    let base: Vec<(String, String)> = env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let added = loaded.map(|loaded| loaded.config.sandbox.env.clone()).unwrap_or_default();
    let variables = tools::process::env_with(&base, &session::wanted(&added));
    CommandEnv {
        variables: variables.into_iter().map(|(name, _)| name).collect(),
        set: added.set.into_keys().collect(),
        pass: added.pass,
    }
}

fn database(paths: &Paths) -> Database {
    let path = paths.database();
    let bytes = path.metadata().map_or(0, |found| found.len());
    let findings = if path.exists() {
        super::db::findings(paths).unwrap_or_else(|failure| vec![failure.error.message])
    } else {
        Vec::new()
    };
    Database { ok: findings.is_empty(), path, bytes, findings }
}

/// On the disk that holds a directory, or would.
fn free(directory: &Path) -> Option<u64> {
    let there = directory.ancestors().find(|above| above.exists())?;
    let disk = rustix::fs::statvfs(there).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

fn program(name: &str, env: &Environment) -> Option<Program> {
    let path = std::env::split_paths(env.get("PATH")?).map(|dir| dir.join(name)).find(|file| file.is_file())?;
    Some(Program { version: version(&path)?, path })
}

fn version(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).lines().next()?.trim().to_owned())
}

fn gateway(paths: &Paths) -> Gateway {
    let socket = paths.socket();
    let running = block_on(async { Ok(Client::connect(&socket).await.is_ok()) }).unwrap_or(false);
    let pid = std::fs::read_to_string(paths.lock()).ok().and_then(|text| text.trim().parse().ok());
    Gateway { running, pid: pid.filter(|_| running), socket }
}

fn keys(paths: &Paths, env: &Environment, loaded: &Loaded) -> Vec<Provider> {
    let Ok(models) = providers::models(paths, env, loaded) else { return Vec::new() };
    let listed = models.list(&providers::default_model(env, loaded));
    let by_name: BTreeMap<String, String> = listed.into_iter().map(|model| (model.provider, model.key)).collect();
    by_name.into_iter().map(|(name, key)| Provider { name, key }).collect()
}

fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{} kB", bytes / 1_000),
        10_000_000..10_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{} GB", bytes / 1_000_000_000),
    }
}
