//! What a command sees of the file system, as a list of mounts. Pure: what there is comes in a [`Ground`].

use super::hidden::Held;
use super::{Found, Ground, Mode, Places, masks};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// One thing laid over the read-only system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mount {
    /// A file or directory as it is, and it may be changed.
    Writable(PathBuf),
    /// It stays as it is.
    Fixed(PathBuf),
    /// Something else in its place; writable or not.
    Instead { at: PathBuf, of: PathBuf, writable: bool },
    /// An empty place.
    Blank(PathBuf),
}

impl Mount {
    pub(crate) fn at(&self) -> &Path {
        match self {
            Self::Writable(at) | Self::Fixed(at) | Self::Blank(at) | Self::Instead { at, .. } => at,
        }
    }

    /// What is laid over itself; the whole system aside, which is no mount of its own.
    pub(crate) fn own(&self) -> Option<&Path> {
        match self {
            Self::Writable(at) | Self::Fixed(at) => Some(at.as_path()).filter(|at| *at != Path::new("/")),
            Self::Blank(_) | Self::Instead { .. } => None,
        }
    }
}

/// In the order in which they are made: whatever lies inside of something comes after it, so that a workspace below
/// `/tmp` or below a directory of ours is still there, and ours inside of a workspace is not.
pub(crate) fn lay_out(ground: &Ground, found: &Found, places: &Places, temporary: &Path) -> Vec<Mount> {
    let mut mounts = Vec::new();
    if ground.reach.mode == Mode::Off {
        mounts.push(Mount::Writable("/".into()));
    } else {
        let own = |at: &PathBuf| Mount::Instead { at: at.clone(), of: temporary.to_owned(), writable: true };
        mounts.extend(ground.temporaries.iter().map(own));
        mounts.extend(ground.run.iter().cloned().map(Mount::Blank));
        mounts.extend(ground.kept_of_run.iter().cloned().map(Mount::Fixed));
        mounts.extend(ground.writable.iter().cloned().map(Mount::Writable));
        mounts.extend(above(ground, found).map(Mount::Writable));
        mounts.extend(ground.fixed.iter().cloned().map(Mount::Fixed));
        mounts.extend(found.kept.iter().map(|held| Mount::Fixed(held.path.clone())));
        let instead = |at: &PathBuf, of: PathBuf| Mount::Instead { at: at.clone(), of, writable: false };
        let masked = |at: &PathBuf| match masks::text_for(at) {
            Some(_) => Mount::Fixed(at.clone()),
            None => instead(at, places.empty()),
        };
        mounts.extend(ground.missing.iter().map(masked));
        mounts.extend(ground.blank.iter().cloned().map(Mount::Blank));
        mounts.extend(ground.empty_files.iter().map(|at| instead(at, places.blank())));
        mounts.extend(ground.empty_folders.iter().map(|at| instead(at, places.empty())));
    }
    mounts.extend(ground.private.iter().cloned().map(Mount::Blank));
    mounts.extend(ground.outputs.iter().cloned().map(Mount::Fixed));
    let unreadable = |held: &Held| Mount::Instead { at: held.path.clone(), of: places.nothing(), writable: false };
    mounts.extend(found.hidden.iter().map(unreadable));
    let closed = |at: &PathBuf| Mount::Instead { at: at.clone(), of: places.nothing(), writable: false };
    mounts.extend(ground.sockets.iter().map(closed));
    mounts.sort_by_key(|mount| mount.at().components().count());
    mounts
}

