//! `cc` and its like: options by which a compiler runs other programs.

use super::super::read::Opaque;
use super::super::word::Word;

const NAMES: &[&str] = &["c++", "c89", "c99", "cc", "clang", "clang++", "cpp", "g++", "gcc", "gfortran"];

const TRAPS: &[&str] = &[
    "-B",
    "-wrapper",
    "--wrapper",
    "-fplugin",
    "-specs",
    "--specs",
    "-load",
    "-fpass-plugin",
    "--ld-path",
    "-fuse-ld=/",
    "@",
];

/// Also `gcc-12` and `x86_64-linux-gnu-gcc`.
pub(super) fn is_one(name: &str) -> bool {
    name.split('-').any(|part| NAMES.contains(&part))
}

pub(super) fn check(rest: &[Word]) -> Result<(), Opaque> {
    let odd = |word: &Word| word.open || TRAPS.iter().any(|trap| word.text.starts_with(trap));
    if rest.iter().any(odd) { Err("a compiler that runs another program") } else { Ok(()) }
}
