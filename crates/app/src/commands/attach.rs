//! `convoke attach`: follows a session and everything below it, until somebody has seen enough.

use super::block_on;
use super::history::show;
use super::run::{Format, Output, event_line};
use crate::failure::{Failure, cannot};
use crate::home::Home;
use crate::reach::reach;
use crate::terminal::{self, Paint};
use client::{Client, Events, Watch};
use proto::entry::Input;
use proto::event::Seen;
use proto::letter::InputPart;
use proto::methods::{ChatHistory, HistoryInput, Resolved, Selector, SessionsResolve};
use proto::{Entry, SessionId};
use serde_json::json;
use std::time::{Duration, Instant};

/// How long a gateway that went away may take to come back. It is not started for this: nothing has to be done.
const LOST: Duration = Duration::from_secs(5);

/// Follow a session in the terminal: what was said last, then what happens
///
/// Ctrl-C leaves; the session is not touched. With `--json` every line is an object: the session, messages, events.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The session: an id, a key or a label
    #[arg(value_name = "REF")]
    reference: String,
    /// How many of the last messages to begin with
    #[arg(long, value_name = "N", default_value_t = 10)]
    tail: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    let home = Home::open()?;
    block_on(async {
        let leave = tokio::signal::ctrl_c();
        tokio::select! {
            followed = follow(&home, &args) => followed.map(|()| 0),
            left = leave => left.map(|()| 0).map_err(|error| cannot("listen for signals", &error)),
        }
    })
}

async fn follow(home: &Home, args: &Args) -> Result<(), Failure> {
    let client = reach(home).await?;
    let selector = Selector { reference: Some(args.reference.clone()), ..Selector::default() };
    let session = client.call::<SessionsResolve>(selector).await?;
    // Watch first and look back after that: what happens in between is seen twice here, and shown once.
    let mut events = client.events(&watch(&session, None)).await?;
    let mut follow = Follow::new(home, args, &session);
    follow.look_back(&client, args.tail).await?;
    loop {
        let lost = match follow.pass_on(&mut events).await {
            Ok(()) => client::Error::Broken("the gateway closed the stream".into()),
            Err(error) if error.is_lost() => error,
            Err(error) => return Err(error.into()),
        };
        events = again(home, &follow.watch(), lost).await?;
    }
}

/// Goes on with the next gateway, if there is one.
async fn again(home: &Home, watch: &Watch, lost: client::Error) -> Result<Events, Failure> {
    let since = Instant::now();
    while since.elapsed() < LOST {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let Ok(client) = Client::connect(&home.paths.socket()).await else { continue };
        match client.events(watch).await {
            Ok(events) => return Ok(events),
            Err(error) if error.is_lost() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(lost.into())
}

fn watch(session: &Resolved, after: Option<String>) -> Watch {
    Watch { root: session.session_id.clone(), after, follow: true }
}

struct Follow {
    session: Resolved,
    /// The last message that was shown before the events begin.
    shown: u64,
    cursor: Option<String>,
    output: Output,
    json: bool,
    paint: Paint,
}

impl Follow {
    fn new(home: &Home, args: &Args, session: &Resolved) -> Self {
        let format = if args.json { Format::Json } else { Format::Text };
        let mut output = Output::new(format, home.plain());
        output.watch(&session.session_id);
        let paint = Paint::stdout(home.plain());
        Self { session: session.clone(), shown: 0, cursor: None, output, json: args.json, paint }
    }

    fn watch(&self) -> Watch {
        watch(&self.session, self.cursor.clone())
    }

    async fn look_back(&mut self, client: &Client, tail: u32) -> Result<(), Failure> {
        if self.json {
            let (id, key) = (&self.session.session_id, &self.session.key);
            terminal::print_json(&json!({ "type": "session", "sessionId": id, "sessionKey": key }));
        }
        if tail == 0 {
            return Ok(());
        }
        let session_key = self.session.session_id.to_string();
        let input = HistoryInput { session_key, limit: Some(tail), ..HistoryInput::default() };
        for message in client.call::<ChatHistory>(input).await?.messages {
            self.shown = message.seq;
            self.output.runs_as(&self.session.session_id, &message.agent);
            if self.json {
                terminal::print_json(&json!({ "type": "message", "message": message }));
            } else {
                show(&message, self.paint);
            }
        }
        Ok(())
    }

    /// Shows events until the stream ends.
    async fn pass_on(&mut self, events: &mut Events) -> Result<(), client::Error> {
        while let Some((cursor, seen)) = events.next().await? {
            self.cursor = cursor.or(self.cursor.take());
            if self.is_old(&seen) {
                continue;
            }
            if self.json {
                if let Some(line) = event_line(&seen) {
                    terminal::print_json(&line);
                }
                continue;
            }
            if let Seen::Entry { session_id, .. } = &seen
                && let Some(entry) = seen.entry()
            {
                self.say(session_id, &entry);
            }
            self.output.event(&seen);
        }
        Ok(())
    }

    fn is_old(&self, seen: &Seen) -> bool {
        matches!(seen, Seen::Entry { session_id, seq, .. }
            if *session_id == self.session.session_id && *seq <= self.shown)
    }

    /// What is said in the session itself; what happens besides is the output's.
    fn say(&self, session: &SessionId, entry: &Entry) {
        if *session != self.session.session_id {
            return;
        }
        match entry {
            Entry::Input(input) => self.words("you", &words(input)),
            Entry::Reply(reply) => self.words(self.output.agent(session), &reply.text()),
            _ => {}
        }
    }

    fn words(&self, who: &str, text: &str) {
        if !text.is_empty() {
            terminal::print(&self.paint.bold(who));
            terminal::print(&terminal::harmless(text));
            terminal::print("");
        }
    }
}

fn words(input: &Input) -> String {
    let texts = input.parts.iter().filter_map(|part| match part {
        InputPart::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
