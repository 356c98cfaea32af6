//! Methods and events over one WebSocket.
//!
//! Calls run beside each other and answer in whatever order they end. What is to be sent waits in one bounded queue: a
//! peer that reads slowly slows its own calls and watchers, and nobody else's. What is large takes room that all
//! connections share, until it is sent; a peer that takes too long over it is left.

use crate::bodies::{Input, Meter, Room, beside, measure};
use crate::caller::Caller;
use crate::events::{self, Filter, Item, Json, Watcher};
use crate::metrics;
use crate::sse::patience;
use crate::{Gateway, router};
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket};
use futures_util::{SinkExt, StreamExt};
use proto::Error;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use session::Hub;
use session::hub::{self, LARGE};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{self, Sender};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// The largest frame: longer messages come in several.
pub(crate) const MAX_FRAME: usize = 16 * 1024 * 1024;

/// Calls and watchers of one connection at once. More are not read before one of them ends.
const AT_ONCE: usize = 64;

/// Watchers of one connection.
const MAX_WATCHERS: usize = 16;

/// Messages waiting to be sent.
const QUEUE: usize = 64;

/// Between two pings.
const PING: Duration = Duration::from_secs(20);

/// Without a word for this long, three pings unanswered, the peer is gone.
const SILENCE: Duration = Duration::from_secs(65);

/// The longest name a caller may give a call.
const MAX_ID: usize = 128;

/// Why a connection was closed by us, in the protocol's numbers.
const GOING_AWAY: u16 = 1001;
const POLICY: u16 = 1008;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    id: Value,
    method: String,
    #[serde(default)]
    params: Option<Box<RawValue>>,
}

/// What ends a watcher.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Unsubscribe {
    subscription: Value,
}

/// Serves one connection to its end.
pub(crate) async fn serve(gateway: Gateway, caller: Caller, socket: WebSocket, meter: Arc<Meter>) {
    meter.begin(&gateway.bodies, &caller);
    let _counted = gateway.metrics.stream();
    let (mut sink, mut incoming) = socket.split();
    let (queue, mut waiting) = mpsc::channel::<Outgoing>(QUEUE);
    let mut writing = JoinSet::new();
    writing.spawn(async move {
        while let Some(Outgoing { message, room }) = waiting.recv().await {
            let bytes = if let Message::Text(text) = &message { text.len() } else { 0 };
            let sent = tokio::time::timeout(patience(bytes), sink.send(message)).await;
            drop(room);
            if !matches!(sent, Ok(Ok(()))) {
                return;
            }
        }
        // Says goodbye to a peer that closed first.
        let _ = sink.close().await;
    });
    let mut peer = Peer { gateway, caller, queue, work: JoinSet::new(), watchers: HashMap::new() };
    let mut heard = Instant::now();
    let mut ping = tokio::time::interval(PING);
    ping.reset();
    let goodbye = loop {
        tokio::select! {
            message = incoming.next(), if peer.work.len() < AT_ONCE => {
                heard = Instant::now();
                match message {
                    Some(Ok(Message::Text(text))) => {
                        let room = meter.message(text.len());
                        peer.take(text, room).await;
                    }
                    Some(Ok(Message::Binary(bytes))) => {
                        drop(meter.message(bytes.len()));
                        peer.refuse(&Value::Null, &no_text());
                    }
                    Some(Ok(Message::Ping(bytes) | Message::Pong(bytes))) => meter.aside(bytes.len()),
                    Some(Ok(Message::Close(_)) | Err(_)) | None => break None,
                }
            }
            Some(ended) = peer.work.join_next_with_id(), if !peer.work.is_empty() => {
                let ended = ended.map_or_else(|error| error.id(), |(task, ())| task);
                peer.watchers.retain(|_, watcher| watcher.task != ended);
            }
            // The writer ends only when the peer is gone.
            _ = writing.join_next() => return,
            _ = ping.tick() => {
                // A full queue holds enough to notice a dead peer by.
                let _ = peer.queue.try_send(Message::Ping(bytes::Bytes::new()).into());
                if heard.elapsed() > SILENCE && peer.work.len() < AT_ONCE {
                    break None;
                }
                if meter.is_overdue() {
                    break Some((POLICY, "the message did not arrive in time"));
                }
            }
            () = peer.gateway.stop.cancelled() => break Some((GOING_AWAY, "the gateway stops")),
            () = peer.caller.revoked().cancelled() => break Some((POLICY, "the token is not valid any more")),
        }
    };
    peer.leave(goodbye, writing).await;
}

