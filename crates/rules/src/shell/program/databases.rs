//! Databases whose commands run programs, among their words or from their input.

use super::super::read::Opaque;
use super::super::word::Word;

/// Functions of SQLite that start a program, load one, or write a file.
const FUNCTIONS: &[&str] = &["edit", "load_extension", "writefile"];

pub(super) fn sqlite(rest: &[Word]) -> Result<(), Opaque> {
    let mut operands = 0;
    for word in rest {
        let text = word.text.trim_start();
        let command = text.starts_with('.') && !text.starts_with("./") && !text.starts_with("../");
        let mut names = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let calls = names.any(|name| FUNCTIONS.iter().any(|function| name.eq_ignore_ascii_case(function)));
        if word.open || word.glob || command || calls || matches!(text.trim_start_matches('-'), "cmd" | "init") {
            return Err("a database that runs commands");
        }
        operands += usize::from(!text.starts_with('-'));
    }
    // A file alone is followed by what is on its input.
    if operands < 2 && !rest.iter().any(|word| word.text.ends_with("-version")) {
        return Err("a database that reads commands from its input");
    }
    Ok(())
}

/// What a client does itself, at the beginning of a statement.
const OWN: &[&str] = &["edit", "pager", "source", "system", "tee"];

/// Options of `psql` without a value; behind them in a bundle, `o` and `L` name a file or a pipe.
const FLAGS: &str = "aAbeEHlnqsStwWxXz01";

/// `psql -c` and `mysql -e`, with nothing in it but SQL.
pub(super) fn client(rest: &[Word]) -> Result<(), Opaque> {
    let odd = |word: &Word| word.open || word.glob || word.text.contains('\\') || runs(&word.text);
    let told = |word: &Word| word.text.starts_with('-') && word.text.ends_with(['c', 'e']) || word.text == "--version";
    if rest.iter().any(odd) || !rest.iter().any(told) { Err("a database that runs commands") } else { Ok(()) }
}

fn runs(word: &str) -> bool {
    let text = word.to_ascii_lowercase();
    let own = |statement: &str| OWN.contains(&statement.split_whitespace().next().unwrap_or_default());
    let writes = word
        .strip_prefix('-')
        .is_some_and(|bundle| bundle.trim_start_matches(|c| FLAGS.contains(c)).starts_with(['o', 'L']));
    let named = ["--output", "--log-file", "--pager", "--tee"].iter().any(|option| super::options::is(option, word));
    // `copy … to program`.
    text.contains("system") || text.contains("program") || text.split([';', '\n']).any(own) || writes || named
}
