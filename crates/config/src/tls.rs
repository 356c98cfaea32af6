//! `tls`: the certificate this gateway shows to callers from elsewhere.

use std::path::PathBuf;

use serde::Serialize;

use crate::Error;
use crate::document::Node;
use crate::reference::{Kind, Section, When, setting};
use crate::section::Notes;

/// Both or neither: PEM files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tls {
    /// The certificate, and those between it and its root.
    pub cert: PathBuf,
    pub key: PathBuf,
}

pub(crate) const KEYS: &[&str] = &["cert", "key"];

pub(crate) const SECTION: Section = Section {
    name: "tls",
    about: "The certificate this gateway shows to callers over TCP: both files or neither.",
    when: When::Restart,
    settings: &[
        setting("tls.cert", Kind::Text, "no TLS", "PEM file with the certificate, and those between it and its root"),
        setting("tls.key", Kind::Text, "no TLS", "PEM file with its key"),
    ],
};

impl Tls {
    pub(crate) fn read(node: &Node, notes: &mut Notes) -> Result<Option<Self>, Error> {
        let (mut cert, mut key) = (None, None);
        for field in node.fields()? {
            match field.key.as_str() {
                "cert" => cert = Some(field.node.file()?),
                "key" => key = Some(field.node.file()?),
                _ => notes.unknown(field, KEYS),
            }
        }
        match (cert, key) {
            (Some(cert), Some(key)) => Ok(Some(Self { cert, key })),
            (None, None) => Ok(None),
            (cert, _) => {
                let missing = if cert.is_some() { "key" } else { "cert" };
                let why = format_args!("has no `{missing}`");
                Err(node.refuse(why, "name two PEM files, `cert` and `key`, or leave `tls` out"))
            }
        }
    }
}
