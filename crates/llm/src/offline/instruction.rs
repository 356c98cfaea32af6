//! Plain instructions, read from a prompt: what the offline model understands of language.

use super::words::{self, Token, is_path, is_wildcard, quoted, tokens};
use serde_json::{Value, json};

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Instruction {
    Read { path: String },
    List { path: Option<String> },
    Glob { pattern: String },
    Search(Search),
    Run { command: String },
    Write { path: String, text: String },
    Edit { path: String, old: String, new: String },
    Fetch { url: String },
    Task { agent: String, prompt: String },
    Spawn { agent: Option<String>, label: Option<String>, task: String },
    Send { to: String, text: String },
    EnterWorktree { name: Option<String> },
    ExitWorktree { remove: bool },
    Call { tool: String, input: Value },
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Search {
    /// What is searched for as it stands.
    pub(super) literal: Option<String>,
    /// Otherwise these words, in the order they were written.
    pub(super) words: Vec<String>,
    pub(super) path: Option<String>,
    pub(super) include: Option<String>,
}

/// A prompt, understood as far as it goes.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) instructions: Vec<Instruction>,
    /// Pieces that are no instruction.
    pub(super) unclear: Vec<String>,
}

/// More than this in one prompt is not typed by anybody.
const MOST_INSTRUCTIONS: usize = 100;

/// Bytes of a line that is looked into for instructions; a longer one is a text, not an order.
const LONGEST_LINE: usize = 4_000;

/// Places in one line where it may be cut in two; each is tried.
const MOST_CUTS: usize = 50;

/// In front of an instruction and without meaning for it.
const COURTESY: &[&str] = &[
    "please",
    "now",
    "first",
    "next",
    "finally",
    "also",
    "and",
    "then",
    "afterwards",
    "can you",
    "could you",
    "would you",
    "i want you to",
    "i would like you to",
    "let us",
    "let's",
    "go and",
    "just",
    "kindly",
    "ok,",
    "帮我",
    "请",
    "麻烦",
];

/// Verbs of another language, as the ones below.
const TRANSLATED: &[(&str, &str)] = &[
    ("查找", "find"),
    ("搜索", "find"),
    ("寻找", "find"),
    ("读取", "read"),
    ("阅读", "read"),
    ("查看", "read"),
    ("打开", "read"),
    ("列出", "list"),
    ("运行", "run"),
    ("执行", "run"),
];

/// Whom `ask` and `tell` do not mean.
const NOBODY: &[&str] = &["me", "us", "you", "it", "them", "him", "her", "the", "a", "an", "this", "that", "everyone"];

pub(super) fn parse(prompt: &str) -> Plan {
    let mut plan = Plan::default();
    let mut rest = prompt.trim();
    while !rest.is_empty() && plan.instructions.len() < MOST_INSTRUCTIONS {
        let (piece, after) = next_piece(rest);
        match piece {
            Piece::Understood(mut instructions) => plan.instructions.append(&mut instructions),
            // What the runtime puts around another session's words is no part of them.
            Piece::Unclear(text) if text.starts_with('<') && text.trim_end().ends_with('>') => {}
            Piece::Unclear(text) if text.chars().any(char::is_alphanumeric) => plan.unclear.push(text.to_owned()),
            Piece::Unclear(_) => {}
        }
        rest = after.trim_start();
    }
    plan
}

enum Piece<'a> {
    Understood(Vec<Instruction>),
    Unclear(&'a str),
}

fn next_piece(rest: &str) -> (Piece<'_>, &str) {
    if let Some((instruction, after)) = call(rest).or_else(|| write_block(rest)) {
        return (Piece::Understood(vec![instruction]), after);
    }
    let (line, after_line) = rest.split_once('\n').unwrap_or((rest, ""));
    if line.len() > LONGEST_LINE {
        return (Piece::Unclear(line), after_line);
    }
    for (end, start) in cuts(line) {
        let (head, tail) = (&line[..end], &line[start..]);
        // The number of an item is not a sentence.
        if !head.contains(char::is_alphabetic) {
            continue;
        }
        if one(tail).is_some() || call(tail).is_some() {
            let head_said = one(head);
            // Only `then` ends a command, a text or somebody else's work: all of them may hold the other separators.
            if takes_all(head_said.as_deref()) && !is_then(&line[end..start]) {
                continue;
            }
            return (head_said.map_or(Piece::Unclear(head), Piece::Understood), &rest[start..]);
        }
    }
    (one(line).map_or(Piece::Unclear(line), Piece::Understood), after_line)
}

