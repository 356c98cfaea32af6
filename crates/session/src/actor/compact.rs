//! Making room in the context (A9): asked for by an entry, done by the hidden agent `compaction`, and one commit in the end.
//!
//! Until that commit nothing has changed but that the wish is stored, so a crash anywhere in between leads to the same
//! work again and to nothing twice.

use super::attempts::Step;
use super::runs::{Ending, keep};
use super::{Actor, Outcome, Stop, Talk};
use crate::compaction::{self, Standing, done};
use crate::{fork, hidden};
use futures_util::future::BoxFuture;
use proto::entry::{Compaction, CompactionState, Stored};
use proto::{Code, Entry, Usage};
use rules::mode::Mode;
use store::{Batch, Query, RunChange, Span};

/// The agent that sums up.
const AGENT: &str = "compaction";

/// How often a request for a summary that does not fit is made smaller by half: to a sixteenth at last.
const HALVINGS: u32 = 4;

/// A session that has this many children knows the newest of them.
const CHILDREN: usize = 100;

/// A summary that is being written, and what it will stand for.
pub(super) struct Summing {
    keeps_from: u64,
    asked: Option<String>,
    steps: u32,
    /// Tokens of what stays verbatim.
    tail: u64,
    /// Bytes the summary may have: one that ignores what it was told must not fill what it was to empty.
    most: usize,
}

impl Actor {
    /// Makes room, or begins to. True while a summary has to be waited for.
    pub(super) async fn compact(&mut self) -> Result<bool, Stop> {
        if self.view.pending().is_none() {
            let pending = Compaction { auto: true, ..Compaction::default() };
            self.commit(Batch { entries: vec![Entry::Compaction(pending)], ..Batch::default() }).await?;
        }
        let Some(pending) = self.view.pending().cloned() else { return Ok(false) };
        if !self.ready_or_end().await? {
            return Ok(false);
        }
        let entries = self.current().await?;
        let usable = self.room();
        let tail = compaction::tail(usable);
        if pending.auto && self.leave_out(&entries, usable, tail).await? {
            return Ok(false);
        }
        // What is short by our count may be too long all the same, and whoever asks for a summary of little gets one.
        let tails = std::iter::successors(Some(tail), |tail| (*tail > 0).then_some(tail / 2));
        let mut cuts = tails.map(|tail| compaction::cut(&entries, tail));
        let Some(cut) = cuts.find(|cut| compaction::says_something(&entries[..*cut])) else {
            return if pending.auto { self.out_of_room().await } else { self.made_no_room().await }.map(|()| false);
        };
        self.sum_up(&entries, cut, pending.instructions.as_deref()).await
    }

    /// The entries a model is sent, and the summary before them.
    pub(super) async fn current(&self) -> Result<Vec<Stored>, Stop> {
        let from = self.view.kept().saturating_sub(1);
        let span = Span::After { seq: from, limit: usize::MAX };
        Ok(fork::standing(&self.row, self.rt.store.entries(&self.row.id, span).await?))
    }

    /// Leaves old output out of what is sent, where that is enough.
    async fn leave_out(&mut self, entries: &[Stored], usable: u64, tail: u64) -> Result<bool, Stop> {
        if !self.role.here.loaded.config.compaction.prune || self.view.is_pruned() {
            return Ok(false);
        }
        let already = entries.iter().filter_map(done).filter_map(|done| done.prunes_before).max().unwrap_or(0);
        let Some((before, saved)) = compaction::prune(entries, tail, already) else { return Ok(false) };
        let tokens = self.view.context().saturating_sub(saved);
        // Else the next step or the one after it would need a summary anyway.
        if tokens > usable / 4 * 3 {
            return Ok(false);
        }
        let (state, prunes_before) = (CompactionState::Done, Some(before));
        let done = Compaction { state, auto: true, prunes_before, tokens, ..Compaction::default() };
        let mut batch = Batch { entries: vec![Entry::Compaction(done)], ..Batch::default() };
        batch.row.context_tokens = Some(tokens);
        self.commit(batch).await?;
        self.talk = Talk::Stale;
        Ok(true)
    }

    async fn made_no_room(&mut self) -> Result<(), Stop> {
        let done = Compaction { state: CompactionState::Done, ..Compaction::default() };
        self.commit(Batch { entries: vec![Entry::Compaction(done)], ..Batch::default() }).await
    }

