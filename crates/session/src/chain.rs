//! How far a chain of messages has come: hops count forwarding, exchanges count what two sessions say to each other.
//!
//! Both are carried by the letters, so nothing is a row that many write to, and a crash loses no count. An answer brings
//! the asker's own hop count back: a lead may talk to one helper as long as it likes, and only what is passed on and on
//! ends at `limits.hops`. What ends a pair that never stops is `limits.exchanges`, and the budget.

use proto::letter::Provenance;
use proto::{Code, Error, SessionId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What passed between the session and another one, in the run under way and the messages that led to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Peer {
    /// The other session asked this one something: its own hop count then, which an answer brings back.
    pub asked_at: Option<u32>,
    /// Messages between the two, as far as this chain knows.
    pub exchanges: u32,
    /// This run has written to it.
    pub written: bool,
}

/// Where a run stands in the chain of messages that led to it.
#[derive(Debug, Clone, Default)]
pub struct Chain {
    /// How many sessions came before.
    pub hops: u32,
    pub peers: Arc<BTreeMap<SessionId, Peer>>,
}

/// The counts that a message carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    pub hops: u32,
    pub asker_hops: Option<u32>,
    pub exchanges: u32,
}

impl Chain {
    /// The chain that a letter opens.
    pub fn of(from: Option<&Provenance>) -> Self {
        let mut chain = Self::default();
        chain.join(from);
        chain
    }

    /// A letter joins the run: the longer chain counts.
    pub fn join(&mut self, from: Option<&Provenance>) {
        let Some(from) = from else { return };
        self.hops = self.hops.max(from.hops);
        let Some(id) = &from.source_session_id else { return };
        let peer = Arc::make_mut(&mut self.peers).entry(id.clone()).or_default();
        peer.asked_at = from.asker_hops.or(peer.asked_at);
        peer.exchanges = peer.exchanges.max(from.exchanges);
    }

    /// The run wrote to these.
    pub fn wrote(&mut self, to: &[SessionId]) {
        if to.is_empty() {
            return;
        }
        let peers = Arc::make_mut(&mut self.peers);
        for id in to {
            let peer = peers.entry(id.clone()).or_default();
            peer.exchanges += 1;
            peer.written = true;
        }
    }

    pub fn peer(&self, id: &SessionId) -> Peer {
        self.peers.get(id).copied().unwrap_or_default()
    }

    /// What a message to a session carries, or why there can be none.
    pub fn next(&self, to: &SessionId, limits: &config::Limits) -> Result<Counts, Error> {
        let peer = self.peer(to);
        if peer.exchanges >= limits.exchanges {
            let why = format!(
                "{} messages have passed between these two sessions for one prompt of the user (`limits.exchanges`)",
                peer.exchanges
            );
            let hint = "report to the user what is done and what is open; their next prompt starts a new count";
            return Err(Error::new(Code::LimitHops, why).hint(hint));
        }
        let exchanges = peer.exchanges + 1;
        if let Some(hops) = peer.asked_at {
            return Ok(Counts { hops, asker_hops: None, exchanges });
        }
        Ok(Counts { hops: self.forwarded(limits)?, asker_hops: Some(self.hops), exchanges })
    }

    /// The hop count of a message that answers nobody, or why there can be none.
    pub fn forwarded(&self, limits: &config::Limits) -> Result<u32, Error> {
        if self.hops >= limits.hops {
            let why = format!("this message was forwarded through {} sessions (`limits.hops`)", self.hops);
            return Err(Error::new(Code::LimitHops, why).hint("answer the session that asked instead of passing it on"));
        }
        Ok(self.hops + 1)
    }

    /// What the report of the run's end carries: it was asked for, so it is no hop further.
    pub fn back(&self, to: &SessionId) -> Counts {
        let peer = self.peer(to);
        Counts { hops: peer.asked_at.unwrap_or(self.hops), asker_hops: None, exchanges: peer.exchanges + 1 }
    }
}

impl Counts {
    /// Whether the message answers a question of its receiver.
    pub fn answers(&self) -> bool {
        self.asker_hops.is_none()
    }

    pub fn stamp(&self, provenance: &mut Provenance) {
        (provenance.hops, provenance.asker_hops, provenance.exchanges) = (self.hops, self.asker_hops, self.exchanges);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> SessionId {
        SessionId::parse(&format!("ses_{name}")).unwrap()
    }

    fn limits() -> config::Limits {
        config::Limits { hops: 3, exchanges: 10, ..config::Limits::default() }
    }

    /// A message from one session to another, and the chain that it opens there.
    fn send(from: (&str, &mut Chain), to: &str) -> Result<Chain, Error> {
        let (name, chain) = from;
        let counts = chain.next(&id(to), &limits())?;
        chain.wrote(&[id(to)]);
        let mut provenance = Provenance { source_session_id: Some(id(name)), ..Provenance::default() };
        counts.stamp(&mut provenance);
        Ok(Chain::of(Some(&provenance)))
    }

    #[test]
    fn two_that_talk_never_meet_the_limit_of_hops() {
        let mut lead = Chain::default();
        for _ in 0..4 {
            let mut helper = send(("lead", &mut lead), "helper").unwrap();
            assert_eq!(helper.hops, 1);
            lead = send(("helper", &mut helper), "lead").unwrap();
            assert_eq!(lead.hops, 0);
        }
    }

    #[test]
    fn two_that_never_stop_meet_the_limit_of_exchanges() {
        let (mut own, mut other, mut sent) = (("a", Chain::default()), "b", 0);
        let why = loop {
            match send((own.0, &mut own.1), other) {
                Ok(next) => (own, other, sent) = ((other, next), own.0, sent + 1),
                Err(why) => break why,
            }
        };
        assert_eq!(sent, 10);
        assert!(why.message.contains("limits.exchanges"), "{}", why.message);
    }

    #[test]
    fn three_in_a_circle_meet_the_limit_of_hops() {
        let names = ["a", "b", "c"];
        let (mut chain, mut sent) = (Chain::default(), 0);
        let why = loop {
            match send((names[sent % 3], &mut chain), names[(sent + 1) % 3]) {
                Ok(next) => (chain, sent) = (next, sent + 1),
                Err(why) => break why,
            }
        };
        assert_eq!(sent, 3);
        assert!(why.message.contains("limits.hops"), "{}", why.message);
    }

    #[test]
    fn an_answer_is_possible_where_the_chain_is_at_its_end() {
        let from =
            Provenance { source_session_id: Some(id("a")), hops: 3, asker_hops: Some(2), ..Provenance::default() };
        let mut chain = Chain::of(Some(&from));
        assert!(send(("b", &mut chain.clone()), "c").is_err());
        assert_eq!(send(("b", &mut chain), "a").unwrap().hops, 2);
        assert_eq!(chain.back(&id("a")).hops, 2);
    }
}
