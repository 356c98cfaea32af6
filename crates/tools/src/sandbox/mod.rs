//! What the commands of an agent are kept in: how far they reach, and who holds them there.
//!
//! A [`Confine`] is a plain value that a session makes. Behind it stand, best first:
//!
//! - **bubblewrap**: namespaces of its own, in which the system is read-only, other processes and this program's own
//!   files do not exist, and protected paths stay as they are (`layout`, `bubblewrap`);
//! - **landlock**: the kernel refuses writes elsewhere. It can neither protect a path inside a writable directory nor
//!   hide a file;
//! - nothing.
//!
//! Both of the first two also have the filter of system calls in `filter`. What cannot be enforced is refused, unless
//! nobody asked for it; then what is missing is said ([`Backend::enforce`]).
//!
//! A sandbox is a second reaper that was started inside it (`process::confined`), and stays warm for a while.

mod backend;
mod bubblewrap;
mod filter;
mod git;
mod ground;
mod hidden;
mod inside;
mod known;
mod laid;
mod layout;
mod masks;
mod named;

pub use backend::{Backend, Enforced, find};
pub use ground::named;
pub use inside::{INSIDE, enter};

pub(crate) use bubblewrap::arguments;
pub(crate) use git::{Site, index_of, is_repository, modules, site};
pub(crate) use ground::{For, Ground, look};
pub(crate) use hidden::{Found, Hiding, hidden_in};
pub(crate) use inside::{Held as HeldInside, arguments as arguments_inside, hold};
pub(crate) use known::Walks;
pub(crate) use laid::{Laid, pinned};
pub(crate) use layout::lay_out;
pub(crate) use masks::{Mask, Masks};

use proto::SessionId;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How far commands reach into the file system, the strictest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// They read, and write nothing but temporary files.
    ReadOnly,
    /// They write in the session's repository as well.
    Workspace,
    /// As far as this user.
    Off,
}

impl Mode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Workspace => "workspace",
            Self::Off => "off",
        }
    }
}

/// How far the commands of a session reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reach {
    pub mode: Mode,
    pub network: bool,
    /// Somebody relies on it: where it cannot be enforced, nothing is run.
    pub asked: bool,
}

impl Reach {
    /// What anybody gets who has nothing else set.
    pub const USUAL: Self = Self { mode: Mode::Workspace, network: true, asked: false };
    /// What those get who only look.
    pub const LOOKING: Self = Self { mode: Mode::ReadOnly, network: false, asked: true };

    /// No further than this and the other one.
    #[must_use]
    pub fn within(self, other: Self) -> Self {
        Self {
            mode: self.mode.min(other.mode),
            network: self.network && other.network,
            asked: self.asked || other.asked,
        }
    }

    /// As far as this user: nothing is held back.
    pub fn is_free(self) -> bool {
        self.mode == Mode::Off && self.network
    }
}

/// What the commands of a session are to be kept in.
#[derive(Debug, Clone)]
pub struct Confine {
    /// Whose temporary files they see.
    pub session: SessionId,
    /// The root of its tree: whose saved outputs they see.
    pub root: SessionId,
    pub reach: Reach,
    /// The session's directory and the root of what it works on, free of symlinks; the second holds the first.
    pub dir: PathBuf,
    pub worktree: PathBuf,
    /// Which files are not to be read or changed.
    pub rules: Arc<rules::Policy>,
}

impl Confine {
    /// From the root of what the session works on down to its directory.
    pub(crate) fn chain(&self) -> Vec<PathBuf> {
        let mut chain: Vec<PathBuf> = self.dir.ancestors().map(Path::to_owned).collect();
        let root = chain.iter().position(|above| *above == self.worktree).unwrap_or(0);
        chain.truncate(root + 1);
        chain.reverse();
        chain
    }
}

/// Where this program keeps its own things.
#[derive(Debug, Clone)]
pub struct Places {
    /// Settings, database, keys, tokens, sockets: none of it exists for a command.
    pub private: Vec<PathBuf>,
    /// Saved outputs, which commands may read.
    pub outputs: PathBuf,
    /// Temporary files of sessions, and what a sandbox is made of.
    pub root: PathBuf,
}

impl Places {
    /// Where everything of ours is in one directory, that is also where the user's own settings are looked for.
    pub(crate) fn home(&self) -> Option<&Path> {
        let [config, state, run, ..] = self.private.as_slice() else { return None };
        config.parent().filter(|home| [state, run].iter().all(|path| path.parent() == Some(home)))
    }

    /// The session's own `/tmp`. While it only looks it has another one: a command in the background that was started
    /// before, and may write, could do what it is told there.
    pub(crate) fn temporary(&self, session: &SessionId, mode: Mode) -> PathBuf {
        let name = match mode {
            Mode::ReadOnly => format!("{}.looking", session.as_str()),
            Mode::Workspace | Mode::Off => session.as_str().to_owned(),
        };
        self.root.join("tmp").join(name)
    }

    /// What sandboxes put into somebody's directories for now.
    pub(crate) fn list(&self) -> PathBuf {
        self.root.join("masks")
    }

    /// Nobody may read this file.
    pub(crate) fn nothing(&self) -> PathBuf {
        self.root.join("nothing")
    }

    /// A file that stays empty.
    pub(crate) fn blank(&self) -> PathBuf {
        self.root.join("blank")
    }

    /// A directory that stays empty.
    pub(crate) fn empty(&self) -> PathBuf {
        self.root.join("empty")
    }
}

/// Removes what sandboxes of a gateway that was killed left in somebody's directories.
pub fn clear_up(places: &Places) {
    drop(Masks::open(places.list()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_reaches_no_further_than_its_parent() {
        let (usual, looking) = (Reach::USUAL, Reach::LOOKING);
        assert_eq!(usual.within(looking), looking);
        assert_eq!(looking.within(usual), looking);
        let off = Reach { mode: Mode::Off, network: true, asked: true };
        assert_eq!(off.within(usual), Reach { asked: true, ..usual });
        assert!(off.is_free() && !Reach { network: false, ..off }.is_free());
    }

    #[test]
    fn the_chain_goes_from_the_root_down() {
        let confine = |dir: &str, worktree: &str| Confine {
            session: SessionId::new(),
            root: SessionId::new(),
            reach: Reach::USUAL,
            dir: dir.into(),
            worktree: worktree.into(),
            rules: Arc::default(),
        };
        assert_eq!(confine("/a/b/c", "/a").chain(), ["/a", "/a/b", "/a/b/c"].map(PathBuf::from));
        assert_eq!(confine("/a", "/a").chain(), ["/a"].map(PathBuf::from));
        assert_eq!(confine("/a", "/elsewhere").chain(), ["/a"].map(PathBuf::from));
    }
}
