//! The binary in a terminal of its own: what is on the screen is waited for, and keys are typed when it is there.

use crate::World;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Screen {
    child: Child,
    keys: Option<ChildStdin>,
    screen: Receiver<Vec<u8>>,
    shown: String,
}

impl Screen {
    /// Starts `convoke ARGS`; the arguments are words for a shell.
    pub(crate) fn start(world: &World, args: &str) -> Self {
        Self::with(world, args, &[])
    }

    pub(crate) fn with(world: &World, args: &str, env: &[(&str, &str)]) -> Self {
        let mut command = world.home.command("script");
        let line = format!("'{}' {args}", crate::CONVOKE);
        command.args(["-qefc", &line, "/dev/null"]).current_dir(world.repo.path()).envs(env.iter().copied());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("script is there");
        let (keys, mut output) = (child.stdin.take(), child.stdout.take().expect("piped"));
        let (send, screen) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                if send.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { child, keys, screen, shown: String::new() }
    }

    /// Waits until all of these were shown, so often. Returns everything so far.
    #[track_caller]
    pub(crate) fn shows(&mut self, times: usize, words: &str) -> String {
        while self.shown.matches(words).count() < times {
            match self.screen.recv_timeout(PATIENCE) {
                Ok(bytes) => self.shown.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("`{words}` is not shown {times} times:\n{}", self.shown),
            }
        }
        self.shown.clone()
    }

    pub(crate) fn types(&mut self, keys: &str) {
        let input = self.keys.as_mut().expect("it is open");
        input.write_all(keys.as_bytes()).unwrap();
        input.flush().unwrap();
    }

    /// Waits until the command is over and went well, and returns all that was shown.
    #[track_caller]
    pub(crate) fn ends(mut self) -> String {
        let shown = self.closes();
        assert!(self.child.wait().unwrap().success(), "{shown}");
        shown
    }

    /// The same, however it went.
    #[track_caller]
    pub(crate) fn closes(&mut self) -> String {
        loop {
            match self.screen.recv_timeout(PATIENCE) {
                Ok(bytes) => self.shown.push_str(&String::from_utf8_lossy(&bytes)),
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
                Err(_) => panic!("it does not end:\n{}", self.shown),
            }
        }
        std::mem::take(&mut self.shown)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        drop(self.keys.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
