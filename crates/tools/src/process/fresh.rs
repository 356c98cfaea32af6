//! Repositories that came into being while a command ran. What decides which programs git runs in them could not be kept
//! as it was, since it was not there: so it is looked at once the command has ended, and what would run something when the
//! user's git comes by is taken out.

use super::Processes;
use crate::git;
use crate::sandbox::{is_repository, modules};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The largest settings that are read; others are put aside.
const MOST_SETTINGS: u64 = 256 << 10;

/// Settings that run nothing, whatever they say.
const HARMLESS: &[&str] = &[
    "core.repositoryformatversion",
    "core.filemode",
    "core.bare",
    "core.logallrefupdates",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.symlinks",
    "core.autocrlf",
    "core.eol",
    "core.worktree",
    "core.sharedrepository",
    "extensions.objectformat",
    "extensions.refstorage",
    "init.defaultbranch",
    "pull.rebase",
    "pull.ff",
    "push.default",
    "push.autosetupremote",
    "fetch.prune",
    "commit.gpgsign",
    "gc.auto",
    "lfs.repositoryformatversion",
];
/// The same by their section and their last word.
const HARMLESS_IN: &[(&str, &[&str])] = &[
    ("user", &["name", "email", "signingkey"]),
    ("author", &["name", "email"]),
    ("committer", &["name", "email"]),
    ("remote", &["url", "pushurl", "fetch", "tagopt", "prune"]),
    ("branch", &["remote", "merge", "rebase", "description"]),
    ("submodule", &["url", "active", "branch", "path", "ignore"]),
    ("advice", &[]),
    ("color", &[]),
];

fn is_harmless(key: &str) -> bool {
    let (section, last) = (key.split('.').next().unwrap_or_default(), key.rsplit('.').next().unwrap_or_default());
    let listed = |(known, words): &(&str, &[&str])| *known == section && (words.is_empty() || words.contains(&last));
    HARMLESS.contains(&key) || HARMLESS_IN.iter().any(listed)
}

/// Takes out of the repositories at these places what would run something. What was done, as sentences.
pub(super) async fn disarm(processes: &dyn Processes, root: &Path, places: &[PathBuf]) -> Vec<String> {
    let mut told = Vec::new();
    // Nothing is touched through a link: what it leads to is not the command's.
    let own = |place: &&PathBuf| place.starts_with(root) && place.canonicalize().is_ok_and(|real| real == **place);
    for place in places.iter().filter(own) {
        for dir in repositories(place, root, &mut told) {
            disarm_one(processes, &dir, &mut told).await;
        }
    }
    told
}

/// The directories of git that one looks into at a place, with those of submodules.
fn repositories(place: &Path, root: &Path, told: &mut Vec<String>) -> Vec<PathBuf> {
    let link = place.join(".git");
    let dir = match fs::symlink_metadata(&link) {
        Err(_) => Some(place.to_owned()).filter(|place| is_repository(place)),
        Ok(found) if found.is_dir() => Some(link),
        Ok(found) if found.is_file() => led(&link).filter(|dir| dir.starts_with(root)),
        Ok(_) => {
            put_aside(&link, told);
            None
        }
    };
    let Some(dir) = dir else { return Vec::new() };
    let inner = modules(&dir).unwrap_or_default();
    std::iter::once(dir).chain(inner).collect()
}

fn led(link: &Path) -> Option<PathBuf> {
    let text = read(link)?;
    let text = String::from_utf8_lossy(&text).into_owned();
    link.parent()?.join(text.strip_prefix("gitdir:")?.trim()).canonicalize().ok()
}

