//! Hidden agents that are asked one thing and have no tools: a name for a session, a summary of it.

use crate::agents::Profile;
use crate::slots::SessionSlot;
use llm::{Message, Model, Part, Provider, Reply, Request};

/// What such an agent is asked.
pub(crate) fn request(profile: &Profile, provider: &dyn Provider, model: Model, text: &str) -> Request {
    Request {
        messages: vec![provider.encode(&Message::user(text))],
        model,
        system: profile.prompt.clone(),
        tools: bytes::Bytes::new(),
        temperature: profile.temperature,
        top_p: profile.top_p,
        options: profile.options.clone(),
    }
}

/// Asks once, in its turn: when the provider's pace allows it, and with a place among the runs of a tree if one is given.
pub(crate) async fn ask(
    profile: &Profile,
    provider: &dyn Provider,
    model: Model,
    text: &str,
    slot: Option<&SessionSlot>,
) -> Result<Reply, llm::Error> {
    let request = request(profile, provider, model, text);
    while let Err(wait) = provider.pace(&request) {
        tokio::time::sleep(wait.time).await;
    }
    let _turn = provider.admit().await;
    let _slot = match slot {
        Some(slot) => Some(slot.acquire().await),
        None => None,
    };
    provider.stream(request, &mut |_| {}).await
}

/// What was said, without thoughts.
pub(crate) fn words(parts: &[Part]) -> String {
    parts.iter().filter_map(|part| if let Part::Text(text) = part { Some(text.as_str()) } else { None }).collect()
}
