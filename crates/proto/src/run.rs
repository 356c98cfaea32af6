//! Words for the state of sessions and runs, and what they cost.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::AddAssign;

/// What a session is doing (S10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Idle,
    Queued,
    Running,
    Waiting,
    Asking,
    Retrying,
    Done,
    Failed,
    Killed,
    Timeout,
    Interrupted,
    Stranded,
    /// Takes letters and starts nothing until a person resumes it.
    Paused,
}

impl Status {
    pub const ALL: [Self; 13] = [
        Self::Idle,
        Self::Queued,
        Self::Running,
        Self::Waiting,
        Self::Asking,
        Self::Retrying,
        Self::Done,
        Self::Failed,
        Self::Killed,
        Self::Timeout,
        Self::Interrupted,
        Self::Stranded,
        Self::Paused,
    ];

    /// Something is under way and will go on by itself.
    pub fn is_busy(self) -> bool {
        matches!(self, Self::Queued | Self::Running | Self::Waiting | Self::Asking | Self::Retrying)
    }

    /// Over, unless mail resumes it.
    pub fn is_ended(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Killed | Self::Timeout | Self::Interrupted)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Asking => "asking",
            Self::Retrying => "retrying",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Killed => "killed",
            Self::Timeout => "timeout",
            Self::Interrupted => "interrupted",
            Self::Stranded => "stranded",
            Self::Paused => "paused",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == text)
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Ok,
    Error,
    Cancelled,
}

/// Tokens and money.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub cost_usd: f64,
}

impl Usage {
    /// What the last request filled of the model's context.
    pub fn context(&self) -> u64 {
        let all = [self.input, self.output, self.cache_read, self.cache_write];
        all.into_iter().fold(0, u64::saturating_add)
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.cost_usd += other.cost_usd;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_tokens_stop_at_the_largest_number() {
        let most = Usage { input: u64::MAX, output: 1, cache_read: u64::MAX, cache_write: 0, cost_usd: 1.0 };
        let mut sum = most;
        sum += most;
        assert_eq!((sum.input, sum.output, sum.context()), (u64::MAX, 2, u64::MAX));
    }

    #[test]
    fn every_status_reads_back_and_is_not_both_busy_and_ended() {
        for status in Status::ALL {
            assert_eq!(Status::parse(status.as_str()), Some(status));
            assert!(!(status.is_busy() && status.is_ended()));
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
    }
}
