//! `convoke mail`: what sessions write to each other, and what is held for a person (C3).

use super::block_on;
use crate::failure::Failure;
use crate::home::Home;
use crate::local::read;
use crate::reach::reach;
use crate::terminal;
use proto::methods::{
    AcceptInput, MailState, MessageRow, MessagesAccept, MessagesInput, MessagesList, MessagesOutput, MessagesRefuse,
    RefuseInput,
};
use proto::{Error, LetterId};

/// List mail between sessions, and let in or refuse what is held
///
/// Mail from elsewhere is held where the settings say so, until you decide or a day has passed.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List mail, newest first; the same as no command
    List(List),
    /// Show a message with its whole text
    Show(Show),
    /// Let a held message in
    Accept(Accept),
    /// Keep a held message out for good
    Refuse(Refuse),
}

#[derive(clap::Args, Default)]
struct List {
    /// Only mail in this state
    #[arg(long, value_name = "STATE", value_enum)]
    state: Option<State>,
    /// Only mail to or from this session: an id (or its last 4 characters), a key, a name or a label
    #[arg(long, short, value_name = "REF")]
    session: Option<String>,
    /// How many to show, at most 200
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Go on where the page before ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum State {
    /// Waits for you to decide
    Held,
    /// In the receiver's inbox
    Queued,
    /// In the receiver's log
    Delivered,
    Refused,
    /// Not decided in time
    Expired,
    /// The other gateway did not answer for a day
    Unreachable,
}

#[derive(clap::Args)]
struct Show {
    /// The message
    #[arg(value_name = "ID")]
    id: String,
}

#[derive(clap::Args)]
struct Accept {
    /// The message
    #[arg(value_name = "ID")]
    id: String,
}

#[derive(clap::Args)]
struct Refuse {
    /// The message
    #[arg(value_name = "ID")]
    id: String,
    /// Why, kept with it
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    let home = Home::open()?;
    let decided = match args.command.unwrap_or_else(|| Command::List(List::default())) {
        Command::List(list) => return show(&home, list, args.json),
        Command::Show(show) => return show_one(&home, message(&show.id)?, args.json),
        Command::Accept(accept) => {
            let input = AcceptInput { id: message(&accept.id)? };
            block_on(async { Ok(reach(&home).await?.call::<MessagesAccept>(input).await?) })?
        }
        Command::Refuse(refuse) => {
            let input = RefuseInput { id: message(&refuse.id)?, reason: refuse.reason };
            block_on(async { Ok(reach(&home).await?.call::<MessagesRefuse>(input).await?) })?
        }
    };
    if args.json {
        terminal::print_json(&decided);
    } else {
        terminal::print(&terminal::table(&HEAD, &[row(&decided)], &CUT));
    }
    Ok(0)
}

fn message(text: &str) -> Result<LetterId, Failure> {
    let id = LetterId::parse(text.trim());
    Ok(id.map_err(|error| Error::invalid(error.to_string()).hint("`convoke mail --json` shows the ids"))?)
}

fn show_one(home: &Home, id: LetterId, as_json: bool) -> Result<u8, Failure> {
    let page = block_on(read::<MessagesList>(home, MessagesInput { id: Some(id), ..MessagesInput::default() }))?;
    let Some(message) = page.messages.first() else { return Ok(0) };
    if as_json {
        terminal::print_json(message);
        return Ok(0);
    }
    let heading = [
        ("from", Some(who(message.from_name.as_deref(), &message.from))),
        ("to", Some(who(message.to_name.as_deref(), &message.to))),
        ("kind", message.kind.clone()),
        ("state", Some(state(message.state).into())),
        ("reason", message.reason.clone()),
        ("summary", message.summary.clone()),
    ];
    for (name, value) in heading.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        terminal::print(&format!("{name:<8} {}", terminal::one_line(&value, 1_000)));
    }
    match &message.text {
        Some(text) => terminal::print(&format!("\n{text}")),
        None => terminal::say("the text of this message is not kept any more (`limits.mailDays`)"),
    }
    Ok(0)
}

/// A session by its name, with what it is told apart by.
fn who(name: Option<&str>, id: &str) -> String {
    name.map_or_else(|| id.to_owned(), |name| format!("{name} ({id})"))
}

fn show(home: &Home, list: List, as_json: bool) -> Result<u8, Failure> {
    let input = MessagesInput {
        state: list.state.map(Into::into),
        session: list.session,
        limit: list.limit,
        cursor: list.cursor,
        ..MessagesInput::default()
    };
    let page = block_on(read::<MessagesList>(home, input))?;
    if as_json {
        terminal::print_json(&page);
    } else {
        print(&page);
    }
    Ok(0)
}

const HEAD: [&str; 5] = ["STATE", "FROM", "TO", "MESSAGE", "TEXT"];
const CUT: [&str; 1] = ["TEXT"];

fn print(page: &MessagesOutput) {
    if page.messages.is_empty() {
        return terminal::say("there is no such mail");
    }
    terminal::print(&terminal::table(&HEAD, &page.messages.iter().map(row).collect::<Vec<_>>(), &CUT));
    if let Some(cursor) = &page.next_cursor {
        terminal::say(&format!("more: convoke mail list --cursor {cursor}"));
    }
}

fn state(state: MailState) -> &'static str {
    match state {
        MailState::Queued => "queued",
        MailState::Delivered => "delivered",
        MailState::Held => "held",
        MailState::Refused => "refused",
        MailState::Expired => "expired",
        MailState::Unreachable => "unreachable",
    }
}

fn row(message: &MessageRow) -> Vec<String> {
    let texts = [&message.summary, &message.text, &message.reason];
    let text = texts.into_iter().find_map(|text| text.as_deref()).unwrap_or_default();
    vec![
        state(message.state).into(),
        terminal::one_line(message.from_name.as_deref().unwrap_or(&message.from), 50),
        terminal::one_line(message.to_name.as_deref().unwrap_or(&message.to), 50),
        message.id.to_string(),
        terminal::one_line(text, 60),
    ]
}

impl From<State> for MailState {
    fn from(state: State) -> Self {
        match state {
            State::Held => Self::Held,
            State::Queued => Self::Queued,
            State::Delivered => Self::Delivered,
            State::Refused => Self::Refused,
            State::Expired => Self::Expired,
            State::Unreachable => Self::Unreachable,
        }
    }
}
