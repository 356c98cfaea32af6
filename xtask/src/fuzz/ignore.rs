//! Ignore files as a repository may have them, read by a real gateway whose agent lists, globs and searches there. The
//! gateway goes on answering, and no call takes long.

use super::websocket::Gateway;
use super::{Target, Trial, signature};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

pub(super) const TARGET: Target = Target {
    name: "ignore",
    words: &[
        "*",
        "**",
        "/",
        "**/",
        "!",
        "#",
        "\\",
        "{",
        "}",
        "{a,",
        "[",
        "]",
        "[!a-z]",
        "[^]]",
        "?",
        "\\ ",
        " ",
        "\n",
        "\r\n",
        "../",
        "*.rs",
        "src/",
        "{{",
        "a{b,c}d",
        "[[:alpha:]]",
    ],
    folders: &[],
    open,
};

fn open(scratch: &Path) -> anyhow::Result<Trial> {
    let mut gateway = Gateway::start(scratch)?;
    let project = scratch.join("project");
    fs::create_dir_all(project.join("src/deep"))?;
    fs::create_dir_all(project.join(".git"))?;
    for name in ["a.rs", "src/b.rs", "src/deep/c.txt"] {
        fs::write(project.join(name), "fn main() {}\n")?;
    }
    Ok(Box::new(move |input| {
        // The length chooses where the file is and who reads it.
        let file = [".gitignore", ".ignore", "src/.gitignore"][input.len() % 3];
        let say = ["list", "glob **/*.rs", "find where main"][input.len() / 3 % 3];
        for name in [".gitignore", ".ignore", "src/.gitignore"] {
            let _ = fs::remove_file(project.join(name));
        }
        fs::write(project.join(file), input).map_err(|error| format!("cannot write the input: {error}"))?;
        let answered = run(&gateway, say, &project);
        gateway.check().map_err(|error| format!("{error:#}"))?;
        let answer = answered.map_err(|error| format!("{say}: {error:#}"))?;
        let found: Vec<bool> = ["a.rs", "b.rs", "c.txt"].iter().map(|name| answer.to_string().contains(name)).collect();
        Ok(signature((file, say, found, answer["status"].to_string())))
    }))
}

fn run(gateway: &Gateway, say: &str, project: &Path) -> anyhow::Result<Value> {
    let run = gateway.call("agent", &json!({ "message": say, "cwd": project, "model": "offline/plain" }))?;
    gateway.call("agent.wait", &json!({ "runId": run["runId"], "timeoutMs": 8_000 }))
}
