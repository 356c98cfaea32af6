//! Lines of nothing but words and the signs between commands: most of them, and they need no grammar.

use super::read::{KEYWORDS, RESERVED};
use super::word::Word;

/// The commands of such a line, or `None` for any other.
pub(super) fn commands(line: &str) -> Option<Vec<Vec<Word>>> {
    let (mut commands, mut words, mut word) = (Vec::new(), Vec::new(), None);
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        // What is no ASCII is left to the grammar, so a character is a byte.
        let after = if c.is_ascii() { &rest[1..] } else { return None };
        match c {
            ' ' | '\t' => words.extend(word.take()),
            'a'..='z'
            | 'A'..='Z'
            | '0'..='9'
            | '-'
            | '_'
            | '.'
            | '/'
            | ':'
            | ','
            | '@'
            | '%'
            | '+'
            | '^'
            | '~'
            | '=' => {
                add(&mut word, &rest[..1], &rest[..1], false);
            }
            '\'' | '"' => {
                let (inner, _) = after.split_once(c)?;
                let odd = |c: char| !c.is_ascii_graphic() && c != ' ';
                if inner.contains(odd) || c == '"' && inner.contains(['$', '`', '\\']) {
                    return None;
                }
                add(&mut word, &rest[..inner.len() + 2], inner, true);
                rest = &rest[inner.len() + 1..];
            }
            ';' | '|' | '&' => {
                let double = after.starts_with(c);
                if matches!((c, double), ('&', false) | (';', true)) || c == '|' && after.starts_with('&') {
                    return None;
                }
                words.extend(word.take());
                commands.push(std::mem::take(&mut words));
                rest = if double { after } else { rest };
            }
            _ => return None,
        }
        rest = &rest[1..];
    }
    words.extend(word.take());
    commands.push(words);
    commands.iter().all(|words| is_command(words)).then_some(commands)
}

fn add(word: &mut Option<Word>, raw: &str, text: &str, quoted: bool) {
    let first = word.is_none();
    let word = word.get_or_insert_with(Word::default);
    word.raw.push_str(raw);
    word.text.push_str(text);
    word.quoted = first && quoted;
}

/// Whether these words are a command, and all of it.
fn is_command(words: &[Word]) -> bool {
    let Some(name) = words.first() else { return false };
    let known = |list: &[&str]| list.contains(&name.raw.as_str());
    let index = |word: &Word| word.raw.contains('[') && (word.raw.contains("$(") || word.raw.contains('`'));
    !name.text.contains('=') && !known(KEYWORDS) && !known(RESERVED) && !words.iter().any(index)
}
