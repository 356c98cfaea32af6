//! `convoke run`: a prompt in, an answer out, in a gateway that is started when none runs.

mod files;
mod follow;
mod input;
mod limits;
mod output;

pub(super) use follow::Reply;
pub(super) use input::directory;
pub(super) use limits::Limits;
pub(super) use output::{Format, Output, event_line};

use super::block_on;
use crate::asking::{Asking, Person};
use crate::failure::{FAILED, Failure, INTERRUPTED};
use crate::home::Home;
use crate::patience::insist;
use crate::reach::reach;
use crate::signals::{Ending, Interrupts};
use crate::{names, providers, terminal, wiring};
use client::Client;
use follow::Follow;
use proto::methods::{Agent, AgentInput, FileInput, Selector, SessionsResolve, WaitStatus};
use proto::{Error, Reference, RunId};
use std::path::PathBuf;
use std::time::Duration;

/// How long a run may take to stop when it was interrupted, before this command leaves it alone.
const STOPPING: Duration = Duration::from_secs(20);

/// Give an agent something to do, and wait for the answer
///
/// The answer alone goes to stdout, everything else to stderr. With `--format json` every line is an object: first the
/// session, last the run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The model to use, as PROVIDER/MODEL
    #[arg(short, long, value_name = "PROVIDER/MODEL")]
    model: Option<String>,
    /// How the model is asked: one of its variants, such as `high`
    #[arg(long, visible_alias = "thinking", value_name = "VARIANT")]
    variant: Option<String>,
    /// The agent to ask
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Go on in this session: an id (or its last 4 characters), a key, a name or a label
    #[arg(short, long, value_name = "REF")]
    session: Option<String>,
    /// Go on in the newest session of this directory
    #[arg(short, long = "continue", conflicts_with = "session")]
    continue_newest: bool,
    /// A name for the new session
    #[arg(long, value_name = "LABEL", conflicts_with_all = ["session", "continue_newest"])]
    label: Option<String>,
    /// What is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// The same as `--format json`
    #[arg(long)]
    json: bool,
    /// What to answer when an agent asks for permission; without it you are asked at a terminal, and else it is denied
    #[arg(long, value_enum)]
    ask: Option<Reply>,
    /// The permission mode of the session from here on; no mode lifts a deny
    #[arg(long, value_name = "MODE", value_parser = ["ask", "accept-edits", "plan", "auto"])]
    permission_mode: Option<String>,
    /// Stop after this many model calls; the last one has to conclude
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_turns: Option<u32>,
    /// Stop once the run and everything it starts have cost this much, in US dollars
    #[arg(long, value_name = "USD", value_parser = limits::dollars)]
    max_budget_usd: Option<f64>,
    /// Use this text instead of the agent's own prompt, in a new session
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["session", "continue_newest"])]
    system_prompt: Option<String>,
    /// Add this text to the system prompt, in a new session
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["session", "continue_newest"])]
    append_system_prompt: Option<String>,
    /// Allow these tools without asking, in a new session: `read`, `bash(git log *)`; separated by commas, or given
    /// several times
    #[arg(long, value_name = "TOOLS", conflicts_with_all = ["session", "continue_newest"])]
    allowed_tools: Vec<String>,
    /// End with the first answer, though sessions below are still busy
    #[arg(long)]
    no_wait: bool,
    /// A file to look at: an image, a PDF or a text; may be given several times
    #[arg(short, long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Work in this directory
    #[arg(short = 'C', long = "dir", value_name = "DIR")]
    directory: Option<PathBuf>,
    /// What to do; standard input is added when it is not a terminal
    #[arg(value_name = "PROMPT")]
    prompt: Vec<String>,
}

/// What is asked for, once the command line is understood.
pub(super) struct Request {
    pub(super) text: String,
    pub(super) files: Vec<FileInput>,
    pub(super) directory: String,
    pub(super) model: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) label: Option<String>,
    pub(super) session: Session,
    /// `None`: the person at the terminal, if there is one.
    pub(super) ask: Option<Reply>,
    pub(super) permission_mode: Option<String>,
    /// Until the whole tree is quiet.
    pub(super) tree: bool,
    pub(super) limits: Limits,
}

/// Where the prompt goes.
pub(super) enum Session {
    New,
    Named(String),
    Newest,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    let format = if args.json { Format::Json } else { args.format };
    let done = prepare(args).and_then(|(home, request)| block_on(execute(&home, request, format)));
    if let (Err(failure), Format::Json) = (&done, format) {
        output::print_error(&failure.error);
    }
    done
}

