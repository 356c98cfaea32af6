//! Aliases of git: what `git p` runs where `alias.p` is `push`. Settings are read as text, bounded, without a process; files
//! that they include are left out. A line with an alias is opaque as it is; what the alias stands for is judged as well.

use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::str::Chars;

use rules::shell::{self, Line};

/// Settings of git that are longer are not anybody's.
const LONGEST: u64 = 1 << 20;

/// Lines that aliases lead to; one may name another.
const MOST: usize = 16;

/// The lines that stand behind the aliases in a line, in any of these directories.
pub(super) fn resolved(line: &Line, dirs: &[PathBuf], env: &[(String, String)]) -> Vec<String> {
    let mut found = Vec::new();
    let mut texts = None;
    follow(line, dirs, env, &mut texts, &mut found);
    let mut at = 0;
    while at < found.len() {
        let line = shell::read(&found[at]);
        follow(&line, dirs, env, &mut texts, &mut found);
        at += 1;
    }
    found
}

fn follow(
    line: &Line,
    dirs: &[PathBuf],
    env: &[(String, String)],
    texts: &mut Option<Vec<String>>,
    found: &mut Vec<String>,
) {
    for call in line.wants.iter().filter_map(shell::Want::alias) {
        let common = texts.get_or_insert_with(|| settings(dirs, env)).iter();
        let there = call.dirs.iter().flat_map(|there| dirs.iter().map(move |dir| dir.join(there)));
        let there: Vec<String> = there.flat_map(|dir| of_repository(&dir)).collect();
        let values = common.chain(&there).flat_map(|text| values(text, &call.name)).chain(call.set.clone());
        for value in values {
            let line = call.stands_for(&value);
            if found.len() < MOST && !found.contains(&line) {
                found.push(line);
            }
        }
    }
}

/// The settings of these directories, of the user and of the machine.
fn settings(dirs: &[PathBuf], env: &[(String, String)]) -> Vec<String> {
    let var = |name: &str| env.iter().find(|(known, _)| known == name).map(|(_, value)| PathBuf::from(value));
    let home = var("HOME");
    let xdg = var("XDG_CONFIG_HOME").or_else(|| home.as_ref().map(|home| home.join(".config")));
    let own = home.map(|home| home.join(".gitconfig"));
    let files = [var("GIT_CONFIG_GLOBAL"), own, xdg.map(|xdg| xdg.join("git/config")), Some("/etc/gitconfig".into())];
    let files = files.into_iter().flatten().filter_map(|file| text(&file));
    dirs.iter().flat_map(|dir| of_repository(dir)).chain(files).collect()
}

/// The settings of the repository that holds a directory.
fn of_repository(dir: &Path) -> Vec<String> {
    let Some(link) = dir.ancestors().map(|above| above.join(".git")).find(|link| link.exists()) else {
        return text(&dir.join("config")).into_iter().collect();
    };
    let led = text(&link).and_then(|text| Some(link.parent()?.join(text.strip_prefix("gitdir:")?.trim())));
    let own = led.unwrap_or(link);
    let common = text(&own.join("commondir")).map(|common| own.join(common.trim()));
    let files = common.iter().chain([&own]).map(|dir| dir.join("config")).chain([own.join("config.worktree")]);
    files.filter_map(|file| text(&file)).collect()
}

fn text(file: &Path) -> Option<String> {
    foreign::read(file, LONGEST).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// What a text of settings says that an alias stands for.
fn values(text: &str, alias: &str) -> Vec<String> {
    let mut chars = text.trim_start_matches('\u{feff}').chars().peekable();
    let (mut found, mut wanted) = (Vec::new(), None);
    while let Some(c) = chars.next() {
        match c {
            '[' => wanted = header(&mut chars, alias),
            c if c.is_ascii_alphanumeric() => {
                let mut key = c.to_string();
                while let Some(c) = chars.next_if(|c| c.is_ascii_alphanumeric() || *c == '-') {
                    key.push(c);
                }
                while chars.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
                let value = chars.next_if_eq(&'=').map(|_| value(&mut chars));
                let is_it = wanted.as_ref().is_some_and(|wanted: &String| wanted.eq_ignore_ascii_case(&key));
                found.extend(value.filter(|value| is_it && !value.is_empty()));
            }
            c if c.is_whitespace() => {}
            _ => while chars.next().is_some_and(|c| c != '\n') {},
        }
    }
    found
}

/// The key below this header that names the alias: `p` in `[alias]`, `command` in `[alias "p"]`.
fn header(chars: &mut Peekable<Chars<'_>>, alias: &str) -> Option<String> {
    let mut text = String::new();
    let mut quoted = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' if quoted => text.extend(chars.next()),
            '"' => quoted = !quoted,
            ']' if !quoted => break,
            '\n' => return None,
            c => text.push(c),
        }
    }
    let (section, below) = text.split_once([' ', '\t', '.']).unwrap_or((&text, ""));
    match (section.eq_ignore_ascii_case("alias"), below.trim()) {
        (true, "") => Some(alias.to_owned()),
        (true, below) if below.eq_ignore_ascii_case(alias) => Some("command".to_owned()),
        _ => None,
    }
}

/// The rest of a line behind `=`, as git reads it.
fn value(chars: &mut Peekable<Chars<'_>>) -> String {
    let (mut text, mut quoted) = (String::new(), false);
    while let Some(c) = chars.next() {
        match c {
            '\n' => break,
            '\\' => match chars.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some('\n') | None => {}
                Some(c) => text.push(c),
            },
            '"' => quoted = !quoted,
            '#' | ';' if !quoted => {
                while chars.next().is_some_and(|c| c != '\n') {}
                break;
            }
            c => text.push(c),
        }
    }
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::values;

    #[test]
    fn aliases_are_read_as_git_reads_them() {
        let text = "\u{feff}# x\n[core]\n\tp = no\n[Alias] a = status ; x\n  P = push --force # y\n  q = \"!f() { \\\n git push; }; f\"\n\
                    [alias \"p\"]\n command = fetch\n[alias \"sub]\"] command = log\n[other]\np = no\n?\n[alias]\np\np = pull\r\n";
        assert_eq!(values(text, "a"), ["status"]);
        assert_eq!(values(text, "p"), ["push --force", "fetch", "pull"]);
        assert_eq!(values(text, "q"), ["!f() {  git push; }; f"]);
        assert_eq!(values(text, "sub]"), ["log"]);
    }
}
