//! `convoke approve`: answers what an agent asked.

use super::block_on;
use crate::failure::Failure;
use crate::home::Home;
use crate::local::read;
use crate::reach::reach;
use crate::show::{self, Line};
use crate::terminal::Paint;
use crate::{duration, terminal};
use proto::letter::AskReply;
use proto::methods::{
    AskAnswer, AskInfo, AskInput, AsksInput, PermissionsGet, PermissionsList, PermissionsReply, QuestionInfo,
    QuestionsList,
};
use proto::{AskId, Error};
use serde_json::json;

/// Answer a permission request: once, always or reject
///
/// Without an id the only open request is answered. Without an answer the open ones are listed, and an id alone shows
/// that one in full. `always` applies in this project until `convoke permissions revoke`, and overrides no deny.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which request, and the answer to it
    #[arg(value_name = "[ID] once|always|reject", num_args = 0..=2)]
    words: Vec<String>,
    /// With `always`: which of the listed choices to keep, counted from 0 [default: 0]
    #[arg(long, value_name = "INDEX")]
    keep: Option<u32>,
    /// What to tell the model with a rejection
    #[arg(long, value_name = "MESSAGE")]
    message: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    let home = Home::open()?;
    let (id, reply) = match args.words.as_slice() {
        [] => {
            let (asks, questions) = block_on(open(&home))?;
            list(&asks, &questions, Paint::stdout(home.plain()), args.json);
            return Ok(0);
        }
        [id] if id.starts_with("ask_") => {
            let ask = block_on(whole(&home, id))?;
            if args.json {
                terminal::print_json(&ask);
            } else {
                show(&ask, Paint::stdout(home.plain()), &show::ask::whole(&ask));
            }
            return Ok(0);
        }
        [reply] => (None, answer(reply)?),
        [id, reply, ..] => (Some(id.as_str()), answer(reply)?),
    };
    if args.keep.is_some() && reply != AskReply::Always {
        return Err(Error::invalid("`--keep` goes with `always`").hint("leave it out, or answer `always`").into());
    }
    if args.message.is_some() && reply != AskReply::Reject {
        return Err(Error::invalid("`--message` goes with a rejection")
            .hint("leave it out, or answer `reject`")
            .into());
    }
    let ask_id = block_on(send(&home, id, (reply, args.keep), args.message))?;
    if args.json {
        terminal::print_json(&json!({ "askId": ask_id, "reply": reply }));
    }
    Ok(0)
}

fn answer(word: &str) -> Result<AskReply, Error> {
    match word {
        "once" => Ok(AskReply::Once),
        "always" => Ok(AskReply::Always),
        "reject" => Ok(AskReply::Reject),
        other => Err(Error::invalid(format!("`{other}` is no answer")).hint("answer `once`, `always` or `reject`")),
    }
}

fn word(reply: AskReply) -> &'static str {
    match reply {
        AskReply::Once => "once",
        AskReply::Always => "always",
        AskReply::Reject => "reject",
    }
}

/// One request with everything that is known about it, by its id or the beginning of one.
async fn whole(home: &Home, id: &str) -> Result<AskInfo, Failure> {
    let asks = read::<PermissionsList>(home, AsksInput::default()).await?.asks;
    let ask_id = match choose(&asks, Some(id)) {
        Ok(open) => open,
        // One that was answered is found by its whole id.
        Err(error) => AskId::parse(id).map_err(|_| error)?,
    };
    read::<PermissionsGet>(home, AskInput { ask_id }).await
}

/// All that waits for a person.
async fn open(home: &Home) -> Result<(Vec<AskInfo>, Vec<QuestionInfo>), Failure> {
    let asks = read::<PermissionsList>(home, AsksInput::default()).await?.asks;
    Ok((asks, read::<QuestionsList>(home, AsksInput::default()).await?.questions))
}

async fn send(
    home: &Home,
    id: Option<&str>,
    (reply, keep): (AskReply, Option<u32>),
    message: Option<String>,
) -> Result<AskId, Failure> {
    let client = reach(home).await?;
    let asks = client.call::<PermissionsList>(AsksInput::default()).await?.asks;
    let ask_id = choose(&asks, id)?;
    client.call::<PermissionsReply>(AskAnswer { ask_id: ask_id.clone(), reply, keep, message }).await?;
    Ok(ask_id)
}

/// The question that is meant: by its id or the beginning of one, or the only one there is.
fn choose(asks: &[AskInfo], id: Option<&str>) -> Result<AskId, Error> {
    let meant: Vec<&AskInfo> =
        asks.iter().filter(|ask| id.is_none_or(|id| ask.ask_id.as_str().starts_with(id))).collect();
    match (meant.as_slice(), id) {
        ([one], _) => Ok(one.ask_id.clone()),
        ([], Some(id)) => Err(Error::not_found(format!("no open question is `{id}`")).hint(SHOWS)),
        ([], None) => Err(Error::not_found("nothing is asked")),
        (many, _) => {
            let row = |ask: &&AskInfo| format!("{} ({} of {})", ask.ask_id, ask.permission, show::ask::who(ask));
            let which = many.iter().map(row).collect::<Vec<_>>().join(", ");
            let what = format!("{} questions are open", many.len());
            Err(Error::invalid(what).hint(format!("name one: {which}; {SHOWS}")))
        }
    }
}

const SHOWS: &str = "`convoke approve` shows the open ones";

/// A request, and what can be kept of it.
fn show(ask: &AskInfo, paint: Paint, lines: &[Line]) {
    let state = match ask.reply {
        Some(reply) => format!("answered with `{}`", word(reply)),
        None => format!("open for {}", duration::rough(ask.until - duration::now())),
    };
    terminal::print(&format!("{} {state}", ask.ask_id));
    lines.iter().for_each(|line| terminal::print(&paint.line(line)));
    for (keep, at) in ask.keeps.iter().zip(0..) {
        let which = if ask.keeps.len() > 1 { format!(" --keep {at}") } else { String::new() };
        terminal::print(&format!("  always{which}, in its project: {}", show::ask::kept(&ask.permission, keep)));
    }
}

fn list(asks: &[AskInfo], questions: &[QuestionInfo], paint: Paint, json: bool) {
    if json {
        terminal::print_json(&json!({ "asks": asks, "questions": questions }));
        return;
    }
    if asks.is_empty() && questions.is_empty() {
        terminal::say("nothing is asked");
        return;
    }
    asks.iter().for_each(|ask| show(ask, paint, &show::ask::lines(ask)));
    questions.iter().for_each(|asked| terminal::print(&super::answer::line(asked)));
    if !asks.is_empty() {
        terminal::say("answer one with `convoke approve ASK once|always|reject`");
    }
    if !questions.is_empty() {
        terminal::say("answer a question with `convoke answer ASK TEXT`");
    }
}
