//! What a reaper does to itself before it serves inside of a sandbox. Whatever it starts inherits that.

use super::{Laid, Mode, filter};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The argument that says so; what follows says how.
pub const INSIDE: &str = "inside";
/// Only look whether it works.
pub(super) const CHECK: &str = "check";
const NO_NETWORK: &str = "no-network";
/// Nothing is written but temporary files.
const READ_ONLY: &str = "read-only";
/// Everything behind it is a path that may be written to, and which file that was.
const LANDLOCK: &str = "landlock";
/// Everything behind it is a path that has to be a mount, and of which file.
const LAID: &str = "laid";

/// The word behind it is a path that cannot be read; landlock only.
const PRIVATE: &str = "private";
/// The word behind it is a path that can be read all the same.
const READABLE: &str = "readable";

/// The arguments for a reaper that is to be held by bubblewrap with these mounts, or by landlock to these paths.
pub(crate) fn arguments(network: bool, by: Held<'_>, mode: Mode) -> Vec<OsString> {
    let mut words = vec![OsString::from(INSIDE)];
    if !network {
        words.push(NO_NETWORK.into());
    }
    if mode == Mode::ReadOnly {
        words.push(READ_ONLY.into());
    }
    let (word, laid) = match by {
        Held::ByMounts(laid) => (LAID, laid),
        Held::ByLandlock { writable, private, readable } => {
            let listed = |word: &'static str, paths: &[PathBuf]| {
                paths.iter().flat_map(|path| [word.into(), path.clone().into_os_string()]).collect::<Vec<OsString>>()
            };
            words.extend(listed(PRIVATE, private));
            words.extend(listed(READABLE, readable));
            (LANDLOCK, writable)
        }
    };
    words.push(word.into());
    words.extend(laid.iter().map(Laid::to_word));
    words
}

/// Who holds it, and what to.
pub(crate) enum Held<'a> {
    ByMounts(&'a [Laid]),
    ByLandlock {
        writable: &'a [Laid],
        /// What cannot be read, and what lies in it and can.
        private: &'a [PathBuf],
        readable: &'a [PathBuf],
    },
}

/// Takes from this process what it is not to have. True when it is to serve.
pub fn enter(words: impl Iterator<Item = OsString>) -> Result<bool, String> {
    let (mut network, mut serve, mut looks, mut held) = (true, true, false, None);
    let (mut private, mut readable) = (Vec::new(), Vec::new());
    let mut words = words;
    while let Some(word) = words.next() {
        match (&mut held, word.to_str()) {
            (Some((_, laid)), _) => {
                let read = Laid::from_word(&word);
                Vec::push(laid, read.ok_or_else(|| format!("`{}` is not understood", word.display()))?);
            }
            (None, Some(NO_NETWORK)) => network = false,
            (None, Some(CHECK)) => serve = false,
            (None, Some(READ_ONLY)) => looks = true,
            (None, Some(PRIVATE)) => private.extend(words.next().map(PathBuf::from)),
            (None, Some(READABLE)) => readable.extend(words.next().map(PathBuf::from)),
            (None, Some(LANDLOCK)) => held = Some((true, Vec::new())),
            (None, Some(LAID)) => held = Some((false, Vec::new())),
            (None, _) => return Err(format!("`{}` is not understood", word.display())),
        }
    }
    match held {
        Some((true, writable)) => restrict(&writable, &private, &readable)?,
        Some((false, mounts)) => {
            mounts.iter().try_for_each(check_mount)?;
            if looks && has_landlock() {
                // A read-only mount does not keep anybody from writing into a pipe that lies there.
                restrict(&temporaries(), &[], &[])?;
            }
            keep_apart()?;
        }
        None => {}
    }
    filter::apply(network)?;
    // Whoever is confined with it must not read or write its memory.
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .map_err(|error| error.to_string())?;
    Ok(serve)
}

/// Keeps this process from changing anything but these paths, as far as this kernel can.
pub(crate) fn hold(writable: &[&Path]) -> Result<(), String> {
    if !has_landlock() {
        return Ok(());
    }
    let look = |path: &&Path| Laid::look(path).map_err(|error| format!("cannot look at `{}`: {error}", path.display()));
    restrict(&writable.iter().map(look).collect::<Result<Vec<Laid>, String>>()?, &[], &[])
}

/// What can be written inside of mounts that are read-only: temporary files, and what is the sandbox's own anyway.
fn temporaries() -> Vec<Laid> {
    ["/tmp", "/var/tmp", "/proc", "/dev"].iter().filter_map(|path| Laid::look(path.as_ref()).ok()).collect()
}

/// Whether a mount is what it was to be, and where: a link that was put in the way while it was made may have led it
/// elsewhere, and there it would open what nobody meant to.
#[cfg(target_os = "linux")]
fn check_mount(laid: &Laid) -> Result<(), String> {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, makedev, statx};
    let found = statx(CWD, &laid.path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS)
        .map_err(|error| format!("cannot look at `{}`: {error}", laid.path.display()))?;
    let same = (makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino) == laid.file;
    // An old kernel does not tell.
    let tells = found.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT);
    let is_mount = !tells || found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
    if same && is_mount { Ok(()) } else { Err(replaced(laid)) }
}

