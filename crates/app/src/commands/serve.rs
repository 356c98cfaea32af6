//! `convoke serve`: the gateway of this home, until it is stopped.

use crate::failure::{FAILED, Failure, cannot, from_store};
use crate::home::{Home, program};
use crate::reach::{MEMORY, make_way};
use crate::signals::{self, Ending};
use crate::{duration, terminal, wiring};
use gateway::{Certificate, Gateway, Listen, Serve, Socket, Tcp};
use proto::Error;
use serde_json::json;
use session::Hub;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::sqlite::Sqlite;
use tokio::task::JoinSet;
use tools::process::Mark;

/// How long a gateway that was asked to end may take.
const LEAVING: Duration = Duration::from_secs(5);

/// How long a gateway may take beyond its grace periods, to close its files, before it is cut off.
const BEYOND: Duration = Duration::from_secs(3);

/// Between two looks at something another process does.
const GLANCE: Duration = Duration::from_millis(10);

/// Run the gateway of this home: everything else talks to it
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Listen there besides the Unix socket, as ADDRESS or ADDRESS:PORT; 127.0.0.1 and the port of last time without it
    #[arg(long, value_name = "ADDR", value_parser = address, conflicts_with = "no_tcp")]
    listen: Option<Address>,
    /// Listen on the Unix socket only
    #[arg(long)]
    no_tcp: bool,
    /// Listen beyond this machine: a proxy in front of it speaks TLS
    #[arg(long)]
    insecure_behind_proxy: bool,
    /// A further name this gateway is called by, such as that of the proxy; several are possible
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// End after this long without a connection and without work, such as `30s`, `10m` or `500ms`
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
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
    hand_memory_back();
    let served = prepare(&args).and_then(|home| serve(&home, &args));
    if let Err(failure) = &served
        && args.json
    {
        // If it cannot be written, the exit code has to tell.
        let _ = terminal::write_json(&line("error", &failure.error));
    }
    served.map(|()| 0)
}

/// Starts this program again with [`MEMORY`] set, unless it is: the allocator reads it before the first line of ours.
fn hand_memory_back() {
    let (name, value) = MEMORY;
    if config::Environment::capture().get(name).is_none() {
        let arguments: Vec<_> = std::env::args_os().collect();
        let again = Command::new(program())
            .arg0(arguments.first().cloned().unwrap_or_else(|| "convoke".into()))
            .args(arguments.iter().skip(1))
            .env(name, value)
            .exec();
        // Only a failure returns. It costs memory, and nothing else.
        tracing::debug!(error = %again, "the allocator keeps its own measure");
    }
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
    home.paths.ensure()?;
    Ok(home)
}

fn serve(home: &Home, args: &Args) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| cannot("start a runtime", &error))?;
    let served = runtime.block_on(async {
        let hub = Hub::default();
        let store = open(home, args, &hub).await?;
        // Whoever has the database has the home: what a killed predecessor left can go.
        tools::sandbox::clear_up(&wiring::places(home));
        let mark = Mark::new(&home.paths.state);
        let gateway = wiring::gateway(home, Arc::new(store), hub, args.implicit, Some(mark.clone()))?;
        // Beside the rest: nothing of this gateway can be mistaken for what is left.
        let mut beside = JoinSet::new();
        beside.spawn_blocking(move || end_left_behind(&mark));
        let socket = Socket::bind(&home.paths.socket())?;
        let tcp = listen(home, args)?;
        watch_signals(&gateway)?;
        announce(home, args, tcp.as_ref())?;
        let _hung = hang(home);
        gateway::serve(
            gateway,
            socket,
            Serve { idle_exit: args.idle_exit, tcp, state: Some(home.paths.state.clone()) },
        )
        .await;
        // Nothing runs any more, and what is warm goes with this process.
        tools::sandbox::clear_up(&wiring::places(home));
        Ok(())
    });
    // Everything that counts is closed: a thread that still hangs in a file is not waited for.
    runtime.shutdown_background();
    served
}

fn end_left_behind(mark: &Mark) {
    let ended = mark.end_left_behind();
    if ended > 0 {
        tracing::warn!(ended, "commands that a killed gateway had left running were ended");
    }
}