/// Calls get this long to end once the gateway stops; the gateway itself waits no longer.
const GRACE: Duration = Duration::from_secs(8);

/// A message to the peer.
struct Outgoing {
    message: Message,
    /// For a large one, until it is sent.
    room: Option<hub::Room>,
}

impl From<Message> for Outgoing {
    fn from(message: Message) -> Self {
        Self { message, room: None }
    }
}

impl Outgoing {
    /// Waits for room if it is large.
    async fn text(text: Utf8Bytes, hub: &Hub) -> Self {
        let room = if text.len() < LARGE { None } else { Some(hub.room_for_copy(text.len()).await) };
        Self { message: Message::Text(text), room }
    }
}

struct Peer {
    gateway: Gateway,
    caller: Caller,
    queue: Sender<Outgoing>,
    /// Calls and watchers.
    work: JoinSet<()>,
    /// By the ids of the calls that started them, as they were sent.
    watchers: HashMap<String, Watched>,
}

/// A watcher at work.
struct Watched {
    task: tokio::task::Id,
    /// Ends it, with the id of the call that is to be answered then.
    stop: oneshot::Sender<Value>,
}

impl Peer {
    async fn take(&mut self, text: Utf8Bytes, room: Option<Room>) {
        let length = text.len();
        let read = move || {
            measure(text.as_bytes())?;
            let call = serde_json::from_str::<Call>(text.as_str());
            call.map_err(|error| Error::invalid(format!("that is no call: {error}")).hint("send {id, method, params}"))
        };
        let call = match beside(length, read).await {
            Ok(call) => call,
            Err(error) => return self.refuse(&Value::Null, &error),
        };
        if !is_name(&call.id) {
            let error = Error::invalid("`id` has to be a number or a short text");
            return self.refuse(&Value::Null, &error);
        }
        match call.method.as_str() {
            "events.subscribe" => return self.subscribe(call).await,
            "events.unsubscribe" => return self.unsubscribe(call),
            _ => {}
        }
        let (gateway, caller, queue) = (self.gateway.clone(), self.caller.clone(), self.queue.clone());
        self.work.spawn(async move {
            let hub = gateway.runtime.hub().clone();
            let answer = answer(gateway, &caller, call, room).await;
            // Nobody is left to hear it.
            let _ = queue.send(Outgoing::text(answer, &hub).await).await;
        });
    }

    async fn subscribe(&mut self, call: Call) {
        let name = call.id.to_string();
        match self.watcher(&name, call.params).await {
            Err(error) => self.refuse(&call.id, &error),
            Ok(watcher) => {
                let (stop, stopped) = oneshot::channel();
                let task =
                    self.work.spawn(tell(watcher, call.id, stopped, self.queue.clone(), self.gateway.clone())).id();
                self.watchers.insert(name, Watched { task, stop });
            }
        }
    }

    /// The watcher itself answers, as its last word: after the answer nothing more comes from it.
    fn unsubscribe(&mut self, call: Call) {
        let params = call.params.as_ref().map_or("", |params| params.get());
        let found = proto::methods::decode::<Unsubscribe>(params.as_bytes()).and_then(|input| {
            let watched = self.watchers.remove(&input.subscription.to_string());
            watched.ok_or_else(|| {
                Error::not_found("nothing is watched by that name on this connection")
                    .hint("give the `subscription` that `events.subscribe` answered with")
            })
        });
        match found {
            Err(error) => self.refuse(&call.id, &error),
            Ok(watched) => {
                if let Err(id) = watched.stop.send(call.id) {
                    self.refuse(&id, &Error::not_found("the watching has ended already"));
                }
            }
        }
    }

    async fn watcher(&self, name: &str, params: Option<Box<RawValue>>) -> Result<Watcher, Error> {
        self.caller.require(proto::methods::Scope::Read)?;
        if self.watchers.contains_key(name) {
            return Err(Error::new(proto::Code::Conflict, format!("{name} is watching already"))
                .hint("give each call an id of its own"));
        }
        if self.watchers.len() >= MAX_WATCHERS {
            return Err(Error::new(
                proto::Code::LimitRate,
                format!("this connection watches {MAX_WATCHERS} times already"),
            )
            .hint("watch a whole tree, or open another connection"));
        }
        let filter: Filter = match params {
            None => Filter::default(),
            Some(params) => proto::methods::decode(params.get().as_bytes())?,
        };
        events::watch(self.gateway.clone(), &self.caller, filter).await
    }

