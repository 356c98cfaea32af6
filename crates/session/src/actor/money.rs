//! Money: a run looks at its purse now and then, and ends when it is spent.

use super::runs::Ending;
use super::{Actor, Stop};
use crate::budget::Budget;
use proto::{Code, RunId, Usage};

/// What a purse held when it was last looked at.
pub(super) struct Look {
    run: RunId,
    budget: Budget,
    /// What the run itself had used by then.
    used: Usage,
}

impl Actor {
    /// Looks at the purse of the run under way, if that is due before the next step. The first step is taken without a
    /// look: whoever started the run had one.
    pub(super) async fn look_at_budget(&mut self) -> Result<(), Stop> {
        let Some(now) = self.view.answering() else { return Ok(()) };
        if now.steps == 0 || now.answered || self.thinking || !self.view.open().is_empty() {
            return Ok(());
        }
        let is_new = |look: &Look| look.run == now.run && !look.budget.is_old(since(now.used, look.used));
        if self.look.as_ref().is_some_and(is_new) {
            return Ok(());
        }
        let budget = Budget::of(&self.rt.store.purses(&now.run).await?, &self.rt.limits);
        self.look = Some(Look { run: now.run.clone(), budget, used: now.used });
        Ok(())
    }

    /// What is spent, in words, as far as this run knows.
    pub(super) fn spent(&self) -> Option<String> {
        let (now, look) = (self.view.answering()?, self.look.as_ref()?);
        if now.run != look.run { None } else { look.budget.after(since(now.used, look.used)).spent() }
    }

    /// Ends the run over its budget. The session stays usable: the next prompt brings money of its own.
    pub(super) async fn end_broke(&mut self) -> Result<(), Stop> {
        let spent = self.spent().unwrap_or_default();
        let hint = "send the next prompt, which has a budget of its own, or raise the limit";
        self.end(Ending::error(Code::LimitBudget, &format!("the budget is spent: {spent}"), Some(hint))).await
    }

    /// Ends a run whose model was told to conclude and did not.
    pub(super) async fn end_exhausted(&mut self) -> Result<(), Stop> {
        let (agent, steps) = (&self.role.profile.name, self.limits().steps.unwrap_or_default());
        let why = format!("the agent `{agent}` used up its {steps} steps and still called tools");
        let hint = "send the next prompt, which has steps of its own, or raise `steps` of the agent, or `--max-turns` of the run";
        self.end(Ending::error(Code::LimitBudget, &why, Some(hint))).await
    }

    /// Ends a run whose model makes the same calls again and again, and does not hear that they are refused.
    pub(super) async fn end_hopeless(&mut self) -> Result<(), Stop> {
        let why = "the model repeated the same calls, was refused, and went on repeating them";
        let hint = "say in the next prompt what it should do otherwise, or choose another model";
        self.end(Ending::error(Code::Cycle, why, Some(hint))).await
    }
}

fn since(used: Usage, before: Usage) -> Usage {
    Usage {
        input: used.input.saturating_sub(before.input),
        output: used.output.saturating_sub(before.output),
        cache_read: used.cache_read.saturating_sub(before.cache_read),
        cache_write: used.cache_write.saturating_sub(before.cache_write),
        cost_usd: (used.cost_usd - before.cost_usd).max(0.0),
    }
}