/// The database of this home. One that an idle gateway of another command holds is free once that has left.
async fn open(home: &Home, args: &Args, hub: &Hub) -> Result<Sqlite, Failure> {
    let open = || Sqlite::open(&home.paths.state, hub.on_kept());
    match open() {
        Err(store::Error::Locked { .. }) if !args.implicit && make_way(home).await => {}
        opened => return opened.map_err(|error| from_store(&error).into()),
    }
    // It no longer listens; what is left is to close its files.
    let end = Instant::now() + LEAVING;
    loop {
        match open() {
            Err(store::Error::Locked { .. }) if Instant::now() < end => tokio::time::sleep(GLANCE).await,
            opened => return opened.map_err(|error| from_store(&error).into()),
        }
    }
}

fn listen(home: &Home, args: &Args) -> Result<Option<Tcp>, Error> {
    if args.no_tcp {
        return Ok(None);
    }
    let usual = Listen::default();
    let listen = Listen {
        address: args.listen.map_or(usual.address, |listen| listen.address),
        port: args.listen.and_then(|listen| listen.port),
        certificate: home.loaded.config.tls.as_ref().map(|tls| Certificate::read(&tls.cert, &tls.key)).transpose()?,
        behind_proxy: args.insecure_behind_proxy,
        hosts: args.allow_host.clone(),
    };
    Tcp::bind(&home.paths.state, &listen).map(Some)
}

fn announce(home: &Home, args: &Args, tcp: Option<&Tcp>) -> Result<(), Failure> {
    let written = ready(home, args, tcp);
    match written {
        // Whoever wanted to know has left; the next one finds the socket.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(terminal::unwritten(&error)),
        _ => Ok(()),
    }
}

fn ready(home: &Home, args: &Args, tcp: Option<&Tcp>) -> std::io::Result<()> {
    let socket = home.paths.socket();
    if args.json {
        return terminal::write_json(&match tcp {
            Some(tcp) => {
                json!({ "type": "ready", "url": tcp.url(), "socket": socket, "tokenFile": tcp.token_file() })
            }
            None => json!({ "type": "ready", "socket": socket }),
        });
    }
    terminal::write_line(&format!("convoke listens at {}", socket.display()))?;
    match tcp {
        Some(tcp) => {
            let (url, file) = (tcp.url(), tcp.token_file().display());
            terminal::write_line(&format!("and at {url} for whoever has a token; yours is in {file}"))
        }
        None => Ok(()),
    }
}

/// Where to listen, as somebody wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Address {
    address: IpAddr,
    port: Option<u16>,
}

fn address(text: &str) -> Result<Address, String> {
    let text = text.replacen("localhost", "127.0.0.1", 1);
    if let Ok(full) = text.parse::<SocketAddr>() {
        return Ok(Address { address: full.ip(), port: Some(full.port()) });
    }
    let address = text.trim_matches(['[', ']']).parse().map_err(|_| "use an address such as `127.0.0.1:7000`")?;
    Ok(Address { address, port: None })
}

/// The first signal ends in order; the second one at once, which loses no more than a crash does. However it came to stop,
/// it does not take longer than it may.
fn watch_signals(gateway: &Gateway) -> Result<(), Failure> {
    let ending = Ending { limit: gateway::serve::GRACE + BEYOND, late: FAILED };
    let (stop, stopping) = (gateway.clone(), gateway.clone());
    signals::watch(ending, async move { stopping.stopping().await }, move || stop.stop())
}

/// For tests alone: threads that never come back, as in a file system that does not answer.
fn hang(home: &Home) -> JoinSet<()> {
    let forever = || -> () {
        loop {
            std::thread::park();
        }
    };
    let mut hung = JoinSet::new();
    match home.env.get("CONVOKE_TEST_HANG").filter(|_| cfg!(debug_assertions)) {
        Some("workers") => (0..256).for_each(|_| drop(hung.spawn(async move { forever() }))),
        Some("pool") => (0..600).for_each(|_| drop(hung.spawn_blocking(forever))),
        _ => {}
    }
    hung
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
    // A full disk takes the log with it. Complaining about that on the same stream would panic in the middle of the work.
    lines.log_internal_errors(false).init();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_port_or_none() {
        let check = |text, ip: &str, port| {
            assert_eq!(address(text), Ok(Address { address: ip.parse().unwrap(), port }), "{text}");
        };
        check("127.0.0.1", "127.0.0.1", None);
        check("127.0.0.1:7000", "127.0.0.1", Some(7000));
        check("localhost:7000", "127.0.0.1", Some(7000));
        check("[::1]:7000", "::1", Some(7000));
        check("[::1]", "::1", None);
        check("0.0.0.0", "0.0.0.0", None);
        for bad in ["", "x", "example.org:1", "127.0.0.1:99999", ":7000"] {
            assert!(address(bad).is_err(), "{bad}");
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
