//! What a run may still spend (S8): pure arithmetic over its purse and those above it.
//!
//! A run does not look at its purse before every step. It looks after its first one, and then whenever it has spent a
//! hundredth of what was left: what others spend meanwhile it may miss, but never by more than that for each of them.

use proto::Usage;
use proto::letter::Allotment;
use proto::methods::Budget as Shown;
use store::{DUST, Purse};

/// So many looks until a budget is spent, at least.
const LOOKS: f64 = 100.0;

/// Limits and what is gone of them, each by the nearest purse that bounds it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Budget {
    cost: Meter<f64>,
    tokens: Option<Meter<u64>>,
    agents: Meter<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Meter<T> {
    most: T,
    used: T,
    /// It is an allotment of the spawn call, not a setting.
    allotted: bool,
}

/// The settings as the limits of a run that begins a purse of its own.
pub(crate) fn limits(limits: &config::Limits) -> Allotment {
    Allotment { cost_usd: Some(limits.cost_usd), tokens: limits.tokens, agents: Some(u64::from(limits.agents)) }
}

impl Budget {
    pub(crate) fn of(purses: &[Purse], settings: &config::Limits) -> Self {
        let set = limits(settings);
        let top = purses.last().map(|purse| purse.used).unwrap_or_default();
        // Only the first purse of a chain has its limits from the settings.
        let allotted = |at: usize| at + 1 < purses.len();
        let cost = purses.iter().enumerate().find_map(|(at, purse)| {
            Some(Meter { most: purse.allotted.cost_usd?, used: purse.used.cost_usd, allotted: allotted(at) })
        });
        let tokens = purses.iter().enumerate().find_map(|(at, purse)| {
            Some(Meter { most: purse.allotted.tokens?, used: purse.used.tokens, allotted: allotted(at) })
        });
        let agents = purses.iter().enumerate().find_map(|(at, purse)| {
            Some(Meter { most: purse.allotted.agents?, used: purse.used.agents, allotted: allotted(at) })
        });
        Self {
            cost: cost.unwrap_or(Meter { most: settings.cost_usd, used: top.cost_usd, allotted: false }),
            tokens: tokens.or(set.tokens.map(|most| Meter { most, used: top.tokens, allotted: false })),
            agents: agents.unwrap_or(Meter { most: u64::from(settings.agents), used: top.agents, allotted: false }),
        }
    }

    /// With what was spent since.
    pub(crate) fn after(mut self, spent: Usage) -> Self {
        self.cost.used += spent.cost_usd;
        if let Some(tokens) = &mut self.tokens {
            tokens.used = tokens.used.saturating_add(spent.context());
        }
        self
    }

    /// Whether so much is enough to look again.
    pub(crate) fn is_old(&self, spent: Usage) -> bool {
        let enough = |spent: f64, left: f64| spent > 0.0 && spent * LOOKS >= left;
        let tokens = self.left_tokens().is_some_and(|left| enough(spent.context() as f64, left as f64));
        tokens || enough(spent.cost_usd, self.left_usd())
    }

    /// What is spent, in words; `None` while there is something left.
    pub(crate) fn spent(&self) -> Option<String> {
        // Free models go on whatever the limit: nothing is spent.
        if self.cost.used > 0.0 && self.cost.used + DUST >= self.cost.most {
            return Some(format!("${:.2} of ${:.2}{}", self.cost.used, self.cost.most, self.cost.from("costUsd")));
        }
        let tokens = self.tokens.filter(|tokens| tokens.used > 0 && tokens.used >= tokens.most)?;
        Some(format!("{} of {} tokens{}", tokens.used, tokens.most, tokens.from("tokens")))
    }

    /// Why one more session cannot be started, with `planned` more on their way.
    pub(crate) fn no_agents(&self, planned: u64) -> Option<String> {
        let most = self.agents.most;
        (self.agents.used + planned >= most).then(|| format!("{most} sessions{}", self.agents.from("agents")))
    }

    pub(crate) fn left_usd(&self) -> f64 {
        (self.cost.most - self.cost.used).max(0.0)
    }

    fn left_tokens(&self) -> Option<u64> {
        self.tokens.map(|tokens| tokens.most.saturating_sub(tokens.used))
    }

