//! Names for sessions: the hidden agent `title` reads the first exchange and says what it is about.
//!
//! Nothing waits for it. Until it is there, and where it never comes, a session is called by the first words it was told.
//! The name comes as a letter, as a person's would, so there is one way to be renamed.

use super::Actor;
use crate::hidden;
use crate::runtime::control;
use llm::Part;
use proto::entry::Entry;
use proto::letter::{InputPart, Sender, Switch};
use proto::{Body, LetterId, Outcome, RunId};
use store::Span;

/// The agent that names.
const AGENT: &str = "title";

/// What is read of a prompt and of its answer, and the longest name, in characters.
const READ: usize = 2_000;
const LONGEST: usize = 80;

impl Actor {
    /// The first run and its answer, when these entries end it well and nobody has named the session.
    pub(super) fn first_exchange(&self, entries: &[Entry]) -> Option<(RunId, String)> {
        let run = entries.iter().filter(|_| self.unnamed).find_map(ended_well)?;
        let replied = |entry: &Entry| if let Entry::Reply(reply) = entry { Some(reply.text()) } else { None };
        let before = || self.view.answering().and_then(|now| now.said.as_ref()).map(|(_, said)| said.to_string());
        Some((run, entries.iter().rev().find_map(replied).or_else(before).unwrap_or_default()))
    }

    /// Has the session named, where a model is set for that. A person's name for it stays.
    pub(super) fn name_after(&mut self, run: &RunId, answer: &str) {
        self.unnamed = false;
        let here = self.role.here.clone();
        let Ok(profile) = here.agents.get(AGENT).cloned() else { return };
        let Some(small) = profile.model.clone().or_else(|| here.loaded.config.small_model.clone()) else { return };
        let name = profile.model_or(|| small);
        let Ok((provider, model)) = here.model(&name) else {
            tracing::warn!(session = %self.row.id, model = name, "there is no such model to name sessions with");
            return;
        };
        let (rt, slot, id, before) = (self.rt.clone(), self.slot.clone(), self.row.id.clone(), self.row.title.clone());
        let (answer, letter) = (cut(answer, READ), LetterId::derived("title_", run.as_str()));
        let work = async move {
            let first = rt.store.entries(&id, Span::After { seq: 0, limit: 1 }).await.ok()?;
            let prompt = first.iter().find_map(|stored| words(&stored.entry))?;
            let text =
                format!("<prompt>\n{}\n</prompt>\n<answer>\n{answer}\n</answer>\n\nName it.", cut(&prompt, READ));
            let reply = tokio::select! {
                reply = hidden::ask(&profile, provider.as_ref(), model, &text, Some(&slot)) => reply.ok()?,
                () = rt.stop_token().cancelled() => return None,
            };
            let unchanged = rt.store.session(&id).await.ok()?.is_some_and(|row| row.title == before);
            // It is paid for, whatever became of it.
            let (title, spent) = (title(&reply.parts).filter(|_| unchanged), Some(reply.usage));
            let change = Switch { title, spent, ..Switch::default() };
            let mut post = control(letter, &id, Body::Switch(change));
            post.letter.from = Sender::Runtime;
            rt.post(vec![post]).await.ok()
        };
        let session = self.row.id.clone();
        self.rt.spawn(async move {
            if work.await.is_none() {
                tracing::debug!(%session, "keeps the name it has");
            }
        });
    }
}

fn ended_well(entry: &Entry) -> Option<RunId> {
    match entry {
        Entry::Ended(ended) if ended.outcome == Outcome::Ok => Some(ended.run.clone()),
        _ => None,
    }
}

fn words(entry: &Entry) -> Option<String> {
    let Entry::Input(input) = entry else { return None };
    input.parts.iter().find_map(|part| match part {
        InputPart::Text { text } => Some(text.clone()),
        InputPart::File { .. } | InputPart::Subtask { .. } => None,
    })
}

/// The first line of what was said, without the marks that models put around it.
fn title(parts: &[Part]) -> Option<String> {
    let said = hidden::words(parts);
    let line = said
        .lines()
        .map(|line| line.trim().trim_matches(['"', '\'', '`', '*', '#', '.', ' ']))
        .find(|line| !line.is_empty())?;
    Some(cut(line, LONGEST))
}

fn cut(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_plain_line() {
        let named = |said: &str| title(&[Part::Text(said.into())]);
        assert_eq!(named("\n\"Mending the roof.\"\nBecause…").as_deref(), Some("Mending the roof"));
        assert_eq!(named("**Roof**").as_deref(), Some("Roof"));
        assert_eq!(named(&"x".repeat(100)).map(|name| name.len()), Some(80));
        assert_eq!(named(" \n\"\"\n"), None);
    }
}
