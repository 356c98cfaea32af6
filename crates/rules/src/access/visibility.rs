//! What may be done to another session, and how far a caller sees.

use serde::{Deserialize, Serialize};

/// What one session does to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Act {
    List,
    History,
    Send,
    Status,
    Control,
}

/// How far a caller sees. Ordered: the smaller of two shows less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Visibility {
    /// Itself and nothing else.
    #[serde(rename = "self")]
    Own,
    /// Also everything below it, however deep.
    #[default]
    Tree,
    /// Also every session of the same owner.
    Agent,
    /// Also other owners' sessions, as far as agent-to-agent allows.
    All,
}

impl Act {
    pub const EVERY: [Self; 5] = [Self::List, Self::History, Self::Send, Self::Status, Self::Control];

    /// The word settings use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::History => "history",
            Self::Send => "send",
            Self::Status => "status",
            Self::Control => "control",
        }
    }

    pub(super) fn parse(word: &str) -> Option<Self> {
        Self::EVERY.into_iter().find(|act| act.as_str() == word)
    }
}

impl Visibility {
    pub const EVERY: [Self; 4] = [Self::Own, Self::Tree, Self::Agent, Self::All];

    /// The word settings use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Own => "self",
            Self::Tree => "tree",
            Self::Agent => "agent",
            Self::All => "all",
        }
    }

    pub(super) fn parse(word: &str) -> Option<Self> {
        Self::EVERY.into_iter().find(|visibility| visibility.as_str() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_in_settings_is_the_word_on_the_wire() {
        for visibility in Visibility::EVERY {
            assert_eq!(serde_json::to_value(visibility).unwrap(), visibility.as_str());
            assert_eq!(Visibility::parse(visibility.as_str()), Some(visibility));
        }
        for act in Act::EVERY {
            assert_eq!(serde_json::to_value(act).unwrap(), act.as_str());
            assert_eq!(Act::parse(act.as_str()), Some(act));
        }
    }

    #[test]
    fn each_step_shows_more_than_the_one_before() {
        assert!(Visibility::EVERY.is_sorted());
        assert_eq!(Visibility::default(), Visibility::Tree);
    }
}