fn takes_all(instructions: Option<&[Instruction]>) -> bool {
    instructions.is_some_and(|said| {
        said.iter().any(|i| {
            matches!(
                i,
                Instruction::Run { .. }
                    | Instruction::Write { .. }
                    | Instruction::Task { .. }
                    | Instruction::Spawn { .. }
                    | Instruction::Send { .. }
                    | Instruction::Edit { .. }
            )
        })
    })
}

fn is_then(separator: &str) -> bool {
    separator.to_lowercase().contains("then")
}

/// Where a line may fall into two: `(end of the first, start of the second)`, outside quotes.
fn cuts(line: &str) -> Vec<(usize, usize)> {
    const SEPARATORS: &[&str] =
        &["; then ", ", then ", ", and then ", " and then ", " then ", ";", ", and ", " and ", ". ", ", "];
    let lower = line.to_ascii_lowercase();
    let mut cuts = Vec::new();
    let mut at = 0;
    while at < line.len() && cuts.len() < MOST_CUTS {
        if let Some((_, after)) = quoted(&line[at..]).filter(|_| at == 0 || !is_inside_word(line, at)) {
            at = line.len() - after.len();
            continue;
        }
        if let Some(separator) = SEPARATORS.iter().find(|separator| lower[at..].starts_with(**separator)) {
            cuts.push((at, at + separator.len()));
            at += separator.len();
            continue;
        }
        at += line[at..].chars().next().map_or(1, char::len_utf8);
    }
    cuts
}

fn is_inside_word(line: &str, at: usize) -> bool {
    line[..at].ends_with(|c: char| c.is_ascii_alphanumeric())
}

/// What one sentence asks for; several files are several instructions.
fn one(text: &str) -> Option<Vec<Instruction>> {
    let text = without_courtesy(text);
    let (verb, rest) = verb(text)?;
    let single = |instruction: Option<Instruction>| instruction.map(|found| vec![found]);
    if let Some(moves) = worktree(&verb, rest) {
        return Some(vec![moves]);
    }
    match verb.as_str() {
        "spawn" | "start" | "launch" => single(spawn(&verb, rest)),
        "send" | "message" => single(send(&verb, rest)),
        "read" | "cat" | "open" | "view" | "print" => reads(rest, true),
        "show" | "display" | "what" | "what's" | "which" if asks_for_files(rest) => single(list(rest)),
        "show" | "display" | "summarize" | "summarise" | "explain" | "describe" | "what" | "what's" => {
            reads(rest, false)
        }
        "list" | "ls" => single(list(rest)),
        "glob" => single(glob(rest)),
        "find" | "search" | "grep" | "locate" | "where" | "where's" | "which" => single(search(rest)),
        "look" if rest.to_lowercase().starts_with("for ") => single(search(rest)),
        "look" if rest.to_lowercase().starts_with("at ") => reads(rest, false),
        "run" | "execute" | "bash" | "$" => single(run(rest)),
        "fetch" | "download" => single(fetch(rest)),
        "write" | "create" | "save" | "put" => single(write(rest)),
        "edit" | "replace" | "change" | "in" => single(edit(&verb, rest)),
        "ask" | "tell" | "use" | "have" | "let" | "task" => single(task(&verb, rest)),
        _ => single(mention(text)),
    }
}

