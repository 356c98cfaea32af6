//! Control letters: obeyed at once, in order, in one commit.

use super::calls::{CIRCLE, in_circles, result};
use super::role::Role;
use super::runs::{Ending, Told, paid_by};
use super::{Actor, Stop};
use crate::grant::Grant;
use crate::view::{Open, OpenState};
use crate::{steady, stop};
use proto::entry::{Compaction, Notice, On, Started, State};
use proto::event::SettledBy;
use proto::letter::{Abort, Answer, AskReply, Compact, Reason, Sender};
use proto::{Body, CallId, Class, Code, Entry, Error, Letter, LetterId, RunId, Status};
use rules::mode::Mode;
use std::sync::Arc;
use store::{AskChange, Batch, Halt, Post, RowChange, WaitChange};

/// The most sessions that one session passes a stop on to.
const BELOW: usize = 10_000;

impl Actor {
    pub(super) async fn obey(&mut self) -> Result<(), Stop> {
        let is_undo = |letter: &&Letter| matches!(letter.body, Body::Undo(_));
        // An undo is a commit of its own: it changes what all later ones stand on.
        let first = self.inbox.controls().next().filter(is_undo).cloned();
        if let Some(letter) = first {
            return self.undo(&letter).await;
        }
        let letters: Vec<Letter> = self.inbox.controls().take_while(|letter| !is_undo(letter)).cloned().collect();
        let mut batch = Batch { consume: letters.iter().map(|letter| letter.id.clone()).collect(), ..Batch::default() };
        let (mut start, mut aborts) = (Vec::new(), Vec::new());
        for letter in letters {
            match letter.body {
                Body::Settled(settled) => self.settle(&mut batch, &settled, letter.provenance),
                Body::Answer(answer) => start.extend(self.answered(&mut batch, &answer, &letter.from).await?),
                Body::Switch(switch) => self.switched(&mut batch, switch),
                Body::Compact(wish) => batch.entries.push(wanted(&wish)),
                Body::Abort(abort) => aborts.push((abort, letter.from)),
                // Nobody posts these as control letters; one that is there all the same must not come up for ever.
                Body::Prompt(_) | Body::Completion(_) | Body::Undo(_) => {
                    tracing::warn!(letter = %letter.id, "not a control letter");
                }
            }
        }
        let (mut over, mut ending) = (false, None);
        for (abort, from) in aborts {
            over |= self.aborted(&mut batch, &abort, over, &mut ending).await?;
            if abort.run.is_none() {
                self.pass_on(&mut batch, &abort, &from).await?;
            }
        }
        let new_role = batch.row.agent.is_some() || batch.row.policy.is_some() || batch.row.cwd.is_some();
        let was_paused = self.view.paused();
        // A child that came to its end has spent as well.
        self.look = None;
        match ending {
            Some(ending) => self.commit_end(batch, &ending).await?,
            None => self.commit(batch).await?,
        }
        if was_paused && !self.view.paused() {
            // Mail to a paused session comes without a hint.
            self.handle.mark_dirty();
        }
        if new_role {
            self.take_role();
        }
        for call in start {
            self.go_on_with(&call).await?;
        }
        Ok(())
    }

    /// An ask was answered: the call starts now, or is refused. Returns the call that may start.
    async fn answered(&self, batch: &mut Batch, answer: &Answer, from: &Sender) -> Result<Option<CallId>, Stop> {
        let waits_for_it = |open: &&Open| matches!(open.waits_for(), Some(On::Ask { ask }) if ask == &answer.ask);
        let Some(open) = self.view.open().iter().find(waits_for_it) else { return Ok(None) };
        let call = open.call.id.clone();
        let by = if matches!(from, Sender::Session { .. }) { SettledBy::Session } else { SettledBy::Person };
        batch.asks.push(AskChange::Close { ask: answer.ask.clone(), reply: Some(answer.reply), by });
        if answer.reply == AskReply::Reject {
            let why = answer.message.as_deref().unwrap_or("no reason was given");
            let ask = self.rt.store.ask(&answer.ask).await?;
            let mut text = match &ask {
                Some(ask) if !ask.questions.is_empty() => format!("the question was not answered: {why}"),
                _ => format!("the answer was no: {why}"),
            };
            if ask.is_some_and(|ask| ask.permission == CIRCLE) {
                text.push_str(&format!("; {}", in_circles(&open.call.tool)));
            }
            batch.entries.push(result(&call, State::Denied, text));
            return Ok(None);
        }
        if !answer.answers.is_empty() {
            let said = tools::find(&open.call.tool).map(|tool| tool.answered(open.call.given(), &answer.answers));
            let said = said.unwrap_or_else(|| Ok(tools::Output::text(answer.answers.concat().join("\n"))));
            batch.entries.push(self.outcome(&call, &said, 0));
            return Ok(None);
        }
        if answer.reply == AskReply::Always
            && let Some(ask) = self.rt.store.ask(&answer.ask).await?
        {
            let chosen = answer.keep.unwrap_or_default() as usize;
            let rules = ask.choices().into_iter().nth(chosen).unwrap_or_default();
            // Before the commit that takes the answer: a crash between the two keeps it twice, which is once.
            let (settings, project) = (self.rt.settings.clone(), self.role.worktree.clone());
            let keep = move || settings.keep_always(&project, &rules);
            // It waits for whoever else changes that file.
            let kept = tokio::task::spawn_blocking(keep).await;
            if let Err(error) = kept.unwrap_or_else(|error| Err(Error::internal(error.to_string()))) {
                tracing::warn!("an answer holds this once, since it cannot be kept: {}", error.message);
            }
        }
        batch.entries.push(Entry::Started(Started { call: call.clone() }));
        Ok(Some(call))
    }

