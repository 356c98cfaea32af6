//! `cargo xtask docs`: pages that are made from the code.

use anyhow::{Context, Result, ensure};
use std::path::Path;

const CONFIG: &str = "docs/config.md";

/// Writes them anew.
pub(crate) fn write(root: &Path) -> Result<()> {
    std::fs::write(root.join(CONFIG), config::reference()).with_context(|| format!("cannot write {CONFIG}"))
}

/// Whether they say what the code does.
pub(crate) fn check(root: &Path) -> Result<()> {
    let kept = std::fs::read_to_string(root.join(CONFIG)).with_context(|| format!("cannot read {CONFIG}"))?;
    ensure!(kept == config::reference(), "{CONFIG} is older than the code: run `cargo xtask docs`");
    Ok(())
}
