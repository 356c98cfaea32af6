//! `convoke answer`: says what a model wants to know.

use super::block_on;
use crate::failure::Failure;
use crate::home::Home;
use crate::local::read;
use crate::reach::reach;
use crate::show::{self, Style};
use crate::terminal::Paint;
use crate::{duration, terminal};
use proto::Error;
use proto::methods::{AsksInput, QuestionAnswer, QuestionInfo, QuestionsList, QuestionsReply};
use serde_json::json;

/// Answer what an agent wants to know
///
/// Without an id the only open question is meant; without words the open ones are shown. The words answer one question:
/// a number of an option, its label, or words of your own, with commas where several can be chosen. Of several questions
/// each takes one argument.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which question, and the answer to it
    #[arg(value_name = "[ID] TEXT")]
    words: Vec<String>,
    /// Give no answer: the agent is told so, with TEXT as the reason
    #[arg(long)]
    reject: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    let home = Home::open()?;
    if args.words.is_empty() && !args.reject {
        let open = block_on(read::<QuestionsList>(&home, AsksInput::default()))?.questions;
        print(&open, Paint::stdout(home.plain()), args.json);
        return Ok(0);
    }
    let answer = block_on(send(&home, &args))?;
    if args.json {
        terminal::print_json(&json!({ "id": answer.id, "answers": answer.answers, "reject": answer.reject }));
    }
    Ok(0)
}

async fn send(home: &Home, args: &Args) -> Result<QuestionAnswer, Failure> {
    let client = reach(home).await?;
    let open = client.call::<QuestionsList>(AsksInput::default()).await?.questions;
    let (asked, words) = choose(&open, &args.words)?;
    let answer = if args.reject {
        let message = (!words.is_empty()).then(|| words.join(" "));
        QuestionAnswer { id: asked.id.clone(), answers: Vec::new(), reject: true, message }
    } else {
        QuestionAnswer { id: asked.id.clone(), answers: answers(asked, words)?, reject: false, message: None }
    };
    client.call::<QuestionsReply>(answer.clone()).await?;
    Ok(answer)
}

/// The question that is meant, and the words that answer it.
fn choose<'a>(open: &'a [QuestionInfo], words: &'a [String]) -> Result<(&'a QuestionInfo, &'a [String]), Error> {
    if let Some((id, rest)) = words.split_first().filter(|(first, _)| first.starts_with("ask_")) {
        let mut meant = open.iter().filter(|asked| asked.id.as_str().starts_with(id.as_str()));
        return match (meant.next(), meant.next()) {
            (Some(one), None) => Ok((one, rest)),
            (None, _) => Err(Error::not_found(format!("no open question is `{id}`")).hint(SHOWS)),
            (Some(_), Some(_)) => Err(Error::invalid(format!("several open questions begin with `{id}`")).hint(SHOWS)),
        };
    }
    match open {
        [one] => Ok((one, words)),
        [] => Err(Error::not_found("nothing is asked")),
        many => Err(Error::invalid(format!("{} questions are open", many.len())).hint(format!("name one; {SHOWS}"))),
    }
}

const SHOWS: &str = "`convoke answer` shows the open ones";

fn answers(asked: &QuestionInfo, words: &[String]) -> Result<Vec<Vec<String>>, Error> {
    match asked.questions.as_slice() {
        [one] => Ok(vec![one.understood(&words.join(" "))]),
        many if many.len() == words.len() => {
            Ok(many.iter().zip(words).map(|(question, text)| question.understood(text)).collect())
        }
        many => Err(Error::invalid(format!("there are {} questions, and {} answers", many.len(), words.len()))
            .hint("give one argument for each, in quotes where it has blanks")),
    }
}

fn print(open: &[QuestionInfo], paint: Paint, json: bool) {
    if json {
        terminal::print_json(&json!({ "questions": open }));
        return;
    }
    if open.is_empty() {
        terminal::say("nothing is asked");
    }
    for asked in open {
        let left = duration::rough(asked.until - duration::now());
        let who = show::ask::session(&asked.path, &asked.agent);
        terminal::print(&format!("{} of {who}, open for {left}", asked.id));
        for line in asked.questions.iter().flat_map(|question| show::ask::question("", question)) {
            terminal::print(&paint.line(&line.behind(Style::Plain, "  ")));
        }
    }
}

/// A line among all that waits for a person.
pub(super) fn line(asked: &QuestionInfo) -> String {
    let texts: Vec<&str> = asked.questions.iter().map(|question| question.question.as_str()).collect();
    let (texts, left) = (terminal::one_line(&texts.join(" / "), 200), duration::rough(asked.until - duration::now()));
    let who = show::ask::session(&asked.path, &asked.agent);
    format!("{} of {who} has a question, open for {left}\n    {texts}", asked.id)
}