    /// Starts a call that was answered, or that a crash cut off.
    pub(super) async fn go_on_with(&mut self, call: &CallId) -> Result<(), Stop> {
        let Some(open) = self.view.find(call) else { return Ok(()) };
        let (call, asked) = (open.call.clone(), open.asked.clone());
        let answered = match &asked {
            Some(ask) => self.rt.store.ask(ask).await?,
            None => None,
        };
        if let Some(tool) = tools::find(&call.tool) {
            self.start(tool, call.id.clone(), call.given().to_owned(), answered);
        }
        Ok(())
    }

    fn switched(&self, batch: &mut Batch, mut switch: proto::letter::Switch) {
        batch.row.agent = switch.agent.clone().or(batch.row.agent.take());
        batch.row.model = switch.model.clone().or(batch.row.model.take());
        if let Some(cwd) = &switch.cwd {
            batch.row.cwd = Some(cwd.clone());
            batch.row.worktree = Some(switch.worktree.clone());
        }
        batch.row.title = switch.title.clone().or(batch.row.title.take());
        if let Some(spent) = switch.spent {
            let mut all = batch.row.spent.unwrap_or_default();
            all += spent;
            batch.row.spent = Some(all);
        }
        if let Some(mode) = switch.mode.as_deref().and_then(Mode::parse) {
            let mut grant = Grant::read(batch.row.policy.as_deref().unwrap_or(&self.row.policy));
            if mode != grant.mode {
                batch.entries.push(Entry::Notice(Notice { text: mode_words(mode) }));
            }
            switch.mode_before = Some(grant.mode.as_str().into());
            grant.mode = mode;
            batch.row.policy = Some(grant.write());
        }
        if switch.paused == Some(false) && self.view.answering().is_none() {
            let mail = self.inbox.queued().next().is_some();
            batch.row.status = Some(if mail { Status::Queued } else { Status::Idle });
        }
        batch.entries.push(Entry::Switch(switch));
    }

    /// The profile, the rules or the directory changed: everything that depends on them is made anew.
    pub(super) fn take_role(&mut self) {
        self.role = Arc::new(Role::new(&self.rt, &self.row, self.view.agent().unwrap_or(&self.row.agent)));
        self.mind = None;
    }

    /// Stops the run that is meant, and those it waits for. True when the run under way is over; `ending` says what the
    /// session is then.
    async fn aborted(
        &mut self,
        batch: &mut Batch,
        abort: &Abort,
        over: bool,
        ending: &mut Option<Ending>,
    ) -> Result<bool, Stop> {
        let current = self.view.answering().map(|now| now.run.clone()).filter(|_| !over);
        let meant = match (&abort.run, &current) {
            (None, _) => true,
            (Some(run), Some(current)) => run == current || self.is_alias(run, current).await?,
            (Some(_), None) => false,
        };
        if meant && let Some(run) = &current {
            *ending = Some(self.stop_run(batch, run, abort.reason).await);
        }
        let goes_on = current.is_some() && !meant;
        if self.withdraw_queued(batch, abort).await? && !goes_on {
            *ending = Some(Ending::cancelled(words(abort.reason)));
        }
        Ok(meant && current.is_some())
    }

    /// Everything below stops as well, also what was started after the wave was posted.
    async fn pass_on(&self, batch: &mut Batch, abort: &Abort, from: &Sender) -> Result<(), Stop> {
        // What a person stopped stays so: neither mail nor what comes back from below starts it again.
        match (from, abort.reason) {
            (Sender::Person, _) => batch.row.halt = Some(Halt::Stopped),
            (_, Reason::Shutdown) => batch.row.halt = Some(Halt::Closed),
            (_, Reason::User | Reason::Parent | Reason::Timeout) => {}
        }
        let Some(wave) = &abort.wave else { return Ok(()) };
        let below = self.rt.store.busy_below(&self.row.id, BELOW).await?;
        let reason = if abort.reason == Reason::Shutdown { Reason::Shutdown } else { Reason::Parent };
        batch.post.extend(below.iter().map(|id| stop::letter(wave, id, from.clone(), reason)));
        Ok(())
    }

