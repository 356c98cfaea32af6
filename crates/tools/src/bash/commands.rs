//! Which simple commands a shell text runs, and which files it writes to, as far as that is plain to see.
//!
//! Not a shell: it knows words, quotes, pipes, lists, subshells, `$(…)` and redirects to plain files. Whatever else a
//! shell can do makes the text unclear, and unclear means that it is judged as a whole. Erring on that side is the point.

use std::iter::Peekable;
use std::str::Chars;

/// What a text runs and writes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Script {
    /// The words of each simple command, without quotes.
    pub(super) commands: Vec<Vec<String>>,
    /// Files that output is sent to.
    pub(super) writes: Vec<String>,
}

/// `None` when it is not plain to see what the text does.
pub(super) fn parse(text: &str) -> Option<Script> {
    let mut parser = Parser { rest: text.chars().peekable(), script: Script::default(), depth: 0 };
    parser.list(None)?;
    let script = parser.script;
    let moves = script.commands.iter().any(|words| ["cd", "pushd", "popd"].contains(&words[0].as_str()));
    // After a `cd`, a relative name is somewhere else than it seems.
    let misleading = moves && script.writes.iter().any(|target| !target.starts_with('/'));
    (!script.commands.is_empty() && !misleading).then_some(script)
}

/// Words that begin something else than a simple command, or that run text nobody can see here.
const UNCLEAR: &[&str] = &[
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "select", "function",
    "coproc", "time", "!", "{", "}", "[[", "eval", "exec", "source", ".", "trap", "alias", "command", "builtin",
    "bash", "sh", "dash", "zsh", "ksh", "fish",
];

/// Subshells within subshells.
const MAX_DEPTH: usize = 20;

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    script: Script,
    depth: usize,
}

#[derive(Default)]
struct Word {
    text: String,
    /// What it becomes is only known when it runs.
    dynamic: bool,
    quoted: bool,
}

