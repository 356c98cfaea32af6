//! Follows a run to its end: events as they come, asks answered, interrupts passed on, and on with the next gateway when
//! one dies. The run itself needs none of this; it goes on in the store whoever watches.

use super::output::Output;
use crate::asking::{Asking, Released, Said};
use crate::failure::INTERRUPTED;
use crate::home::Home;
use crate::patience::Patience;
use crate::signals::Interrupts;
use client::{Client, Events, Watch};
use proto::event::Seen;
use proto::letter::AskReply;
use proto::methods::{
    AbortInput, Accepted, AgentWait, AskInfo, ChatAbort, QuestionAnswer, Selector, SessionsGet, WaitInput, WaitStatus,
    Waited,
};
use proto::{AskId, Code, Entry, Error, RunId, SessionId, Usage};
use std::time::Duration;
use tokio::time::{MissedTickBehavior, timeout};

/// How long the last events of a run that ended may take to arrive; what is kept is read again anyway.
const LAST_EVENTS: Duration = Duration::from_secs(1);

/// How often a person is told what is going on.
const TICK: Duration = Duration::from_secs(1);

/// Told to the model with a refusal, so that it does not ask again.
const HEADLESS: &str =
    "Nobody is there to be asked: this run was started without a person. Go on without it, or say what you would need.";

/// How asks of a run without a person are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Reply {
    /// Refuse; the model is told and goes on
    Deny,
    /// Allow, this once
    Allow,
}

pub(super) struct Follow {
    client: Client,
    session: SessionId,
    session_key: String,
    run: RunId,
    /// The run that handles the prompt: its own, or the one it joined.
    handled_by: RunId,
    cursor: String,
    tree: bool,
    ask: Reply,
    /// With the person at the terminal, unless the command line says how asks are answered.
    asking: Asking,
    /// The session's last answer.
    answer: Option<String>,
    ended: bool,
    interrupts: Interrupts,
    signals: u32,
    output: Output,
}

impl Follow {
    pub(super) fn new(
        client: Client,
        accepted: &Accepted,
        (ask, asking): (Reply, Asking),
        tree: bool,
        interrupts: Interrupts,
        output: Output,
    ) -> Self {
        Self {
            client,
            session: accepted.session_id.clone(),
            session_key: accepted.session_key.clone(),
            run: accepted.run_id.clone(),
            handled_by: accepted.run_id.clone(),
            cursor: accepted.cursor.clone(),
            tree,
            ask,
            asking,
            answer: None,
            ended: false,
            interrupts,
            signals: 0,
            output,
        }
    }

    pub(super) fn interrupted(&self) -> bool {
        self.signals > 0
    }

    /// Watches until the run is over. A gateway that dies is replaced, and watching goes on where it was.
    pub(super) async fn until_over(&mut self, home: &Home) -> Result<Waited, Error> {
        let mut patience = Patience::default();
        loop {
            let error = match self.watch().await {
                Ok(waited) => return Ok(waited),
                Err(error) if error.is_lost() => error,
                Err(error) => return Err(error.into()),
            };
            self.output.lost();
            if patience.lose() && !self.asking.is_asked() {
                self.output.note(&format!("{error}; going on with the next one"));
            }
            self.client = patience.next(home, error).await.map_err(|failure| failure.error)?;
        }
    }

    async fn watch(&mut self) -> Result<Waited, client::Error> {
        let mut events = self.client.events(&self.look(true)).await?;
        self.answer_open_asks().await?;
        let client = self.client.clone();
        let input = WaitInput { run_id: self.run.clone(), timeout_ms: None, tree: self.tree };
        let mut wait = std::pin::pin!(client.call::<AgentWait>(input));
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let waited = loop {
            tokio::select! {
                event = events.next() => self.take(event?).await?,
                waited = &mut wait => break waited?,
                () = self.interrupts.next() => self.interrupt().await?,
                _ = tick.tick() => self.tick(),
                said = self.asking.said() => {
                    self.asking.act(&self.client, said).await?;
                    self.go_on();
                }
            }
        };
        self.asking.leave();
        self.go_on();
        self.see_the_rest(&mut events).await?;
        Ok(waited)
    }

    /// Says what is going on, unless the person is asked something.
    fn tick(&mut self) {
        if !self.asking.is_asked() {
            self.output.status();
        }
    }

    fn look(&self, follow: bool) -> Watch {
        Watch { root: self.session.clone(), after: Some(self.cursor.clone()), follow }
    }

    /// The end is known; show what led to it. First what is on its way, deltas too, then what the store has beyond that.
    async fn see_the_rest(&mut self, events: &mut Events) -> Result<(), client::Error> {
        let until_ended = async {
            while !self.ended {
                match events.next().await? {
                    Some(event) => self.take(Some(event)).await?,
                    None => break,
                }
            }
            Ok(())
        };
        timeout(LAST_EVENTS, until_ended).await.unwrap_or(Ok(()))?;
        let mut kept = self.client.events(&self.look(false)).await?;
        while let Some(event) = kept.next().await? {
            self.take(Some(event)).await?;
        }
        Ok(())
    }

