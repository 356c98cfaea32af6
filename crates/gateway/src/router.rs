//! Routes: methods by POST, events by GET. Where connections come from is not known here.

use crate::{Gateway, events};
use axum::Router;
use axum::body::Body;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, FromRequest, Path, Query, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use hyper::body::Body as _;
use proto::methods::{Scope, TABLE, dispatch};
use proto::{Code, Error};

/// The largest body a method takes (P2).
const MAX_BODY: usize = 25 * 1024 * 1024;

/// Everything the gateway serves.
pub fn router(gateway: Gateway) -> Router {
    Router::new()
        .route("/rpc/{method}", post(rpc))
        .route("/events", get(watch))
        .fallback(nothing_here)
        .method_not_allowed_fallback(nothing_here)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(gateway)
}

async fn rpc(State(gateway): State<Gateway>, Path(method): Path<String>, request: Request) -> Response {
    let stop = gateway.stop.clone();
    let answer = match read(request).await {
        Ok(body) => call(gateway, method, body).await,
        Err(error) => Err(error),
    };
    match answer {
        Ok(json) => ([(CONTENT_TYPE, "application/json")], json).into_response(),
        // Whatever a closing store refuses, the next gateway may do.
        Err(error) if error.code == Code::Unavailable && stop.is_cancelled() => {
            failure(Error { retryable: true, ..error })
        }
        Err(error) => failure(error),
    }
}

/// The body, unless it says or turns out to be too large.
async fn read(request: Request) -> Result<Bytes, Error> {
    if request.body().size_hint().lower() > MAX_BODY as u64 {
        return Err(too_large());
    }
    Bytes::from_request(request, &()).await.map_err(|rejection| body_refused(&rejection))
}

/// A caller that hangs up ends its own reading, but not a change half done: the letter may be posted and nobody woken.
async fn call(gateway: Gateway, method: String, body: Bytes) -> Result<Vec<u8>, Error> {
    let reads = TABLE.iter().any(|row| row.name == method && row.scope == Scope::Read);
    if reads {
        return dispatch(&gateway, &method, &body).await;
    }
    let tracker = gateway.changing.clone();
    let task = tracker.spawn(async move { dispatch(&gateway, &method, &body).await });
    task.await.unwrap_or_else(|error| Err(Error::internal(format!("the call broke: {error}"))))
}

async fn watch(
    State(gateway): State<Gateway>,
    query: Result<Query<events::Filter>, QueryRejection>,
    headers: HeaderMap,
) -> Response {
    let mut filter = match query {
        Ok(Query(filter)) => filter,
        Err(rejection) => {
            let error = Error::invalid(rejection.body_text());
            return failure(error.hint("there is `root`, `session`, `after` and `follow`"));
        }
    };
    if let Some(seen) = headers.get("last-event-id").and_then(|id| id.to_str().ok()) {
        filter.after = Some(seen.to_owned());
    }
    match events::watch(gateway, filter).await {
        Ok(stream) => {
            let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
            (headers, Body::from_stream(stream)).into_response()
        }
        Err(error) => failure(error),
    }
}

async fn nothing_here() -> Response {
    failure(Error::not_found("nothing is served here").hint("there is `POST /rpc/<method>` and `GET /events`"))
}

fn body_refused(rejection: &BytesRejection) -> Error {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return too_large();
    }
    Error::invalid(format!("the body cannot be read: {}", rejection.body_text()))
}

fn too_large() -> Error {
    Error::invalid("the body is larger than 25 MiB").hint("put large content into a file and name it")
}

fn failure(error: Error) -> Response {
    if error.code == Code::Internal {
        tracing::error!(%error, "a call failed");
    }
    #[derive(serde::Serialize)]
    struct Refusal {
        error: Error,
    }
    let status = StatusCode::from_u16(error.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, axum::Json(Refusal { error })).into_response()
}