async fn disarm_one(processes: &dyn Processes, dir: &Path, told: &mut Vec<String>) {
    for name in ["commondir", "config.worktree"] {
        put_aside(&dir.join(name), told);
    }
    let hooks = dir.join("hooks");
    let runs = |entry: fs::DirEntry| !entry.file_name().as_encoded_bytes().ends_with(b".sample");
    if hooks.is_symlink() || fs::read_dir(&hooks).is_ok_and(|entries| entries.flatten().any(runs)) {
        put_aside(&hooks, told);
    }
    let path = dir.join("config");
    let Some(text) = read(&path) else { return put_aside(&path, told) };
    let Ok(listed) = git::list_settings(processes, &String::from_utf8_lossy(&text)).await else {
        return put_aside(&path, told);
    };
    let pairs = listed.split('\0').filter(|line| !line.is_empty());
    let pairs = pairs.map(|line| line.split_once('\n').unwrap_or((line, "true")));
    let (harmless, others): (Vec<_>, Vec<_>) = pairs.partition(|(key, _)| is_harmless(key));
    if others.is_empty() {
        return;
    }
    put_aside(&path, &mut Vec::new());
    let keys: Vec<&str> = others.iter().map(|(key, _)| *key).collect();
    let written = fs::File::create_new(&path)
        .and_then(|mut file| std::io::Write::write_all(&mut file, settings(&harmless).as_bytes()));
    let outcome = if written.is_ok() { "was taken out of" } else { "went with" };
    told.push(format!("`{}` {outcome} `{}`: it could run a program", keys.join("`, `"), path.display()));
}

/// Settings as a file.
fn settings(pairs: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (key, value) in pairs {
        let (Some((section, _)), Some((rest, name))) = (key.split_once('.'), key.rsplit_once('.')) else { continue };
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        match rest.strip_prefix(section).and_then(|rest| rest.strip_prefix('.')) {
            Some(sub) => text.push_str(&format!("[{section} \"{}\"]\n", quoted(sub))),
            None => text.push_str(&format!("[{section}]\n")),
        }
        let value = quoted(value).replace('\n', "\\n").replace('\t', "\\t");
        text.push_str(&format!("\t{name} = \"{value}\"\n"));
    }
    text
}

/// A plain file that is not too large.
fn read(path: &Path) -> Option<Vec<u8>> {
    let (file, found) = crate::files::open(path).ok()?;
    (found.len() <= MOST_SETTINGS).then_some(())?;
    let mut text = Vec::new();
    file.take(MOST_SETTINGS).read_to_end(&mut text).ok()?;
    Some(text)
}

/// Gives it a name that git does not know, if it is there. Nothing is lost, and no link is followed.
fn put_aside(path: &Path, told: &mut Vec<String>) {
    if path.symlink_metadata().is_err() {
        return;
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let numbers = std::iter::once(String::new()).chain((1..100).map(|n: u32| n.to_string()));
    let mut names = numbers.map(|number| path.with_file_name(format!("{name}.disabled{number}")));
    let Some(aside) = names.find(|aside| aside.symlink_metadata().is_err()) else { return };
    if fs::rename(path, &aside).is_ok() {
        told.push(format!("`{}` is now `{}`: git would run what it names", path.display(), aside.display()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_that_run_nothing_are_harmless() {
        for key in
            ["core.bare", "user.name", "remote.origin.url", "branch.a.b.c.merge", "submodule.x.y.url", "advice.x"]
        {
            assert!(is_harmless(key), "{key}");
        }
        for key in [
            "core.fsmonitor",
            "core.hookspath",
            "core.sshcommand",
            "core.pager",
            "core.editor",
            "core.attributesfile",
            "include.path",
            "includeif.onbranch:x.path",
            "filter.x.clean",
            "diff.external",
            "diff.x.textconv",
            "merge.x.driver",
            "alias.st",
            "credential.helper",
            "gpg.program",
            "remote.origin.uploadpack",
            "remote.origin.vcs",
            "remote.origin.promisor",
            "submodule.x.update",
            "extensions.worktreeconfig",
            "protocol.ext.allow",
            "url.ext::x.insteadof",
            "pager.status",
            "core.alternaterefscommand",
            "uploadpack.packobjectshook",
        ] {
            assert!(!is_harmless(key), "{key}");
        }
    }

    #[test]
    fn settings_are_written_so_that_git_reads_the_same() {
        let text = settings(&[("core.bare", "false"), ("remote.a\"b.c.url", "x\\y \"z\"\n#;")]);
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("config"), text).unwrap();
        let output = std::process::Command::new("git")
            .args(["config", "--file", "config", "--null", "--list"])
            .current_dir(dir.path())
            .output()
            .unwrap();
        assert_eq!(output.stdout, b"core.bare\nfalse\0remote.a\"b.c.url\nx\\y \"z\"\n#;\0");
    }
}