    /// Beside the reading, which a full queue must not hold up: it also hears that everything is over.
    fn refuse(&mut self, id: &Value, error: &Error) {
        let (queue, text) = (self.queue.clone(), refusal(id, error));
        self.work.spawn(async move {
            let _ = queue.send(Message::Text(text).into()).await;
        });
    }

    /// When the gateway stops, calls under way still get their answers; watchers end by themselves.
    async fn leave(mut self, goodbye: Option<(u16, &'static str)>, mut writing: JoinSet<()>) {
        if goodbye.is_some_and(|(code, _)| code == GOING_AWAY) {
            let rest = async { while self.work.join_next().await.is_some() {} };
            let _ = tokio::time::timeout(GRACE, rest).await;
        }
        self.work.shutdown().await;
        if let Some((code, reason)) = goodbye {
            let close = Message::Close(Some(CloseFrame { code, reason: Utf8Bytes::from_static(reason) }));
            // A peer that does not read is not waited for.
            let _ = tokio::time::timeout(Duration::from_secs(1), self.queue.send(close.into())).await;
        }
        drop(self);
        let _ = tokio::time::timeout(Duration::from_secs(1), writing.join_next()).await;
    }
}

fn is_name(id: &Value) -> bool {
    match id {
        Value::Number(_) => true,
        Value::String(text) => text.len() <= MAX_ID,
        _ => false,
    }
}

fn no_text() -> Error {
    Error::invalid("the message is not text").hint("send JSON in text messages")
}

fn refusal(id: &Value, error: &Error) -> Utf8Bytes {
    json!({ "id": id, "ok": false, "error": error }).to_string().into()
}

async fn answer(gateway: Gateway, caller: &Caller, call: Call, room: Option<Room>) -> Utf8Bytes {
    let started = Instant::now();
    let label = router::method_label(&call.method);
    let params = call.params.map_or_else(bytes::Bytes::new, |params| String::from(Box::<str>::from(params)).into());
    let answered = router::call(gateway.clone(), caller, call.method, Input::new(params, room)).await;
    let code = answered.as_ref().map_or_else(|error| metrics::name(error.code), |_| "ok");
    gateway.metrics.called("ws", label, code, started.elapsed());
    match answered.map(String::from_utf8) {
        Ok(Ok(payload)) => format!(r#"{{"id":{},"ok":true,"payload":{payload}}}"#, call.id).into(),
        Ok(Err(_)) => refusal(&call.id, &Error::internal("the answer is not text")),
        Err(error) => refusal(&call.id, &error),
    }
}

/// Tells events until the watcher ends, somebody ends it or the peer is gone.
async fn tell(
    mut watcher: Watcher,
    id: Value,
    mut stopped: oneshot::Receiver<Value>,
    queue: Sender<Outgoing>,
    gateway: Gateway,
) {
    let hub = gateway.runtime.hub();
    let mut next = Message::Text(accepted(&id, &id).into()).into();
    while queue.send(next).await.is_ok() {
        let item = tokio::select! {
            biased;
            // An error means that the connection is being left.
            call = &mut stopped => {
                let Ok(call) = call else { break };
                let _ = queue.send(Message::Text(accepted(&call, &id).into()).into()).await;
                break;
            }
            item = next_event(&mut watcher) => item,
        };
        let Some((cursor, json)) = item else { break };
        // Before it is copied for this peer.
        let room = if json.as_str().len() < LARGE { None } else { Some(hub.room_for_copy(json.as_str().len()).await) };
        let cursor = cursor.map(|cursor| format!(r#","cursor":"{cursor}""#)).unwrap_or_default();
        let text = format!(r#"{{"event":{}{cursor},"subscription":{id}}}"#, json.as_str());
        next = Outgoing { message: Message::Text(text.into()), room };
    }
}

fn accepted(call: &Value, subscription: &Value) -> String {
    format!(r#"{{"id":{call},"ok":true,"payload":{{"subscription":{subscription}}}}}"#)
}

/// Silence is not told: the connection has pings of its own.
async fn next_event(watcher: &mut Watcher) -> Option<(Option<u64>, Json)> {
    loop {
        match watcher.next().await? {
            Item::Event { cursor, json } => return Some((cursor, json)),
            Item::Silence => {}
        }
    }
}
