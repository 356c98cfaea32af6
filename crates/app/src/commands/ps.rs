//! `convoke ps`: the sessions there are (S4).

use super::block_on;
use crate::failure::Failure;
use crate::home::{Home, current};
use crate::local::read;
use crate::{duration, terminal};
use proto::Status;
use proto::methods::{ListInput, SessionInfo, SessionsList};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// List sessions, newest activity first
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// How many to show, at most 200
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Go on where the page before ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    /// Only sessions of this agent
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Only the session with this label
    #[arg(long, value_name = "LABEL")]
    label: Option<String>,
    /// Only sessions that go by this name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Only sessions in one of these states
    #[arg(long, value_name = "STATUS", value_delimiter = ',', value_parser = status)]
    status: Vec<Status>,
    /// Only sessions that are at work
    #[arg(long, conflicts_with = "status")]
    busy: bool,
    /// Only sessions that did something in this time, such as 30m or 2d
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    active: Option<Duration>,
    /// Only sessions in this directory or below it
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Only sessions in the current directory or below it
    #[arg(long, conflicts_with = "dir")]
    here: bool,
    /// Only children of this session
    #[arg(long, value_name = "REF")]
    children_of: Option<String>,
}

fn status(text: &str) -> Result<Status, String> {
    Status::parse(&text.trim().to_ascii_lowercase()).ok_or_else(|| {
        let all: Vec<&str> = Status::ALL.iter().map(|status| status.as_str()).collect();
        format!("use one of: {}", all.join(", "))
    })
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    let home = Home::open()?;
    let as_json = args.json;
    let list = block_on(read::<SessionsList>(&home, args.input()?))?;
    if as_json {
        terminal::print_json(&list);
        return Ok(0);
    }
    let user = home.env.home();
    let rows: Vec<Vec<String>> = list.sessions.iter().map(|session| row(session, user.as_deref())).collect();
    let (head, rows) = filled(rows);
    terminal::print(&terminal::table(&head, &rows, &["NAME", "LABEL", "DIRECTORY", "TITLE"]));
    if let Some(cursor) = list.next_cursor {
        terminal::say(&format!("more: convoke ps --cursor {cursor}"));
    }
    Ok(0)
}

impl Args {
    fn input(self) -> Result<ListInput, Failure> {
        let busy = Status::ALL.into_iter().filter(|status| status.is_busy());
        let dir = if self.here { Some(current()?) } else { self.dir };
        // Sessions know their directory free of symlinks.
        let dir = dir.map(|dir| dir.canonicalize().unwrap_or(dir).to_string_lossy().into_owned());
        let minutes = |time: Duration| u32::try_from(time.as_secs().div_ceil(60)).unwrap_or(u32::MAX);
        Ok(ListInput {
            limit: self.limit,
            cursor: self.cursor,
            agent_id: self.agent,
            label: self.label,
            name: self.name,
            status: if self.busy { busy.collect() } else { self.status },
            active_minutes: self.active.map(minutes),
            cwd: dir,
            spawned_by: self.children_of,
            ..ListInput::default()
        })
    }
}

const HEAD: [&str; 10] = ["STATUS", "SESSION", "AGENT", "NAME", "LABEL", "AGE", "TOKENS", "COST", "DIRECTORY", "TITLE"];

/// Columns that no session has something for are left out.
fn filled(rows: Vec<Vec<String>>) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let optional = |at: usize| matches!(HEAD[at], "NAME" | "LABEL" | "COST" | "TITLE");
    let keeps: Vec<bool> =
        (0..HEAD.len()).map(|at| !optional(at) || rows.iter().any(|row| !row[at].is_empty())).collect();
    let kept =
        |row: Vec<String>| row.into_iter().zip(&keeps).filter(|(_, keeps)| **keeps).map(|(cell, _)| cell).collect();
    let head = HEAD.into_iter().zip(&keeps).filter(|(_, keeps)| **keeps).map(|(head, _)| head).collect();
    (head, rows.into_iter().map(kept).collect())
}

fn row(session: &SessionInfo, user: Option<&Path>) -> Vec<String> {
    let text = |text: &Option<String>, width| terminal::one_line(text.as_deref().unwrap_or_default(), width);
    vec![
        session.status.as_str().into(),
        session.short_id.clone().unwrap_or_else(|| session.session_id.to_string()),
        session.agent.clone(),
        text(&session.name, 40),
        text(&session.label, 40),
        duration::rough(duration::now() - session.created_at),
        session.total_tokens.to_string(),
        cost(session.estimated_cost_usd),
        directory(&session.cwd, user),
        text(&session.title, 60),
    ]
}

fn cost(usd: f64) -> String {
    match usd {
        0.0 => String::new(),
        usd if usd < 0.01 => "<$0.01".into(),
        usd => format!("${usd:.2}"),
    }
}

/// Below the user's home as they write it.
fn directory(cwd: &str, user: Option<&Path>) -> String {
    match user.and_then(|user| Path::new(cwd).strip_prefix(user).ok()) {
        Some(below) if below.as_os_str().is_empty() => "~".into(),
        Some(below) => format!("~/{}", below.display()),
        None => cwd.to_owned(),
    }
}
