//! What a command would touch, as far as its text tells: each simple command in it, the files it opens, and directories
//! outside the one it works in.

use std::path::{Path, PathBuf};

use rules::shell::{self, Kind, Line, Want};

use super::{aliases, prefix, spread};
use crate::Access;
use crate::files::{self, Inside, Purpose};

/// `env` is what the command finds in its environment.
pub fn accesses(command: &str, dir: &Path, inside: Inside<'_>, env: &[(String, String)]) -> Vec<Access> {
    // Only what bash passes over as well.
    let line = shell::read(command.trim_matches([' ', '\t', '\n']));
    let home = env.iter().find(|(name, _)| name == "HOME").map(|(_, home)| home.as_str());
    let place = Place { dirs: dirs(&line, dir), inside, home };
    let mut accesses: Vec<Access> = Vec::new();
    let mut add = |access: Access| {
        if !accesses.contains(&access) {
            accesses.push(access);
        }
    };
    for want in &line.wants {
        match want.kind {
            Kind::Command => add(Access::new("bash", &want.source).always(prefix::prefix(&want.source))),
            Kind::Opaque => add(Access::new("bash", &want.source).always(&want.source)),
            Kind::Edit | Kind::Read => {
                add(place.file(want));
                let named = (!want.open).then(|| files::by_name(want.permission(), &want.text, &place.dirs[0], inside));
                named.flatten().into_iter().for_each(&mut add);
            }
        }
    }
    for line in aliases::resolved(&line, &place.dirs, env) {
        add(Access::new("bash", &line).always(&line));
    }
    for want in &line.wants {
        place.outside(want).into_iter().for_each(&mut add);
        place.protected(want).into_iter().for_each(&mut add);
    }
    accesses
}

/// Where the command works: a `cd` in it may lead on.
fn dirs(line: &Line, dir: &Path) -> Vec<PathBuf> {
    let moved = line.dirs.iter().flatten().map(|to| files::resolve(to, dir));
    std::iter::once(dir.to_owned()).chain(moved).collect()
}

struct Place<'a> {
    dirs: Vec<PathBuf>,
    inside: Inside<'a>,
    home: Option<&'a str>,
}

impl Place<'_> {
    fn file(&self, want: &Want) -> Access {
        if want.open {
            // Only `rules` can speak about a file that nobody knows yet; it reads this as the redirection it is.
            let sign = if want.kind == Kind::Edit { ">" } else { "<" };
            let pattern = format!("{sign} {}", want.source);
            return Access::new("bash", &pattern).always(&pattern);
        }
        files::access(want.permission(), &self.resolve(&want.text, &self.dirs[0]), self.inside.worktree)
    }

    /// Directories elsewhere that the words of a command, or a redirection, lead to.
    fn outside(&self, want: &Want) -> Vec<Access> {
        let (words, purpose): (Vec<&str>, _) = match want.kind {
            Kind::Command if want.words == ["cd"] => (vec!["~"], Purpose::Read),
            Kind::Command => (want.words.iter().skip(1).filter_map(|word| path_in(word)).collect(), Purpose::Write),
            Kind::Edit if !want.open => (vec![&want.text], Purpose::Write),
            Kind::Read if !want.open => (vec![&want.text], Purpose::Read),
            Kind::Edit | Kind::Read | Kind::Opaque => return Vec::new(),
        };
        let at = |word: &str| self.dirs.iter().flat_map(|dir| self.spread(word, dir)).collect::<Vec<_>>();
        let paths = words.into_iter().flat_map(at).filter(|path| exists_somewhere(path));
        paths.filter_map(|path| files::outside(&path, purpose, self.inside)).collect()
    }

    /// A redirection into a file that decides what runs later.
    fn protected(&self, want: &Want) -> Option<Access> {
        let writes = want.kind == Kind::Edit && !want.open;
        writes.then(|| files::protected(&self.resolve(&want.text, &self.dirs[0]), self.inside.worktree)).flatten()
    }

    /// All that a word with a pattern leads to. Links are followed after the pattern is, as the shell does.
    fn spread(&self, word: &str, dir: &Path) -> Vec<PathBuf> {
        spread::paths(&self.resolve(word, dir)).into_iter().map(|path| files::resolve(path, dir)).collect()
    }

    fn resolve(&self, word: &str, dir: &Path) -> PathBuf {
        let Some((user, rest)) = word.strip_prefix('~').map(|word| word.split_at(word.find('/').unwrap_or(word.len())))
        else {
            return files::resolve(word, dir);
        };
        let home = match user {
            "" => self.home.map(PathBuf::from),
            "+" => Some(dir.to_owned()),
            _ => nix::unistd::User::from_name(user).ok().flatten().map(|user| user.dir),
        };
        match home {
            Some(home) => files::resolve(format!("{}{rest}", home.display()), dir),
            None => files::resolve(word, dir),
        }
    }
}

/// The path a word names, if it looks like one: `/etc`, `../x`, `--file=/etc/x`, `-I/usr/include`.
fn path_in(word: &str) -> Option<&str> {
    if word.contains("://") || word == "/dev/null" {
        return None;
    }
    let word = if word.starts_with('-') {
        word.split_once('=').map_or_else(|| word.find(['/', '~']).map(|at| &word[at..]), |(_, value)| Some(value))?
    } else {
        word
    };
    (word == ".." || word.starts_with('~') || word.contains('/')).then_some(word)
}

/// A pattern such as `/api/v1` is no path: nothing begins like that here.
fn exists_somewhere(path: &Path) -> bool {
    let first: PathBuf = path.components().take(2).collect();
    first.symlink_metadata().is_ok()
}
