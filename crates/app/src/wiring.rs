//! Puts the parts together: settings in, a gateway out. The one place that knows them all.

use crate::courier::Post;
use crate::home::{Home, VERSION, program};
pub(crate) use crate::providers::OFFLINE;
use crate::settings::{Directories, placed};
use config::{Environment, Loaded};
use gateway::{Gateway, Identity, Inbound};
use proto::Error;
use session::{Between, Deps, Hub, Runtime};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use store::Store;
use tools::process::{Mark, Reaper};
use tools::sandbox::{Backend, Places};

/// A gateway over a store. Nothing is woken and nothing listens yet.
pub(crate) fn gateway(
    home: &Home,
    store: Arc<dyn Store>,
    hub: Hub,
    implicit: bool,
    mark: Option<Mark>,
) -> Result<Gateway, Error> {
    session::clock::open(&home.paths.state);
    let directory = home.user_directory().display().to_string();
    let env: Vec<(String, String)> = home.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let places = places(home);
    let reaper = Reaper::new(program(), env).sandboxes(places.clone(), forced(&home.env));
    let runtime = Runtime::new(Deps {
        store,
        hub,
        settings: Arc::new(settings(home)?),
        limits: home.loaded.config.limits.clone(),
        private: places.private.clone(),
        processes: Arc::new(match mark {
            Some(mark) => reaper.marked(mark),
            None => reaper,
        }),
        outputs: home.paths.outputs(),
        journal: home.paths.journal(),
        search: home.loaded.config.search,
        courier: Arc::new(Post::new(home.paths.socket(), home.loaded.config.peers.clone())),
        between: Between {
            access: access(&home.loaded)?,
            isolated: home.loaded.config.sandbox.isolated.unwrap_or(false),
            child_tools: child_tools(home),
            ping_pong: home.loaded.config.turns.unwrap_or(5),
            redactor: rules::redact::Redactor::new(secrets(home)),
        },
        worktrees: worktrees(home),
    });
    let identity = Identity { version: VERSION.into(), fingerprint: home.fingerprint(), implicit };
    Ok(Gateway::new(runtime, identity, &directory, inbound(home)))
}

/// What becomes of mail from other gateways.
fn inbound(home: &Home) -> Inbound {
    let config = &home.loaded.config;
    let peers = config.peers.iter().filter_map(|peer| Some((peer.name.clone(), peer.inbound?)));
    Inbound { usual: config.inbound, peers: peers.collect() }
}

/// Who may see and reach whom: `tools` for all, `agent.<name>.tools.sessions` for one, and the clamp on sandboxed ones.
pub(crate) fn access(loaded: &Loaded) -> Result<rules::access::Settings, Error> {
    let config = &loaded.config;
    let of_agent = |(name, agent): (&String, &config::Agent)| {
        let sessions = agent.sessions.clone()?;
        Some((name.clone(), serde_json::json!({ "tools": { "sessions": sessions } })))
    };
    let document = serde_json::json!({
        "tools": config.other.get("tools"),
        "agent": config.agent.iter().filter_map(of_agent).collect::<serde_json::Map<_, _>>(),
        "sandbox": { "sessionToolsVisibility": config.sandbox.session_tools_visibility },
    });
    rules::access::Settings::read(&document).map_err(|why| {
        // It begins with the setting that is meant.
        let path = why.split('`').nth(1).unwrap_or_default().to_owned();
        placed(Error::invalid(why).hint("mend the settings file"), loaded, &path)
    })
}

fn child_tools(home: &Home) -> Vec<String> {
    let tools = home.loaded.config.other.get("tools");
    let allow = tools.and_then(|tools| tools.get("subagents")?.get("allow")?.as_array().cloned());
    allow.unwrap_or_default().iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// Values that must not be shown to readers: keys in the settings, and whatever the environment calls one.
fn secrets(home: &Home) -> Vec<String> {
    let keys =
        home.loaded.config.provider.values().filter_map(|p| p.api_key.as_ref().map(|key| key.expose().to_owned()));
    let named =
        |name: &str| ["KEY", "TOKEN", "SECRET", "PASSWORD"].iter().any(|word| name.to_ascii_uppercase().contains(word));
    // Where a key lies is no secret, and would be missed in what tools print.
    let env = home.env.iter().filter(|(name, value)| named(name) && !value.starts_with('/'));
    let env = env.map(|(_, value)| value.to_owned());
    let kept = home.loaded.keys.values().map(|key| key.expose().to_owned());
    keys.chain(kept).chain(env).collect()
}

/// Where a sandbox finds what is ours, and what of it commands may see.
pub(crate) fn places(home: &Home) -> Places {
    let paths = &home.paths;
    let mut private = vec![paths.config.clone(), paths.state.clone(), paths.run.clone()];
    // A socket whose name is too long for the usual place has a directory of its own.
    private.extend(paths.socket().parent().filter(|dir| **dir != *paths.run).map(Path::to_owned));
    private.extend(others(&home.env));
    Places { private, outputs: paths.outputs(), root: paths.sandboxes() }
}

/// What is no business of a command and may lie anywhere: sockets of the user's services, and the usual home, where this is
/// another one.
fn others(env: &Environment) -> Vec<PathBuf> {
    let kept = |name: &str| !matches!(name, "CONVOKE_HOME" | "CONVOKE_RUNTIME_DIR");
    let bare: Environment = env.iter().filter(|(name, _)| kept(name)).collect();
    let usual = config::Paths::resolve(&bare).into_iter().flat_map(|usual| [usual.config, usual.state, usual.run]);
    let sockets = env.get("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute());
    // Where somebody works, nothing is hidden as a whole.
    let around = |dir: &PathBuf| env.home().is_some_and(|home| home.starts_with(dir)) || dir.starts_with("/tmp");
    usual.chain(sockets.filter(|dir| !around(dir))).collect()
}

/// For tests alone: what a machine without bubblewrap would do.
fn forced(env: &Environment) -> Option<Backend> {
    match env.get("CONVOKE_TEST_SANDBOX") {
        Some("landlock") if cfg!(debug_assertions) => Some(Backend::Landlock),
        Some("none") if cfg!(debug_assertions) => Some(Backend::Nobody),
        _ => None,
    }
}

/// What holds commands back on this machine, and what is to be said about that.
pub(crate) fn backend(env: &Environment) -> (Backend, Vec<String>) {
    if let Some(backend) = forced(env) {
        return (backend, vec!["`CONVOKE_TEST_SANDBOX` says so".into()]);
    }
    tools::sandbox::find(&program(), env.get("PATH").map(OsStr::new))
}

/// How worktrees are made: by git, or by the first command of a hook that stands in for it.
fn worktrees(home: &Home) -> tools::worktree::Settings {
    let config = &home.loaded.config;
    let hook = |event: &str| {
        let hook = config.hooks.get(event)?.first()?;
        Some(tools::hook::Hook { command: hook.command.clone(), timeout: Duration::from_millis(hook.timeout_ms) })
    };
    tools::worktree::Settings {
        base: match config.worktree.base {
            config::Base::Head => tools::worktree::Base::Head,
            config::Base::Fresh => tools::worktree::Base::Fresh,
        },
        create: hook("worktree_create"),
        remove: hook("worktree_remove"),
    }
}

/// What holds where. The home may have been opened in a directory; what holds everywhere is read without one.
fn settings(home: &Home) -> Result<Directories, Error> {
    Directories::open(&home.paths, &home.env)
}
