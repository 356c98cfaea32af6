//! The same on every wire: a long loop of tools, thoughts and an image, how hard a model is to think, and servers that
//! fail.

use crate::{Done, World};
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

/// One that is not asked again when it fails.
fn hasty(wire: Wire) -> World {
    on(wire, json!({ "provider": { "acme": { "retries": 0 } } }), |_| Reply::text("and on"))
}

/// A request is answered like this: the run fails with these words and a hint, and the session can be gone on with.
#[track_caller]
fn fails(world: &World, reply: Reply, words: &str) {
    world.model.push(reply);
    let done = world.convoke(["run", "--json", "x"]).code(1);
    let run = done.lines().pop().unwrap();
    let message = run["error"]["message"].as_str().unwrap_or_else(|| panic!("{run}"));
    assert!(message.contains(words), "`{words}` is not said: {message}");
    assert!(run["error"]["hint"].is_string(), "{run}");
    assert!(!done.stdout.contains("test-key") && !done.stderr.contains("test-key"), "{done:?}");
    assert_eq!(world.convoke(["run", "-c", "again"]).code(0).stdout, "and on\n");
}

#[test]
fn what_a_server_refuses_is_told_in_its_words_on_every_wire() {
    let page = "<!doctype html><html><body><h1>It works!</h1></body></html>";
    for wire in Wire::ALL {
        let world = hasty(wire);
        for (status, words) in [
            (401, "refused the key: HTTP 401: no: *** (provider `acme` at http://127.0.0.1:"),
            (403, "`convoke auth login acme`"),
            (404, "refused the request: HTTP 404: no: *** (provider `acme` at http://127.0.0.1:"),
            (408, "HTTP 408"),
            (413, "no longer fits the model's context"),
            (429, "asks to wait: HTTP 429"),
            (500, "failed: HTTP 500"),
            (529, "failed: HTTP 529"),
        ] {
            fails(&world, Reply::raw(status, json!({ "error": { "message": "no: test-key" } }).to_string()), words);
        }
        fails(&world, Reply::raw(429, "{}").header("retry-after", "7200"), "asks to wait: HTTP 429");
        fails(&world, Reply::raw(200, page).content_type("text/html"), "is not a reply");
        fails(&world, Reply::raw(404, page).content_type("text/html"), "It works!");
        fails(&world, Reply::text("half").dies_after(1), "broke off");
    }
}

#[test]
fn a_server_that_fails_for_the_moment_is_asked_again_on_every_wire() {
    for wire in Wire::ALL {
        let world = on(wire, json!({}), |received| match received.n {
            // The longer it goes on the longer is waited, unless the server names a time.
            0 => Reply::raw(502, "<html>bad gateway</html>").content_type("text/html"),
            1 => Reply::raw(408, "{}"),
            2 => Reply::raw(429, "{}").header("retry-after-ms", "10"),
            3 => Reply::raw(503, "{}").header("retry-after", "0"),
            _ => Reply::text("whole"),
        });
        assert_eq!(world.convoke(["run", "x"]).code(0).says("trying again in").stdout, "whole\n", "{wire:?}");
        assert_eq!(world.model.count(), 5, "{wire:?}");
    }
}

#[test]
fn every_vendors_way_to_say_that_a_conversation_is_too_long_is_understood() {
    let worlds = Wire::ALL.map(|wire| (wire, hasty(wire)));
    for (wire, status, message) in [
        (Wire::Anthropic, 400, "prompt is too long: 214315 tokens > 200000 maximum"),
        (Wire::Anthropic, 400, "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000"),
        (Wire::OpenAiResponses, 400, "Your input exceeds the context window of this model."),
        (Wire::OpenAiChat, 400, "This model's maximum context length is 128000 tokens. However, you requested 130000."),
        (Wire::OpenAiChat, 400, "the request exceeds the available context size, try increasing it"),
        (Wire::OpenAiChat, 400, "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"),
        (
            Wire::OpenAiChat,
            400,
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048575).",
        ),
        (Wire::OpenAiChat, 422, "Input is too long for requested model."),
    ] {
        let body = json!({ "error": { "message": message, "type": "invalid_request_error" } }).to_string();
        let world = worlds.iter().find(|(known, _)| *known == wire).map(|(_, world)| world).unwrap();
        fails(world, Reply::raw(status, body), "no longer fits the model's context");
    }
}

/// A call whose argument ends in the middle, as the wire says it.
fn half_a_call(wire: Wire) -> String {
    let half = "{\"filePath\": \"REA";
    let event = |data: Value| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap());
    match wire {
        Wire::OpenAiChat => {
            let call = json!({ "index": 0, "id": "c1", "function": { "name": "read", "arguments": half } });
            let say = |delta: Value, finish: Value| json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] });
            let (call, end) = (say(json!({ "tool_calls": [call] }), Value::Null), say(json!({}), json!("tool_calls")));
            format!("data: {call}\n\ndata: {end}\n\ndata: [DONE]\n\n")
        }
        Wire::Anthropic => [
            json!({ "type": "message_start", "message": { "id": "m", "usage": { "input_tokens": 1 } } }),
            json!({ "type": "content_block_start", "index": 0,
                "content_block": { "type": "tool_use", "id": "c1", "name": "read", "input": {} } }),
            json!({ "type": "content_block_delta", "index": 0,
                "delta": { "type": "input_json_delta", "partial_json": half } }),
            json!({ "type": "content_block_stop", "index": 0 }),
            json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" }, "usage": { "output_tokens": 1 } }),
            json!({ "type": "message_stop" }),
        ]
        .map(event)
        .concat(),
        Wire::OpenAiResponses => {
            let call = |arguments: &str| json!({ "type": "function_call", "id": "f", "call_id": "c1", "name": "read", "arguments": arguments });
            [
                json!({ "type": "response.output_item.added", "output_index": 0, "item": call("") }),
                json!({ "type": "response.function_call_arguments.delta", "output_index": 0, "delta": half }),
                json!({ "type": "response.output_item.done", "output_index": 0, "item": call(half) }),
                json!({ "type": "response.completed", "response": { "status": "completed", "output": [call(half)] } }),
            ]
            .map(event)
            .concat()
        }
    }
}

