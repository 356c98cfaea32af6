//! `find -exec` and its like.

use super::super::Kind;
use super::super::read::{Opaque, Reader};
use super::super::word::{ITEM, Word};

impl Reader<'_> {
    pub(super) fn find(&mut self, name: &str, rest: &[Word]) -> Result<(), Opaque> {
        if name.starts_with("fd") {
            let runs = |word: &Word| {
                word.open
                    || ["-x", "-X", "--exec", "--exec-batch"]
                        .iter()
                        .any(|option| super::options::is(option, &word.text))
            };
            return if rest.iter().any(runs) { Err("it runs what it is told") } else { Ok(()) };
        }
        let mut words = rest.iter();
        while let Some(word) = words.next() {
            if word.open || word.glob && word.text.starts_with(['*', '?', '[']) {
                return Err("a word that is not known could be an option that runs something");
            }
            match word.text.as_str() {
                "-exec" | "-execdir" | "-ok" | "-okdir" => {
                    let inner: Vec<Word> =
                        command(&mut words, word.text.starts_with("-exec")).map(|word| word.filled("{}")).collect();
                    if inner.is_empty() {
                        return Err("a command that is missing");
                    }
                    self.command(&inner)?;
                }
                "-delete" => self.push(&[Word::known("rm"), Word::hole(ITEM)])?,
                "-fprint" | "-fprint0" | "-fprintf" | "-fls" => {
                    let file = words.next().ok_or("a file that is missing")?;
                    self.file(Kind::Edit, file.clone())?;
                }
                "-files0-from" => return Err("files that are not known"),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The words up to `;`, or up to a `+` that stands directly behind `{}`.
fn command<'w>(words: &mut impl Iterator<Item = &'w Word>, many: bool) -> impl Iterator<Item = &'w Word> {
    let mut file = false;
    words.take_while(move |word| {
        let ends = word.text == ";" || many && file && word.text == "+";
        file = word.text == "{}";
        !ends
    })
}
