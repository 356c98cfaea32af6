//! The office: letters from one session to another, checked in the order of the contract (S6).

use super::mail::Author;
use super::{Doors, conversation};
use crate::chain::Counts;
use crate::directory::Guard;
use crate::hooks::{Happening, On, Scene};
use crate::{brake, steady, stop};
use async_trait::async_trait;
use proto::letter::{Prompt, Provenance, Reason, Report, Sender};
use proto::{AgentId, Body, Class, Code, Error, Letter, LetterId, RunId, SessionId};
use rules::access::{Act, explain};
use store::{Post, Session};
use tokio_util::sync::CancellationToken;
use tools::Office;
use tools::doors::{Delivery, Mail, Mailed, Message, Say, Sent, Unsent};

#[async_trait]
impl Office for Doors {
    async fn send(&self, mut message: Message) -> Result<Sent, Unsent> {
        // From the call's id: whatever happens, one call sends one letter.
        let run = LetterId::derived("run_", self.call.as_str()).run();
        let unsent = |key: Option<String>| move |error: Error| Unsent { run: RunId::new(), key, error };
        let target = self.target(&message).await.map_err(unsent(None))?;
        let key = self.rt.display_key(&target.key);
        let guard = self.view().guard;
        // A key would tell a sandboxed caller that there is such a session.
        let told = (!guard.is_boxed()).then(|| key.clone());
        guard.check(&target, Act::Send, &key).map_err(unsent(told.clone()))?;
        if message.spoken {
            guard.check(&target, Act::Control, &key).map_err(unsent(told.clone()))?;
        }
        if target.archived {
            let why = format!("`{key}` was archived or deleted, so it gets no messages");
            return Err(unsent(told)(Error::not_found(why).hint("start a new session for the work")));
        }
        let counts = self.check_chain(&target, &message).await.map_err(unsent(Some(key.clone())))?;
        self.check_load(&target).map_err(unsent(Some(key.clone())))?;
        if let Some(text) = self.hooked(&key, &message.text).await.map_err(unsent(Some(key.clone())))? {
            message.text = text;
        }
        let post = self.post(&run, &target, &message, counts);
        self.prepare(|effects| effects.post.push(post));
        Ok(Sent { run, session: target.id, key })
    }

    async fn mail(&self, mut mail: Mail) -> Result<Mailed, Error> {
        let caller = &self.caller;
        self.rt.brake.pass(brake::MESSAGES, &caller.row.id, None, steady())?;
        if let Say::Text(text) = &mail.say
            && let Some(text) = self.hooked(&mail.to, text).await?
        {
            mail.say = Say::Text(text);
        }
        let author = Author {
            session: Some(&caller.row),
            tree: Some(&caller.row),
            id: self.call.as_str(),
            chain: &caller.chain,
            known: &caller.known,
            asked: caller.asked.as_deref(),
        };
        let out = self.rt.write_mail(&author, &mail).await?;
        self.prepare(|effects| {
            effects.post.extend(out.post);
            effects.hold.extend(out.hold);
            effects.send.extend(out.send);
        });
        Ok(out.mailed)
    }

    async fn steer(&self, child: &SessionId, text: &str) -> Result<(), Error> {
        self.rt.brake.pass(brake::STEERS, &self.caller.row.id, Some(child), steady())?;
        let body = Body::Prompt(Prompt::text(format!("[from the session that started you] {text}")));
        let letter =
            self.letter(LetterId::derived("steer_", &format!("{}_{child}", self.call)), child, Class::Steer, body);
        self.prepare(|effects| effects.post.push(Post { letter, person: false, queue: Some(self.rt.limits.queue) }));
        Ok(())
    }

    async fn kill(&self, child: &SessionId) -> Result<bool, Error> {
        let Some(row) = self.rt.store.session(child).await? else { return Ok(false) };
        let below = self.rt.store.busy_below(child, 10_000).await?;
        if !row.status.is_busy() && below.is_empty() {
            return Ok(false);
        }
        for session in std::iter::once(child).chain(&below) {
            let from = Sender::Session { id: self.caller.row.id.clone() };
            let post = stop::letter(self.call.as_str(), session, from, Reason::Parent);
            self.prepare(|effects| effects.post.push(post));
        }
        Ok(true)
    }

    async fn could_be_woken(&self) -> Result<bool, Error> {
        let own = &self.caller.row.id;
        let busy_below = !self.rt.store.busy_below(own, 1).await?.is_empty();
        Ok(busy_below || self.rt.store.awaits_news(own).await?)
    }
}

impl Doors {
    /// Lets hooks read a message before it is sent: they may change its text or say no.
    async fn hooked(&self, to: &str, text: &str) -> Result<Option<String>, Error> {
        let hooks = self.rt.hooks.of(&self.rt.here(&self.caller.row).loaded.config.hooks);
        if !hooks.hear(On::MessageSent, to) {
            return Ok(None);
        }
        let fields = serde_json::json!({ "to": to, "callId": self.call, "message": text });
        let happening = Happening { on: On::MessageSent, about: to.to_owned(), fields };
        let said = hooks.run(&Scene::of(&self.caller.row), happening, &CancellationToken::new()).await;
        match said.stopped {
            Some(why) => Err(Error::new(Code::Denied, format!("a hook of the user said no: {why}"))),
            None => Ok(said.changed.and_then(|text| text.as_str().map(str::to_owned))),
        }
    }