#[test]
fn half_a_call_is_told_to_the_model_on_every_wire() {
    for wire in Wire::ALL {
        let world = on(wire, json!({}), move |received| match received.n {
            0 => Reply::raw(200, half_a_call(wire)).content_type("text/event-stream"),
            _ => Reply::text("I see."),
        });
        let done = world.convoke(["run", "x"]).code(0);
        assert_eq!(done.stdout, "I see.\n", "{wire:?}");
        let told = world.model.last().unwrap().lines();
        assert_eq!(told.iter().filter(|line| line.role == "tool").count(), 1, "{wire:?}: {told:?}");
    }
}

#[test]
fn agents_and_settings_that_are_wrong_are_named_with_file_and_line() {
    let world = World::new();
    world.repo.write(".convoke/agents/broken.md", "---\ndescription: fine\nsteps: [1, \n---\nDo it.\n");
    world.repo.write(".convoke/agents/wrong.md", "---\ndescription: fine\nsteps: many\n---\nDo it.\n");
    world.repo.write(".convoke/agents/twin.md", "---\ndescription: the first\n---\nOne.\n");
    world.repo.write(".convoke/agents/more/twin.md", "---\ndescription: the second\n---\nTwo.\n");
    let listed = world.convoke(["agents", "--json"]).code(0).says("broken.md:").says("wrong.md:3").says("twin.md");
    let names: Vec<Value> =
        listed.json()["agents"].as_array().unwrap().iter().map(|agent| agent["name"].clone()).collect();
    assert_eq!(names.iter().filter(|name| *name == "twin").count(), 1, "{names:?}");
    assert!(!names.iter().any(|name| name == "broken" || name == "wrong"), "{names:?}");
    world.convoke(["run", "x"]).code(0);

    let settings = |text: &str| {
        std::fs::write(world.home.config_file(), text).unwrap();
        world.convoke(["config", "show"])
    };
    settings("{\n  \"model\": 7\n}").code(2).says("convoke.jsonc:2:").says("hint: ");
    settings("{\n  \"modl\": \"a/b\"\n}").code(0).says("convoke.jsonc:2:").says("`model`");
    std::fs::write(world.home.path().join("config/a.txt"), "{file:b.txt}").unwrap();
    std::fs::write(world.home.path().join("config/b.txt"), "{file:a.txt}").unwrap();
    let circle = settings("{\n  \"agent\": { \"a\": { \"prompt\": \"{file:a.txt}\" } }\n}");
    circle.code(2).says("convoke.jsonc:2:31").says("which names itself").says("hint: ");
}

#[test]
fn a_key_that_cannot_be_had_is_told_as_that() {
    let provider = json!({ "base_url": "http://127.0.0.1:1", "api_key_command": "echo sk-secret >&2; exit 7" });
    let home = TempHome::bare().config_json(json!({ "model": "mine/x", "provider": { "mine": provider } }));
    let world = World { model: FakeModel::start(), home, repo: RepoDir::new() };
    let done = world.convoke(["run", "x"]).code(1);
    let done = done.says("there is no key").says("`api_key_command` failed (exit status: 7) (provider `mine`)");
    assert!(!done.stderr.contains("sk-secret"), "{done:?}");
}

#[test]
fn an_address_that_is_none_is_told_with_its_variable() {
    let world = World::bare();
    for (key, address) in [("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"), ("OPENAI_API_KEY", "OPENAI_BASE_URL")] {
        let mut command = world.command(["run", "x"]);
        let done = Done::of(command.env(key, "k").env(address, "localhost:8080").output().unwrap()).code(2);
        done.says(&format!("the variable `{address}` is not an address"));
    }
}

#[test]
fn every_provider_that_is_set_up_is_listed() {
    let names = r#"{"data":[{"id":"qwen3"},{"id":"gemma"}]}"#;
    let local = FakeModel::scripted(move |_| Reply::raw(200, names));
    let providers = json!({
        "near": { "base_url": local.base_url() },
        "away": { "base_url": "https://models.invalid/v1" },
        "some": { "base_url": "http://127.0.0.1:1/v1", "models": { "one": {} } },
    });
    let home = TempHome::bare().config_json(json!({ "model": "some/one", "provider": providers }));
    let world = World { model: local, home, repo: RepoDir::new() };
    let listed = world.convoke(["models", "--json"]).code(0).json();
    let names: Vec<&str> = listed["models"].as_array().unwrap().iter().filter_map(|m| m["name"].as_str()).collect();
    for name in ["near/qwen3", "near/gemma", "away/*", "some/one"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    assert!(!names.contains(&"some/*") && !names.contains(&"near/*"), "{names:?}");
    assert!(world.convoke(["models"]).code(0).stdout.contains("any model of its server can be named"));
    world.convoke(["run", "-m", "nope/x", "hello"]).code(2).says("near/").says("away/").says("some/one");
}

#[test]
fn an_answer_that_is_cut_off_is_said_to_be() {
    let world = World::with(FakeModel::scripted(|_: &Received| Reply::text("half of it").finish("length")));
    world.convoke(["run", "tell me all"]).code(0).says("the answer is cut off");
}