    async fn take(&mut self, event: Option<(Option<String>, Seen)>) -> Result<(), client::Error> {
        let Some((cursor, seen)) = event else {
            return Err(client::Error::Broken("the gateway closed the stream".into()));
        };
        if let Some(cursor) = cursor {
            self.cursor = cursor;
        }
        for session in self.output.strangers(&seen) {
            self.meet(&session).await?;
        }
        if let Seen::Entry { session_id, .. } = &seen
            && *session_id == self.session
            && let Some(entry) = seen.entry()
        {
            self.remember(&entry);
        }
        if let Some(seen) = self.asking.sort(seen) {
            self.output.event(&seen);
            match &seen {
                Seen::Ask(ask) if ask.to.is_none() => self.reply(ask).await?,
                Seen::Question(asked) => self.nobody_knows(asked.id.clone()).await?,
                _ => {}
            }
        }
        self.go_on();
        Ok(())
    }

    /// Shows what was held back once nothing is asked any more, and then what is asked next.
    fn go_on(&mut self) {
        while let Some(released) = self.asking.released() {
            match released {
                Released::Event(seen) => self.output.event(&seen),
                Released::Missing(count) => self.output.note(&format!("… {count} earlier events are not shown")),
            }
        }
        if self.asking.has_next() {
            self.output.rest();
            self.asking.show_next();
        }
    }

    /// Asks who a session is, once.
    async fn meet(&mut self, session: &SessionId) -> Result<(), client::Error> {
        let selector = Selector { reference: Some(session.to_string()), ..Selector::default() };
        match self.client.call::<SessionsGet>(selector).await {
            Ok(info) => {
                let name = info.name.as_deref().or(info.label.as_deref());
                self.output.introduce(session, name, &info.agent);
                Ok(())
            }
            // It was removed since.
            Err(client::Error::Refused(_)) => {
                self.output.introduce(session, None, "agent");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn remember(&mut self, entry: &Entry) {
        match entry {
            Entry::Input(input) if input.letter == self.run.letter() => self.handled_by = input.run.clone(),
            Entry::Reply(reply) if reply.calls().next().is_none() && !reply.text().is_empty() => {
                self.answer = Some(reply.text());
            }
            Entry::Ended(ended) => self.ended |= ended.run == self.handled_by,
            _ => {}
        }
    }

    /// Those that were asked while nobody watched.
    async fn answer_open_asks(&mut self) -> Result<(), client::Error> {
        for seen in self.asking.open(&self.client, &self.session).await? {
            self.take(Some((None, seen))).await?;
        }
        self.go_on();
        Ok(())
    }

    /// A question that no policy can answer: the model is told so, and goes on.
    async fn nobody_knows(&mut self, id: AskId) -> Result<(), client::Error> {
        self.output.note("  not answered, because nobody is there to ask");
        let message = Some(HEADLESS.to_owned());
        let answer = QuestionAnswer { id, answers: Vec::new(), reject: true, message };
        self.asking.act(&self.client, Said::Answers(answer)).await
    }

    async fn reply(&mut self, ask: &AskInfo) -> Result<(), client::Error> {
        let ask_id = ask.ask_id.clone();
        let refused = match self.ask {
            Reply::Deny => Some("nobody is there to ask; `--ask allow` would allow it"),
            Reply::Allow if ask.about.may_be_denied => Some("a rule that denies may speak about it"),
            Reply::Allow => None,
        };
        let Some(why) = refused else {
            return self.asking.reply(&self.client, ask_id, (AskReply::Once, None), None).await;
        };
        self.output.note(&format!("  refused, because {why}"));
        let message = Some(HEADLESS.to_owned());
        self.asking.reply(&self.client, ask_id, (AskReply::Reject, None), message).await
    }

    /// The first one stops the run and everything below it; the second one only this command, at once.
    async fn interrupt(&mut self) -> Result<(), client::Error> {
        self.asking.leave();
        self.go_on();
        self.signals += 1;
        if self.signals > 1 {
            let gone = Error::new(Code::Interrupted, "left before the run was over").hint("`convoke ps` shows it");
            let unfinished = self.unfinished(WaitStatus::Cancelled, gone);
            self.output.run(&unfinished, "");
            std::process::exit(i32::from(INTERRUPTED));
        }
        self.output.note("stopping; once more to leave at once");
        let input = AbortInput { reference: self.session.to_string(), run_id: None };
        let stopped = self.client.call::<ChatAbort>(input).await?;
        self.output.note(&crate::commands::kill::told(&stopped, false));
        Ok(())
    }

    /// Prints the last line.
    pub(super) fn finish(mut self, waited: Result<Waited, Error>) -> WaitStatus {
        let waited = waited.unwrap_or_else(|error| self.unfinished(WaitStatus::Error, error));
        let answer = match waited.status {
            WaitStatus::Ok => self.answer.take().or_else(|| waited.text.clone()),
            WaitStatus::Error | WaitStatus::Cancelled | WaitStatus::Timeout => waited.text.clone(),
        };
        self.output.run(&waited, answer.as_deref().unwrap_or_default());
        waited.status
    }

    fn unfinished(&self, status: WaitStatus, error: Error) -> Waited {
        Waited {
            run_id: self.run.clone(),
            status,
            session_id: self.session.clone(),
            session_key: self.session_key.clone(),
            text: None,
            usage: Usage::default(),
            error: Some(error),
            started_at: None,
            ended_at: None,
        }
    }
}
