//! `convoke config`: what is set, where it was set, and changing it.

use crate::failure::Failure;
use crate::home::{Home, current};
use crate::terminal::{self, Paint, Painted};
use config::{Environment, Paths, Shown};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Show, explain and change the settings
///
/// Eight layers are laid over each other, from what is built in to what the administrator of this machine has set.
/// docs/config.md describes them and every setting.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Print the settings that count here; secrets are `***`
    Show(Show),
    /// Print a JSON schema of the settings file
    Schema,
    /// Change one setting in your own file; its comments stay
    Edit(Edit),
}

#[derive(clap::Args)]
struct Show {
    /// Print every value with the layer, the file and the line it comes from
    #[arg(long)]
    origin: bool,
    /// What holds in this directory
    #[arg(short = 'C', long = "dir", value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Edit {
    /// The setting, such as `limits.depth`; quote a key that holds a dot
    #[arg(value_name = "KEY")]
    key: String,
    /// The value: JSON, or a text as it is
    #[arg(value_name = "VALUE", required_unless_present = "unset", conflicts_with = "unset")]
    value: Option<String>,
    /// Take the setting out
    #[arg(long)]
    unset: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    match args.command {
        Command::Show(args) => show(args),
        Command::Schema => {
            let schema = serde_json::to_string_pretty(&config::schema()).expect("a schema is JSON");
            terminal::print(&schema);
            Ok(0)
        }
        Command::Edit(args) => edit(args),
    }
}

fn show(args: Show) -> Result<u8, Failure> {
    let directory = args.directory.map_or_else(current, Ok)?;
    let home = Home::open_at(&directory)?;
    home.warn();
    match (args.origin, args.json) {
        (true, true) => terminal::print_json(&home.loaded.origins()),
        (true, false) => {
            let paint = Paint::stdout(home.plain());
            home.loaded.origins().iter().for_each(|shown| terminal::print(&line(shown, paint)));
        }
        (false, true) => terminal::print_json(&home.loaded.shown()),
        (false, false) => {
            let text = serde_json::to_string_pretty(&home.loaded.shown()).expect("settings are JSON");
            terminal::print(&text);
        }
    }
    Ok(0)
}

fn line(shown: &Shown, paint: Paint) -> Painted {
    let origin = &shown.origin;
    let value = terminal::one_line(&shown.value.to_string(), 60);
    let place = format!("{} {}:{}", origin.layer.name(), origin.file, origin.line);
    Painted::plain(format!("{} = {value}  ", terminal::one_line(&shown.path, 120))).then(paint.dim(&place))
}

fn edit(args: Edit) -> Result<u8, Failure> {
    let env = Environment::capture();
    let paths = Paths::resolve(&env)?;
    let value = args.value.as_deref().map(value);
    let edited = config::edit(&paths, &env, &args.key, value.as_ref())?;
    edited.warnings.iter().for_each(|warning| terminal::say(&format!("warning: {warning}")));
    if args.json {
        terminal::print_json(&json!({ "file": edited.file, "key": args.key, "value": value }));
    } else {
        terminal::say(&format!("changed {}", edited.file.display()));
    }
    explain(&args.key, &edited.file);
    Ok(0)
}

/// A name in it may be nobody's, and a later layer may have the last word.
fn explain(key: &str, file: &Path) {
    let Ok(home) = Home::here() else { return };
    let odd = crate::settings::odd(&home.loaded);
    let own = odd.iter().filter(|warning| warning.starts_with(&*file.to_string_lossy()));
    own.for_each(|warning| terminal::say(&format!("warning: {warning}")));
    let origins = home.loaded.origins();
    let over = origins.iter().find(|shown| shown.path == key && shown.origin.layer > config::Layer::User);
    if let Some(over) = over {
        let origin = &over.origin;
        terminal::say(&format!("note: {}:{} sets it as well, and counts here", origin.file, origin.line));
    }
}

/// `5`, `true`, `["a"]` and `"5"` are JSON; everything else is a text as it stands.
fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}
