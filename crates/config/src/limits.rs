//! `limits`: how far agents may go before they are stopped, queued or asked.

use serde::Serialize;

use crate::Error;
use crate::document::Node;
use crate::reference::{Kind, Section, When, setting};
use crate::section::Notes;

/// Every bound a user can set.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// How deep children may have children.
    pub depth: u32,
    /// Live children of one session; more are refused.
    pub children: u32,
    /// Runs at once in one tree; more wait.
    pub running: u32,
    /// Agents started by one run of a root.
    pub agents: u32,
    /// What one run of a root may spend, in US dollars.
    pub cost_usd: f64,
    /// What one run of a root may have models read and write, in tokens; unset, as much as it likes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Tool calls of one step at once.
    pub calls: u32,
    /// Letters waiting for one session; more are refused.
    pub queue: u32,
    /// How often a letter may cause another one.
    pub hops: u32,
    /// Messages between two sessions for one prompt of a person.
    pub exchanges: u32,
    /// Model calls and tools at once in one gateway.
    pub gateway: u32,
    /// How long a question to a person stays open: `askMinutes` in the file.
    pub ask_ms: u64,
    /// How long an agent that is asked to end may take to answer: `shutdownSeconds` in the file.
    pub shutdown_ms: u64,
    /// How long a session without work stays in memory: `idleMinutes` in the file.
    pub idle_ms: u64,
    /// How long saved outputs of tools are kept: `outputDays` in the file.
    pub output_ms: u64,
    /// What they may take altogether, the oldest going first: `outputMegabytes` in the file.
    pub output_bytes: u64,
    /// How long what a delivered message said is shown with it: `mailDays` in the file.
    pub mail_ms: u64,
}

pub(crate) const SECTION: Section = Section {
    name: "limits",
    about: "How far agents may go before they are stopped, queued or asked.",
    when: When::Restart,
    settings: &[
        setting("limits.depth", Kind::Whole, "3", "how deep children may have children"),
        setting("limits.children", Kind::Whole, "100", "live children of one session; more are refused"),
        setting("limits.running", Kind::Whole, "32", "runs at once in one tree; more wait"),
        setting("limits.agents", Kind::Whole, "500", "agents started by one run of a root"),
        setting("limits.costUsd", Kind::Number, "50", "what one run of a root may spend, in US dollars"),
        setting(
            "limits.tokens",
            Kind::Whole,
            "no limit",
            "what one run of a root may have models read and write, in tokens",
        ),
        setting("limits.calls", Kind::Whole, "8", "tool calls of one step at once"),
        setting("limits.queue", Kind::Whole, "1000", "letters waiting for one session; more are refused"),
        setting("limits.hops", Kind::Whole, "8", "maximum sessions that a message is forwarded through"),
        setting(
            "limits.exchanges",
            Kind::Whole,
            "200",
            "maximum messages between two sessions for one prompt of yours",
        ),
        setting("limits.gateway", Kind::Whole, "512", "model calls and tools at once in one gateway"),
        setting("limits.askMinutes", Kind::Number, "30", "how long a question to a person stays open"),
        setting(
            "limits.shutdownSeconds",
            Kind::Number,
            "60",
            "how long an agent that is asked to end may take to answer",
        ),
        setting("limits.idleMinutes", Kind::Number, "5", "how long a session without work stays in memory"),
        setting(
            "limits.outputDays",
            Kind::Number,
            "30",
            "how long outputs of tools that were too long to show are kept",
        ),
        setting(
            "limits.outputMegabytes",
            Kind::Whole,
            "2048",
            "what these may take on the disk altogether; the oldest go first",
        ),
        setting(
            "limits.mailDays",
            Kind::Number,
            "30",
            "how long `convoke mail` shows the text of delivered messages, and any messages to other gateways",
        ),
    ],
};

impl Default for Limits {
    fn default() -> Self {
        Self {
            depth: 3,
            children: 100,
            running: 32,
            agents: 500,
            cost_usd: 50.0,
            tokens: None,
            calls: 8,
            queue: 1000,
            hops: 8,
            exchanges: 200,
            gateway: 512,
            ask_ms: 30 * MINUTE,
            shutdown_ms: MINUTE,
            idle_ms: 5 * MINUTE,
            output_ms: 30 * 24 * 60 * MINUTE,
            output_bytes: 2048 << 20,
            mail_ms: 30 * 24 * 60 * MINUTE,
        }
    }
}

const MINUTE: u64 = 60_000;

/// A year: longer than anybody means to wait, and far from overflowing a clock.
const MOST_MINUTES: f64 = 525_600.0;

/// Above what anybody pays for.
const MOST_TOKENS: u64 = 1_000_000_000_000;

/// More than one machine can hold; a longer number is a slip of the finger.
const MOST: u64 = 10_000_000;

pub(crate) const KEYS: &[&str] = &[
    "depth",
    "children",
    "running",
    "agents",
    "costUsd",
    "tokens",
    "calls",
    "queue",
    "hops",
    "exchanges",
    "gateway",
    "askMinutes",
    "shutdownSeconds",
    "idleMinutes",
    "outputDays",
    "outputMegabytes",
    "mailDays",
];

impl Limits {
    pub(crate) fn read(node: &Node, notes: &mut Notes) -> Result<Self, Error> {
        let mut limits = Self::default();
        for field in node.fields()? {
            let node = &field.node;
            match field.key.as_str() {
                "depth" => limits.depth = count(node, 0)?,
                "children" => limits.children = count(node, 0)?,
                "agents" => limits.agents = count(node, 0)?,
                "hops" => limits.hops = count(node, 0)?,
                "exchanges" => limits.exchanges = count(node, 0)?,
                // None of these at once would be a gateway in which nothing ever moves.
                "running" => limits.running = count(node, 1)?,
                "calls" => limits.calls = count(node, 1)?,
                "queue" => limits.queue = count(node, 1)?,
                "gateway" => limits.gateway = count(node, 1)?,
                "tokens" => limits.tokens = Some(node.whole(1, MOST_TOKENS)?),
                "costUsd" => limits.cost_usd = node.number(0.0, MOST as f64)?,
                "shutdownSeconds" => limits.shutdown_ms = (node.number(0.0, MOST_MINUTES * 60.0)? * 1000.0) as u64,
                "askMinutes" => limits.ask_ms = minutes(node)?,
                "idleMinutes" => limits.idle_ms = minutes(node)?,
                "outputDays" => limits.output_ms = (node.number(0.0, 3650.0)? * 24.0 * 60.0 * MINUTE as f64) as u64,
                "mailDays" => limits.mail_ms = (node.number(0.0, 3650.0)? * 24.0 * 60.0 * MINUTE as f64) as u64,
                "outputMegabytes" => limits.output_bytes = node.whole(0, MOST)? << 20,
                _ => notes.unknown(field, KEYS),
            }
        }
        Ok(limits)
    }
}

fn count(node: &Node, least: u64) -> Result<u32, Error> {
    let whole = node.whole(least, MOST)?;
    Ok(u32::try_from(whole).expect("the most a limit can be fits"))
}

fn minutes(node: &Node) -> Result<u64, Error> {
    Ok((node.number(0.0, MOST_MINUTES)? * MINUTE as f64) as u64)
}
