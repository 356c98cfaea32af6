//! `convoke worktrees`: separate checkouts of a repository, and what removed ones held (C9).

use super::block_on;
use crate::failure::{Failure, cannot};
use crate::home::Home;
use crate::local::read;
use crate::reach::reach;
use crate::terminal;
use clap::Subcommand;
use proto::methods::{
    WorktreeInput, WorktreeRemoval, WorktreesInput, WorktreesList, WorktreesOutput, WorktreesRemove, WorktreesRestore,
};
use std::path::PathBuf;

/// List the worktrees of this repository, remove one, or bring a removed one back
///
/// Whatever is removed is kept as a snapshot for 30 days.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    /// In this directory instead of the current one
    #[arg(short = 'C', long = "dir", value_name = "DIR", global = true)]
    directory: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Action {
    /// List worktrees and snapshots; the same as without a word
    List,
    /// Bring a removed worktree back as it was
    Restore {
        /// A snapshot, or a worktree whose newest snapshot is meant
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Remove a worktree with its branch, after a snapshot
    Remove {
        /// The worktree
        #[arg(value_name = "NAME")]
        name: String,
        /// Also with uncommitted files, or commits that are not on the original branch
        #[arg(long)]
        discard_changes: bool,
    },
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    let home = Home::open()?;
    let cwd = Some(directory(args.directory)?);
    block_on(async {
        match args.action.unwrap_or(Action::List) {
            Action::List => {
                let list = read::<WorktreesList>(&home, WorktreesInput { cwd }).await?;
                if args.json { terminal::print_json(&list) } else { show(&list) }
            }
            Action::Restore { name } => {
                let restored = reach(&home).await?.call::<WorktreesRestore>(WorktreeInput { name, cwd }).await?;
                match args.json {
                    true => terminal::print_json(&restored),
                    false => terminal::print(&restored.path),
                }
            }
            Action::Remove { name, discard_changes } => {
                let removal = WorktreeRemoval { name, cwd, discard_changes };
                let removed = reach(&home).await?.call::<WorktreesRemove>(removal).await?;
                match args.json {
                    true => terminal::print_json(&removed),
                    false => {
                        let snapshot = &removed.snapshot.name;
                        terminal::say(&format!("removed; bring it back with: convoke worktrees restore {snapshot}"));
                    }
                }
            }
        }
        Ok(0)
    })
}

fn directory(wanted: Option<PathBuf>) -> Result<String, Failure> {
    let here = std::env::current_dir().map_err(|error| cannot("find the current directory", &error))?;
    Ok(wanted.map_or(here.clone(), |wanted| here.join(wanted)).to_string_lossy().into_owned())
}

fn show(list: &WorktreesOutput) {
    let trees: Vec<Vec<String>> = list
        .worktrees
        .iter()
        .map(|tree| {
            let branch = tree.branch.clone().unwrap_or_else(|| tree.head.chars().take(12).collect());
            vec![tree.state.clone(), tree.name.clone(), branch, tree.path.clone()]
        })
        .collect();
    terminal::print(&terminal::table(
        &["STATE", "WORKTREE", "BRANCH", "PATH"],
        &trees,
        &["WORKTREE", "BRANCH", "PATH"],
    ));
    for tree in list.worktrees.iter().filter(|tree| ["orphan", "missing", "unfinished"].contains(&tree.state.as_str()))
    {
        terminal::say(&format!("`{}`: {}", tree.name, tree.hint));
    }
    if !list.snapshots.is_empty() {
        let rows: Vec<Vec<String>> = list.snapshots.iter().map(|s| vec![s.name.clone(), s.worktree.clone()]).collect();
        terminal::print(&format!("\n{}", terminal::table(&["SNAPSHOT", "OF"], &rows, &["OF"])));
        terminal::say("bring one back with: convoke worktrees restore NAME");
    }
}
