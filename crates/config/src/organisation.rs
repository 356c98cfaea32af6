//! `organisation`: where settings of a whole organisation are kept.

use serde::Serialize;

use crate::document::Node;
use crate::provider::url;
use crate::reference::{Kind, Section, When, setting};
use crate::section::Notes;
use crate::{Environment, Error};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Organisation {
    /// `/.well-known/convoke` is asked for below it. `CONVOKE_ORG` counts before it.
    pub url: Option<String>,
}

pub(crate) const KEYS: &[&str] = &["url"];

pub(crate) const SECTION: Section = Section {
    name: "organisation",
    about: "Where settings of a whole organisation are kept. Counts in the user's own file only.",
    when: When::Restart,
    settings: &[setting(
        "organisation.url",
        Kind::Text,
        "none",
        "`/.well-known/convoke` is asked for below it; `CONVOKE_ORG` counts before it",
    )],
};

impl Organisation {
    pub(crate) fn read(node: &Node, notes: &mut Notes) -> Result<Self, Error> {
        let mut organisation = Self::default();
        for field in node.fields()? {
            match field.key.as_str() {
                "url" => organisation.url = Some(url(&field.node)?),
                _ => notes.unknown(field, KEYS),
            }
        }
        Ok(organisation)
    }
}

/// The address in a user's own settings, before they are read in full: the layer it names lies below them.
pub(crate) fn url_of(root: &Node) -> Option<String> {
    let child = |node: &Node, key: &str| {
        node.fields().ok()?.iter().rev().find(|field| field.key == key).map(|field| field.node.clone())
    };
    url(&child(&child(root, "organisation")?, "url")?).ok()
}

/// Where the settings are fetched from, if an organisation is known.
pub(crate) fn address(set: Option<&str>, env: &Environment) -> Option<String> {
    let base = env.filled("CONVOKE_ORG").or(set)?.trim_end_matches('/');
    let base = if base.contains("://") { base.to_owned() } else { format!("https://{base}") };
    Some(format!("{base}/.well-known/convoke"))
}