    /// Who is meant: by key, or by label.
    async fn target(&self, message: &Message) -> Result<Session, Error> {
        match (&message.key, &message.label) {
            (Some(_), Some(_)) => Err(Error::invalid("Provide either sessionKey or label (not both).")),
            (None, Some(label)) => self.labelled(label, message.agent.as_deref()).await,
            (None, None) => Err(Error::invalid("Either sessionKey or label is required")),
            (Some(key), None) => {
                let view = self.view();
                match self.rt.find_for(key, &view.guard, Act::Send).await {
                    Err(_) if view.guard.is_boxed() => Err(Guard::nothing(Act::Send, key)),
                    found => found,
                }
            }
        }
    }

    /// A label among the caller's own agent's sessions, then its descendants; or among another agent's. Or a name of the
    /// caller's tree.
    async fn labelled(&self, label: &str, agent: Option<&str>) -> Result<Session, Error> {
        let own = self.caller.row.owner.clone();
        let asked = agent.map(|agent| AgentId::parse(agent).map(|agent| agent.as_str().to_owned())).transpose()?;
        let boxed = self.view().guard.is_boxed();
        if let Some(asked) = asked.as_ref().filter(|asked| **asked != own) {
            if boxed {
                let why = "Sandboxed sessions_send label lookup is limited to this agent";
                return Err(Error::new(Code::ForbiddenSandbox, why));
            }
            if let Some(reason) = self.rt.access.agent_to_agent.refuses(&own, asked) {
                return Err(Error::new(reason.code(), explain(reason, Act::Send, label)));
            }
        }
        let below = |row: &Session| row.path.starts_with(&self.caller.row.path) && row.id != self.caller.row.id;
        let rt = &self.rt;
        let mut found = rt.labelled(label, Some(asked.as_ref().unwrap_or(&own))).await?;
        if found.is_empty() && asked.is_none() {
            found = rt.labelled(label, None).await?.into_iter().filter(below).collect();
        }
        let named = rt.named(Some(&self.caller.row.root), label).await?;
        found.extend(named.into_iter().filter(|row| asked.as_ref().is_none_or(|asked| row.owner == *asked)));
        let guard = self.view().guard;
        if found.is_empty() && asked.is_none() {
            found = rt.ending(label, &guard, Act::Send).await?;
            found.extend(rt.lead(label, &guard).await?);
        }
        if boxed {
            // Nor may it learn from several what it may not learn from one.
            found.retain(below);
        }
        match rt.one_of(label, found, &guard, Act::Send)? {
            Some(found) => Ok(found),
            None if boxed => Err(Guard::nothing(Act::Send, label)),
            None => Err(Error::not_found(format!("No session found with label: {label}"))),
        }
    }

    /// Chains of messages end somewhere, and nobody waits in a circle.
    async fn check_chain(&self, target: &Session, message: &Message) -> Result<Counts, Error> {
        let counts = self.caller.chain.next(&target.id, &self.rt.limits)?;
        let own = &self.caller.row.id;
        if message.wait.is_zero() {
            return Ok(counts);
        }
        if &target.id == own || self.rt.store.waits_for(&target.id, own).await? {
            return Err(Error::new(
                Code::Cycle,
                "waiting for that session would close a circle: it waits for this one",
            )
            .hint("send with timeoutSeconds 0, or answer first"));
        }
        Ok(counts)
    }

    /// Neither more than a receiver can hold, nor more than a sender may pour out. Looked at last, so that what is refused
    /// for another reason does not count.
    fn check_load(&self, target: &Session) -> Result<(), Error> {
        if target.pending >= self.rt.limits.queue {
            return Err(store::Error::QueueFull(target.id.clone()).into());
        }
        self.rt.brake.pass(brake::MESSAGES, &self.caller.row.id, None, steady())
    }

    fn post(&self, run: &RunId, target: &Session, message: &Message, counts: Counts) -> Post {
        let own = &self.caller.row;
        let waits = !message.wait.is_zero();
        // What is announced comes back as a turn of the conversation; a reply that is late, as a letter.
        let reply = message.delivery == Delivery::Reply;
        let report = (reply || waits).then(|| Report {
            session: own.id.clone(),
            call: waits.then(|| self.call.clone()),
            late: reply,
        });
        let talk = (message.delivery == Delivery::Announce && target.id != own.id && !message.spoken)
            .then(|| conversation::begin(run, own, target, message, self.rt.ping_pong));
        let body = Prompt { spoken: message.spoken, ..Prompt::text(&message.text) };
        let mut letter = Letter {
            conversation: talk,
            report,
            ..self.letter(run.letter(), &target.id, Class::Request, Body::Prompt(body))
        };
        if let Some(provenance) = &mut letter.provenance {
            counts.stamp(provenance);
        }
        Post { letter, person: false, queue: Some(self.rt.limits.queue) }
    }

    fn letter(&self, id: LetterId, to: &SessionId, class: Class, body: Body) -> Letter {
        let own = &self.caller.row;
        Letter {
            id,
            to: to.clone(),
            from: Sender::Session { id: own.id.clone() },
            class,
            body,
            provenance: Some(Provenance {
                kind: "inter_session".into(),
                source_session_key: Some(own.key.clone()),
                source_session_id: Some(own.id.clone()),
                source_name: own.name.clone(),
                source_tool: Some("sessions_send".into()),
                hops: self.caller.chain.hops + 1,
                ..Provenance::default()
            }),
            conversation: None,
            report: None,
            expires: None,
        }
    }
}
