//! Routes: methods by POST, events and the rest by GET. Where connections come from is not known here; who calls is told
//! by the door in front.

use crate::bodies::{Input, MAX_BODY, Meter};
use crate::caller::{Caller, in_the_name_of};
use crate::openapi::{self, Refusal};
use crate::{Gateway, events, sse, ws};
use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Path, Query, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, StatusCode};
use proto::methods::{Scope, TABLE, dispatch};
use proto::{Code, Error};
use std::sync::Arc;

/// Everything the gateway serves. Each route is also in [`openapi`], where tests find it.
pub(crate) fn router(gateway: Gateway) -> Router {
    Router::new()
        .route("/rpc/{method}", post(rpc))
        .route("/events", get(watch))
        .route("/ws", get(upgrade))
        .route("/openapi.json", get(describe))
        .route("/healthz", get(healthz))
        .route("/metrics", get(metrics))
        .fallback(nothing_here)
        .method_not_allowed_fallback(not_like_this)
        .with_state(gateway)
}

async fn rpc(
    State(gateway): State<Gateway>,
    caller: Caller,
    method: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let stop = gateway.stop.clone();
    let Ok(Path(method)) = method else { return nothing_here().await };
    let answer = async {
        // Before its body takes any room.
        if let Some(row) = TABLE.iter().find(|row| row.name == method) {
            caller.require(row.scope)?;
        }
        let input = gateway.bodies.read(&caller, request).await?;
        call(gateway, &caller, method, input).await
    };
    let answer = answer.await;
    match answer {
        Ok(json) => ([(CONTENT_TYPE, "application/json")], json).into_response(),
        // Whatever a closing store refuses, the next gateway may do.
        Err(error) if error.code == Code::Unavailable && stop.is_cancelled() => {
            failure(Error { retryable: true, ..error })
        }
        Err(error) => failure(error),
    }
}

/// Answers one call of somebody who may make it. A caller that hangs up ends its own reading, but not a change half
/// done: the letter may be posted and nobody woken.
pub(crate) async fn call(gateway: Gateway, caller: &Caller, method: String, input: Input) -> Result<Vec<u8>, Error> {
    let runtime = gateway.runtime.clone();
    let answer = answer(gateway, caller, method, input).await;
    if caller.is_admin() {
        return answer;
    }
    // Whatever a method answers, and whatever is added to one later: only `admin` sees the secrets in transcripts.
    let mask = move || answer.map(|json| runtime.masked(json)).map_err(|error| runtime.masked_error(error));
    let masked = tokio::task::spawn_blocking(mask).await;
    masked.unwrap_or_else(|error| Err(Error::internal(format!("the call broke: {error}"))))
}

async fn answer(gateway: Gateway, caller: &Caller, method: String, mut input: Input) -> Result<Vec<u8>, Error> {
    let only_reads = TABLE.iter().any(|row| row.name == method && row.scope == Scope::Read);
    let caller = caller.clone();
    let tracker = gateway.changing.clone();
    // What a call that reads was sent names a few things; it may then wait for long, and needs no room for that.
    let room = if only_reads { None } else { input.room.take() };
    let answer = async move {
        let permit = |scope| caller.require(scope);
        let answer = in_the_name_of(&caller, dispatch(&gateway, &method, input, &permit)).await;
        drop(room);
        answer
    };
    if only_reads {
        return answer.await;
    }
    let task = tracker.spawn(answer);
    task.await.unwrap_or_else(|error| Err(Error::internal(format!("the call broke: {error}"))))
}