impl Parser<'_> {
    /// Commands up to the closing bracket, or to the end.
    fn list(&mut self, close: Option<char>) -> Option<()> {
        self.depth += 1;
        let mut words = Vec::new();
        // After `( … )` only a redirect or the next command may follow.
        let mut grouped = false;
        loop {
            let Some(next) = self.rest.peek().copied() else {
                self.finish(&mut words)?;
                self.depth -= 1;
                return close.is_none().then_some(());
            };
            match next {
                ' ' | '\t' => _ = self.rest.next(),
                '#' => while self.rest.next_if(|c| *c != '\n').is_some() {},
                '\n' | ';' | '|' | '&' => {
                    if self.separates(next)? {
                        self.finish(&mut words)?;
                        grouped = false;
                    }
                }
                '<' | '>' => self.redirect(next)?,
                '(' if words.is_empty() && !grouped && self.depth < MAX_DEPTH => {
                    self.rest.next();
                    self.list(Some(')'))?;
                    grouped = true;
                }
                ')' if close == Some(')') => {
                    self.rest.next();
                    self.depth -= 1;
                    return self.finish(&mut words);
                }
                '(' | ')' => return None,
                _ => {
                    let word = self.word()?;
                    let nothing = word.text.is_empty() && !word.quoted;
                    if nothing || self.is_descriptor(&word) {
                        continue;
                    }
                    if grouped {
                        return None;
                    }
                    words.push(word);
                }
            }
        }
    }

    /// Takes what separates commands. `false` when it was a redirect after all (`&>`).
    fn separates(&mut self, kind: char) -> Option<bool> {
        self.rest.next();
        if kind == '&' && self.rest.next_if_eq(&'>').is_some() {
            self.rest.next_if_eq(&'>');
            self.write_target()?;
            return Some(false);
        }
        let doubled = self.rest.next_if_eq(&kind).is_some();
        if kind == '|' && !doubled {
            self.rest.next_if_eq(&'&');
        }
        // `;;` is a `case`.
        (kind != ';' || !doubled).then_some(true)
    }

    /// The `2` of `2>`.
    fn is_descriptor(&mut self, word: &Word) -> bool {
        let number = !word.quoted && word.text.bytes().all(|byte| byte.is_ascii_digit());
        number && matches!(self.rest.peek(), Some('<' | '>'))
    }

    /// Takes note of a simple command, unless what it runs cannot be seen.
    fn finish(&mut self, words: &mut Vec<Word>) -> Option<()> {
        let words = std::mem::take(words);
        if words.is_empty() {
            return Some(());
        }
        if let Some(name) = words.iter().find(|word| !is_assignment(word)) {
            let odd = name.text.is_empty() || name.text.contains(|c: char| c.is_whitespace() || "*?[{".contains(c));
            let base = name.text.rsplit('/').next().unwrap_or(&name.text);
            if name.dynamic || odd || UNCLEAR.contains(&base) {
                return None;
            }
        }
        self.script.commands.push(words.into_iter().map(|word| word.text).collect());
        Some(())
    }

    fn redirect(&mut self, kind: char) -> Option<()> {
        self.rest.next();
        if kind == '<' {
            // `<<` is a text in place, `<(` a command; neither is plain.
            return match self.rest.peek() {
                Some('<' | '(' | '>') => None,
                _ => {
                    self.rest.next_if_eq(&'&');
                    self.target().map(|_| ())
                }
            };
        }
        if self.rest.next_if_eq(&'&').is_some() {
            let target = self.target()?;
            return target.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-').then_some(());
        }
        let _ = self.rest.next_if_eq(&'>').or_else(|| self.rest.next_if_eq(&'|'));
        self.write_target()
    }

    fn write_target(&mut self) -> Option<()> {
        let target = self.target()?;
        self.script.writes.push(target);
        Some(())
    }

    /// The name after a redirect, if it is one.
    fn target(&mut self) -> Option<String> {
        while self.rest.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
        let word = self.word()?;
        let plain = !word.dynamic && !word.text.is_empty() && !word.text.contains(['*', '?', '[', '~', '{']);
        plain.then_some(word.text)
    }

    fn word(&mut self) -> Option<Word> {
        let mut word = Word::default();
        while let Some(next) =
            self.rest.next_if(|c| !matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')'))
        {
            match next {
                '\\' => match self.rest.next()? {
                    '\n' => {}
                    escaped => {
                        word.quoted = true;
                        word.text.push(escaped);
                    }
                },
                '\'' => {
                    word.quoted = true;
                    loop {
                        match self.rest.next()? {
                            '\'' => break,
                            inside => word.text.push(inside),
                        }
                    }
                }
                '"' => self.quoted(&mut word)?,
                '$' => self.dollar(&mut word)?,
                '`' => return None,
                '{' => {
                    // Braces may become several words.
                    word.dynamic = true;
                    word.text.push('{');
                }
                plain => word.text.push(plain),
            }
        }
        Some(word)
    }

    fn quoted(&mut self, word: &mut Word) -> Option<()> {
        word.quoted = true;
        loop {
            match self.rest.next()? {
                '"' => return Some(()),
                '`' => return None,
                '$' => self.dollar(word)?,
                '\\' => match self.rest.next()? {
                    '\n' => {}
                    escaped if "$`\"\\".contains(escaped) => word.text.push(escaped),
                    other => word.text.extend(['\\', other]),
                },
                plain => word.text.push(plain),
            }
        }
    }

    /// What follows a `$`.
    fn dollar(&mut self, word: &mut Word) -> Option<()> {
        word.text.push('$');
        match self.rest.peek().copied() {
            Some('(') if self.depth < MAX_DEPTH => {
                self.rest.next();
                if self.rest.peek() == Some(&'(') {
                    return None;
                }
                self.list(Some(')'))?;
                word.text.push_str("(…)");
                word.dynamic = true;
            }
            Some('(' | '\'' | '"' | '[') => return None,
            Some('{') => {
                word.dynamic = true;
                loop {
                    let inside = self.rest.next()?;
                    word.text.push(inside);
                    match inside {
                        '}' => break,
                        '$' | '`' | '(' | '\'' | '"' | '\\' | '@' => return None,
                        _ => {}
                    }
                }
            }
            Some(c) if c.is_alphanumeric() || "_?!#@*-$".contains(c) => {
                word.text.push(c);
                self.rest.next();
                word.dynamic = true;
            }
            _ => {}
        }
        Some(())
    }
}

