//! `convoke demo`: three small scenes without a key and without a network (A13).

use super::run::{Format, Limits, Reply, Request, Session, execute};
use super::{block_on, tree};
use crate::failure::{Failure, cannot};
use crate::home::Home;
use crate::local::read;
use crate::terminal::{self, Paint};
use crate::wiring::OFFLINE;
use proto::methods::{SessionsTree, TreeInput};
use std::path::Path;

/// See what it does: three small scenes with the built-in offline model, no key and no network
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Files to look at.
const FILES: &[(&str, &str)] = &[
    ("README.md", "# Harbour\n\nA little program that counts ships. It starts in `src/main.rs`.\n"),
    (
        "src/main.rs",
        "fn main() {\n    println!(\"{} ships\", count(&[\"Ann\", \"Bee\"]));\n}\n\nfn count(ships: &[&str]) -> usize {\n    ships.len() // TODO: leave out those that have sailed\n}\n",
    ),
    ("notes.txt", "TODO: paint the pier\n"),
];

/// A child that does what children may not: start another one.
const DISOBEDIENT: &str = "\
# The parent: its first step is the mention itself.
when: @general
say: (the mention)
---
say: My child reports: {{last}}

when: Look around
call task {\"description\": \"one more\", \"prompt\": \"Do my work.\", \"subagent_type\": \"general\"}
---
say: I tried to start a child of my own and was told: {{last}}
";

struct Scene<'a> {
    title: &'a str,
    about: &'a str,
    prompt: &'a str,
    model: &'a str,
}

pub(crate) fn run(_: Args) -> Result<u8, Failure> {
    let home = Home::open()?;
    let project = tempfile::Builder::new().prefix("convoke-demo").tempdir();
    let project = project.map_err(|error| cannot("make a directory for the demo", &error))?;
    fill(project.path()).map_err(|error| cannot("write the demo's files", &error))?;
    let script = project.path().join("disobedient.script");
    std::fs::write(&script, DISOBEDIENT).map_err(|error| cannot("write the demo's script", &error))?;
    let scripted = format!("offline/{}", script.display());
    let scenes = [
        Scene {
            title: "1. One agent, real tools",
            about: "The agent reads a file and searches the project. The model is the built-in one; the tools are real.",
            prompt: "read README.md then find where TODO",
            model: OFFLINE,
        },
        Scene {
            title: "2. A mention starts a child session",
            about: "`@explore` hands the work to an agent that may only look. It gets a session of its own.",
            prompt: "@explore find where TODO",
            model: OFFLINE,
        },
        Scene {
            title: "3. A child may not have children",
            about: "This child tries to start one more. The rules refuse; it is told so and goes on.",
            prompt: "@general Look around",
            model: &scripted,
        },
    ];
    block_on(play(&home, project.path(), &scenes))
}

fn fill(project: &Path) -> std::io::Result<()> {
    std::fs::create_dir(project.join("src"))?;
    FILES.iter().try_for_each(|(name, text)| std::fs::write(project.join(name), text))
}

async fn play(home: &Home, project: &Path, scenes: &[Scene<'_>]) -> Result<u8, Failure> {
    let paint = Paint::stdout(home.plain());
    for scene in scenes {
        terminal::print(&paint.bold(scene.title));
        terminal::print(scene.about);
        terminal::print(&paint.dim(&format!("$ convoke run \"{}\"", scene.prompt)));
        let code = execute(home, request(project, scene), Format::Text).await?;
        if code != 0 {
            return Ok(code);
        }
        let newest = read::<SessionsTree>(home, TreeInput::default()).await?;
        terminal::print(&paint.dim("$ convoke tree"));
        terminal::print(&tree::draw(&newest));
    }
    terminal::print("Everything above is kept: `convoke ps` lists it, `convoke history` reads it.");
    terminal::print("Set `model` and `provider` in the settings to let a real model answer.");
    Ok(0)
}

fn request(project: &Path, scene: &Scene<'_>) -> Request {
    Request {
        text: scene.prompt.into(),
        files: Vec::new(),
        directory: project.display().to_string(),
        model: Some(scene.model.into()),
        agent: None,
        label: None,
        session: Session::New,
        ask: Some(Reply::Deny),
        permission_mode: None,
        tree: true,
        limits: Limits::default(),
    }
}
