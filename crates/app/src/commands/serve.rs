//! `convoke serve`: the gateway of this home, until it is stopped.

use crate::failure::{Failure, cannot, from_store};
use crate::home::Home;
use crate::{terminal, wiring};
use gateway::{Gateway, Serve, Socket};
use proto::Error;
use serde_json::json;
use session::Hub;
use std::sync::Arc;
use std::time::Duration;
use store::sqlite::Sqlite;
use tokio::signal::unix::{SignalKind, signal};

/// Run the gateway of this home: everything else talks to it
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Listen on the Unix socket only
    #[arg(long)]
    no_tcp: bool,
    /// End after this long without a connection and without work, such as `30s`, `10m` or `500ms`
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    idle_exit: Option<Duration>,
    /// Print JSON: a `ready` line when it accepts, or an `error` line
    #[arg(long)]
    json: bool,
    /// Started by another command.
    #[arg(long, hide = true)]
    implicit: bool,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    if args.implicit {
        // The terminal of the command that started it is not its own: an interrupt there must not end it.
        let _ = rustix::process::setsid();
    }
    let served = prepare(&args).and_then(|home| serve(&home, &args));
    if let Err(failure) = &served
        && args.json
    {
        terminal::print_json(&line("error", &failure.error));
    }
    served.map(|()| 0)
}

fn line(kind: &str, error: &Error) -> serde_json::Value {
    let mut line = json!({ "type": kind });
    if let (Some(line), Ok(serde_json::Value::Object(fields))) = (line.as_object_mut(), serde_json::to_value(error)) {
        line.extend(fields);
    }
    line
}

fn prepare(args: &Args) -> Result<Home, Failure> {
    raise_file_limit();
    let home = Home::open()?;
    start_log(&home, args.implicit)?;
    home.warn();
    if !args.no_tcp {
        terminal::say("warning: listening on TCP is not built yet: the Unix socket only");
    }
    home.paths.ensure()?;
    Ok(home)
}

fn serve(home: &Home, args: &Args) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| cannot("start a runtime", &error))?;
    runtime.block_on(async {
        let hub = Hub::default();
        let store = Sqlite::open(&home.paths.state, hub.on_kept()).map_err(|error| from_store(&error))?;
        let gateway = wiring::gateway(home, Arc::new(store), hub, args.implicit)?;
        let socket = Socket::bind(&home.paths.socket())?;
        let signals = watch_signals(gateway.clone())?;
        announce(home, args);
        gateway::serve(gateway, socket, Serve { idle_exit: args.idle_exit }).await;
        signals.abort();
        Ok(())
    })
}

fn announce(home: &Home, args: &Args) {
    let socket = home.paths.socket();
    if args.json {
        terminal::print_json(&json!({ "type": "ready", "socket": socket }));
    } else {
        terminal::print(&format!("convoke listens at {}", socket.display()));
    }
}

/// The first signal ends in order; the second one at once, which loses no more than a crash does.
fn watch_signals(gateway: Gateway) -> Result<tokio::task::JoinHandle<()>, Failure> {
    let listen = |kind| signal(kind).map_err(|error| cannot("listen for signals", &error));
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    Ok(tokio::spawn(async move {
        for again in [false, true] {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if again {
                std::process::exit(i32::from(crate::failure::INTERRUPTED));
            }
            gateway.stop();
        }
    }))
}

/// Every awake session may hold files and sockets: take what the system grants. Where it grants less, fewer are served.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

fn start_log(home: &Home, implicit: bool) -> Result<(), Failure> {
    use tracing_subscriber::EnvFilter;
    let wanted = home.env.get("CONVOKE_LOG").filter(|wanted| !wanted.is_empty()).unwrap_or("warn,convoke=info");
    let filter = EnvFilter::try_new(wanted).map_err(|error| {
        Error::invalid(format!("`CONVOKE_LOG` is not a filter: {error}")).hint("use a level, such as `info` or `debug`")
    })?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let lines = lines.with_ansi(!implicit && !home.plain() && std::io::IsTerminal::is_terminal(&std::io::stderr()));
    lines.init();
    Ok(())
}

/// A number with `ms`, `s`, `m` or `h`; seconds without.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "ms" => 1,
        "" | "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("use a number with `ms`, `s`, `m` or `h`".into()),
    };
    let number: u64 = number.parse().map_err(|_| "use a number with `ms`, `s`, `m` or `h`".to_owned())?;
    number.checked_mul(factor).map(Duration::from_millis).ok_or_else(|| "that is too long".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("30s"), duration("30"));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for bad in ["", "s", "1d", "-1s", "99999999999999999999h", "18446744073709551615h"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_error_line_reads_back_as_the_error() {
        let error = Error { retryable: true, ..Error::invalid("no").hint("yes") };
        let line = line("error", &error);
        assert_eq!(line["type"], "error");
        assert_eq!(serde_json::from_value::<Error>(line).unwrap(), error);
    }
}
