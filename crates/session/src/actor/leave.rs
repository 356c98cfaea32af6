//! What a running call may touch: judged once more when it is about to, since names may lead elsewhere by then.

use super::role::Role;
use crate::runtime::Inner;
use proto::{Action, Rule};
use std::path::Path;
use std::sync::Arc;
use store::Ask;
use tools::Access;

pub(super) struct Leave {
    pub(super) rt: Arc<Inner>,
    pub(super) role: Arc<Role>,
    /// The question about this call that was answered with yes.
    pub(super) answered: Option<Ask>,
}

impl tools::door::Leave for Leave {
    fn has(&self, permission: &str, pattern: &str) -> bool {
        match self.role.judge(permission, pattern) {
            Action::Allow => true,
            Action::Deny => false,
            Action::Ask => {
                self.was_answered(permission, pattern)
                    || was_allowed(&self.rt, &self.role, &Access::new(permission, pattern))
            }
        }
    }

    fn is_private(&self, path: &Path) -> bool {
        self.role.is_private(path)
    }
}

impl Leave {
    fn was_answered(&self, permission: &str, pattern: &str) -> bool {
        let asked = |ask: &Ask| {
            let mut asked = ask.rules.iter().zip(&ask.patterns);
            asked.any(|(rule, asked)| rule.permission == permission && asked == pattern)
        };
        self.answered.as_ref().is_some_and(asked)
    }
}

/// Whether a person answered the same with "always" before. Looked up when something would be asked, so that an answer
/// that was taken back no longer counts.
pub(super) fn was_allowed(rt: &Inner, role: &Role, access: &Access) -> bool {
    let always = rt.settings.always().into_iter();
    let always: Vec<Rule> = always.filter(|kept| kept.project == role.worktree).map(|kept| kept.rule()).collect();
    role.judge_after(&always, &access.permission, &access.pattern) == Action::Allow
}
