//! `convoke tools`: what a model is shown.

use super::block_on;
use crate::failure::Failure;
use crate::home::{self, Home};
use crate::local::read;
use crate::terminal;
use proto::methods::{ToolInfo, ToolsInput, ToolsList};

/// List the tools an agent is shown here, and why it is not shown others
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The agent; the default one without it
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// As this session is shown them: an id (or its last 4 characters), a key, a name or a label
    #[arg(short, long, value_name = "REF", conflicts_with = "agent")]
    session: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    let home = Home::here()?;
    home.warn();
    let cwd = args.session.is_none().then(home::current).transpose()?.map(|cwd| cwd.display().to_string());
    let list = block_on(read::<ToolsList>(&home, ToolsInput { session: args.session, agent: args.agent, cwd }))?;
    if args.json {
        terminal::print_json(&list);
        return Ok(0);
    }
    let row = |tool: &ToolInfo| {
        let shown = match (&tool.why, tool.deferred) {
            (Some(why), _) => format!("hidden: {why}"),
            (None, true) => "by name".to_owned(),
            (None, false) => "yes".to_owned(),
        };
        vec![tool.name.clone(), tool.permission.clone(), shown, terminal::one_line(&tool.description, 80)]
    };
    let rows: Vec<Vec<String>> = list.tools.iter().map(row).collect();
    terminal::print(&terminal::table(&["TOOL", "PERMISSION", "SHOWN", "FOR"], &rows, &["SHOWN", "FOR"]));
    Ok(0)
}
