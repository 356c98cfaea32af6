//! The worktree a session works in: in its row, in the entry that moved it there, and in its status.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Worktree {
    pub name: String,
    /// Absolute and free of symlinks.
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// The branch that was checked out where it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_branch: Option<String>,
    /// Where the session came from, and goes back to.
    pub original_cwd: String,
    /// A hook of the user's made it, so a hook takes it away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_hook: bool,
    /// It was made for this session, which cannot leave it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub isolated: bool,
}
