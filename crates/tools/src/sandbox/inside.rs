//! What a reaper does to itself before it serves inside of a sandbox. Whatever it starts inherits that.

use super::filter;
use std::ffi::OsString;
use std::path::PathBuf;

/// The argument that says so; what follows says how.
pub const INSIDE: &str = "inside";
/// Only look whether it works.
pub(super) const CHECK: &str = "check";
const NO_NETWORK: &str = "no-network";
/// Everything behind it is a path that may be written to.
const LANDLOCK: &str = "landlock";

/// The arguments for a reaper that is to be held by bubblewrap, or by landlock to these paths.
pub(crate) fn arguments(network: bool, landlock: Option<Vec<PathBuf>>) -> Vec<OsString> {
    let mut words = vec![OsString::from(INSIDE)];
    if !network {
        words.push(NO_NETWORK.into());
    }
    if let Some(paths) = landlock {
        words.push(LANDLOCK.into());
        words.extend(paths.into_iter().map(PathBuf::into_os_string));
    }
    words
}

/// Takes from this process what it is not to have. True when it is to serve.
pub fn enter(words: impl Iterator<Item = OsString>) -> Result<bool, String> {
    let (mut network, mut serve, mut landlock) = (true, true, None);
    for word in words {
        match (&mut landlock, word.to_str()) {
            (Some(paths), _) => Vec::push(paths, PathBuf::from(word)),
            (None, Some(NO_NETWORK)) => network = false,
            (None, Some(CHECK)) => serve = false,
            (None, Some(LANDLOCK)) => landlock = Some(Vec::new()),
            (None, _) => return Err(format!("`{}` is not understood", word.display())),
        }
    }
    if let Some(paths) = landlock {
        restrict(&paths)?;
    }
    filter::apply(network)?;
    // Whoever is confined with it must not read or write its memory.
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .map_err(|error| error.to_string())?;
    Ok(serve)
}

/// What commands write to that is no file.
#[cfg(target_os = "linux")]
const DEVICES: [&str; 7] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/shm"];

#[cfg(target_os = "linux")]
fn restrict(writable: &[PathBuf]) -> Result<(), String> {
    use landlock::{
        ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
        RulesetStatus, Scope,
    };
    let abi = ABI::V6;
    let writes = AccessFs::from_write(abi);
    let held = || -> Result<RulesetStatus, landlock::RulesetError> {
        let mut rules = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(writes)?
            .scope(Scope::from_all(abi))?
            .create()?;
        for path in writable.iter().map(PathBuf::as_path).chain(DEVICES.iter().map(std::path::Path::new)) {
            let Ok(opened) = PathFd::new(path) else { continue };
            let rights = if path.is_dir() { writes } else { writes & AccessFs::from_file(abi) };
            rules = rules.add_rule(PathBeneath::new(opened, rights))?;
        }
        Ok(rules.restrict_self()?.ruleset)
    };
    // Root would read what belongs to other processes, whatever landlock says.
    let none = rustix::thread::CapabilitySet::empty();
    let sets = rustix::thread::CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets).map_err(|error| error.to_string())?;
    match held() {
        Ok(RulesetStatus::NotEnforced) => Err("this kernel has no landlock".into()),
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Whether this kernel has landlock: whether a set of rules can be made.
#[cfg(target_os = "linux")]
pub(super) fn has_landlock() -> bool {
    use landlock::{ABI, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr};
    let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    rules.handle_access(AccessFs::from_write(ABI::V1)).and_then(Ruleset::create).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn restrict(_: &[PathBuf]) -> Result<(), String> {
    Err("there is no sandbox on this system".into())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn has_landlock() -> bool {
    false
}
