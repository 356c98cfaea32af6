//! Repositories that came into being while a command ran. What decides which programs git runs in them could not be kept
//! as it was, since it was not there: so it is looked at once the command has ended, and what would run something when the
//! user's git comes by is taken out. This holds for every repository that the user's git would use where the session works
//! and that was not guarded all the time.

use super::Processes;
use super::confined::Before;
use crate::git;
use crate::sandbox::{self, Site, modules};
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

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

/// Takes out of repositories what would run something. What was done, as sentences.
pub(super) async fn disarm(processes: &dyn Processes, before: &Before, nested: &[PathBuf]) -> Vec<String> {
    let mut told = Vec::new();
    let open = |path: &Path| before.sites.iter().any(|site| path.starts_with(site));
    // Nothing is touched through a link: what it leads to is not the command's.
    let own = |place: &&PathBuf| open(place) && place.canonicalize().is_ok_and(|real| real == **place);
    for place in before.sites.iter().chain(nested).filter(own) {
        let dir = match sandbox::site(place) {
            Site::Nothing | Site::Led { to: None, .. } => continue,
            Site::Dir(dir) => dir,
            Site::Led { link, .. } if before.settled.contains(&link) => continue,
            Site::Led { to: Some(dir), .. } if open(&dir) => dir,
            Site::Led { link, .. } | Site::Odd(link) => {
                put_aside(&link, &mut told);
                continue;
            }
        };
        let inner = modules(&dir).unwrap_or_default();
        for dir in std::iter::once(dir).chain(inner).filter(|dir| !before.guarded.contains(dir)) {
            disarm_one(processes, &dir, &mut told).await;
        }
    }
    for kept in &before.kept {
        restore(processes, kept, &mut told).await;
    }
    told
}

/// What decided what git runs in a repository before a command that could not be kept from changing it.
pub(super) struct Kept {
    dir: PathBuf,
    settings: Option<Vec<u8>>,
    hooks: Vec<Hook>,
    others: Vec<&'static str>,
}

/// Files of one directory of git that add to its settings.
const OTHERS: [&str; 2] = ["commondir", "config.worktree"];

impl Kept {
    pub(super) fn of(dir: &Path) -> Self {
        let there = |name: &&str| dir.join(name).symlink_metadata().is_ok();
        let others = OTHERS.into_iter().filter(there).collect();
        Self { settings: read(&dir.join("config")), hooks: hooks(dir), others, dir: dir.to_owned() }
    }
}

/// Its name, and what tells that it was changed: that time cannot be set.
type Hook = (OsString, Option<(u64, i64, i64)>);

fn hooks(dir: &Path) -> Vec<Hook> {
    let entries = fs::read_dir(dir.join("hooks")).into_iter().flatten().flatten().take(MOST_HOOKS);
    let stamp = |found: fs::Metadata| (found.ino(), found.ctime(), found.ctime_nsec());
    let hook = |entry: fs::DirEntry| (entry.file_name(), entry.metadata().ok().map(stamp));
    let mut hooks: Vec<_> = entries.map(hook).collect();
    hooks.sort_by(|one, other| one.0.cmp(&other.0));
    hooks
}

/// Far more than git knows.
const MOST_HOOKS: usize = 1_000;

/// Takes back what a command added to a repository that was there before, if that would run something.
async fn restore(processes: &dyn Processes, kept: &Kept, told: &mut Vec<String>) {
    for name in OTHERS.into_iter().filter(|name| !kept.others.contains(name)) {
        put_aside(&kept.dir.join(name), told);
    }
    if hooks(&kept.dir) != kept.hooks {
        put_aside(&kept.dir.join("hooks"), told);
    }
    let path = kept.dir.join("config");
    let now = read(&path);
    if now == kept.settings || !adds_programs(processes, kept.settings.as_deref(), now.as_deref()).await {
        return;
    }
    if put_aside(&path, told)
        && let Some(settings) = &kept.settings
        && let Err(error) =
            fs::File::create_new(&path).and_then(|mut file| std::io::Write::write_all(&mut file, settings))
    {
        told.push(format!("`{}` could not be written as it was: {error}", path.display()));
    }
}

/// Whether settings say something that could run a program, and did not before.
async fn adds_programs(processes: &dyn Processes, before: Option<&[u8]>, now: Option<&[u8]>) -> bool {
    let Some(now) = now else { return true };
    let Ok(now) = git::list_settings(processes, &String::from_utf8_lossy(now)).await else { return true };
    let before = String::from_utf8_lossy(before.unwrap_or_default());
    let before = git::list_settings(processes, &before).await.unwrap_or_default();
    let mut added = now.split('\0').filter(|line| !line.is_empty() && !before.split('\0').any(|known| known == *line));
    added.any(|line| !is_harmless(line.split('\n').next().unwrap_or(line)))
}

async fn disarm_one(processes: &dyn Processes, dir: &Path, told: &mut Vec<String>) {
    for name in OTHERS {
        put_aside(&dir.join(name), told);
    }
    let hooks = dir.join("hooks");
    let runs = |entry: fs::DirEntry| !entry.file_name().as_encoded_bytes().ends_with(b".sample");
    if hooks.is_symlink() || fs::read_dir(&hooks).is_ok_and(|entries| entries.flatten().any(runs)) {
        put_aside(&hooks, told);
    }
    let path = dir.join("config");
    let Some(text) = read(&path) else {
        put_aside(&path, told);
        return;
    };
    let Ok(listed) = git::list_settings(processes, &String::from_utf8_lossy(&text)).await else {
        put_aside(&path, told);
        return;
    };
    let pairs = listed.split('\0').filter(|line| !line.is_empty());
    let pairs = pairs.map(|line| line.split_once('\n').unwrap_or((line, "true")));
    let (harmless, others): (Vec<_>, Vec<_>) = pairs.partition(|(key, _)| is_harmless(key));
    if others.is_empty() {
        return;
    }
    let mut moved = Vec::new();
    if !put_aside(&path, &mut moved) {
        told.append(&mut moved);
        return;
    }
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
pub(super) fn put_aside(path: &Path, told: &mut Vec<String>) -> bool {
    if path.symlink_metadata().is_err() {
        return true;
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut aside = path.with_file_name(format!("{name}.disabled"));
    if aside.symlink_metadata().is_ok() {
        // The other names must not run out, nor be taken beforehand.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        aside = path.with_file_name(format!("{name}.disabled-{}", now.as_nanos()));
    }
    let renamed = fs::rename(path, &aside).or_else(|_| {
        // A folder that the command closed.
        open_folder(path.parent().unwrap_or(path))?;
        fs::rename(path, &aside)
    });
    told.push(match &renamed {
        Ok(()) => format!("`{}` is now `{}`: git would run what it names", path.display(), aside.display()),
        Err(error) => {
            format!("`{}` names what git would run and could not be put aside ({error}): remove it", path.display())
        }
    });
    renamed.is_ok()
}

fn open_folder(folder: &Path) -> std::io::Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
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
