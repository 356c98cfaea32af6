//! `convoke board`: the tasks that a tree of sessions shares (C7).

use super::block_on;
use crate::failure::Failure;
use crate::home::Home;
use crate::local;
use crate::patience;
use crate::reach::reach;
use crate::terminal;
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser as _;
use proto::methods::{
    BoardAdd, BoardAddInput, BoardClaim, BoardClaimInput, BoardList, BoardListInput, BoardPage, BoardUpdate,
    BoardUpdateInput, Method, Selector, SessionsResolve,
};
use proto::{BoardTask, Code, Error, RunId, TaskState};
use serde_json::json;

/// Show and change the board: the tasks that a session and everything below it share
///
/// Of the newest session of this directory, unless another is named. What you claim is yours until you change its state;
/// what a session claims is free again when that session ends.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Any session of the tree: an id (or its last 4 characters), a key, a name or a label
    #[arg(long, short, value_name = "REF", global = true)]
    session: Option<String>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List the tasks; the same as no command
    List(List),
    /// Put a task on the board
    Add(Add),
    /// Change a task
    Update(Update),
    /// Take a task; the first that is free without a number
    Claim(Claim),
}

#[derive(clap::Args, Default)]
struct List {
    /// Only tasks in this state; several are possible
    #[arg(long = "state", value_name = "STATE", value_parser = state())]
    states: Vec<TaskState>,
    /// Only tasks of this owner: a session's id, or `person`
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,
    /// How many to show, at most 200
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Go on where the page before ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

#[derive(clap::Args)]
struct Add {
    /// What is to be done, in one line
    #[arg(value_name = "TITLE", required = true)]
    title: Vec<String>,
    /// All that whoever takes it needs to know
    #[arg(long, short, value_name = "TEXT", default_value = "", hide_default_value = true)]
    description: String,
    /// A task that must be done first; several are possible
    #[arg(long, value_name = "N", value_delimiter = ',')]
    blocked_by: Vec<u64>,
}

#[derive(clap::Args)]
struct Update {
    /// The task's number
    #[arg(value_name = "N")]
    number: u64,
    /// Refuse if the task has changed since this version
    #[arg(long = "if-version", value_name = "V")]
    version: Option<u64>,
    /// `in_progress` claims it, `pending` gives it back
    #[arg(long, value_name = "STATE", value_parser = state())]
    state: Option<TaskState>,
    /// A word on how it stands; an empty one takes the old one away
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// A new title
    #[arg(long, value_name = "TITLE")]
    title: Option<String>,
    /// A new description
    #[arg(long, short, value_name = "TEXT")]
    description: Option<String>,
    /// All tasks that must be done first; several are possible
    #[arg(long, value_name = "N", value_delimiter = ',')]
    blocked_by: Option<Vec<u64>>,
}

#[derive(clap::Args)]
struct Claim {
    /// The task's number
    #[arg(value_name = "N")]
    number: Option<u64>,
}

fn state() -> impl clap::builder::TypedValueParser<Value = TaskState> {
    let words = PossibleValuesParser::new(TaskState::ALL.map(TaskState::as_str));
    words.try_map(|word| TaskState::ALL.into_iter().find(|state| state.as_str() == word).ok_or("no such state"))
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    let home = Home::open()?;
    let changed = match args.command.unwrap_or_else(|| Command::List(List::default())) {
        Command::List(list) => return show(&home, args.session, list, args.json),
        Command::Add(task) => block_on(add(&home, args.session, task))?,
        Command::Update(change) => block_on(update(&home, args.session, change))?,
        Command::Claim(claim) => block_on(take(&home, args.session, claim))?,
    };
    if args.json {
        terminal::print_json(&changed);
    } else {
        terminal::print(&terminal::table(&HEAD, &[row(&changed)], &CUT));
    }
    Ok(0)
}

const HEAD: [&str; 5] = ["TASK", "STATE", "OWNER", "TITLE", "WAITS FOR"];
const CUT: [&str; 1] = ["TITLE"];

fn show(home: &Home, session: Option<String>, list: List, as_json: bool) -> Result<u8, Failure> {
    let named = session.is_some();
    let page = match block_on(read(home, session, list)) {
        Ok(page) => Some(page),
        // A directory in which nothing was started is no mistake of the caller.
        Err(failure) if !named && failure.error.code == Code::NotFound => None,
        Err(failure) => return Err(failure),
    };
    match page {
        Some(page) if as_json => terminal::print_json(&page),
        Some(page) => print(&page),
        None if as_json => terminal::print_json(&json!({ "root": null, "count": 0, "tasks": [] })),
        None => terminal::say("no session was started in this directory yet, so there is no board"),
    }
    Ok(0)
}

async fn read(home: &Home, session: Option<String>, list: List) -> Result<BoardPage, Failure> {
    let session = match session {
        Some(session) => session,
        None => local::read::<SessionsResolve>(home, here()?).await?.session_id.to_string(),
    };
    let List { states, owner, limit, cursor } = list;
    let input = BoardListInput { session: Some(session), states, owner, number: None, limit, cursor };
    local::read::<BoardList>(home, input).await
}

fn print(page: &BoardPage) {
    if page.tasks.is_empty() {
        return terminal::say("the board is empty: `convoke board add TITLE` puts a task on it");
    }
    terminal::print(&terminal::table(&HEAD, &page.tasks.iter().map(row).collect::<Vec<_>>(), &CUT));
    if let Some(cursor) = &page.next_cursor {
        terminal::say(&format!("more: convoke board list --cursor {cursor}"));
    }
}

fn row(task: &BoardTask) -> Vec<String> {
    let owner = task.owner.as_ref().map(|owner| task.owner_name.clone().unwrap_or_else(|| owner.to_string()));
    let waits: Vec<String> = task.waiting_for.iter().map(u64::to_string).collect();
    vec![
        task.number.to_string(),
        task.state.as_str().into(),
        owner.unwrap_or_default(),
        terminal::one_line(&task.title, 60),
        waits.join(", "),
    ]
}

async fn add(home: &Home, session: Option<String>, task: Add) -> Result<BoardTask, Failure> {
    let input = BoardAddInput {
        session: Some(tree(home, session).await?),
        title: task.title.join(" "),
        description: task.description,
        blocked_by: task.blocked_by,
        idempotency_key: once(),
    };
    insist::<BoardAdd>(home, input).await
}

async fn update(home: &Home, session: Option<String>, change: Update) -> Result<BoardTask, Failure> {
    let input = BoardUpdateInput {
        session: Some(tree(home, session).await?),
        number: change.number,
        version: change.version,
        title: change.title,
        description: change.description,
        state: change.state,
        blocked_by: change.blocked_by,
        add_blocked_by: Vec::new(),
        note: change.note,
        idempotency_key: once(),
    };
    insist::<BoardUpdate>(home, input).await
}

async fn take(home: &Home, session: Option<String>, claim: Claim) -> Result<BoardTask, Failure> {
    let session = Some(tree(home, session).await?);
    let input = BoardClaimInput { session, number: claim.number, idempotency_key: once() };
    insist::<BoardClaim>(home, input).await
}

/// Chosen here, so that a second attempt changes nothing twice.
fn once() -> Option<String> {
    Some(RunId::new().to_string())
}

/// The tree that is meant, by one of its sessions.
async fn tree(home: &Home, session: Option<String>) -> Result<String, Failure> {
    match session {
        Some(session) => Ok(session),
        None => Ok(insist::<SessionsResolve>(home, here()?).await?.session_id.to_string()),
    }
}

fn here() -> Result<Selector, Failure> {
    let directory = std::env::current_dir().and_then(|directory| directory.canonicalize());
    let directory = directory.ok().and_then(|directory| directory.into_os_string().into_string().ok());
    let directory = directory.ok_or_else(|| {
        Error::invalid("this directory cannot be named").hint("name a session of the tree with `--session`")
    })?;
    Ok(Selector { newest_in: Some(directory), ..Selector::default() })
}

async fn insist<M: Method>(home: &Home, input: M::Input) -> Result<M::Output, Failure>
where
    M::Input: Clone,
{
    patience::insist::<M>(home, &mut reach(home).await?, input).await
}
