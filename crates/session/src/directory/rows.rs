//! Sessions as lists show them (S4).

use crate::now;
use crate::runtime::Inner;
use proto::Status;
use proto::methods::{ListInput, SessionInfo};
use std::path::Path;
use store::{Halt, Session};

const KINDS: [&str; 6] = ["main", "group", "cron", "hook", "node", "other"];

/// Unknown names are passed over; none left means no filter.
pub(super) fn kinds(wanted: &[String]) -> Vec<String> {
    let wanted = wanted.iter().map(|kind| kind.trim().to_ascii_lowercase());
    wanted.filter(|kind| KINDS.contains(&kind.as_str())).collect()
}

/// What no index answers: it is looked at row by row.
pub(super) fn fits(input: &ListInput, row: &Session) -> bool {
    let within = |dir: &String| {
        let from = row.worktree.as_ref().map(|worktree| worktree.original_cwd.as_str());
        [Some(row.cwd.as_str()), from].into_iter().flatten().any(|at| Path::new(at).starts_with(dir))
    };
    (input.status.is_empty() || input.status.contains(&row.status))
        && input.name.as_ref().is_none_or(|name| row.name.as_ref().is_some_and(|own| own.eq_ignore_ascii_case(name)))
        && input.cwd.as_ref().is_none_or(within)
}

pub(super) fn info(rt: &Inner, session: Session, children: Vec<String>) -> SessionInfo {
    let (model, thinking_level) = model(rt, &session);
    SessionInfo {
        display_key: rt.display_key(&session.key),
        channel: channel(&session.kind).into(),
        display_name: session.title.clone(),
        updated_at: session.activity,
        created_at: session.created,
        short_id: None,
        system_sent: session.usage.context() > 0,
        aborted_last_run: session.status == Status::Killed || session.halt == Halt::Stopped,
        send_policy: if session.halt == Halt::Stopped { "deny" } else { "allow" }.into(),
        model,
        thinking_level,
        context_tokens: session.context_tokens,
        total_tokens: session.usage.context(),
        estimated_cost_usd: session.usage.cost_usd,
        runtime_ms: runtime_ms(&session),
        child_sessions: children,
        messages: Vec::new(),
        key: session.key,
        kind: session.kind,
        label: session.label,
        name: session.name,
        session_id: session.id,
        parent_id: session.parent,
        owner: session.owner,
        agent: session.agent,
        title: session.title,
        cwd: session.cwd,
        run_id: session.run,
        status: session.status,
        started_at: session.started,
        ended_at: session.ended,
    }
}

/// The model a session runs on, and how hard that is to think.
pub(super) fn model(rt: &Inner, session: &Session) -> (String, Option<String>) {
    let choice = rt.model_of(session);
    let (model, variant) = proto::model::split(&choice);
    (model.to_owned(), variant.map(str::to_owned))
}

/// No session has a channel of its own yet.
pub(super) fn channel(kind: &str) -> &'static str {
    match kind {
        "cron" | "hook" | "node" => "internal",
        _ => "unknown",
    }
}

/// How long the last run took, or takes.
fn runtime_ms(session: &Session) -> Option<u64> {
    let until = if session.status.is_busy() { now() } else { session.ended? };
    u64::try_from(until - session.started?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_kinds_are_passed_over() {
        assert_eq!(kinds(&[" MAIN ".into(), "nonsense".into()]), ["main"]);
        assert!(kinds(&["nonsense".into()]).is_empty());
    }
}
