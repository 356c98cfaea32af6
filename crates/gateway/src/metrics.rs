//! Numbers for operators, in the text format of Prometheus.

use crate::Gateway;
use crate::activity::Activity;
use axum::response::Response;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use proto::Code;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use store::{Commits, Store};

/// From half a millisecond, which is a page of a list, to ten seconds.
const BUCKETS: [f64; 9] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 10.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    door: &'static str,
    method: &'static str,
    code: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Method {
    method: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct At {
    door: &'static str,
}

pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Request, Counter>,
    seconds: Family<Method, Histogram>,
    connections: Family<At, Gauge>,
    streams: Gauge,
    awake: Gauge,
    busy: Gauge,
    /// Known once the gateway listens.
    activity: OnceLock<Activity>,
}

fn histogram() -> Histogram {
    Histogram::new(BUCKETS)
}

/// What the store counts by itself, read when somebody asks.
struct Written(Arc<dyn Store>);

impl fmt::Debug for Written {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Written")
    }
}

impl Collector for Written {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Commits { transactions, operations, seconds, buckets } = self.0.commits();
        if buckets.is_empty() {
            return Ok(());
        }
        let about = "Time until a transaction of the store is on disk";
        let mut histogram = encoder.encode_descriptor("commit_seconds", about, None, MetricType::Histogram)?;
        histogram.encode_histogram::<NoLabelSet>(seconds, transactions, &buckets, None)?;
        let about = "Commits and deliveries; those that wait together share a transaction";
        ConstCounter::new(operations).encode(encoder.encode_descriptor("commits", about, None, MetricType::Counter)?)
    }
}

impl Metrics {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        let mut registry = Registry::with_prefix("convoke");
        registry.register_collector(Box::new(Written(store)));
        let requests = Family::default();
        let seconds = Family::new_with_constructor(histogram as fn() -> Histogram);
        let (connections, streams, awake, busy) =
            (Family::default(), Gauge::default(), Gauge::default(), Gauge::default());
        registry.register("requests", "Requests by door, method and how they ended", Family::clone(&requests));
        registry.register("request_seconds", "Time until an answer begins", Family::clone(&seconds));
        registry.register("connections", "Open connections", Family::clone(&connections));
        registry.register("streams", "Open streams of events and WebSockets", streams.clone());
        registry.register("sessions_awake", "Sessions in memory", awake.clone());
        registry.register("sessions_busy", "Sessions with something under way", busy.clone());
        Self { registry, requests, seconds, connections, streams, awake, busy, activity: OnceLock::new() }
    }

    pub(crate) fn listens(&self, activity: Activity) {
        // A gateway listens once; a second time would change nothing.
        let _ = self.activity.set(activity);
    }

    /// One request has its answer. `method` is one of a fixed list, whatever was asked for.
    pub(crate) fn answered(&self, door: &'static str, method: &'static str, response: &Response, took: Duration) {
        let code = response.extensions().get::<Code>().map_or("ok", |code| name(*code));
        self.called(door, method, code, took);
    }

    pub(crate) fn called(&self, door: &'static str, method: &'static str, code: &'static str, took: Duration) {
        self.requests.get_or_create(&Request { door, method, code }).inc();
        self.seconds.get_or_create(&Method { method }).observe(took.as_secs_f64());
    }

    /// Counts a stream while it is open.
    pub(crate) fn stream(&self) -> Stream {
        self.streams.inc();
        Stream(self.streams.clone())
    }

    pub(crate) fn text(&self, gateway: &Gateway) -> String {
        let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.awake.set(gauge(gateway.runtime.awake()));
        self.busy.set(gauge(gateway.runtime.busy()));
        if let Some(activity) = self.activity.get() {
            let (socket, tcp) = activity.connected();
            self.connections.get_or_create(&At { door: "socket" }).set(gauge(socket));
            self.connections.get_or_create(&At { door: "tcp" }).set(gauge(tcp));
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)
            .expect("writing to a string does not fail");
        text
    }
}

/// An open stream, counted until it is dropped.
pub(crate) struct Stream(Gauge);

impl Drop for Stream {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// A code as it is sent.
pub(crate) fn name(code: Code) -> &'static str {
    match code {
        Code::InvalidInput => "invalid_input",
        Code::NotFound => "not_found",
        Code::Ambiguous => "ambiguous",
        Code::Conflict => "conflict",
        Code::Unauthorized => "unauthorized",
        Code::ForbiddenScope => "forbidden_scope",
        Code::Denied => "denied",
        Code::Provider => "provider",
        Code::Interrupted => "interrupted",
        Code::Internal => "internal",
        Code::ForbiddenVisibility => "forbidden_visibility",
        Code::ForbiddenA2a => "forbidden_a2a",
        Code::ForbiddenSandbox => "forbidden_sandbox",
        Code::ForbiddenDepth => "forbidden_depth",
        Code::ForbiddenAgent => "forbidden_agent",
        Code::LimitChildren => "limit_children",
        Code::LimitBudget => "limit_budget",
        Code::LimitHops => "limit_hops",
        Code::LimitRate => "limit_rate",
        Code::Cycle => "cycle",
        Code::Timeout => "timeout",
        Code::Cancelled => "cancelled",
        Code::Unavailable => "unavailable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_called_what_they_are_sent_as() {
        for code in [Code::InvalidInput, Code::ForbiddenA2a, Code::LimitRate, Code::NotFound, Code::Cycle] {
            assert_eq!(serde_json::json!(code), name(code));
        }
    }
}
