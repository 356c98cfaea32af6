//! The board of a tree, as methods and tools are asked for it (C7).

use crate::shape::{Chosen, Ref, TaskCursor, TaskOwner, TaskTitle};
use crate::{BoardTask, SessionId, TaskState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct BoardListInput {
    /// Any session of the tree; the newest root without it.
    #[serde(alias = "ref", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Ref>")]
    pub session: Option<String>,
    /// Only tasks in these states.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<TaskState>,
    /// Only tasks of this owner: a session's id, or `person`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<TaskOwner>")]
    pub owner: Option<String>,
    /// Only this task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// 100 without it, 200 at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// `nextCursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<TaskCursor>")]
    pub cursor: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BoardPage {
    /// The root of the tree it belongs to.
    pub root: SessionId,
    pub count: usize,
    pub tasks: Vec<BoardTask>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(extend("required" = ["title"]))]
pub struct BoardAddInput {
    /// Any session of the tree; the newest root without it.
    #[serde(alias = "ref", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Ref>")]
    pub session: Option<String>,
    /// At most 500 characters.
    #[schemars(with = "TaskTitle")]
    pub title: String,
    /// At most 32 KiB.
    pub description: String,
    /// Numbers of tasks that come first, at most 100.
    #[serde(alias = "blocked_by")]
    #[schemars(length(max = 100))]
    pub blocked_by: Vec<u64>,
    /// The same key again adds nothing and answers the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Chosen>")]
    pub idempotency_key: Option<String>,
}

/// What is to change of a task; what is left out stays.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct BoardUpdateInput {
    /// Any session of the tree; the newest root without it.
    #[serde(alias = "ref", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Ref>")]
    pub session: Option<String>,
    pub number: u64,
    /// The version that was seen: refused with `conflict` if there is another by now. Whatever there is, without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<TaskTitle>")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// `in_progress` claims it, `pending` gives it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<TaskState>,
    /// All tasks that come first.
    #[serde(alias = "blocked_by", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100))]
    pub blocked_by: Option<Vec<u64>>,
    /// More tasks that come first.
    #[serde(alias = "add_blocked_by", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub add_blocked_by: Vec<u64>,
    /// At most 4 KiB; an empty one takes the old one away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The same key again changes nothing and answers the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Chosen>")]
    pub idempotency_key: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct BoardClaimInput {
    /// Any session of the tree; the newest root without it.
    #[serde(alias = "ref", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Ref>")]
    pub session: Option<String>,
    /// The first task that is free, without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// The same key again changes nothing and answers the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Chosen>")]
    pub idempotency_key: Option<String>,
}