fn without_courtesy(text: &str) -> &str {
    let mut text = text.trim();
    loop {
        let numbered = text.trim_start_matches(|c: char| c.is_ascii_digit());
        let unnumbered = numbered.strip_prefix(['.', ')']).filter(|_| numbered.len() < text.len());
        let bare = unnumbered.unwrap_or(text);
        let bare = bare.strip_prefix("- ").or_else(|| bare.strip_prefix("* ")).unwrap_or(bare).trim_start();
        let bare = COURTESY.iter().find_map(|word| without_prefix(bare, word)).unwrap_or(bare);
        if bare.len() == text.len() {
            return text;
        }
        text = bare;
    }
}

/// The text behind `word`, if it starts with that whole word, in whatever case.
fn without_prefix<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let head = text.get(..word.len())?;
    let after = &text[word.len()..];
    let ends = !word.is_ascii() || after.is_empty() || after.starts_with([' ', ',', ':']);
    (head.eq_ignore_ascii_case(word) && ends).then(|| after.trim_start_matches([' ', ',', ':']))
}

fn verb(text: &str) -> Option<(String, &str)> {
    for (word, english) in TRANSLATED {
        if let Some(rest) = text.strip_prefix(word) {
            return Some(((*english).to_owned(), rest.trim_start_matches([' ', ':', '：'])));
        }
    }
    let (verb, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let verb = verb.trim_end_matches([':', '.', ',', '!', '?']).to_lowercase();
    (!verb.is_empty()).then(|| (verb, rest.trim()))
}

fn reads(rest: &str, any_word: bool) -> Option<Vec<Instruction>> {
    let tokens = tokens(rest);
    if let Some(url) = tokens.iter().find(|token| is_url(token)) {
        return Some(vec![Instruction::Fetch { url: url.text.clone() }]);
    }
    let paths: Vec<Instruction> = tokens
        .iter()
        .filter(|token| is_path(token) && !is_wildcard(token))
        .map(|token| Instruction::Read { path: token.text.clone() })
        .collect();
    if !paths.is_empty() {
        return Some(paths);
    }
    // `read notes` is clear enough; `read between the lines` is not.
    let words: Vec<&Token> = tokens.iter().filter(|token| !is_filler(&token.text)).collect();
    match words.as_slice() {
        [one] if any_word && !is_wildcard(one) => Some(vec![Instruction::Read { path: one.text.clone() }]),
        _ => None,
    }
}

fn is_filler(word: &str) -> bool {
    let word = word.to_lowercase();
    NOBODY.contains(&word.as_str())
        || matches!(
            word.as_str(),
            "file" | "files" | "contents" | "content" | "of" | "named" | "called" | "for" | "is" | "in"
        )
}

fn is_url(token: &Token) -> bool {
    token.text.starts_with("http://") || token.text.starts_with("https://")
}

fn asks_for_files(rest: &str) -> bool {
    let tokens = tokens(rest);
    let about_files = |token: &Token| {
        matches!(token.text.to_lowercase().as_str(), "files" | "folder" | "folders" | "directory" | "directories")
    };
    let about_content = |token: &Token| {
        matches!(token.text.to_lowercase().as_str(), "contain" | "containing" | "mention" | "use" | "with")
    };
    tokens.iter().take(4).any(about_files) && !tokens.iter().any(about_content)
}

fn list(rest: &str) -> Option<Instruction> {
    let tokens = tokens(rest);
    if let Some(pattern) = tokens.iter().find(|token| is_wildcard(token)) {
        return Some(Instruction::Glob { pattern: pattern.text.clone() });
    }
    let after_in = tokens.iter().skip_while(|token| !is_in(token)).skip(1).find(|token| !is_filler(&token.text));
    let named = tokens.iter().find(|token| is_path(token)).or(after_in);
    let path = match (named, tokens.as_slice()) {
        (Some(named), _) => Some(named.text.clone()),
        (None, [one]) if !is_filler(&one.text) && one.text != "here" => Some(one.text.clone()),
        (None, []) => None,
        (None, words) if words.iter().any(|word| is_filler(&word.text) || word.text == "here") => None,
        (None, _) => return None,
    };
    let everything = ["here", "directory", "folder", "project", "repository", "."];
    Some(Instruction::List { path: path.filter(|path| !everything.contains(&path.as_str())) })
}

fn is_in(token: &Token) -> bool {
    !token.quoted && matches!(token.text.to_lowercase().as_str(), "in" | "under" | "inside" | "within" | "of")
}

fn glob(rest: &str) -> Option<Instruction> {
    let token = tokens(rest).into_iter().find(|token| !is_filler(&token.text))?;
    Some(Instruction::Glob { pattern: token.text })
}

fn search(rest: &str) -> Option<Instruction> {
    let mut tokens = tokens(rest);
    let mut search = Search { path: take_folder(&mut tokens), ..Search::default() };
    let wildcard = tokens.iter().position(is_wildcard).map(|at| tokens.remove(at).text);
    if let Some(name) = file_name(&tokens) {
        return Some(Instruction::Glob { pattern: format!("**/*{name}*") });
    }
    let identifier = |token: &&Token| token.quoted || words::is_identifier(&token.text);
    search.literal = tokens.iter().find(identifier).map(|token| token.text.clone());
    search.words = words::telling(&tokens);
    match (&search.literal, search.words.is_empty(), wildcard) {
        (None, true, Some(pattern)) => Some(Instruction::Glob { pattern: anywhere(&pattern) }),
        (None, true, None) => None,
        (_, _, include) => {
            search.include = include;
            Some(Instruction::Search(search))
        }
    }
}

/// `find *.rs` means in every folder.
fn anywhere(pattern: &str) -> String {
    if pattern.contains('/') { pattern.to_owned() } else { format!("**/{pattern}") }
}

/// Takes `in src/` or `in the src folder` out of the sentence.
fn take_folder(tokens: &mut Vec<Token>) -> Option<String> {
    let at = tokens.iter().position(|token| is_in(token) && token.text != "of")?;
    let mut end = at + 1;
    while tokens.get(end).is_some_and(|token| matches!(token.text.as_str(), "the" | "folder" | "directory")) {
        end += 1;
    }
    let named = tokens.get(end)?;
    let is_folder = |token: &Token| matches!(token.text.as_str(), "folder" | "directory" | "dir");
    let followed = tokens.get(end + 1).is_some_and(is_folder);
    if is_wildcard(named) || !(is_path(named) || followed) {
        return None;
    }
    let path = named.text.clone();
    tokens.drain(at..=end + usize::from(followed));
    Some(path)
}

/// `the file named foo`: a name to look for, not a content.
fn file_name(tokens: &[Token]) -> Option<String> {
    let at = tokens.iter().position(|token| matches!(token.text.as_str(), "named" | "called"))?;
    let about_files = tokens[..at].iter().any(|token| token.text.starts_with("file"));
    tokens.get(at + 1).filter(|_| about_files).map(|token| token.text.clone())
}

fn run(rest: &str) -> Option<Instruction> {
    let rest = ["the command ", "command ", "this: "].iter().find_map(|word| rest.strip_prefix(word)).unwrap_or(rest);
    let command = match rest.find('`').and_then(|at| quoted(&rest[at..])) {
        Some((inside, _)) => inside,
        None => rest.trim_start_matches([':', ' ']),
    };
    let vague =
        command.is_empty() || ["the ", "all ", "it", "this", "that"].iter().any(|word| command.starts_with(word));
    (!vague).then(|| Instruction::Run { command: command.trim().to_owned() })
}

fn fetch(rest: &str) -> Option<Instruction> {
    tokens(rest).into_iter().find(is_url).map(|token| Instruction::Fetch { url: token.text })
}

/// `FILE: TEXT`, `FILE with TEXT`, or `"TEXT" to FILE`.
fn write(rest: &str) -> Option<Instruction> {
    if let Some((text, after)) = quoted(rest) {
        let tokens = tokens(after);
        let goes_to = tokens.first().is_some_and(|token| matches!(token.text.as_str(), "to" | "into" | "in"));
        if let Some(path) = tokens.iter().skip(1).find(|token| is_path(token)).filter(|_| goes_to) {
            return Some(Instruction::Write { path: path.text.clone(), text: text.to_owned() });
        }
    }
    let rest = ["a file ", "the file ", "file ", "to "]
        .iter()
        .find_map(|word| without_prefix(rest, word.trim()))
        .unwrap_or(rest);
    let (path, text) = path_and_text(rest)?;
    let text = ["content", "the content", "contents", "the contents", "the text", "text"]
        .iter()
        .find_map(|word| without_prefix(text, word))
        .unwrap_or(text);
    let text = quoted(text).filter(|(_, after)| after.trim().is_empty()).map_or(text, |(inside, _)| inside);
    (!text.is_empty()).then(|| Instruction::Write { path, text: text.to_owned() })
}

fn path_and_text(rest: &str) -> Option<(String, &str)> {
    let (path, after) = match quoted(rest) {
        Some((path, after)) => (path, after),
        None => {
            let end = rest.find([' ', ':'])?;
            (&rest[..end], &rest[end..])
        }
    };
    let after = after.trim_start();
    let text = after
        .strip_prefix(':')
        .or_else(|| without_prefix(after, "with"))
        .or_else(|| without_prefix(after, "containing"))?;
    let token = Token { text: path.to_owned(), quoted: false };
    (is_path(&token) || after.starts_with(':')).then(|| (path.to_owned(), text.trim()))
}

/// `write FILE:` with the text on the lines below, fenced or to the end.
fn write_block(rest: &str) -> Option<(Instruction, &str)> {
    let (line, below) = rest.split_once('\n')?;
    let (verb, named) = verb(without_courtesy(line))?;
    if !matches!(verb.as_str(), "write" | "create" | "save") {
        return None;
    }
    let path = named.trim_end().strip_suffix(':')?.trim().trim_matches(['`', '"', '\'']);
    if path.is_empty() || path.contains(char::is_whitespace) {
        return None;
    }
    let (text, after) = fenced(below).unwrap_or((below, ""));
    Some((Instruction::Write { path: path.to_owned(), text: text.to_owned() }, after))
}

fn fenced(below: &str) -> Option<(&str, &str)> {
    let (_, inside) = below.trim_start().strip_prefix("```")?.split_once('\n')?;
    let end = if inside.starts_with("```") { 0 } else { inside.find("\n```")? + 1 };
    let after = &inside[end + 3..];
    Some((&inside[..end], after.split_once('\n').map_or("", |(_, after)| after)))
}

/// `FILE replace A with B`, `A with B in FILE`, or `in FILE replace A with B`.
fn edit(verb: &str, rest: &str) -> Option<Instruction> {
    let (path, old, new) = match verb {
        "edit" | "in" => {
            let (path, after) = first_word(rest)?;
            let path = path.trim_end_matches([':', ',']);
            let after = ["and", "to"].iter().find_map(|word| without_prefix(after, word)).unwrap_or(after);
            let change = ["replace", "change", "replacing"].iter().find_map(|word| without_prefix(after, word))?;
            let (old, new) = exchange(change)?;
            (path.to_owned(), old, new)
        }
        _ => {
            let (change, path) = rest.rsplit_once(" in ")?;
            let (old, new) = exchange(change)?;
            (path.trim().trim_end_matches('.').trim_matches(['`', '"', '\'']).to_owned(), old, new)
        }
    };
    let token = Token { text: path.clone(), quoted: false };
    is_path(&token).then_some(Instruction::Edit { path, old, new })
}

fn first_word(text: &str) -> Option<(&str, &str)> {
    let (word, after) = quoted(text).or_else(|| text.split_once(char::is_whitespace))?;
    Some((word, after.trim_start()))
}

/// `A with B`, quoted or not.
fn exchange(change: &str) -> Option<(String, String)> {
    let (old, new) = match quoted(change) {
        Some((old, after)) => {
            (old, ["with", "by", "to"].iter().find_map(|word| without_prefix(after.trim_start(), word))?)
        }
        None => [" with ", " by ", " to "].iter().find_map(|word| change.split_once(word))?,
    };
    let new = quoted(new).map_or(new.trim(), |(inside, _)| inside);
    (!old.trim().is_empty()).then(|| (old.to_owned(), new.to_owned()))
}

/// `ask AGENT to ...`, `task AGENT: ...`, `use the AGENT agent to ...`.
fn task(verb: &str, rest: &str) -> Option<Instruction> {
    let rest = without_prefix(rest, "the").unwrap_or(rest);
    let end = rest.find(|c: char| !(c.is_alphanumeric() || "-_@.".contains(c))).unwrap_or(rest.len());
    let (agent, after) = rest.split_at(end);
    let agent = agent.trim_start_matches('@');
    if agent.is_empty() || NOBODY.contains(&agent.to_lowercase().as_str()) {
        return None;
    }
    let after = after.trim_start();
    let after = ["agent", "subagent"].iter().find_map(|word| without_prefix(after, word)).unwrap_or(after);
    let prompt = match after.strip_prefix(':') {
        Some(prompt) => prompt,
        None if verb == "task" => without_prefix(after, "to").unwrap_or(after),
        None => ["to", "for", "about"].iter().find_map(|word| without_prefix(after, word))?,
    };
    let prompt = prompt.trim();
    (!prompt.is_empty()).then(|| Instruction::Task { agent: agent.to_owned(), prompt: prompt.to_owned() })
}

/// `spawn AGENT to ...`, `spawn an agent named NAME to ...`, `start a session as NAME: ...`.
fn spawn(verb: &str, rest: &str) -> Option<Instruction> {
    const KINDS: [&str; 4] = ["agent", "subagent", "session", "child"];
    const NAMING: [&str; 5] = ["named", "called", "as", "labelled", "labeled"];
    let (mut agent, mut label, mut said_kind) = (None, None, false);
    let mut rest =
        ["a new", "another", "an", "a", "the"].iter().find_map(|word| without_prefix(rest, word)).unwrap_or(rest);
    loop {
        if let Some(task) = ["to", "that", "for"].iter().find_map(|word| without_prefix(rest, word)) {
            rest = task;
            break;
        }
        if let Some(task) = rest.strip_prefix(':') {
            rest = task.trim();
            break;
        }
        let (word, after) = name(rest)?;
        let is = |words: &[&str]| words.contains(&word.to_lowercase().as_str());
        if is(&KINDS) {
            said_kind = true;
            rest = after;
        } else if is(&NAMING) && label.is_none() {
            let (named, after) = name(after)?;
            label = Some(named.to_owned());
            rest = after;
        } else if agent.is_none() && !NOBODY.contains(&word) {
            agent = Some(word.to_owned());
            rest = after;
        } else {
            return None;
        }
    }
    // `start the server` starts something else.
    let whole = !rest.is_empty() && (said_kind || verb == "spawn" && agent.is_some());
    whole.then(|| Instruction::Spawn { agent, label, task: rest.to_owned() })
}

/// A name at the beginning, in quotes or not, and what follows it.
fn name(text: &str) -> Option<(&str, &str)> {
    if let Some((inside, after)) = quoted(text) {
        return Some((inside, after.trim_start()));
    }
    let end = text.find(|c: char| !(c.is_alphanumeric() || "-_@.".contains(c))).unwrap_or(text.len());
    let (word, after) = text.split_at(end);
    let word = word.trim_start_matches('@').trim_end_matches('.');
    (!word.is_empty()).then(|| (word, after.trim_start()))
}

/// `send "TEXT" to NAME`, `send NAME: TEXT`, `send a message to NAME saying TEXT`, `message NAME: TEXT`.
fn send(verb: &str, rest: &str) -> Option<Instruction> {
    let told = |to: &str, text: &str| {
        let text = quoted(text).filter(|(_, after)| after.trim().is_empty()).map_or(text, |(inside, _)| inside).trim();
        let whole = !text.is_empty() && !NOBODY.contains(&to.to_lowercase().as_str());
        whole.then(|| Instruction::Send { to: to.to_owned(), text: text.to_owned() })
    };
    let says = |after: &'_ str| -> Option<String> {
        let by_word = || ["saying", "that says", "with"].iter().find_map(|word| without_prefix(after, word));
        after.strip_prefix(':').or_else(by_word).map(|text| text.trim().to_owned())
    };
    let bare = ["a message", "the message", "mail", "word"].iter().find_map(|words| without_prefix(rest, words));
    if let Some((to, after)) = bare.and_then(|rest| without_prefix(rest, "to")).and_then(name) {
        return told(to, &says(after)?);
    }
    let rest = bare.unwrap_or(rest);
    if let Some((text, after)) = quoted(rest) {
        let (to, _) = name(without_prefix(after.trim_start(), "to")?)?;
        return told(to, text);
    }
    if let Some((to, after)) = name(rest) {
        if let Some(text) = says(after) {
            return told(to, &text);
        }
        if quoted(after).is_some() || verb == "message" {
            return told(to, after);
        }
    }
    let (text, to) = rest.rsplit_once(" to ")?;
    let (to, after) = name(to)?;
    if after.trim_matches(['.', '!']).is_empty() { told(to, text) } else { None }
}

