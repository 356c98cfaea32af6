//! From the text of a line to what it does, by way of a syntax tree.

use std::borrow::Cow;
use std::ops::ControlFlow;

use tree_sitter::{Node, ParseOptions, ParseState, Parser, Tree};

use super::joined::join;
use super::program::{builtins, variables};
use super::word::{Word, is_plain};
use super::{Kind, Line, Want, plain};

/// Why a line is opaque.
pub(super) type Opaque = &'static str;

/// Longer lines are not read: a person writes none, and the time it takes stays bounded.
const MAX_BYTES: usize = 32 << 10;

/// Commands and files of one line; no more than a person would read before they answer.
const MAX_WANTS: usize = 60;

/// How often the grammar says how far it is, once in a hundred steps. A line that is written by hand takes tens.
const MAX_LOOKS: usize = 1_000;

/// Scripts within scripts (`sh -c "sh -c …"`), and brackets within brackets.
const MAX_DEPTH: usize = 4;
const MAX_NESTING: usize = 40;

/// What the grammar takes more than twice as long for when there is twice as much of it.
const MAX_BRACKETS: usize = 250;
const MAX_HEREDOCS: usize = 40;

/// What a shell line does. Never fails: what cannot be read is opaque.
pub fn read(line: &str) -> Line {
    let text = joined(line);
    let mut reader = Reader::new(text.as_deref().unwrap_or_default(), 0);
    let opaque = text.as_ref().err().copied().or_else(|| reader.script().err()).or(reader.opaque);
    let dirs = reader.dirs();
    let mut wants = elsewhere(reader.wants, dirs.as_deref());
    wants.truncate(MAX_WANTS);
    if opaque.is_some() {
        wants.push(Want::opaque(line));
    }
    if wants.is_empty() {
        wants.push(Want::plain(line));
    }
    Line { wants, opaque, dirs }
}

/// The line as bash sees it before it looks for words.
fn joined(line: &str) -> Result<Cow<'_, str>, Opaque> {
    if line.len() > MAX_BYTES {
        return Err("too long to read");
    }
    join(line)
}

/// After a `cd` a relative path is another file: both are wanted, or one that nobody knows yet.
fn elsewhere(wants: Vec<Want>, dirs: Option<&[String]>) -> Vec<Want> {
    let is_relative =
        |want: &Want| matches!(want.kind, Kind::Edit | Kind::Read) && !want.open && !want.text.starts_with(['/', '~']);
    let there = |want: Want| match dirs {
        _ if !is_relative(&want) => vec![want],
        None => vec![Want::file(want.kind, &format!("$PWD/{}", want.source), "*".into(), true)],
        Some(dirs) => {
            let moved = dirs.iter().map(|dir| format!("{dir}/{}", want.text));
            let moved = moved.map(|path| Want::file(want.kind, &path, path.clone(), false)).collect::<Vec<_>>();
            std::iter::once(want).chain(moved).collect()
        }
    };
    wants.into_iter().flat_map(there).collect()
}

/// Words of the grammar, which are no names of commands unless they are quoted.
pub(super) const RESERVED: &[&str] = &[
    "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select", "then",
    "until", "while",
];

/// Commands that the grammar knows as something of their own.
pub(super) const KEYWORDS: &[&str] =
    &["declare", "export", "local", "readonly", "time", "typeset", "unset", "unsetenv"];

pub(super) struct Reader<'l> {
    pub(super) line: &'l str,
    pub(super) wants: Vec<Want>,
    /// The first thing nobody can read, when the rest still can be.
    pub(super) opaque: Option<Opaque>,
    /// Where each `cd` leads, if that is known.
    moves: Vec<Option<String>>,
    heredocs: usize,
    depth: usize,
    nesting: usize,
}

impl<'l> Reader<'l> {
    fn new(line: &'l str, depth: usize) -> Self {
        let (wants, moves) = (Vec::new(), Vec::new());
        Self { line, wants, opaque: None, moves, heredocs: 0, depth, nesting: 0 }
    }