#[cfg(not(target_os = "linux"))]
fn check_mount(_: &Laid) -> Result<(), String> {
    Err("there is no sandbox on this system".into())
}

fn replaced(laid: &Laid) -> String {
    format!("`{}` was replaced while its sandbox was made", laid.path.display())
}

/// What commands write to that is no file.
#[cfg(target_os = "linux")]
const DEVICES: [&str; 7] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/shm"];

/// Sockets that have a name and no file are not a matter of mounts. Where the kernel cannot keep commands from them, they
/// stay in reach; `convoke doctor` says so.
#[cfg(target_os = "linux")]
fn keep_apart() -> Result<(), String> {
    use landlock::{ABI, Access, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetError, Scope};
    let apart = || -> Result<(), RulesetError> {
        let rules = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
        rules.scope(Scope::from_all(ABI::V6))?.create()?.restrict_self()?;
        Ok(())
    };
    if has_scopes() { apart().map_err(|error| error.to_string()) } else { Ok(()) }
}

#[cfg(not(target_os = "linux"))]
fn keep_apart() -> Result<(), String> {
    Ok(())
}

/// More places than this beside what is private are too many to name one by one.
#[cfg(target_os = "linux")]
const MOST_BESIDE: usize = 20_000;

/// Everything that lies beside these paths, all the way up: landlock can only name what is allowed.
#[cfg(target_os = "linux")]
fn beside(private: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let (mut found, mut above) = (Vec::new(), vec![PathBuf::from("/")]);
    while let Some(dir) = above.pop() {
        let listed = std::fs::read_dir(&dir).map_err(|error| format!("cannot list `{}`: {error}", dir.display()))?;
        for entry in listed.flatten() {
            let path = entry.path();
            // A link leads to what is named, or not, for itself.
            if private.contains(&path) || entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
                continue;
            }
            let list = if private.iter().any(|hidden| hidden.starts_with(&path)) { &mut above } else { &mut found };
            list.push(path);
        }
        if found.len() > MOST_BESIDE {
            return Err(format!("there are more than {MOST_BESIDE} files beside `{}`", dir.display()));
        }
    }
    Ok(found)
}

#[cfg(target_os = "linux")]
fn restrict(writable: &[Laid], private: &[PathBuf], readable: &[PathBuf]) -> Result<(), String> {
    use landlock::{
        ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
        RulesetCreatedAttr, RulesetStatus, Scope,
    };
    let abi = ABI::V6;
    let writes = AccessFs::from_write(abi);
    let reads = if private.is_empty() { BitFlags::EMPTY } else { AccessFs::ReadFile.into() };
    let open_to_read = if private.is_empty() { Vec::new() } else { beside(private)? };
    let mut open = Vec::new();
    for laid in writable {
        // What is opened is what counts, whatever its name leads to by now.
        let file = crate::files::pin(&laid.path).map_err(|_| replaced(laid))?;
        let found = file.metadata().map_err(|error| error.to_string())?;
        if Laid::of(&laid.path, &found) != *laid {
            return Err(replaced(laid));
        }
        open.push((file, found.is_dir()));
    }
    let held = || -> Result<RulesetStatus, landlock::RulesetError> {
        let mut rules = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(writes | reads)?
            .scope(Scope::from_all(abi))?
            .create()?;
        let all = writes | reads;
        let rights = |is_dir: bool| if is_dir { all } else { all & AccessFs::from_file(abi) };
        for path in open_to_read.iter().chain(readable).filter(|_| !private.is_empty()) {
            // What has gone since cannot be read either.
            let Ok(opened) = crate::files::pin(path) else { continue };
            rules = rules.add_rule(PathBeneath::new(opened, reads))?;
        }
        for (file, is_dir) in &open {
            rules = rules.add_rule(PathBeneath::new(file, rights(*is_dir)))?;
        }
        for path in DEVICES.iter().map(Path::new) {
            let Ok(opened) = PathFd::new(path) else { continue };
            rules = rules.add_rule(PathBeneath::new(opened, rights(path.is_dir())))?;
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

/// Whether this kernel can keep commands from sockets that have a name and no file.
#[cfg(target_os = "linux")]
pub(super) fn has_scopes() -> bool {
    use landlock::{ABI, Access, CompatLevel, Compatible, Ruleset, RulesetAttr, Scope};
    let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    rules.scope(Scope::from_all(ABI::V6)).and_then(Ruleset::create).is_ok()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn has_scopes() -> bool {
    false
}

/// Whether this kernel has landlock: whether a set of rules can be made.
#[cfg(target_os = "linux")]
pub(super) fn has_landlock() -> bool {
    use landlock::{ABI, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr};
    let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    rules.handle_access(AccessFs::from_write(ABI::V1)).and_then(Ruleset::create).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn restrict(_: &[Laid], _: &[PathBuf], _: &[PathBuf]) -> Result<(), String> {
    Err("there is no sandbox on this system".into())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn has_landlock() -> bool {
    false
}
