//! `cargo xtask test`.
pub(crate) fn main() -> anyhow::Result<()> {
    Ok(())
}