fn prepare(args: Args) -> Result<(Home, Request), Failure> {
    let directory = directory(args.directory)?;
    let home = Home::open_at(std::path::Path::new(&directory))?;
    let session = match args.session {
        Some(reference) => Session::Named(reference),
        None if args.continue_newest => Session::Newest,
        None => Session::New,
    };
    let files = files::read(&args.files)?;
    let text = input::prompt(&args.prompt)?;
    home.warn();
    if let Session::New = session {
        input::check_command(&text, &home.loaded.commands)?;
    }
    if args.model.as_deref().is_some_and(|model| model.trim().is_empty()) {
        let what = "`--model` is empty";
        return Err(Error::invalid(what).hint("name a model as `provider/model`; `convoke models` lists them").into());
    }
    providers::check_addresses(&home.env, &home.loaded)?;
    let model = proto::model::choice(args.model, args.variant.as_deref());
    let request = Request {
        text,
        files,
        directory,
        model,
        agent: args.agent,
        label: args.label,
        session,
        ask: args.ask,
        permission_mode: args.permission_mode,
        tree: !args.no_wait,
        limits: Limits {
            max_turns: args.max_turns,
            max_budget_usd: args.max_budget_usd,
            system_prompt: args.system_prompt,
            append_system_prompt: args.append_system_prompt,
            allowed: limits::allowed(&args.allowed_tools)?,
        },
    };
    Ok((home, request))
}

/// Posts the prompt, follows it to its end and prints what comes of it.
pub(super) async fn execute(home: &Home, request: Request, format: Format) -> Result<u8, Failure> {
    let mut client = reach(home).await?;
    let input = address(&client, &request).await?;
    let interrupts = Interrupts::listen(Ending { limit: STOPPING, late: INTERRUPTED })?;
    // A gateway that dies under the call may have stored the prompt or not; asking the next one again settles it.
    let accepted = match insist::<Agent>(home, &mut client, input).await {
        Err(failure) if request.model.is_none() => return Err(names::of_setting(failure, home)),
        accepted => accepted?,
    };
    if request.model.is_none() && accepted.model == wiring::OFFLINE && home.loaded.config.model.is_none() {
        terminal::say(
            "note: no model is configured, so the built-in offline model answers; set `model` and `provider`",
        );
    }
    let mut output = Output::of_run(format, home, &request.directory);
    output.session(&accepted);
    let person = || Person::at_terminal(home.plain(), home.env.get("PAGER"));
    let asking = match format {
        Format::Json => Asking::for_a_program(),
        Format::Text => Asking::new(if request.ask.is_none() { person() } else { None }),
    };
    let asks = (request.ask.unwrap_or(Reply::Deny), asking);
    let mut follow = Follow::new(client, &accepted, asks, request.tree, interrupts, output);
    let waited = follow.until_over(home).await;
    let interrupted = follow.interrupted();
    let status = follow.finish(waited);
    Ok(match status {
        _ if interrupted => INTERRUPTED,
        WaitStatus::Ok => 0,
        WaitStatus::Error | WaitStatus::Cancelled | WaitStatus::Timeout => FAILED,
    })
}

/// The call that posts the prompt. Its key is chosen here, so that posting twice starts one run.
async fn address(client: &Client, request: &Request) -> Result<AgentInput, Failure> {
    let mut input = AgentInput {
        message: request.text.clone(),
        agent_id: request.agent.clone(),
        model: request.model.clone(),
        cwd: Some(request.directory.clone()),
        label: request.label.clone(),
        idempotency_key: Some(RunId::new().to_string()),
        files: request.files.clone(),
        permission_mode: request.permission_mode.clone(),
        max_turns: request.limits.max_turns,
        max_budget_usd: request.limits.max_budget_usd,
        ..AgentInput::default()
    };
    if request.limits.are_of_a_session() {
        return limits::create(client, request, input).await;
    }
    let selector = match &request.session {
        Session::New => return Ok(input),
        Session::Newest => Selector { newest_in: Some(request.directory.clone()), ..Selector::default() },
        Session::Named(text) => match Reference::parse(text)? {
            // An agent's main session may have to be made, which resolving does not do.
            Reference::Main | Reference::Key(_) => {
                input.session_key = Some(text.trim().to_owned());
                return Ok(input);
            }
            _ => Selector { reference: Some(text.clone()), ..Selector::default() },
        },
    };
    input.session_id = Some(client.call::<SessionsResolve>(selector).await?.session_id.to_string());
    Ok(input)
}
