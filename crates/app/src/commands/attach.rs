//! `convoke attach`: follows a session and everything below it, until somebody has seen enough.

use super::block_on;
use super::history::{show, speaker};
use super::run::{Format, Output, event_line};
use crate::asking::{Asking, Person, Released};
use crate::failure::Failure;
use crate::home::Home;
use crate::reach::reach;
use crate::signals::{Ending, Interrupts};
use crate::terminal::{self, Paint};
use client::{Client, Events, Watch};
use proto::entry::Input;
use proto::event::Seen;
use proto::letter::InputPart;
use proto::methods::{ChatHistory, HistoryInput, Resolved, Selector, SessionsResolve};
use proto::{Code, Entry, Error, SessionId};
use serde_json::json;
use std::future::Future;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// How long a gateway that went away may take to come back. It is not started for this: nothing has to be done.
const LOST: Duration = Duration::from_secs(5);

/// How long leaving may take, when what is printed is read by nobody.
const LEAVING: Duration = Duration::from_secs(1);

/// Follow a session in the terminal: what was said last, then what happens
///
/// What waits for an answer is shown as well, and answered at the terminal. Ctrl-C leaves; the session is not touched.
/// With `--json` every line is an object: the session, messages, events.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The session: an id (or its last 4 characters), a key, a name or a label
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
        let mut interrupts = Interrupts::listen(Ending { limit: LEAVING, late: 0 })?;
        tokio::select! {
            followed = follow(&home, &args) => followed.map(|()| 0),
            () = interrupts.next() => Ok(0),
        }
    })
}

async fn follow(home: &Home, args: &Args) -> Result<(), Failure> {
    let (mut client, session, mut events) = insist(|| open(home, args)).await?;
    let mut follow = Follow::new(home, args, &session, events.cursor());
    follow.look_back(&client, args.tail).await?;
    loop {
        let lost = match follow.pass_on(&client, &mut events).await {
            Ok(()) => client::Error::Broken("the gateway closed the stream".into()),
            // The stream is still open, and goes on when the gateway does.
            Err(client::Error::Silent) if watched() => {
                still_trying();
                continue;
            }
            Err(error) if error.is_lost() => error,
            Err(error) => return Err(error.into()),
        };
        let watch = follow.watch();
        (client, events) = insist(|| again(home, &watch, &lost)).await?;
    }
}

/// Whether somebody looks on, who can leave at any time.
fn watched() -> bool {
    std::io::stdout().is_terminal()
}

fn still_trying() {
    terminal::say(&format!("{}; still trying, Ctrl-C leaves", client::Error::Silent));
}

/// Whoever looks on decides for how long a gateway that does not answer is tried.
async fn insist<T, F: Future<Output = Result<T, Failure>>>(attempt: impl Fn() -> F) -> Result<T, Failure> {
    loop {
        match attempt().await {
            // Nothing else here has a time limit.
            Err(failure) if failure.error.code == Code::Timeout && watched() => still_trying(),
            done => return done,
        }
    }
}

/// Watches first: what happens until somebody has looked back is seen twice here, and shown once.
async fn open(home: &Home, args: &Args) -> Result<(Client, Resolved, Events), Failure> {
    let client = reach(home).await?;
    let selector = Selector { reference: Some(args.reference.clone()), ..Selector::default() };
    let session = client.call::<SessionsResolve>(selector).await?;
    let events = client.events(&watch(&session, None)).await?;
    Ok((client, session, events))
}

/// Goes on with the next gateway, if there is one.
async fn again(home: &Home, watch: &Watch, lost: &client::Error) -> Result<(Client, Events), Failure> {
    let since = Instant::now();
    while since.elapsed() < LOST {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let Ok(client) = Client::connect(&home.paths.socket()).await else { continue };
        match client.events(watch).await {
            Ok(events) => return Ok((client, events)),
            Err(error) if error.is_lost() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::new(Code::Unavailable, lost.to_string()).hint("start a gateway with `convoke serve`").into())
}

fn watch(session: &Resolved, after: Option<String>) -> Watch {
    Watch { root: session.session_id.clone(), after, follow: true }
}

struct Follow {
    session: Resolved,
    /// The last message that was shown before the events begin.
    shown: u64,
    cursor: Option<String>,
    asking: Asking,
    output: Output,
    json: bool,
    paint: Paint,
}

impl Follow {
    fn new(home: &Home, args: &Args, session: &Resolved, cursor: Option<String>) -> Self {
        let format = if args.json { Format::Json } else { Format::Text };
        let mut output = Output::beside(format, home);
        output.watch(&session.session_id);
        let paint = Paint::stdout(home.plain());
        let person = || Person::at_terminal(home.plain(), home.env.get("PAGER")).map(Person::looking_on);
        let asking = if args.json { Asking::for_a_program() } else { Asking::new(person()) };
        Self { session: session.clone(), shown: 0, cursor, asking, output, json: args.json, paint }
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
            self.output.introduce(&self.session.session_id, None, &message.agent);
            if self.json {
                terminal::print_json(&json!({ "type": "message", "message": message }));
            } else {
                show(&message, self.paint);
            }
        }
        Ok(())
    }

    /// Shows what waits for an answer, then events until the stream ends, and takes answers meanwhile.
    async fn pass_on(&mut self, client: &Client, events: &mut Events) -> Result<(), client::Error> {
        for seen in self.asking.open(client, &self.session.session_id).await? {
            self.take(seen);
        }
        loop {
            self.go_on();
            tokio::select! {
                event = events.next() => match event? {
                    Some((cursor, seen)) => {
                        self.cursor = cursor.or(self.cursor.take());
                        self.take(seen);
                    }
                    None => return Ok(()),
                },
                said = self.asking.said() => self.asking.act(client, said).await?,
            }
        }
    }

    fn take(&mut self, seen: Seen) {
        if self.is_old(&seen) {
            return;
        }
        if let Some(seen) = self.asking.sort(seen) {
            self.show(&seen);
        }
    }

    /// Shows what was held back once nothing is asked any more, and then what is asked next.
    fn go_on(&mut self) {
        while let Some(released) = self.asking.released() {
            match released {
                Released::Event(seen) => self.show(&seen),
                Released::Missing(count) => terminal::say(&format!("… {count} earlier events are not shown")),
            }
        }
        if self.asking.has_next() {
            self.output.rest();
            self.asking.show_next();
        }
    }

    fn show(&mut self, seen: &Seen) {
        if self.json {
            event_line(seen).iter().for_each(terminal::print_json);
            return;
        }
        if let Seen::Entry { session_id, .. } = seen
            && let Some(entry) = seen.entry()
        {
            self.say(session_id, &entry);
        }
        self.output.event(seen);
        match seen {
            Seen::Ask(ask) if ask.to.is_none() => {
                terminal::say(&format!("  answer it with `convoke approve {} once|always|reject`", ask.ask_id));
            }
            Seen::Question(asked) => terminal::say(&format!("  answer it with `convoke answer {} TEXT`", asked.id)),
            _ => {}
        }
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
            Entry::Input(input) => self.words(&speaker(input.speaker()), &words(input)),
            Entry::Reply(reply) => self.words(self.output.agent(session), &reply.text()),
            _ => {}
        }
    }

    fn words(&self, who: &str, text: &str) {
        if !text.is_empty() {
            terminal::print(&self.paint.bold(who));
            terminal::print(text);
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
