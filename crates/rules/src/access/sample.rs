//! Parties and settings for tests, as a person would write them.

use proto::SessionId;

use super::{Party, Settings};

/// A session by its place: `r/a/b` is `b`, started by `a`, started by the root `r`.
pub(super) fn party(place: &str, owner: &str) -> Party {
    let id = |text: &str| SessionId::parse(text).expect("a place is made of ids");
    let ids: Vec<&str> = place.split('/').collect();
    Party {
        session: id(ids[ids.len() - 1]),
        root: id(ids[0]),
        path: format!("{place}/"),
        owner: owner.into(),
        sandboxed: false,
        named: false,
    }
}

pub(super) fn settings(document: &str) -> Settings {
    Settings::read(&serde_json::from_str(document).expect("settings are JSON")).expect("settings are right")
}
