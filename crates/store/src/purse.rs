//! Purses: what a run and all it starts may spend, and what is gone of it (S8).
//!
//! Each run writes what it used to its own row, in the commit that stores the reply. A purse is the sum of the runs that
//! spend from it, made when somebody asks: so nothing is a row that many write to, and nothing has to be given back.

use crate::Error;
use proto::RunId;
use proto::letter::Allotment;

/// What a run was given to spend, and what is gone of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Purse {
    pub run: RunId,
    pub allotted: Allotment,
    pub used: Used,
}

/// What a run, and all that spends from its purse, has used. What was allotted to a run that goes on counts as used.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Used {
    pub cost_usd: f64,
    pub tokens: u64,
    pub agents: u64,
}

impl Used {
    /// With what was promised, where that is more.
    pub(crate) fn reserved(self, promised: Allotment) -> Self {
        Self {
            cost_usd: promised.cost_usd.map_or(self.cost_usd, |most| most.max(self.cost_usd)),
            tokens: promised.tokens.map_or(self.tokens, |most| most.max(self.tokens)),
            agents: promised.agents.map_or(self.agents, |most| most.max(self.agents)),
        }
    }
}

impl std::ops::AddAssign for Used {
    fn add_assign(&mut self, other: Self) {
        self.cost_usd += other.cost_usd;
        self.tokens += other.tokens;
        self.agents += other.agents;
    }
}

/// Sums of dollars are off by this at most: far below what any token costs.
pub const DUST: f64 = 1e-9;

/// Refuses what a purse does not hold: for each thing asked, the nearest purse that bounds it decides.
pub(crate) fn check_purses(purses: &[Purse], asked: Allotment) -> Result<(), Error> {
    let short = |what: String| Err(Error::Overdrawn(what));
    if let Some(asked) = asked.cost_usd
        && let Some((most, used)) = purses.iter().find_map(|p| Some((p.allotted.cost_usd?, p.used.cost_usd)))
        && used + asked > most + DUST
    {
        return short(format!("${asked:.2} was asked for, ${:.2} is left", (most - used).max(0.0)));
    }
    if let Some(asked) = asked.tokens
        && let Some((most, used)) = purses.iter().find_map(|p| Some((p.allotted.tokens?, p.used.tokens)))
        && used.saturating_add(asked) > most
    {
        return short(format!("{asked} tokens were asked for, {} are left", most.saturating_sub(used)));
    }
    if let Some(asked) = asked.agents
        && let Some((most, used)) = purses.iter().find_map(|p| Some((p.allotted.agents?, p.used.agents)))
        && used.saturating_add(asked) > most
    {
        return short(format!("{asked} sessions were asked for, {} are left", most.saturating_sub(used)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn purse(allotted: Allotment, used: Used) -> Purse {
        Purse { run: RunId::new(), allotted, used }
    }

    #[test]
    fn the_nearest_purse_that_bounds_a_thing_decides() {
        let near =
            purse(Allotment { tokens: Some(100), ..Allotment::default() }, Used { tokens: 40, ..Used::default() });
        let far = purse(
            Allotment { cost_usd: Some(2.0), tokens: Some(10), agents: Some(3) },
            Used { cost_usd: 1.5, tokens: 10, agents: 2 },
        );
        let check = |asked| check_purses(&[near.clone(), far.clone()], asked).map_err(|error| error.to_string());
        let none = Allotment::default();
        assert_eq!(check(none), Ok(()));
        assert_eq!(check(Allotment { tokens: Some(60), ..none }), Ok(()));
        assert!(check(Allotment { tokens: Some(61), ..none }).unwrap_err().contains("60 are left"));
        assert_eq!(check(Allotment { cost_usd: Some(0.5), agents: Some(1), ..none }), Ok(()));
        assert!(check(Allotment { cost_usd: Some(0.6), ..none }).unwrap_err().contains("$0.50 is left"));
        assert!(check(Allotment { agents: Some(2), ..none }).unwrap_err().contains("1 are left"));
    }
}
