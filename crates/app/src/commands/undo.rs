//! `convoke undo` and `convoke redo`: what a session did is taken back, or that is.

use super::block_on;
use crate::failure::{Failure, cannot};
use crate::home::Home;
use crate::patience::insist;
use crate::reach::reach;
use crate::terminal::{self, flat};
use proto::methods::{
    Method, RedoInput, Selector, SessionsRedo, SessionsResolve, SessionsUndo, UndoInput, UndoOutput, What,
};
use proto::{FileState, FileUndone, LetterId};
use std::path::Path;

/// Take back what a session did since you last said something
///
/// Only files that the session itself changed are put back, and what others changed in them since stays. What a command
/// of the shell did stays too; it is listed. The history shows the conversation as it was then. `convoke redo` takes this
/// back.
#[derive(clap::Args)]
pub(crate) struct UndoArgs {
    #[command(flatten)]
    common: Common,
    /// Back to where this entry was the newest, as `convoke history` numbers them
    #[arg(long, value_name = "SEQ")]
    to: Option<u64>,
}

/// Take the newest undo back, unless something was said since
#[derive(clap::Args)]
pub(crate) struct RedoArgs {
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args)]
struct Common {
    /// The session: an id (or its last 4 characters), a key, a name or a label; the newest of this directory without one
    #[arg(value_name = "REF")]
    reference: Option<String>,
    /// Only the files
    #[arg(long, group = "what")]
    files: bool,
    /// Only what was said
    #[arg(long, group = "what")]
    conversation: bool,
    /// Both, as without this
    #[arg(long, group = "what")]
    both: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Common {
    fn what(&self) -> What {
        match (self.files, self.conversation) {
            (true, _) => What::Files,
            (_, true) => What::Conversation,
            _ => What::Both,
        }
    }
}

pub(crate) fn undo(args: UndoArgs) -> Result<u8, Failure> {
    let (what, to) = (args.common.what(), args.to);
    let input = |reference, key| UndoInput { reference, to, what, idempotency_key: Some(key) };
    take_back::<SessionsUndo>(&args.common, "undone", input)
}

pub(crate) fn redo(args: RedoArgs) -> Result<u8, Failure> {
    let what = args.common.what();
    let input = |reference, key| RedoInput { reference, what, idempotency_key: Some(key) };
    take_back::<SessionsRedo>(&args.common, "redone", input)
}

fn take_back<M: Method<Output = UndoOutput>>(
    args: &Common,
    word: &str,
    input: impl Fn(String, String) -> M::Input,
) -> Result<u8, Failure>
where
    M::Input: Clone,
{
    let home = Home::open()?;
    let here = std::env::current_dir()
        .and_then(|here| here.canonicalize())
        .map_err(|error| cannot("find the current directory", &error))?;
    let done = block_on(async {
        let mut client = reach(&home).await?;
        let session = match &args.reference {
            Some(reference) => reference.clone(),
            None => {
                let newest_in = Some(here.display().to_string());
                let newest = Selector { newest_in, ..Selector::default() };
                client.call::<SessionsResolve>(newest).await?.session_id.to_string()
            }
        };
        let key = LetterId::new().to_string();
        // Whether it was done or not: the same key again does it once.
        insist::<M>(&home, &mut client, input(session, key)).await
    })?;
    if args.json {
        terminal::print_json(&done);
    } else {
        show(&done, word, &here);
    }
    Ok(0)
}

fn show(done: &UndoOutput, word: &str, here: &Path) {
    done.files.iter().for_each(|file| terminal::print(&line(file, here)));
    if done.files.is_empty() {
        terminal::print("no files to put back");
    }
    if let Some(talked) = done.conversation {
        let messages = talked.removed.or(talked.restored).unwrap_or(0);
        terminal::print(&format!("{word}: {messages} messages after entry {}", done.to));
    }
    for call in &done.not_undone {
        let input = terminal::one_line(&call.input.to_string(), 100);
        terminal::say(&format!("not {word}: {} {input} (entry {}): what it did stays", call.tool, call.seq));
    }
}

fn line(file: &FileUndone, here: &Path) -> String {
    let path = Path::new(&file.path);
    let shown = flat(&path.strip_prefix(here).unwrap_or(path).display().to_string());
    let state = match file.state {
        FileState::Restored => "restored",
        FileState::Merged => "merged",
        FileState::Removed => "removed",
        FileState::Recreated => "recreated",
        FileState::Conflict => "conflict",
        FileState::Skipped => "skipped",
    };
    let reason = file.reason.as_ref().map(|why| format!(": {}", flat(why))).unwrap_or_default();
    format!("{state:<9} {shown}{reason}")
}
