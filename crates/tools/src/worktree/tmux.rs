//! Terminals somebody opened in a worktree with tmux: they end with it.

use crate::process::{Command, Processes};
use std::path::Path;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const LIMIT: Duration = Duration::from_secs(5);

/// Ends the tmux sessions that were started in this directory, and names them. Where there is no tmux there is none.
pub(super) async fn end(processes: &dyn Processes, dir: &Path) -> Vec<String> {
    if !has_server(processes.env()) {
        return Vec::new();
    }
    let listed = tmux(processes, &["list-sessions", "-F", "#{session_id}\t#{session_name}\t#{session_path}"]).await;
    let mut ended = Vec::new();
    for line in listed.unwrap_or_default().lines() {
        let mut fields = line.splitn(3, '\t');
        let (Some(id), Some(name), Some(path)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let inside = Path::new(path).starts_with(dir);
        if inside && tmux(processes, &["kill-session", "-t", id]).await.is_some() {
            ended.push(name.to_owned());
        }
    }
    ended
}

/// Whether this user has one: asking would else cost a process with every removal.
fn has_server(env: &[(String, String)]) -> bool {
    let base = env.iter().find(|(name, _)| name == "TMUX_TMPDIR").map_or("/tmp", |(_, value)| value.as_str());
    let user = rustix::process::getuid().as_raw();
    Path::new(base).join(format!("tmux-{user}")).join("default").exists()
}

async fn tmux(processes: &dyn Processes, args: &[&str]) -> Option<String> {
    let command = Command {
        program: "tmux".into(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        dir: "/".into(),
        env: processes.env().to_vec(),
        timeout: LIMIT,
        limit: 64 << 10,
        spill: None,
        live: None,
        confine: None,
        input: Some(String::new()),
    };
    let finished = processes.run(command, &CancellationToken::new()).await.ok()?;
    (finished.code == Some(0)).then(|| String::from_utf8_lossy(&finished.output).into_owned())
}