    /// Why so much cannot be given away.
    pub(crate) fn lacks(&self, asked: Allotment) -> Option<String> {
        let (left, tokens) = (self.left_usd(), self.left_tokens());
        let agents = self.agents.most.saturating_sub(self.agents.used);
        if let Some(asked) = asked.cost_usd.filter(|asked| *asked > left + DUST) {
            return Some(format!("${asked:.2} was asked for, ${left:.2} is left"));
        }
        if let Some((asked, left)) = asked.tokens.zip(tokens).filter(|(asked, left)| asked > left) {
            return Some(format!("{asked} tokens were asked for, {left} are left"));
        }
        let asked = asked.agents.filter(|asked| *asked > agents)?;
        Some(format!("{asked} sessions were asked for, {agents} are left"))
    }

    pub(crate) fn shown(&self) -> Shown {
        Shown {
            agents: self.agents.most.saturating_sub(self.agents.used),
            cost_usd: self.left_usd(),
            tokens: self.left_tokens(),
            limits: Allotment {
                cost_usd: Some(self.cost.most),
                tokens: self.tokens.map(|tokens| tokens.most),
                agents: Some(self.agents.most),
            },
        }
    }
}

impl<T> Meter<T> {
    /// Where the limit is from.
    fn from(&self, setting: &str) -> String {
        if self.allotted { " (the `budget` it was started with)".into() } else { format!(" (`limits.{setting}`)") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::RunId;
    use store::Used;

    fn purse(allotted: Allotment, cost_usd: f64, tokens: u64, agents: u64) -> Purse {
        Purse { run: RunId::new(), allotted, used: Used { cost_usd, tokens, agents } }
    }

    fn settings() -> config::Limits {
        config::Limits { cost_usd: 10.0, agents: 5, ..config::Limits::default() }
    }

    #[test]
    fn a_run_of_its_own_is_held_to_the_settings() {
        let budget = Budget::of(&[purse(Allotment::default(), 9.0, 100, 4)], &settings());
        assert_eq!((budget.left_usd(), budget.left_tokens(), budget.spent()), (1.0, None, None));
        assert_eq!((budget.no_agents(0), budget.no_agents(1).is_some()), (None, true));
        let spent = budget.after(Usage { cost_usd: 1.0, ..Usage::default() }).spent().unwrap();
        assert_eq!(spent, "$10.00 of $10.00 (`limits.costUsd`)");
    }

    #[test]
    fn each_thing_is_bounded_by_the_nearest_purse_that_speaks_of_it() {
        let near = purse(Allotment { tokens: Some(50), ..Allotment::default() }, 0.5, 50, 0);
        let far = purse(limits(&settings()), 4.0, 900, 2);
        let budget = Budget::of(&[near, far], &settings());
        assert_eq!(budget.left_usd(), 6.0);
        assert_eq!(budget.spent().unwrap(), "50 of 50 tokens (the `budget` it was started with)");
        let lacks = |asked| budget.lacks(asked);
        assert!(lacks(Allotment { cost_usd: Some(6.0), agents: Some(3), tokens: None }).is_none());
        assert!(lacks(Allotment { cost_usd: Some(6.1), ..Allotment::default() }).unwrap().contains("$6.00 is left"));
        assert!(lacks(Allotment { agents: Some(4), ..Allotment::default() }).unwrap().contains("3 are left"));
        assert!(lacks(Allotment { tokens: Some(1), ..Allotment::default() }).unwrap().contains("0 are left"));
    }

    #[test]
    fn a_hundredth_of_what_is_left_is_enough_to_look_again() {
        let budget = Budget::of(&[purse(Allotment::default(), 5.0, 0, 0)], &settings());
        let usd = |cost_usd| Usage { cost_usd, input: 1_000_000, ..Usage::default() };
        assert!(!budget.is_old(usd(0.0)) && !budget.is_old(usd(0.04)) && budget.is_old(usd(0.05)));
    }

    #[test]
    fn what_costs_nothing_is_never_spent() {
        let nothing = config::Limits { cost_usd: 0.0, ..config::Limits::default() };
        assert_eq!(Budget::of(&[purse(Allotment::default(), 0.0, 9, 0)], &nothing).spent(), None);
        assert!(Budget::of(&[purse(Allotment::default(), 0.01, 9, 0)], &nothing).spent().is_some());
    }
}