/// Folders that keep their names because of what is in them: as mounts of their own they cannot be renamed.
fn above(ground: &Ground, found: &Found) -> impl Iterator<Item = PathBuf> {
    let open = |dir: &Path| ground.writable.iter().any(|open| dir != open && dir.starts_with(open));
    let closed = |dir: &Path| {
        let kept = found.kept.iter().map(|held| &held.path);
        ground.fixed.iter().chain(&ground.private).chain(kept).any(|closed| dir.starts_with(closed))
    };
    let leaning = found.hidden.iter().chain(&found.kept).filter(|held| held.leans).map(|held| &held.path);
    let leaning = leaning.chain(&ground.private).chain(&ground.sockets);
    let above: BTreeSet<&Path> = leaning.flat_map(|path| path.ancestors().skip(1)).collect();
    let above: Vec<PathBuf> = above.into_iter().filter(|dir| open(dir) && !closed(dir)).map(Path::to_owned).collect();
    above.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::Reach;

    fn shown(ground: &Ground, hidden: &[&str]) -> Vec<String> {
        let hidden = hidden.iter().map(|path| Held { path: path.into(), leans: false, since: (0, 0) }).collect();
        shown_with(ground, &Found { hidden, ..Found::default() })
    }

    fn shown_with(ground: &Ground, found: &Found) -> Vec<String> {
        let places =
            Places { private: Vec::new(), outputs: "/h/state/outputs".into(), root: "/h/state/sandbox".into() };
        let mounts = lay_out(ground, found, &places, Path::new("/h/state/sandbox/tmp/s"));
        let words = |mount: &Mount| match mount {
            Mount::Writable(at) => format!("writable {}", at.display()),
            Mount::Fixed(at) => format!("fixed {}", at.display()),
            Mount::Blank(at) => format!("blank {}", at.display()),
            Mount::Instead { at, of, writable: true } => format!("{} is {}", at.display(), of.display()),
            Mount::Instead { at, of, writable: false } => format!("{} is fixed {}", at.display(), of.display()),
        };
        mounts.iter().map(words).collect()
    }

    fn paths(paths: &[&str]) -> Vec<PathBuf> {
        paths.iter().map(PathBuf::from).collect()
    }

    fn ground(reach: Reach) -> Ground {
        Ground {
            temporaries: paths(&["/tmp"]),
            run: paths(&["/run"]),
            kept_of_run: paths(&["/run/resolve/stub"]),
            private: paths(&["/h/state"]),
            outputs: paths(&["/h/state/outputs"]),
            ..Ground::bare(reach)
        }
    }

    #[test]
    fn what_lies_inside_comes_after_what_it_lies_in() {
        let workspace = Ground {
            writable: paths(&["/tmp/w", "/tmp/w/.git"]),
            fixed: paths(&["/tmp/w/.git/hooks"]),
            missing: paths(&["/tmp/w/.convoke"]),
            ..ground(Reach::USUAL)
        };
        assert_eq!(
            shown(&workspace, &["/tmp/w/a/b/.env"]),
            [
                "/tmp is /h/state/sandbox/tmp/s",
                "blank /run",
                "writable /tmp/w",
                "blank /h/state",
                "fixed /run/resolve/stub",
                "writable /tmp/w/.git",
                "/tmp/w/.convoke is fixed /h/state/sandbox/empty",
                "fixed /h/state/outputs",
                "fixed /tmp/w/.git/hooks",
                "/tmp/w/a/b/.env is fixed /h/state/sandbox/nothing",
            ]
        );
    }

    #[test]
    fn folders_above_what_is_found_by_its_place_are_held_where_they_could_be_renamed() {
        let ground = Ground { writable: paths(&["/w"]), fixed: paths(&["/w/.convoke"]), ..Ground::bare(Reach::USUAL) };
        let held = |path: &str, leans: bool| Held { path: path.into(), leans, since: (0, 0) };
        let found = Found {
            hidden: vec![
                held("/w/a/b/key", true),
                held("/w/c/.env", false),
                held("/w/.convoke/x/key", true),
                held("/elsewhere/x/key", true),
                held("/w/d/prot/deep/key", true),
            ],
            kept: vec![held("/w/d/prot", true)],
            notice: None,
        };
        let list = shown_with(&ground, &found);
        let writable: Vec<&String> = list.iter().filter(|mount| mount.starts_with("writable")).collect();
        assert_eq!(writable, ["writable /w", "writable /w/a", "writable /w/d", "writable /w/a/b"]);
        assert!(list.contains(&"fixed /w/d/prot".to_owned()), "{list:?}");
    }

    #[test]
    fn a_home_inside_a_workspace_is_gone_and_a_workspace_inside_a_home_is_there() {
        let around = Ground { writable: paths(&["/h"]), ..ground(Reach::USUAL) };
        let list = shown(&around, &[]);
        let place = |what: &str| list.iter().position(|mount| mount == what).unwrap();
        assert!(place("writable /h") < place("blank /h/state"), "{list:?}");
        let within = Ground { writable: paths(&["/h/state/w"]), ..ground(Reach::USUAL) };
        let list = shown(&within, &[]);
        let place = |what: &str| list.iter().position(|mount| mount == what).unwrap();
        assert!(place("blank /h/state") < place("writable /h/state/w"), "{list:?}");
    }

    #[test]
    fn without_a_sandbox_of_files_only_our_own_are_gone() {
        let off = ground(Reach { mode: Mode::Off, network: false, asked: true });
        assert_eq!(shown(&off, &[]), ["writable /", "blank /h/state", "fixed /h/state/outputs"]);
    }
}
