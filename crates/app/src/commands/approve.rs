//! `convoke approve`: answers what an agent asked.

use super::{asked, block_on};
use crate::failure::Failure;
use crate::home::Home;
use crate::local::read;
use crate::reach::reach;
use crate::{duration, terminal};
use proto::letter::AskReply;
use proto::methods::{AskAnswer, AskInfo, AsksInput, PermissionsList, PermissionsReply, QuestionInfo, QuestionsList};
use proto::{AskId, Error};
use serde_json::json;

/// Answer a question of an agent: once, always, or reject
///
/// Without an id the only open question is answered; without an answer the open ones are listed. `always` holds in this
/// project until `convoke permissions revoke`, and lifts no deny.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which question, and the answer to it
    #[arg(value_name = "[ID] once|always|reject", num_args = 0..=2)]
    words: Vec<String>,
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
            list(&asks, &questions, args.json);
            return Ok(0);
        }
        [reply] => (None, answer(reply)?),
        [id, reply, ..] => (Some(id.as_str()), answer(reply)?),
    };
    if args.message.is_some() && reply != AskReply::Reject {
        return Err(Error::invalid("`--message` goes with a rejection")
            .hint("leave it out, or answer `reject`")
            .into());
    }
    let ask_id = block_on(send(&home, id, reply, args.message))?;
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

/// All that waits for a person.
async fn open(home: &Home) -> Result<(Vec<AskInfo>, Vec<QuestionInfo>), Failure> {
    let asks = read::<PermissionsList>(home, AsksInput::default()).await?.asks;
    Ok((asks, read::<QuestionsList>(home, AsksInput::default()).await?.questions))
}

async fn send(home: &Home, id: Option<&str>, reply: AskReply, message: Option<String>) -> Result<AskId, Failure> {
    let client = reach(home).await?;
    let asks = client.call::<PermissionsList>(AsksInput::default()).await?.asks;
    let ask_id = choose(&asks, id)?;
    client.call::<PermissionsReply>(AskAnswer { ask_id: ask_id.clone(), reply, message }).await?;
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
            let row = |ask: &&AskInfo| format!("{} ({} of {})", ask.ask_id, ask.permission, ask.agent);
            let which = many.iter().map(row).collect::<Vec<_>>().join(", ");
            let what = format!("{} questions are open", many.len());
            Err(Error::invalid(what).hint(format!("name one: {which}; {SHOWS}")))
        }
    }
}

const SHOWS: &str = "`convoke approve` shows the open ones";

fn list(asks: &[AskInfo], questions: &[QuestionInfo], json: bool) {
    if json {
        terminal::print_json(&json!({ "asks": asks, "questions": questions }));
        return;
    }
    if asks.is_empty() && questions.is_empty() {
        terminal::say("nothing is asked");
        return;
    }
    for ask in asks {
        let left = duration::rough(ask.until - duration::now());
        let (agent, permission) = (terminal::flat(&ask.agent), terminal::flat(&ask.permission));
        terminal::print(&format!("{} of {agent} asks for `{permission}`, open for {left}", ask.ask_id));
        asked::wanted(&ask.patterns).iter().for_each(terminal::print);
        if let Some(kept) = asked::kept(&ask.permission, &ask.rules) {
            terminal::print(&format!("  always, in its project: {kept}"));
        }
    }
    questions.iter().for_each(|asked| terminal::print(&super::answer::line(asked)));
    if !asks.is_empty() {
        terminal::say("answer one with `convoke approve ASK once|always|reject`");
    }
    if !questions.is_empty() {
        terminal::say("answer a question with `convoke answer ASK TEXT`");
    }
}