    pub(super) fn text(&self, node: Node) -> &'l str {
        &self.line[node.byte_range()]
    }

    /// A script within the script, such as that of `sh -c`.
    pub(super) fn nested(&mut self, script: &str) -> Result<(), Opaque> {
        let script = joined(script)?;
        let mut inner = Reader::new(&script, self.depth + 1);
        inner.script()?;
        self.opaque = self.opaque.or(inner.opaque);
        self.moves.append(&mut inner.moves);
        self.wants.append(&mut inner.wants);
        Ok(())
    }

    fn script(&mut self) -> Result<(), Opaque> {
        if self.depth > MAX_DEPTH {
            return Err("too many scripts within scripts");
        }
        if self.line.contains(is_odd) {
            return Err("characters that do not show");
        }
        if self.line.matches('(').count() > MAX_BRACKETS || self.line.matches("<<").count() > MAX_HEREDOCS {
            return Err("too much in one line");
        }
        if let Some(commands) = plain::commands(self.line) {
            return commands.iter().try_for_each(|words| self.command(words));
        }
        let mut parser = Parser::new();
        let language = tree_sitter_bash::LANGUAGE.into();
        parser.set_language(&language).map_err(|_| "no grammar for shells")?;
        let tree = parse(&mut parser, self.line).ok_or("not understood as a shell command")?;
        let root = tree.root_node();
        if root.has_error() {
            return Err("not understood as a shell command");
        }
        if !self.line[..root.start_byte()].trim().is_empty() || !self.line[root.end_byte()..].trim().is_empty() {
            return Err("text outside of all commands");
        }
        self.inside(root)
    }

    /// The directories `cd` leads to. `None` when one of them is known only when it runs, or leads on from another.
    fn dirs(&self) -> Option<Vec<String>> {
        if self.moves.len() > 1 { None } else { self.moves.iter().cloned().collect() }
    }

    /// Everything in a node that holds others.
    pub(super) fn inside(&mut self, node: Node) -> Result<(), Opaque> {
        if self.wants.len() > MAX_WANTS {
            return Err("too much in one line");
        }
        self.deeper(|reader| reader.children(node)?.into_iter().try_for_each(|child| reader.statement(child)))
    }

    /// One step down, as far as that goes.
    pub(super) fn deeper(&mut self, down: impl FnOnce(&mut Self) -> Result<(), Opaque>) -> Result<(), Opaque> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err("too much in one line");
        }
        let done = down(self);
        self.nesting -= 1;
        done
    }

    /// The children of a node, with nothing but space between them, and line ends only where bash takes them.
    fn children<'t>(&self, node: Node<'t>) -> Result<Vec<Node<'t>>, Opaque> {
        let children: Vec<Node> = node.children(&mut node.walk()).collect();
        let (mut at, mut after_sign) = (node.start_byte(), true);
        for child in &children {
            self.gap(node, at, child.start_byte(), after_sign)?;
            if at == child.start_byte() && at > node.start_byte() && self.touch(node, at) {
                return Err("two words that are one");
            }
            (at, after_sign) = (child.end_byte(), !child.is_named());
        }
        self.gap(node, at, node.end_byte(), after_sign)?;
        Ok(children)
    }

    /// Whether what ends here and what begins here would be one word to bash.
    fn touch(&self, node: Node, at: usize) -> bool {
        let (before, after) = self.line.split_at(at);
        let apart = |c: Option<char>| c.is_none_or(|c| " \t\n;&|()<>".contains(c));
        let parts = matches!(node.kind(), "variable_assignment" | "command_substitution" | "negated_command");
        !parts && !apart(before.chars().next_back()) && !apart(after.chars().next())
    }

    fn gap(&self, node: Node, from: usize, to: usize, after_sign: bool) -> Result<(), Opaque> {
        let gap = self.line.get(from..to).ok_or("text that is no part of a command")?;
        let lines = match node.kind() {
            "command"
            | "file_redirect"
            | "herestring_redirect"
            | "variable_assignment"
            | "declaration_command"
            | "unset_command"
            | "redirected_statement"
            | "negated_command"
            | "variable_assignments" => false,
            "pipeline" | "list" => after_sign,
            "for_statement" | "c_style_for_statement" | "case_statement" | "function_definition" => {
                !self.wants_a_name(node, from)
            }
            _ => true,
        };
        let space = |c: char| c == ' ' || c == '\t' || c == '\n' && lines;
        if gap.chars().all(space) { Ok(()) } else { Err("text that is no part of a command") }
    }

    /// Whether what stands before a gap is a keyword whose name follows in the same line.
    fn wants_a_name(&self, node: Node, at: usize) -> bool {
        let before = self.line.get(node.start_byte()..at).unwrap_or_default();
        let last = before.rsplit([' ', '\t', '\n']).next().unwrap_or_default();
        matches!(before, "for" | "select" | "case" | "function")
            || before.ends_with('(')
            || last == "in" && node.kind() == "for_statement"
    }

    fn statement(&mut self, node: Node) -> Result<(), Opaque> {
        match node.kind() {
            "subshell" | "compound_statement" | "do_group"
                if !node.named_children(&mut node.walk()).any(|child| child.kind() != "comment") =>
            {
                Err("brackets with nothing in them")
            }
            "program"
            | "list"
            | "pipeline"
            | "subshell"
            | "compound_statement"
            | "negated_command"
            | "if_statement"
            | "elif_clause"
            | "else_clause"
            | "while_statement"
            | "do_group"
            | "for_statement"
            | "case_statement"
            | "case_item"
            | "redirected_statement"
            | "variable_assignments" => self.inside(node),
            // The grammar takes `a | ! b`, bash does not.
            "!" if node.parent().and_then(|not| not.prev_sibling()).is_some_and(|before| before.kind() == "|") => {
                Err("a sign nobody can read")
            }
            "function_definition" => self.function(node),
            "command" => self.simple(node),
            "test_command" => self.test(node),
            "declaration_command" | "unset_command" => self.declaration(node),
            "variable_assignment" => {
                let word = self.assignment(node)?;
                self.push(&[word])
            }
            "file_redirect" => self.redirect(node),
            "heredoc_redirect" => self.heredoc(node),
            "herestring_redirect" => self.operand(node),
            "comment" => self.comment(node),
            // What a loop sets.
            "variable_name" => {
                self.check(variables::check(&Word::known(&format!("{}=*", self.text(node)))));
                Ok(())
            }
            ";" | "&" | "&&" | "||" | "|" | "|&" | "(" | ")" | "{" | "}" | "!" | "\n" | "$(" | "`" | "<(" | ">("
            | "if" | "then" | "elif" | "else" | "fi" | "while" | "until" | "do" | "done" | "for" | "in" | "case"
            | "esac" | "select" => Ok(()),
            ";;" | ";&" | ";;&" if node.parent().is_some_and(|above| above.kind() == "case_item") => Ok(()),
            _ if !node.is_named() => Err("a sign nobody can read"),
            // What a loop goes over, or a case is about: words, which may hold commands.
            _ => self.word(node).map(drop),
        }
    }

    /// Its body is judged where it stands, so calling it adds nothing.
    fn function(&mut self, node: Node) -> Result<(), Opaque> {
        for child in self.children(node)? {
            match child.kind() {
                "function" => {}
                "word" if is_plain(self.text(child)) => {}
                _ => self.statement(child)?,
            }
        }
        Ok(())
    }

    fn simple(&mut self, node: Node) -> Result<(), Opaque> {
        let (mut words, mut named) = (Vec::new(), false);
        let mut sets = Vec::new();
        for child in self.children(node)? {
            match child.kind() {
                "variable_assignment" if !named => sets.push(self.assignment(child)?),
                "command_name" => {
                    named = true;
                    let name = child.child(0).filter(|_| child.child_count() == 1).ok_or("a name nobody can read")?;
                    words.push(self.word(name)?);
                }
                "file_redirect" => self.redirect(child)?,
                "herestring_redirect" => self.operand(child)?,
                _ => words.push(self.word(child)?),
            }
        }
        if words.is_empty() {
            return Err("a command without a name");
        }
        if !sets.is_empty() {
            // A variable can change what a command does, so it is judged with them and without.
            let whole: Vec<Word> = sets.into_iter().chain(words.iter().cloned()).collect();
            self.push(&whole)?;
        }
        self.command(&words)
    }

    /// `NAME=value`, as one word.
    fn assignment(&mut self, node: Node) -> Result<Word, Opaque> {
        let mut word = Word { raw: self.text(node).to_owned(), quoted: true, ..Word::default() };
        for child in self.children(node)? {
            match child.kind() {
                "variable_name" | "=" | "+=" => word.text.push_str(self.text(child)),
                "subscript" | "array" => return Err("an array"),
                _ => {
                    let value = self.word(child)?;
                    word.open |= value.open;
                    word.text.push_str(&value.text);
                }
            }
        }
        self.check(variables::check(&word));
        Ok(word)
    }

    /// `export`, `declare`, `unset` and the like, as the commands they are.
    fn declaration(&mut self, node: Node) -> Result<(), Opaque> {
        if self.text(node).contains('[') {
            return Err("an array");
        }
        let mut words = Vec::new();
        for child in self.children(node)? {
            words.push(match child.kind() {
                "variable_assignment" => self.assignment(child)?,
                _ if !child.is_named() => Word::known(self.text(child)),
                _ => self.word(child)?,
            });
        }
        self.command(&words)
    }

    /// `[ … ]` and `[[ … ]]` as they are written. An index in them is run even out of quotes, and `>` between single
    /// brackets is a redirection.
    fn test(&mut self, node: Node) -> Result<(), Opaque> {
        let raw = self.text(node);
        let double = raw.starts_with("[[");
        let inner = raw.trim_start_matches('[').trim_end_matches(']');
        if inner.contains(['[', ']', '`', '(', '\n', '\\']) || inner.contains("${") {
            return Err("a test nobody can read");
        }
        if !double && inner.contains(['<', '>', ';', '&', '|']) {
            return Err("a test nobody can read");
        }
        if double {
            builtins::double_brackets(inner)?;
        } else {
            let line = format!("test {}", inner.trim());
            let mut test = Reader::new(&line, self.depth + 1);
            test.script()?;
            self.check(test.opaque.map_or(Ok(()), Err));
        }
        let words = ["[".repeat(1 + usize::from(double)), inner.trim().into(), "]".repeat(1 + usize::from(double))];
        let (open, text) =
            (inner.contains('$'), if inner.contains('$') { words[0].clone() + " *" } else { raw.into() });
        self.want(Want {
            kind: Kind::Command,
            source: raw.into(),
            text,
            open,
            looks: Vec::new(),
            words: Vec::new(),
            parts: Vec::new(),
            spread: None,
        })
    }

    fn comment(&self, node: Node) -> Result<(), Opaque> {
        let before = self.line[..node.start_byte()].chars().next_back();
        let starts = before.is_none_or(|c| c.is_whitespace() || ";&|()".contains(c));
        let text = self.text(node);
        if starts && text.starts_with('#') && !text.contains('\n') { Ok(()) } else { Err("a comment that is none") }
    }

    fn operand(&mut self, node: Node) -> Result<(), Opaque> {
        for child in self.children(node)?.into_iter().filter(Node::is_named) {
            if child.kind() != "file_descriptor" {
                self.word(child)?;
            }
        }
        Ok(())
    }

    fn redirect(&mut self, node: Node) -> Result<(), Opaque> {
        let (mut sign, mut target) = ("", None);
        for child in self.children(node)? {
            match child.kind() {
                "file_descriptor" if self.text(child).bytes().all(|byte| byte.is_ascii_digit()) => {}
                _ if !child.is_named() && sign.is_empty() => sign = child.kind(),
                // `>3>t`: bash takes the number as part of the next redirection, and then misses the file of this one.
                _ if !sign.ends_with('&') && self.is_descriptor(child) => return Err("a redirection without a file"),
                _ if target.is_none() => target = Some(self.word(child)?),
                _ => return Err("more than one target"),
            }
        }
        let Some(target) = target else {
            return if matches!(sign, "<&-" | ">&-") { Ok(()) } else { Err("a redirection nobody can read") };
        };
        let number = target.text == "-" || !target.open && target.text.bytes().all(|byte| byte.is_ascii_digit());
        match sign {
            "<&" | ">&" if number => Ok(()),
            "<" => self.file(Kind::Read, target),
            ">" | ">>" | "&>" | "&>>" | ">|" | ">&" => self.file(Kind::Edit, target),
            _ => Err("a redirection nobody can read"),
        }
    }

    fn is_descriptor(&self, node: Node) -> bool {
        let next = self.line.as_bytes().get(node.end_byte());
        matches!(next, Some(b'<' | b'>')) && self.text(node).bytes().all(|byte| byte.is_ascii_digit())
    }

    /// A file the shell opens by itself. After a `cd` it may be another one; `dirs` tells.
    pub(super) fn file(&mut self, kind: Kind, target: Word) -> Result<(), Opaque> {
        if matches!(target.text.as_str(), "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/stdin") {
            return Ok(());
        }
        if target.text.starts_with("/dev/") {
            return Err("a device");
        }
        let open = target.open || target.glob;
        let text = if open { "*".into() } else { target.text };
        self.want(Want::file(kind, &target.raw, text, open))
    }

    /// The text up to a line that says where it ends. The grammar is not to be trusted with these, so the end is looked
    /// for once more, and what the shell would expand in it is opaque.
    fn heredoc(&mut self, node: Node) -> Result<(), Opaque> {
        self.heredocs += 1;
        if self.heredocs > 1 {
            return Err("more than one here-document");
        }
        let part = |kind: &str| node.children(&mut node.walk()).find(|child| child.kind() == kind);
        let (Some(start), Some(end)) = (part("heredoc_start"), part("heredoc_end")) else {
            return Err("a here-document without an end");
        };
        let name = self.text(start);
        let quoted = ['\'', '"'].iter().find_map(|quote| name.strip_prefix(*quote)?.strip_suffix(*quote));
        let word = quoted.unwrap_or(name);
        if word.is_empty() || !word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err("an odd end of a here-document");
        }
        let after = &self.line[start.end_byte()..];
        let (head, body) = after.split_once('\n').ok_or("a here-document without an end")?;
        if head.contains(['\'', '"', '\\', '(', '`', '#']) || head.contains("<<") {
            return Err("a here-document nobody can read");
        }
        let tabs = self.text(node).starts_with("<<-");
        let ends = |line: &str| if tabs { line.trim_start_matches('\t') == word } else { line == word };
        let mut length = 0;
        let Some(last) = body.split('\n').find(|line| {
            let found = ends(line);
            length += if found { 0 } else { line.len() + 1 };
            found
        }) else {
            return Err("a here-document without an end");
        };
        let at = start.end_byte() + head.len() + 1 + length;
        if end.end_byte() != at + last.len() {
            return Err("a here-document nobody can read");
        }
        if quoted.is_none() && body[..length].contains(['`', '$', '\\']) {
            return Err("something to run in a here-document");
        }
        for child in self.children(node)? {
            match child.kind() {
                "<<" | "<<-" | "heredoc_start" | "heredoc_body" | "heredoc_end" => {}
                "file_descriptor" if self.text(child).bytes().all(|byte| byte.is_ascii_digit()) => {}
                "file_redirect"
                | "pipeline"
                | "list"
                | "command"
                | "|"
                | "&&"
                | "||"
                | "|&"
                | "redirected_statement" => {
                    self.statement(child)?;
                }
                _ => return Err("a here-document nobody can read"),
            }
        }
        Ok(())
    }

    /// A command that is judged by its words, and by those of the command it runs, if it runs one.
    pub(super) fn command(&mut self, words: &[Word]) -> Result<(), Opaque> {
        let name = &words[0];
        if name.open || name.glob || !is_plain(&name.text) || !name.text.is_ascii() || name.text.contains('=') {
            return Err("the name of a command is not known");
        }
        if RESERVED.contains(&name.raw.as_str()) {
            return Err("a word of the grammar where a command should be");
        }
        self.push(words)?;
        if matches!(name.text.as_str(), "cd" | "pushd" | "popd" | "chdir") {
            let to = leads_to(words);
            let device = to.as_deref().is_some_and(super::program::is_device);
            self.check(if device { Err("a directory of devices") } else { Ok(()) });
            self.moves.push(to);
        }
        let looked = self.program(words);
        self.check(looked);
        Ok(())
    }

    /// Keeps why the line is opaque, and reads on.
    pub(super) fn check(&mut self, looked: Result<(), Opaque>) {
        self.opaque = self.opaque.or(looked.err());
    }

    /// A want for these words.
    pub(super) fn push(&mut self, words: &[Word]) -> Result<(), Opaque> {
        self.want(Want::command(words))
    }

    fn want(&mut self, want: Want) -> Result<(), Opaque> {
        if self.wants.len() >= MAX_WANTS {
            return Err("too much in one line");
        }
        if !self.wants.contains(&want) {
            self.wants.push(want);
        }
        Ok(())
    }
}

/// The tree of a line, unless there is an error in it: what the grammar does to go on after one can take minutes.
fn parse(parser: &mut Parser, line: &str) -> Option<Tree> {
    let mut looked = 0;
    let mut stop = |state: &ParseState| {
        looked += 1;
        if state.has_error() || looked > MAX_LOOKS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let options = ParseOptions::new().progress_callback(&mut stop);
    let bytes = line.as_bytes();
    parser.parse_with_options(&mut |at, _| bytes.get(at..).unwrap_or_default(), None, Some(options))
}

/// Where a `cd` leads, if its words tell.
fn leads_to(words: &[Word]) -> Option<String> {
    let [name, to] = words else { return None };
    let known = name.text != "popd" && !to.open && !to.glob && !to.text.starts_with(['-', '~']);
    known.then(|| to.text.clone())
}

/// Characters that hide something from whoever reads a line: controls, marks of direction, spaces of other kinds.
fn is_odd(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t'
        || c.is_whitespace() && !c.is_ascii()
        || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}
