//! A text that is longer than the screen, in the user's pager.

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::Write;
use tempfile::NamedTempFile;
use tokio::process::{Child, Command};

/// What is used where `PAGER` names none.
const USUAL: &str = "less -R";

/// A pager at work. The terminal is as it was before once this is dropped.
pub(super) struct Pager {
    child: Child,
    /// It goes with the pager.
    _text: NamedTempFile,
    _terminal: Uninterrupted,
}

impl Pager {
    pub(super) fn open(pager: Option<&str>, text: &str) -> std::io::Result<Self> {
        let mut file = NamedTempFile::new()?;
        file.write_all(text.as_bytes())?;
        let pager = pager.filter(|pager| !pager.trim().is_empty()).unwrap_or(USUAL);
        let terminal = Uninterrupted::now();
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("{pager} \"$1\"")).arg("sh").arg(file.path());
        command.stdout(std::io::stderr()).kill_on_drop(true);
        Ok(Self { child: command.spawn()?, _text: file, _terminal: terminal })
    }

    /// Waits until it is closed. False when there was none. Safe to drop.
    pub(super) async fn closed(&mut self) -> bool {
        self.child.wait().await.is_ok_and(|status| status.success())
    }
}

/// A terminal whose Ctrl-C is a key for the pager, and no signal to everything in front.
struct Uninterrupted(Option<Termios>);

impl Uninterrupted {
    fn now() -> Self {
        let stdin = rustix::stdio::stdin();
        let before = tcgetattr(stdin).ok();
        if let Some(before) = &before {
            let mut quiet = before.clone();
            quiet.local_modes.remove(LocalModes::ISIG);
            let _ = tcsetattr(stdin, OptionalActions::Now, &quiet);
        }
        Self(before)
    }
}

impl Drop for Uninterrupted {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, before);
        }
    }
}
