//! Who can hold commands back on this machine, and what that is worth.

use super::{Mode, Reach, bubblewrap, inside};
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Who enforces a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backend {
    /// This program.
    Bubblewrap(PathBuf),
    /// The kernel alone.
    Landlock,
    Nobody,
}

/// What becomes of a command, with words for what is not enforced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Enforced {
    /// It runs as it is.
    Bare(Option<String>),
    Inside(Option<String>),
    /// It does not run, and why.
    Refused(String),
}

const GET_IT: &str = "install bubblewrap";

impl Backend {
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Bubblewrap(_) => "bubblewrap",
            Self::Landlock => "landlock",
            Self::Nobody => "none",
        }
    }

    /// What can be enforced in full.
    pub fn modes(&self) -> Vec<Mode> {
        match self {
            Self::Bubblewrap(_) => vec![Mode::Off, Mode::ReadOnly, Mode::Workspace],
            Self::Landlock => vec![Mode::Off, Mode::ReadOnly],
            Self::Nobody => vec![Mode::Off],
        }
    }

    /// `hides`: rules deny files to be read.
    pub fn enforce(&self, reach: Reach, hides: bool) -> Enforced {
        let mode = reach.mode.as_str();
        match self {
            _ if reach.is_free() => Enforced::Bare(None),
            Self::Bubblewrap(_) => Enforced::Inside(None),
            _ if hides => refused(
                "rules deny files to be read, which cannot be kept from commands on this machine",
                &format!("{GET_IT}, or take these rules back"),
            ),
            Self::Landlock if reach.mode == Mode::Workspace && reach.asked => refused(
                &format!("the sandbox `{mode}` cannot be enforced in full on this machine"),
                &format!("{GET_IT}, or set `sandbox.mode` to `off` or `read-only`"),
            ),
            Self::Landlock => Enforced::Inside(Some(PARTLY.into())),
            Self::Nobody if reach.asked => refused(
                &format!("the sandbox `{mode}` cannot be enforced on this machine"),
                &format!("{GET_IT}, or set `sandbox.mode` of this agent to `off`"),
            ),
            Self::Nobody => Enforced::Bare(Some(NOT_AT_ALL.into())),
        }
    }
}

const PARTLY: &str = "no bubblewrap here: writes elsewhere are refused, but nothing is hidden besides Convoke's own files, sockets of services are in reach, and modes and times of files can be changed";
/// Needs landlock of Linux 6.12.
const NAMED_SOCKETS: &str =
    "this kernel cannot keep commands that have network from abstract sockets, such as those of X11";
const NOT_AT_ALL: &str = "no sandbox here: the command could reach whatever this user can";

fn refused(why: &str, hint: &str) -> Enforced {
    Enforced::Refused(format!("{why}: {hint} (`convoke doctor` says what this machine can do)"))
}

/// The best there is, and what is to be said about it. Tries it: a program that is there may still not be allowed to.
/// `exe` is this program.
pub fn find(exe: &Path, path: Option<&OsStr>) -> (Backend, Vec<String>) {
    let mut notes = Vec::new();
    for bwrap in installed(path) {
        match bubblewrap::try_out(&bwrap, exe) {
            Ok(()) => {
                notes.extend((!inside::has_scopes()).then(|| NAMED_SOCKETS.to_owned()));
                return (Backend::Bubblewrap(bwrap), notes);
            }
            Err(why) => notes.push(format!("`{}` does not work here: {why}", bwrap.display())),
        }
    }
    if notes.is_empty() {
        notes.push("bubblewrap is not installed".into());
    }
    if inside::has_landlock() {
        notes.push(PARTLY.into());
        notes.extend((!inside::has_scopes()).then(|| NAMED_SOCKETS.to_owned()));
        return (Backend::Landlock, notes);
    }
    notes.push("this kernel has no landlock".into());
    (Backend::Nobody, notes)
}

/// Every `bwrap` on the path, by an absolute name.
fn installed(path: Option<&OsStr>) -> impl Iterator<Item = PathBuf> {
    let dirs: Vec<PathBuf> = path.map(|path| std::env::split_paths(path).collect()).unwrap_or_default();
    let files = dirs.into_iter().filter(|dir| dir.is_absolute()).map(|dir| dir.join("bwrap"));
    files
        .filter_map(|file| file.canonicalize().ok())
        .filter(|file| file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_enforced_is_refused_unless_nobody_asked_for_it() {
        let bubblewrap = Backend::Bubblewrap("/usr/bin/bwrap".into());
        let reach = |mode, network, asked| Reach { mode, network, asked };
        let (usual, looking) = (Reach::USUAL, Reach::LOOKING);
        let asked = reach(Mode::Workspace, true, true);
        let off = reach(Mode::Off, true, true);
        for (backend, reach, hides, expected) in [
            (&bubblewrap, usual, true, "inside"),
            (&bubblewrap, looking, true, "inside"),
            (&bubblewrap, off, false, "bare"),
            (&Backend::Landlock, usual, false, "inside, but"),
            (&Backend::Landlock, usual, true, "refused"),
            (&Backend::Landlock, asked, false, "refused"),
            (&Backend::Landlock, looking, false, "inside, but"),
            (&Backend::Landlock, reach(Mode::Off, false, true), false, "inside, but"),
            (&Backend::Nobody, usual, false, "bare, but"),
            (&Backend::Nobody, usual, true, "refused"),
            (&Backend::Nobody, asked, false, "refused"),
            (&Backend::Nobody, looking, false, "refused"),
            (&Backend::Nobody, off, true, "bare"),
        ] {
            let found = match backend.enforce(reach, hides) {
                Enforced::Bare(None) => "bare",
                Enforced::Bare(Some(_)) => "bare, but",
                Enforced::Inside(None) => "inside",
                Enforced::Inside(Some(_)) => "inside, but",
                Enforced::Refused(_) => "refused",
            };
            assert_eq!(found, expected, "{backend:?} {reach:?} {hides}");
        }
    }

    #[test]
    fn a_relative_path_finds_no_program() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("bwrap"), "").unwrap();
        assert_eq!(installed(Some(dir.path().as_os_str())).count(), 0, "it cannot be run");
        std::fs::set_permissions(dir.path().join("bwrap"), std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(installed(Some(dir.path().as_os_str())).count(), 1);
        assert_eq!(installed(Some(OsStr::new("."))).count(), 0);
        assert_eq!(installed(None).count(), 0);
    }
}