fn is_assignment(word: &Word) -> bool {
    let Some((name, _)) = word.text.split_once('=') else { return false };
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Programs whose first word after the name says what they do.
const WITH_SUBCOMMANDS: &[&str] = &[
    "apt",
    "aws",
    "brew",
    "bun",
    "cargo",
    "composer",
    "deno",
    "docker",
    "dotnet",
    "gcloud",
    "gh",
    "git",
    "go",
    "gradle",
    "helm",
    "kubectl",
    "mvn",
    "npm",
    "npx",
    "pip",
    "pnpm",
    "podman",
    "poetry",
    "rustup",
    "systemctl",
    "terraform",
    "uv",
    "yarn",
];

/// Of these, subcommands that only say that the next word does.
const NESTED: &[&str] = &["compose", "exec", "run", "tool"];

/// Programs that run other programs, other machines or whatever they are told, and those that destroy: "always" is for
/// exactly this command.
const EXACT: &[&str] = &[
    "chmod", "chown", "dd", "doas", "env", "find", "mv", "nice", "node", "nohup", "perl", "php", "python", "python3",
    "rm", "rsync", "ruby", "setsid", "ssh", "su", "sudo", "timeout", "watch", "xargs",
];

/// What an "always" for this command allows: its stable beginning, such as `git status *`.
pub(super) fn prefix(words: &[String]) -> String {
    let whole = words.join(" ");
    let Some(name) = words.first() else { return whole };
    if name.contains('=') || EXACT.contains(&name.as_str()) {
        return whole;
    }
    if !WITH_SUBCOMMANDS.contains(&name.as_str()) {
        return format!("{name} *");
    }
    let said = words.iter().skip(1);
    let nested = words.get(1).is_some_and(|word| NESTED.contains(&word.as_str()));
    let count = if nested { 2 } else { 1 };
    let said: Vec<&str> = said.take(count).map(String::as_str).collect();
    // A flag before the subcommand hides it.
    if said.len() < count || said.iter().any(|word| word.starts_with('-')) {
        return whole;
    }
    format!("{name} {} *", said.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn runs(text: &str, commands: &[&str], writes: &[&str]) {
        let script = parse(text).unwrap_or_else(|| panic!("`{text}` is unclear"));
        let found: Vec<String> = script.commands.iter().map(|words| words.join(" ")).collect();
        assert_eq!((found, script.writes), (owned(commands), owned(writes)), "{text}");
    }

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn every_simple_command_is_seen() {
        runs("git status", &["git status"], &[]);
        runs("git   'log' \"-p\" a\\ b", &["git log -p a b"], &[]);
        runs("a && b || c; d | e & f\ng |& h", &["a", "b", "c", "d", "e", "f", "g", "h"], &[]);
        runs("(cd x && make); ls", &["cd x", "make", "ls"], &[]);
        runs("echo \"$(git push) $HOME\"", &["git push", "echo $(…) $HOME"], &[]);
        runs("X=1 make # comment; rm\nls", &["X=1 make", "ls"], &[]);
        runs("echo 'a; rm -rf /' a#b", &["echo a; rm -rf / a#b"], &[]);
        runs("ls \\\n  -l", &["ls -l"], &[]);
        runs("v=$(date)", &["date", "v=$(…)"], &[]);
    }

    #[test]
    fn files_that_are_written_are_seen() {
        runs("echo hi > out.txt 2>&1", &["echo hi"], &["out.txt"]);
        runs("make >>log 2>/dev/null <in", &["make"], &["log", "/dev/null"]);
        runs("make &> 'a b'", &["make"], &["a b"]);
        runs("(a; b) > /tmp/x", &["a", "b"], &["/tmp/x"]);
        runs("echo 2 >x", &["echo 2"], &["x"]);
        runs("echo 2>x", &["echo"], &["x"]);
    }

    #[test]
    fn what_cannot_be_seen_is_unclear() {
        for text in [
            "",
            "# only this",
            "eval x",
            "$CMD x",
            "`x`",
            "echo `x`",
            "if a; then b; fi",
            "for i in a; do b; done",
            "f() { a; }",
            "cat <<EOF\nx\nEOF",
            "diff <(a) <(b)",
            "bash -c 'rm x'",
            "/bin/sh x",
            "echo $((1+1))",
            "echo 'open",
            "(a",
            "a)",
            "{rm,-rf,x}",
            "r?m x",
            "'git status' x",
            "echo > $F",
            "echo > *.txt",
            "echo > ~/x",
            "cd /etc && echo > passwd",
            "X=1 eval y",
            "echo ${x:-$(rm y)}",
            "case x in a) b;; esac",
            "echo $'a'",
            "a >&file",
            "! a",
            "exec a",
            "(a) b",
            "\"\" x",
            "a \\",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let deep = format!("{}a{}", "(".repeat(1000), ")".repeat(1000));
        assert_eq!(parse(&deep), None);
        let deep = format!("{}a{}", "$(".repeat(1000), ")".repeat(1000));
        assert_eq!(parse(&format!("echo {deep}")), None);
    }

    #[test]
    fn always_means_the_stable_beginning() {
        for (text, expected) in [
            ("git status -s", "git status *"),
            ("git -C x push", "git -C x push"),
            ("npm run build --x", "npm run build *"),
            ("npm", "npm"),
            ("ls -la", "ls *"),
            ("rm -rf x", "rm -rf x"),
            ("sudo ls", "sudo ls"),
            ("X=1 make", "X=1 make"),
        ] {
            assert_eq!(prefix(&parse(text).unwrap().commands[0]), expected, "{text}");
        }
    }
}