/// `enter a worktree named NAME`, `leave the worktree`, `remove the worktree`.
fn worktree(verb: &str, rest: &str) -> Option<Instruction> {
    let words = tokens(rest);
    let at = words.iter().take(5).position(|word| !word.quoted && word.text.eq_ignore_ascii_case("worktree"))?;
    match verb {
        "enter" | "create" | "make" | "open" | "use" | "work" | "switch" | "go" | "move" | "new" => {
            let naming = |word: &&Token| is_filler(&word.text) || word.text == "as";
            let name = words[at + 1..].iter().find(|word| !naming(word)).map(|word| word.text.clone());
            Some(Instruction::EnterWorktree { name })
        }
        "leave" | "exit" | "quit" => {
            let removes = |word: &Token| matches!(word.text.to_lowercase().as_str(), "remove" | "delete");
            Some(Instruction::ExitWorktree { remove: words.iter().any(removes) })
        }
        "remove" | "delete" => Some(Instruction::ExitWorktree { remove: true }),
        _ => None,
    }
}

/// `@agent ...`, where the runtime has not acted on the mention itself.
fn mention(text: &str) -> Option<Instruction> {
    let named = text.strip_prefix('@')?;
    let end = named.find(|c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c))).unwrap_or(named.len());
    let (agent, prompt) = (&named[..end], named[end..].trim_start_matches([':', ',', ' ']));
    let whole = !agent.is_empty() && !prompt.is_empty();
    whole.then(|| Instruction::Task { agent: agent.to_owned(), prompt: prompt.to_owned() })
}

/// `call TOOL {json}`, with the object wherever it ends.
fn call(text: &str) -> Option<(Instruction, &str)> {
    let trimmed = without_courtesy(text);
    let rest = without_prefix(trimmed, "call")?;
    let end = rest.find(|c: char| c.is_whitespace() || c == '{').unwrap_or(rest.len());
    let tool = rest[..end].trim_matches('`');
    let after = rest[end..].trim_start();
    if tool.is_empty() || NOBODY.contains(&tool) {
        return None;
    }
    if !after.starts_with('{') {
        let (line, below) = rest[end..].split_once('\n').unwrap_or((&rest[end..], ""));
        return line.trim().is_empty().then(|| (Instruction::Call { tool: tool.to_owned(), input: json!({}) }, below));
    }
    let mut values = serde_json::Deserializer::from_str(after).into_iter::<Value>();
    let input = values.next()?.ok()?;
    let after = &after[values.byte_offset()..];
    Some((Instruction::Call { tool: tool.to_owned(), input }, after.trim_start_matches([';', ',', '.', ' '])))
}
