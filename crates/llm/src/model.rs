//! What is known about a model before asking it.

use proto::Usage;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One model of a provider.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Model {
    /// As the provider names it, without the provider.
    pub name: String,
    /// The window, in tokens.
    pub context: u64,
    /// The most it may answer, in tokens; 0 where nobody knows.
    pub output: u64,
    pub cost: Option<Cost>,
    pub reasoning: Reasoning,
    pub effort: Option<Effort>,
    /// Tokens it may think with, where somebody said a number.
    pub budget: Option<u64>,
    /// Ways it can be asked, beside its usual one.
    pub variants: BTreeMap<String, Variant>,
    /// It can be shown images.
    pub images: bool,
    /// Its server takes tools that the model does not see before it is pointed at them.
    pub defers: bool,
}

impl Model {
    /// A model of which nothing but its limits is known.
    pub fn new(name: impl Into<String>, context: u64, output: u64) -> Self {
        Self { name: name.into(), context, output, ..Self::default() }
    }

    /// The variants it can be asked in: those that are set, and for a model that thinks how hard.
    pub fn variants(&self) -> BTreeMap<String, Variant> {
        let levels = Effort::ALL.iter().filter(|_| self.reasoning != Reasoning::None);
        let level =
            |effort: &Effort| (effort.as_str().to_owned(), Variant { effort: Some(*effort), ..Variant::default() });
        levels.map(level).chain(self.variants.clone()).collect()
    }

    /// The same model asked in a variant; `None` if it has none of that name.
    pub fn in_variant(mut self, name: &str) -> Option<Self> {
        let Variant { effort, budget, output } = self.variants().remove(name)?;
        (self.effort, self.budget) = (effort.or(self.effort), budget);
        self.output = output.unwrap_or(self.output);
        if self.reasoning == Reasoning::None {
            // Whoever set it knows how the server wants to be told.
            self.reasoning = if budget.is_some() { Reasoning::Budget } else { Reasoning::Effort };
        }
        Some(self)
    }

    /// Tokens it is to think with, by what is said of that.
    pub(crate) fn thinks_with(&self) -> Option<u64> {
        self.budget.or(self.effort.map(Effort::budget))
    }
}

/// A way to ask a model, by a name of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Variant {
    pub effort: Option<Effort>,
    /// Tokens to think with, for models that are told a number.
    pub budget: Option<u64>,
    /// The longest answer, in tokens.
    pub output: Option<u64>,
}

/// Dollars for a million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cost {
    pub input: f64,
    pub output: f64,
    /// Without one, what comes from the cache costs as much as what does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
}

impl Cost {
    /// What these tokens cost, in dollars.
    pub fn of(&self, usage: &Usage) -> f64 {
        let priced = [
            (usage.input, self.input),
            (usage.output, self.output),
            (usage.cache_read, self.cache_read.unwrap_or(self.input)),
            (usage.cache_write, self.cache_write.unwrap_or(self.input)),
        ];
        priced.into_iter().map(|(tokens, price)| tokens as f64 * price / 1_000_000.0).sum()
    }
}

/// How a model is told to think.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reasoning {
    /// It does not, or nobody knows.
    #[default]
    None,
    /// By a number of tokens it may spend on it.
    Budget,
    /// By a word for how hard. Such models refuse to be told a temperature.
    Effort,
}

/// How hard a model thinks before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    Low,
    Medium,
    High,
}

impl Effort {
    pub const ALL: [Self; 3] = [Self::Low, Self::Medium, Self::High];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    /// The same as a number of tokens.
    pub fn budget(self) -> u64 {
        match self {
            Self::Low => 4_000,
            Self::Medium => 12_000,
            Self::High => 28_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_the_cache_have_prices_of_their_own_or_those_of_the_input() {
        let usage =
            Usage { input: 1_000_000, output: 100_000, cache_read: 2_000_000, cache_write: 1_000_000, cost_usd: 0.0 };
        let cost = Cost { input: 3.0, output: 15.0, cache_read: Some(0.3), cache_write: Some(3.75) };
        assert!((cost.of(&usage) - 8.85).abs() < 1e-9, "{}", cost.of(&usage));
        let plain = Cost { cache_read: None, cache_write: None, ..cost };
        assert!((plain.of(&usage) - 13.5).abs() < 1e-9, "{}", plain.of(&usage));
    }
}
