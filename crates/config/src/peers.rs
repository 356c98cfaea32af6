//! `peers` and `inbound`: gateways on other machines, and what becomes of mail from elsewhere.

use std::path::PathBuf;

use serde::Serialize;

use crate::document::{Node, excerpt};
use crate::provider::url;
use crate::reference::{Kind, Section, When, setting};
use crate::section::Notes;
use crate::{Error, Secret};

/// A gateway that sessions of this one may write to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Peer {
    /// What it is called here.
    pub name: String,
    /// Without a slash at the end.
    pub url: String,
    /// Opens the other gateway.
    pub token: Option<Secret>,
    /// Whom its certificate has to be signed by, as a PEM file; without it, whom this machine trusts.
    pub ca: Option<PathBuf>,
    /// What becomes of its mail; without it, what [`Config::inbound`](crate::Config::inbound) says.
    pub inbound: Option<Inbound>,
}

/// What becomes of mail from another gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Inbound {
    /// Delivered.
    Accept,
    /// Kept until a person accepts or refuses it.
    Hold,
    /// Sent back.
    Refuse,
}

const INBOUND: &[(&str, Inbound)] =
    &[("accept", Inbound::Accept), ("hold", Inbound::Hold), ("refuse", Inbound::Refuse)];

pub(crate) const KEYS: &[&str] = &["name", "url", "token", "ca", "inbound"];

pub(crate) const SECTION: Section = Section {
    name: "peers",
    about: "Gateways on other machines, and what becomes of mail from elsewhere.",
    when: When::Restart,
    settings: &[
        setting("peers[].name", Kind::Text, "required", "what the other gateway is called here"),
        setting("peers[].url", Kind::Text, "required", "where it listens, such as `https://office.example:7077`"),
        setting("peers[].token", Kind::Text, "none", "a token of that gateway"),
        setting(
            "peers[].ca",
            Kind::Text,
            "whom this machine trusts",
            "PEM file of whom its certificate has to be signed by",
        ),
        setting(
            "peers[].inbound",
            Kind::Choice(&["accept", "hold", "refuse"]),
            "`inbound`",
            "what becomes of its mail",
        ),
        setting(
            "inbound",
            Kind::Choice(&["accept", "hold", "refuse"]),
            "`accept` from your other gateways on this machine where `tools.sessions.visibility.send` is `all` on both sides, else `hold`",
            "what happens to messages from other gateways: delivered, held until you decide, or refused",
        ),
    ],
};

pub(crate) fn inbound(node: &Node) -> Result<Inbound, Error> {
    node.choice(INBOUND)
}

pub(crate) fn read(node: &Node, notes: &mut Notes) -> Result<Vec<Peer>, Error> {
    let mut peers: Vec<Peer> = Vec::new();
    for item in node.list()? {
        let peer = Peer::read(item, notes)?;
        if peers.iter().any(|known| known.name == peer.name) {
            let why = format_args!("is the second peer called `{}`", excerpt(&peer.name));
            return Err(item.refuse(why, "give each peer a name of its own"));
        }
        peers.push(peer);
    }
    Ok(peers)
}

impl Peer {
    fn read(node: &Node, notes: &mut Notes) -> Result<Self, Error> {
        let (mut name, mut address, mut token, mut ca, mut policy) = (None, None, None, None, None);
        for field in node.fields()? {
            let node = &field.node;
            match field.key.as_str() {
                "name" => name = Some(self::name(node)?),
                "url" => address = Some(url(node)?),
                "token" => token = Some(node.text()?).filter(|token| !token.is_empty()).map(Secret::new),
                "ca" => ca = Some(node.file()?),
                "inbound" => policy = Some(inbound(node)?),
                _ => notes.unknown(field, KEYS),
            }
        }
        let hint = "write `{ \"name\": \"office\", \"url\": \"https://office.example:7077\", \"token\": … }`";
        let name = name.ok_or_else(|| node.refuse("has no `name`", hint))?;
        let url = address.ok_or_else(|| node.refuse("has no `url`", hint))?;
        Ok(Self { name, url, token, ca, inbound: policy })
    }
}

/// Part of an address that models copy: no blanks, nothing that needs quoting.
fn name(node: &Node) -> Result<String, Error> {
    let text = node.text()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if text.is_empty() || text.len() > 64 || !text.chars().all(plain) {
        let why = format_args!("cannot be `{}`", excerpt(text));
        return Err(node.refuse(why, "use letters, digits, `.`, `_` or `-`, at most 64 in all"));
    }
    Ok(text.to_owned())
}
