//! `awk`: a program that can run commands and write files, unless its text has no way to.

use super::super::read::Opaque;
use super::super::word::Word;

pub(super) fn check(rest: &[Word]) -> Result<(), Opaque> {
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        if word.open || word.glob {
            return Err("an awk program that is not known");
        }
        match word.text.as_str() {
            // Without quotes it may become several words, and the next of them is the program.
            "-F" | "-v" if words.next().is_some_and(|value| value.open && !value.quoted || value.glob) => {
                return Err("an awk program that is not known");
            }
            "-F" | "-v" => {}
            option if option.starts_with("-F") || option.starts_with("-v") => {}
            option if option.starts_with('-') => return Err("an awk option nobody knows"),
            program => {
                let risky = program.contains(['|', '>', '@', '<', '\\'])
                    || ["system", "getline", "close", "fflush", "include", "load"]
                        .iter()
                        .any(|word| program.contains(word));
                return if risky { Err("an awk program that can run commands") } else { Ok(()) };
            }
        }
    }
    Ok(())
}
