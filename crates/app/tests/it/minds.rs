//! The same on every wire: a long loop of tools, thoughts and an image, how hard a model is to think, and servers that
//! fail.

use crate::World;
use serde_json::{Value, json};
use testkit::{FakeModel, Received, Reply, RepoDir, TempHome, Wire};

/// A model `acme/m` on this wire, with `more` settings.
pub(crate) fn on(wire: Wire, more: Value, script: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> World {
    let model = FakeModel::scripted(script);
    let base_url = if wire == Wire::Anthropic { model.origin() } else { model.base_url() };
    let provider = json!({
        "wire": wire.as_str(), "base_url": base_url, "api_key": "test-key",
        "models": { "m": { "context": 200_000, "output": 32_000, "images": true } },
    });
    let home = TempHome::bare().config_json(json!({ "model": "acme/m", "provider": { "acme": provider } }));
    World { model, home: home.config_json(more), repo: RepoDir::new() }
}

const STEPS: usize = 50;

#[test]
fn fifty_steps_with_thoughts_parallel_calls_and_an_image_run_on_every_wire() {
    for wire in Wire::ALL {
        let world = on(wire, json!({}), |received| match received.step() {
            step if step < STEPS => Reply::text(format!("step {step}"))
                .thinking(format!("thought number {step}"))
                .and_calls([
                    ("read", json!({ "filePath": "README.md", "limit": 100 + step })),
                    ("glob", json!({ "pattern": format!("{{*.toml,{step}}}") })),
                ])
                .usage(1_000, 10),
            _ => Reply::text("done").usage(1_000, 10),
        });
        std::fs::write(world.repo.path().join("shot.png"), b"\x89PNG\r\n\x1a\n").unwrap();
        let done = world.convoke(["run", "--json", "-f", "shot.png", "go on"]).code(0);
        let run = done.lines().pop().unwrap();
        assert_eq!((&run["status"], &run["text"]), (&json!("ok"), &json!("done")), "{wire:?}");
        assert_eq!(run["usage"]["input"], json!(1_000 * (STEPS + 1)), "{wire:?}");
        let requests = world.model.requests();
        assert_eq!(requests.len(), STEPS + 1, "{wire:?}");
        let lines = requests.last().unwrap().lines();
        let results: Vec<&str> =
            lines.iter().filter(|line| line.role == "tool").map(|line| line.text.as_str()).collect();
        assert_eq!(results.len(), 2 * STEPS, "{wire:?}");
        let pairs = results.chunks(2);
        assert!(pairs.into_iter().all(|two| two[0].contains("# Sample") && two[1].contains("Cargo.toml")), "{wire:?}");
        assert_eq!(lines.iter().find(|line| line.role == "user").unwrap().files, 1, "{wire:?}");
        let (mut shared, mut sent) = (0, 0);
        for pair in requests.windows(2) {
            shared += pair[0].raw.iter().zip(&pair[1].raw).take_while(|(a, b)| a == b).count();
            sent += pair[0].raw.len();
        }
        assert!(shared * 100 >= sent * 99, "{wire:?}: {shared} of {sent} bytes came again as they were");
    }
}

/// What the newest request says about thinking.
fn thinking(world: &World) -> Value {
    let body = world.model.last().unwrap().body();
    match world.model.last().unwrap().wire() {
        Wire::Anthropic => json!([body["thinking"]["budget_tokens"], body["output_config"]["effort"]]),
        Wire::OpenAiResponses => body["reasoning"]["effort"].clone(),
        Wire::OpenAiChat => body["reasoning_effort"].clone(),
    }
}

#[test]
fn a_model_thinks_as_hard_as_it_is_told_on_every_wire() {
    let variants = json!({ "deep": { "effort": "high" }, "long": { "budget": 9_000, "output": 30_000 } });
    for wire in Wire::ALL {
        let about = json!({ "reasoning": "effort", "variants": variants });
        let told = json!({ "reasoning": "budget", "variants": variants, "output": 64_000 });
        let models = json!({ "m": about, "n": told, "plain": {} });
        let more = json!({
            "provider": { "acme": { "models": models } },
            "agent": { "deep": { "variant": "deep", "mode": "primary" } },
        });
        let world = on(wire, more, |_| Reply::text("ok"));
        let by_word = |word: Value| if wire == Wire::Anthropic { json!([null, word]) } else { word };
        let run = |args: &[&str]| {
            world.convoke([&["run", "--json"], args, &["x"]].concat()).code(0);
            thinking(&world)
        };
        assert_eq!(run(&[]), by_word(Value::Null), "{wire:?}");
        assert_eq!(run(&["--variant", "medium"]), by_word(json!("medium")), "{wire:?}");
        assert_eq!(run(&["--model", "acme/m#low"]), by_word(json!("low")), "{wire:?}");
        assert_eq!(run(&["--agent", "deep"]), by_word(json!("high")), "{wire:?}");
        // Who is asked for something else than usual is not asked as usual.
        assert_eq!(run(&["--agent", "deep", "--thinking", "low"]), by_word(json!("low")), "{wire:?}");
        let tokens = run(&["--model", "acme/n", "--variant", "long"]);
        match wire {
            Wire::Anthropic => assert_eq!(tokens, json!([9_000, null])),
            // These have no word for a number.
            Wire::OpenAiResponses | Wire::OpenAiChat => assert_eq!(tokens, Value::Null),
        }
        let shown = world.convoke(["models", "--json"]).code(0).json();
        assert_eq!(shown["models"][0]["variants"], json!(["deep", "high", "long", "low", "medium"]), "{wire:?}");
        let asked = world.model.count();
        let refused = world.convoke(["run", "--variant", "huge", "x"]).code(2);
        refused.says("model `acme/m` has no variant `huge`").says("acme/m#high");
        world.convoke(["run", "-m", "acme/plain", "--variant", "high", "x"]).code(2).says("knows no variants");
        assert_eq!(world.model.count(), asked, "nobody was asked");
    }
}