async fn watch(
    State(gateway): State<Gateway>,
    caller: Caller,
    query: Result<Query<events::Filter>, QueryRejection>,
    headers: HeaderMap,
) -> Response {
    let filter = query.map_err(|rejection| {
        Error::invalid(rejection.body_text()).hint("there is `root`, `session`, `after` and `follow`")
    });
    let watcher = async {
        caller.require(Scope::Read)?;
        let mut filter = filter?.0;
        if let Some(seen) = headers.get("last-event-id") {
            filter.after = Some(seen.to_str().map_err(|_| events::foreign_cursor())?.to_owned());
        }
        events::watch(gateway.clone(), &caller, filter).await
    };
    match watcher.await {
        Ok(watcher) => {
            // A stream that ends, with its token or the gateway, takes the connection along.
            let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store"), (CONNECTION, "close")];
            // A client that is cut off before the first event resumes there.
            let begins = [(events::CURSOR, watcher.cursor().to_string())];
            (headers, begins, Body::from_stream(sse::bytes(watcher, gateway.metrics.stream(), caller))).into_response()
        }
        Err(error) => failure(error),
    }
}

async fn upgrade(
    State(gateway): State<Gateway>,
    caller: Caller,
    Extension(meter): Extension<Arc<Meter>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    match upgrade {
        Ok(upgrade) => {
            // Held until the connection is closed, so that a stopping gateway can wait for it.
            let held = gateway.streams.token();
            let upgrade = upgrade.max_message_size(MAX_BODY).max_frame_size(ws::MAX_FRAME);
            upgrade.read_buffer_size(16 * 1024).write_buffer_size(0).on_upgrade(async move |socket| {
                ws::serve(gateway, caller, socket, meter).await;
                drop(held);
            })
        }
        Err(rejection) => failure(
            Error::invalid(format!("this is no WebSocket: {}", rejection.body_text()))
                .hint("connect with a WebSocket client"),
        ),
    }
}

async fn describe(State(gateway): State<Gateway>, _: Caller) -> Response {
    let text = gateway.described.get_or_init(|| {
        let document = openapi::document(&gateway.identity.version);
        Arc::from(document.to_string())
    });
    ([(CONTENT_TYPE, "application/json")], text.to_string()).into_response()
}

/// Nothing about the gateway but that it is there.
async fn healthz() -> Response {
    ([(CONTENT_TYPE, "application/json")], r#"{"ok":true}"#).into_response()
}

async fn metrics(State(gateway): State<Gateway>, caller: Caller) -> Response {
    match caller.require(Scope::Read) {
        Ok(()) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(CONTENT_TYPE, kind)], gateway.metrics.text(&gateway)).into_response()
        }
        Err(error) => failure(error),
    }
}

async fn nothing_here() -> Response {
    failure(Error::not_found("nothing is served here").hint(HERE))
}

/// The router adds which methods there are.
async fn not_like_this() -> Response {
    let mut response = failure(Error::invalid("nothing is served here in this way").hint(HERE));
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    response
}

const HERE: &str = "there is `POST /rpc/<method>`, and `GET` of /events, /ws, /openapi.json, /healthz and /metrics";

pub(crate) fn failure(error: Error) -> Response {
    if error.code == Code::Internal {
        tracing::error!(%error, "a call failed");
    }
    let code = error.code;
    let status = StatusCode::from_u16(code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let seconds = error.retry_after_ms.map(|wait| wait.div_ceil(1000));
    let mut response = (status, axum::Json(Refusal { error })).into_response();
    if let Some(seconds) = seconds {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if code == Code::Unauthorized {
        response.headers_mut().insert(http::header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // For whoever counts.
    response.extensions_mut().insert(code);
    response
}

/// What a request is counted as: one of a fixed list.
pub(crate) fn label(path: &str) -> &'static str {
    match path {
        "/events" => "events",
        "/ws" => "ws",
        "/openapi.json" => "openapi",
        "/healthz" => "healthz",
        "/metrics" => "metrics",
        _ => path.strip_prefix("/rpc/").map_or(OTHER, method_label),
    }
}

pub(crate) fn method_label(method: &str) -> &'static str {
    TABLE.iter().find(|row| row.name == method).map_or(OTHER, |row| row.name)
}

const OTHER: &str = "other";
