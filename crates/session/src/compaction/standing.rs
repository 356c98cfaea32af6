//! What stands beside a summary: facts from the store that no summary may lose, and how a model is told both.

use proto::entry::Compaction;
use proto::{Job, SessionId, Status, Todo};
use std::fmt::Write;

/// Children and questions that are named; more are counted.
const NAMED: usize = 30;

/// What a session has to know beside what was said.
#[derive(Debug, Default)]
pub(crate) struct Standing<'a> {
    /// Who it is, when another session started it.
    pub(crate) identity: Option<String>,
    pub(crate) children: Vec<Child>,
    pub(crate) asks: Vec<Question>,
    pub(crate) todo: &'a [Todo],
    pub(crate) plan: Option<&'a str>,
    /// The permission mode, when it is not the usual one.
    pub(crate) mode: Option<&'a str>,
    pub(crate) loaded: &'a [String],
    pub(crate) jobs: Vec<&'a Job>,
}

#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) id: SessionId,
    pub(crate) name: Option<String>,
    pub(crate) agent: String,
    pub(crate) status: Status,
    pub(crate) title: Option<String>,
}

/// What a session below waits to be told.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) id: String,
    pub(crate) session: SessionId,
    pub(crate) permission: String,
    pub(crate) pattern: String,
}

impl Standing<'_> {
    /// In words, or nothing.
    pub(crate) fn text(&self) -> Option<String> {
        let mut text = String::new();
        if let Some(identity) = &self.identity {
            writeln!(text, "{identity}").ok();
        }
        self.children(&mut text);
        self.asks(&mut text);
        if !self.todo.is_empty() {
            text.push_str("Your list of what is left to do:\n");
            self.todo.iter().for_each(|todo| line(&mut text, &todo.to_string()));
        }
        if let Some(plan) = self.plan {
            writeln!(text, "The plan that was approved:\n{}", plan.trim()).ok();
        }
        if let Some(mode) = self.mode {
            writeln!(text, "Your permission mode is `{mode}`.").ok();
        }
        if !self.jobs.is_empty() {
            text.push_str("Commands you have started in the background:\n");
            for job in &self.jobs {
                line(&mut text, &format!("`{}`: `{}`, with its output in `{}`", job.id, job.command, job.file));
            }
        }
        if !self.loaded.is_empty() {
            writeln!(text, "Tools you have loaded: {}.", self.loaded.join(", ")).ok();
        }
        (!text.is_empty()).then_some(text)
    }

    fn children(&self, text: &mut String) {
        if self.children.is_empty() {
            return;
        }
        text.push_str("Agents you have started, newest first:\n");
        for child in self.children.iter().take(NAMED) {
            let name = child.name.as_ref().map(|name| format!("`{name}`, ")).unwrap_or_default();
            let title = child.title.as_ref().map(|title| format!(": {title}")).unwrap_or_default();
            line(text, &format!("{name}`{}` (agent `{}`) is {}{title}", child.id, child.agent, child.status.as_str()));
        }
        more(text, self.children.len());
    }

    fn asks(&self, text: &mut String) {
        if self.asks.is_empty() {
            return;
        }
        text.push_str("Questions of theirs that nobody has answered:\n");
        for ask in self.asks.iter().take(NAMED) {
            let pattern: String = ask.pattern.chars().take(120).collect();
            line(text, &format!("`{}` of `{}`: may it `{}` `{pattern}`?", ask.id, ask.session, ask.permission));
        }
        more(text, self.asks.len());
    }
}

fn line(text: &mut String, said: &str) {
    writeln!(text, "- {said}").ok();
}

fn more(text: &mut String, all: usize) {
    if all > NAMED {
        line(text, &format!("and {} more", all - NAMED));
    }
}

/// How a conversation begins that was summed up.
pub(crate) fn opening(compaction: &Compaction) -> String {
    let summary = compaction.summary.as_deref().unwrap_or_default().trim();
    let steps = compaction.steps;
    let mut text = format!(
        "[notice from the runtime, not from a person] What was said before this point was summed up to make room. Go on \
         from the summary; what follows it is as it was said.\n<summary steps=\"{steps}\">\n{summary}\n</summary>"
    );
    if let Some(standing) = &compaction.standing {
        text.push_str(&format!("\n<state>\n{}\n</state>", standing.trim()));
    }
    text
}
