//! `cargo xtask crash`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many kills.
    #[arg(long, default_value_t = 60)]
    points: u32,
}
pub(crate) fn main(args: Args) -> anyhow::Result<()> {
    let _ = args.points;
    Ok(())
}