    async fn is_alias(&self, run: &RunId, of: &RunId) -> Result<bool, Stop> {
        Ok(self.rt.store.run(run).await?.is_some_and(|found| &found.id == of))
    }

    /// Adds all that stops a run, and says how it ended.
    async fn stop_run(&mut self, batch: &mut Batch, run: &RunId, reason: Reason) -> Ending {
        let why = words(reason);
        let called = self.stop_work().await;
        self.rt.jobs.end(&self.row.id).await;
        self.before_the_end().await;
        let settled = |entry: &Entry| match entry {
            Entry::Result(result) => Some(result.call.clone()),
            _ => None,
        };
        let settled: Vec<CallId> = batch.entries.iter().filter_map(settled).collect();
        for open in self.view.open().iter().filter(|open| !settled.contains(&open.call.id)) {
            match open.waits_for() {
                Some(On::Run { run, session }) => {
                    batch.post.push(self.abort_letter(session, run, &open.call.id));
                    batch.waits.push(WaitChange::Remove { call: open.call.id.clone() });
                }
                Some(On::Ask { ask }) => {
                    batch.asks.push(AskChange::Close { ask: ask.clone(), reply: None, by: SettledBy::Stopped });
                }
                Some(On::Letter { .. } | On::Timer) | None => {}
            }
        }
        let why_stopped = format!("the call was stopped: {why}");
        let stopped = self.stopped_entries(batch, called, &settled, &why_stopped);
        batch.entries.extend(stopped);
        tracing::debug!(session = %self.row.id, %run, why, "run stopped");
        let ending = match reason {
            Reason::Timeout => Ending::error(Code::Timeout, "the run was out of time", None),
            Reason::User | Reason::Parent | Reason::Shutdown => Ending::cancelled(why),
        };
        self.add_ending(batch, &ending);
        ending
    }

    /// The end of a parent's run reaches the children it waits for, and through them their processes.
    fn abort_letter(&self, child: &proto::SessionId, run: &RunId, call: &CallId) -> Post {
        let letter = Letter {
            id: LetterId::derived("abort_", call.as_str()),
            to: child.clone(),
            from: Sender::Session { id: self.row.id.clone() },
            class: Class::Control,
            body: Body::Abort(Abort { reason: Reason::Parent, run: Some(run.clone()), wave: None }),
            provenance: None,
            conversation: None,
            report: None,
            expires: None,
        };
        Post { letter, person: false, queue: None }
    }

    /// The session agreed to end: what it did stays, what nobody read goes back to whoever wrote it.
    pub(super) async fn close(&mut self) -> Result<(), Stop> {
        self.before_the_end().await;
        let mut batch = Batch::default();
        self.add_ending(&mut batch, &Ending::ok());
        self.withdraw_queued(&mut batch, &Abort { reason: Reason::Shutdown, run: None, wave: None }).await?;
        (batch.row.status, batch.row.halt) = (Some(Status::Done), Some(Halt::Closed));
        self.commit(batch).await
    }

    /// It was asked to end and did not say in time: it ends now.
    async fn end_unasked(&mut self) -> Result<(), Stop> {
        self.before_the_end().await;
        let mut batch = Batch::default();
        let text = "This session was asked to end and did not answer in time.";
        batch.entries.push(Entry::Notice(Notice { text: text.into() }));
        match self.view.answering().map(|now| (now.run.clone(), now.answered)) {
            // Its turn was over already: only the question was open.
            Some((_, true)) => self.add_ending(&mut batch, &Ending::ok()),
            Some((run, false)) => {
                self.stop_run(&mut batch, &run, Reason::Shutdown).await;
            }
            None => {}
        }
        self.withdraw_queued(&mut batch, &Abort { reason: Reason::Shutdown, run: None, wave: None }).await?;
        (batch.row.status, batch.row.halt) = (Some(Status::Killed), Some(Halt::Closed));
        self.commit(batch).await
    }

    /// Prompts that nobody has taken yet are withdrawn with the rest. False when there were none.
    async fn withdraw_queued(&self, batch: &mut Batch, abort: &Abort) -> Result<bool, Stop> {
        let meant = |id: &LetterId| abort.run.as_ref().is_none_or(|run| run == &id.run());
        let first = |id: &LetterId| !batch.consume.contains(id);
        let queued = self.inbox.queued().map(|letter| letter.id.clone()).filter(meant).filter(first).collect();
        let (queued, why) = (self.read(queued).await?, words(abort.reason));
        queued
            .iter()
            .for_each(|letter| self.withdraw(batch, letter, why, format!("The message above was withdrawn: {why}.")));
        Ok(!queued.is_empty())
    }