    /// Asks the hidden agent for a summary; it comes back as an outcome.
    async fn sum_up(&mut self, entries: &[Stored], cut: usize, wish: Option<&str>) -> Result<bool, Stop> {
        let (head, rest) = entries.split_at(cut);
        let Ok(profile) = self.role.here.agents.get(AGENT).cloned() else {
            let why = "the conversation no longer fits the model's context, and the agent `compaction` is switched off";
            let hint = "allow it again in `agent.compaction`, or start a new session";
            return self.end(Ending::error(Code::Unavailable, why, Some(hint))).await.map(|()| false);
        };
        let name = profile.model_or(|| self.model_name());
        let (provider, model) = match self.role.here.model(&name) {
            Ok(found) => found,
            Err(error) => {
                let ending = Ending::error(Code::NotFound, &error.message, error.hint.as_deref());
                return self.end(ending).await.map(|()| false);
            }
        };
        let earlier = entries.iter().rev().find(|stored| done(stored).is_some_and(|done| done.summary.is_some()));
        let under_way = self.view.answering().and_then(|now| {
            let of_run = earlier.filter(|stored| stored.seq > now.began).and_then(done);
            let before = of_run.and_then(|done| Some((done.asked.clone()?, done.steps)));
            compaction::under_way(head, rest, &now.run, before)
        });
        let (asked, steps) = under_way.map_or((None, 0), |(asked, steps)| (Some(asked), steps));
        self.summing = Some(Summing {
            keeps_from: rest.first().map_or(self.row.seq + 1, |first| first.seq),
            asked,
            steps,
            tail: rest.iter().map(|stored| compaction::weight(&stored.entry)).sum(),
            most: usize::try_from(self.room().max(compaction::LEAST)).unwrap_or(usize::MAX),
        });
        let before = earlier.and_then(done).and_then(|done| done.summary.as_deref());
        let most = compaction::most_bytes(self.reserve(&model)) >> self.squeezed;
        let mut text = format!("<conversation>\n{}</conversation>\n\nSum it up.", compaction::text(before, head, most));
        if let Some(wish) = wish {
            text.push_str(&format!(" The person asks you to look after this above all: {wish}"));
        }
        let request = hidden::request(&profile, provider.as_ref(), model, &text);
        if let Err(wait) = provider.pace(&request) {
            return self.wait_in_line(wait).await.map(|()| true);
        }
        let (slot, cancel) = (self.slot.clone(), self.work.clone());
        self.no_longer_retrying().await?;
        self.thinking = true;
        let asking = provider.clone();
        let room = Box::pin(async move { (asking.admit().await, slot.acquire().await) });
        let work = async move |room: BoxFuture<'static, _>| {
            let asked = async {
                let _room = room.await;
                provider.stream(request, &mut |_| {}).await
            };
            tokio::select! {
                said = asked => Outcome::Summed(Some(said)),
                () = cancel.cancelled() => Outcome::Summed(None),
            }
        };
        self.run_step(Step { call: None, room, work, dropped: Outcome::Summed(None) });
        Ok(true)
    }

    /// A summary came back, or did not. `None`: it was cancelled, and whoever did that goes on from there.
    pub(super) async fn summed(&mut self, said: Option<Result<llm::Reply, llm::Error>>) -> Result<(), Stop> {
        self.thinking = false;
        let (Some(said), Some(summing)) = (said, self.summing.take()) else { return Ok(()) };
        let error = match said {
            Ok(reply) => {
                let summary = hidden::words(&reply.parts);
                if !summary.trim().is_empty() {
                    (self.tried, self.squeezed) = (0, 0);
                    return self.keep_summary(summing, &summary, reply.usage).await;
                }
                llm::Error::Garbage("the summary is empty".into())
            }
            Err(llm::Error::Overflow(_)) if self.squeezed < HALVINGS => {
                self.squeezed += 1;
                return Ok(());
            }
            Err(error) => error,
        };
        if self.try_again(&error).await? {
            return Ok(());
        }
        self.squeezed = 0;
        tracing::warn!(session = %self.row.id, %error, "no summary");
        let why = format!("the conversation has to be summed up, and cannot be: {error}");
        self.end(Ending::error(Code::Provider, &why, Some(error.hint()))).await
    }

    /// The one commit: from here on the conversation is the summary and what came since.
    async fn keep_summary(&mut self, summing: Summing, summary: &str, usage: Usage) -> Result<(), Stop> {
        let Summing { keeps_from, asked, steps, tail, most } = summing;
        let summary = summary.trim();
        let mut done = Compaction {
            state: CompactionState::Done,
            auto: self.view.pending().is_none_or(|pending| pending.auto),
            summary: Some(summary[..summary.floor_char_boundary(most)].to_owned()),
            keeps_from: Some(keeps_from),
            asked: asked.map(|asked| self.within(asked, most)),
            steps,
            standing: self.standing().await?,
            carried: Some(self.view.carried()),
            usage,
            ..Compaction::default()
        };
        let opening = compaction::opening(&done).len() + done.asked.as_ref().map_or(0, String::len);
        done.tokens = llm::estimate(opening) + tail;
        let mut batch = Batch::default();
        // What the run under way is about stands in its first entry.
        let began = self.view.answering().map_or(keeps_from, |now| now.began);
        batch.row.base = Some(keeps_from.min(began));
        batch.row.context_tokens = Some(done.tokens);
        batch.row.spent = Some(usage);
        let spends = self.view.answering().filter(|_| usage != Usage::default());
        batch.runs.extend(spends.map(|now| RunChange::Spend { run: now.run.clone(), usage }));
        batch.entries.push(Entry::Compaction(done));
        self.commit(batch).await?;
        self.talk = Talk::Stale;
        // All is sent anew, so the system part can name the tools there are now.
        self.mind = None;
        Ok(())
    }

    /// A prompt that alone would fill the context: how it begins and ends, and where all of it can be read.
    fn within(&self, prompt: String, most: usize) -> String {
        if prompt.len() <= most {
            return prompt;
        }
        let path = self.rt.final_words(&self.row).with_file_name(format!("{}-{}.prompt", self.row.id, self.row.seq));
        let kept = match keep(&path, &prompt) {
            Ok(()) => format!("all of it is in `{}`: read there what you need", path.display()),
            Err(error) => {
                tracing::warn!(session = %self.row.id, %error, "cannot keep a long prompt in a file");
                "it is in the history of this session alone".to_owned()
            }
        };
        compaction::shortened(&prompt, most, &kept)
    }

    /// What must not be lost, whatever the summary says.
    async fn standing(&self) -> Result<Option<String>, Stop> {
        let query = Query { limit: CHILDREN, parent: Some(self.row.id.clone()), ..Query::default() };
        let children = self.rt.store.list(&query).await?.sessions.into_iter().map(|child| compaction::Child {
            id: child.id,
            name: child.name,
            agent: child.agent,
            status: child.status,
            title: child.title,
        });
        let mut asks = Vec::new();
        for ask in self.rt.store.asks(Some(&self.row.root)).await? {
            let asker = self.rt.store.session(&ask.session).await?;
            if ask.session != self.row.id && asker.is_some_and(|row| row.path.starts_with(&self.row.path)) {
                let (id, pattern) = (ask.id.to_string(), ask.patterns.join(", "));
                asks.push(compaction::Question { id, session: ask.session, permission: ask.permission, pattern });
            }
        }
        let standing = Standing {
            identity: self.lead().await?,
            children: children.collect(),
            asks,
            todo: self.view.todo(),
            plan: self.view.plan(),
            mode: Some(self.role.mode).filter(|mode| *mode != Mode::Ask).map(Mode::as_str),
            loaded: self.view.loaded(),
            jobs: self.view.jobs().collect(),
        };
        Ok(standing.text())
    }

    /// Who this session is, with who else is there by now.
    async fn lead(&self) -> Result<Option<String>, Stop> {
        let Some(parent) = &self.row.parent else { return Ok(None) };
        let lead = self.rt.store.session(parent).await?;
        let text = self.rt.identity(&self.row, lead.as_ref()).await;
        Ok(text.ok().filter(|text| !text.is_empty()))
    }

    /// There is no room left in the context, and none can be made.
    pub(super) async fn out_of_room(&mut self) -> Result<(), Stop> {
        let message = "the conversation no longer fits the model's context, and summing it up makes no more room";
        let hint = "choose a model with a larger context for this session, or start a new one";
        self.end(Ending::error(Code::Unavailable, message, Some(hint))).await
    }

    /// The model's server says that the conversation is too long.
    pub(super) async fn overflowed(&mut self, error: &llm::Error) -> Result<(), Stop> {
        if !self.role.here.loaded.config.compaction.auto {
            let hint = "make room with `/compact` (`compaction.auto` is off), or choose a model with a larger context";
            return self.end(Ending::error(Code::Unavailable, &error.to_string(), Some(hint))).await;
        }
        let pending = Compaction { auto: true, ..Compaction::default() };
        self.commit(Batch { entries: vec![Entry::Compaction(pending)], ..Batch::default() }).await
    }
}
