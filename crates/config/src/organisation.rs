//! `organisation`: where settings of a whole organisation are kept.

use serde::Serialize;

use crate::Error;
use crate::document::Node;
use crate::provider::url;
use crate::section::Notes;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Organisation {
    /// `/.well-known/convoke` is asked for below it. `CONVOKE_ORG` counts before it.
    pub url: Option<String>,
}

const KEYS: &[&str] = &["url"];

impl Organisation {
    pub(crate) fn read(node: &Node, notes: &mut Notes) -> Result<Self, Error> {
        let mut organisation = Self::default();
        notes.repeated(node.fields()?);
        for field in node.fields()? {
            match field.key.as_str() {
                "url" => organisation.url = Some(url(&field.node)?),
                _ => notes.unknown(field, KEYS),
            }
        }
        Ok(organisation)
    }
}
