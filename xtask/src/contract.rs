//! Whether docs/contract names tests that exist, and every security case.

use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::path::Path;

/// How many security cases there are: T01 to T56.
const CASES: u32 = 56;

/// Fails when a page of the contract names a test that is not in the sources, or leaves out a security case.
pub(crate) fn check(root: &Path) -> Result<()> {
    let mut tests = BTreeSet::new();
    for part in ["crates", "xtask"] {
        collect(&root.join(part), &mut tests)?;
    }
    for page in std::fs::read_dir(root.join("docs/contract"))? {
        let page = page?.path();
        let text = std::fs::read_to_string(&page).with_context(|| format!("cannot read {}", page.display()))?;
        for name in named(&text) {
            ensure!(tests.contains(name), "{} names the test `{name}`, which does not exist", page.display());
        }
    }
    let security = std::fs::read_to_string(root.join("docs/contract/security.md"))?;
    for case in 1..=CASES {
        ensure!(security.contains(&format!("T{case:02}")), "docs/contract/security.md leaves out T{case:02}");
    }
    Ok(())
}

/// The test names in a page: long snake-case words in backticks.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let is_test = |word: &&str| {
        word.matches('_').count() >= 3
            && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    text.split('`').skip(1).step_by(2).filter(is_test)
}

/// The names of all functions below a directory.
fn collect(dir: &Path, into: &mut BTreeSet<String>) -> Result<()> {
    for entry in std::fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, into)?;
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = std::fs::read_to_string(&path)?;
            into.extend(text.split("fn ").skip(1).map(name_at_start).filter(|name| !name.is_empty()));
        }
    }
    Ok(())
}

fn name_at_start(text: &str) -> String {
    text.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_told_from_other_code_in_a_page() {
        let page = "`t01_it_is_so` in `Cargo.lock`, `sandbox.mode`, `HTTP_PROXY` and `external_directory`";
        assert_eq!(named(page).collect::<Vec<_>>(), ["t01_it_is_so"]);
    }
}