    /// A letter came to a session that a person stopped: it stands in the log, and starts nothing.
    pub(super) async fn shelve(&mut self) -> Result<(), Stop> {
        let mut batch = Batch::default();
        let first = self.inbox.queued().next().map(|letter| letter.id.clone());
        let Some(letter) = self.read(first.into_iter().collect()).await?.pop() else { return Ok(()) };
        let notice = "The user stopped this session, so the message above did not start a turn.";
        self.withdraw(&mut batch, &letter, words(Reason::User), notice.into());
        self.commit_end(batch, &Ending::cancelled(words(Reason::User))).await
    }

    /// Moves a letter into the log without a run. Its sender is told.
    fn withdraw(&self, batch: &mut Batch, letter: &Letter, why: &str, notice: String) {
        let run = letter.id.run();
        let ending = Ending::cancelled(why);
        batch.consume.push(letter.id.clone());
        batch.entries.push(Entry::Input(self.input(&mut RowChange::default(), letter, &run)));
        batch.entries.push(Entry::Ended(ending.entry(&run)));
        batch.entries.push(Entry::Notice(Notice { text: notice }));
        if let Body::Completion(finished) = &letter.body
            && finished.cleanup
        {
            batch.archive.push(finished.session.clone());
        }
        batch.post.extend(self.rt.bounce(letter, &self.row, why).or_else(|| {
            let purse = paid_by(&letter.body).map(|purse| purse.of);
            let told = Told { run: &run, ending: &ending, text: why.into(), of: None, purse };
            Some(self.report_letter(letter.report.as_ref()?, told))
        }));
        batch.runs.push(ending.change(&run, None, proto::Usage::default()));
    }

    /// Waits that came to their own end are given up, and so is a run that is out of time.
    pub(super) async fn give_up_late_waits(&mut self) -> Result<(), Stop> {
        if self.next_deadline().is_none_or(|at| at > steady()) {
            return Ok(());
        }
        let mut batch = Batch::default();
        if self.end_deadline().is_some_and(|at| at <= steady()) {
            return self.end_unasked().await;
        }
        if let Some(run) = self.view.answering().filter(|now_run| now_run.until.is_some_and(|at| at <= steady())) {
            let run = run.run.clone();
            let ending = self.stop_run(&mut batch, &run, Reason::Timeout).await;
            return self.commit_end(batch, &ending).await;
        }
        for open in self.view.open() {
            let OpenState::Waiting(waiting) = &open.state else { continue };
            if waiting.until.is_none_or(|at| at > steady()) {
                continue;
            }
            batch.waits.push(WaitChange::Remove { call: open.call.id.clone() });
            if let On::Ask { ask } = &waiting.on {
                batch.asks.push(AskChange::Close { ask: ask.clone(), reply: None, by: SettledBy::Timeout });
                let why = "nobody answered the question in time: do without it, or ask the person in your answer";
                batch.entries.push(result(&open.call.id, State::Denied, why.into()));
                continue;
            }
            let given_up = tools::find(&open.call.tool).map(|tool| tool.give_up(open.call.given(), waiting));
            let given_up = given_up.unwrap_or_else(|| Err(tools::Error::tell("the wait ended without an answer")));
            batch.entries.push(self.outcome(&open.call.id, &given_up, 0));
        }
        self.commit(batch).await
    }
}

/// The wish for room in the context, as an entry.
pub(super) fn wanted(wish: &Compact) -> Entry {
    Entry::Compaction(Compaction { instructions: wish.instructions.clone(), ..Compaction::default() })
}

/// What a model is told whose permission mode the user changed.
fn mode_words(mode: Mode) -> String {
    let what = match mode {
        Mode::Plan => {
            "Don't change files other than markdown; commands run in a read-only sandbox. Submit your plan with `plan_exit`."
        }
        Mode::Ask => "Calls that your rules ask about wait for the user's approval.",
        Mode::AcceptEdits => "Changes to files in the project no longer wait for the user's approval.",
        Mode::Auto => "No call waits for the user's approval; what your rules deny stays denied.",
    };
    format!("The user switched this session to the permission mode `{}`. {what}", mode.as_str())
}

fn words(reason: Reason) -> &'static str {
    match reason {
        Reason::User => "stopped by the user",
        Reason::Parent => "stopped with the session that started it",
        Reason::Timeout => "out of time",
        Reason::Shutdown => "it was shut down",
    }
}
