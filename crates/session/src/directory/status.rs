//! What a session is, does and may do (S10), with the reason for every tool it lacks.

use crate::actor::Role;
use crate::budget::Budget;
use crate::directory::rows;
use crate::grant::Grant;
use crate::runtime::Inner;
use proto::methods::{RuleRow, StatusReport, ToolRow};
use proto::{Error, Rule};
use std::sync::Arc;
use store::{Query, Session};

pub(super) async fn report(rt: &Arc<Inner>, session: Session, canonical: bool) -> Result<StatusReport, Error> {
    let role = Role::new(rt, &session, &session.agent);
    let shown = |key: &str| if canonical { key.to_owned() } else { rt.display_key(key) };
    let query = Query { limit: 100, parent: Some(session.id.clone()), ..Query::default() };
    let children = rt.store.list(&query).await?.sessions;
    let parent = match &session.parent {
        Some(parent) => rt.store.session(parent).await?.map(|parent| shown(&parent.key)),
        None => None,
    };
    let (model, thinking_level) = rows::model(rt, &session);
    let window = role.here.model(&model).map_or(0, |(_, model)| model.context);
    // One that rests has before it what its next run will have.
    let purses = match &session.run {
        Some(run) => rt.store.purses(run).await?,
        None => Vec::new(),
    };
    let budget = Budget::of(&purses, &rt.limits);
    Ok(StatusReport {
        session_key: shown(&session.key),
        context_share: if window == 0 { 0.0 } else { session.context_tokens as f64 / window as f64 },
        tools: role.explained().map(|(name, step)| row(name, step)).collect(),
        permission: permission(&role, &session),
        children: children.iter().map(|child| shown(&child.key)).collect(),
        budget: budget.shown(),
        channel: rows::channel(&session.kind).into(),
        session_id: session.id,
        owner: session.owner,
        agent: session.agent,
        kind: session.kind,
        model,
        thinking_level,
        status: session.status,
        run_id: session.run,
        usage: session.usage,
        parent,
        queue: session.pending,
        worktree: session.worktree,
    })
}

fn row(name: &str, denied_by: Option<&str>) -> ToolRow {
    ToolRow { name: name.into(), allowed: denied_by.is_none(), step: denied_by.unwrap_or("rules").into() }
}

/// The rules that decide, with where each set comes from.
fn permission(role: &Role, session: &Session) -> Vec<RuleRow> {
    let grant = Grant::read(&session.policy);
    let from = |rules: &[Rule], origin: &str| -> Vec<RuleRow> {
        rules.iter().map(|rule| RuleRow { rule: rule.clone(), origin: origin.into() }).collect()
    };
    let mut rows = from(&role.profile.rules, "agent");
    rows.extend(from(&grant.rules, "session"));
    grant.ancestors.iter().for_each(|set| rows.extend(from(set, "parent")));
    rows
}
