//! Lines that a person types, each under the question that was on the screen.
//!
//! A line is taken while a question stands there, and only one. What was typed before it appeared is thrown away, also
//! the half of a line; a line that came under another question answers none. So the terminal is read in the same
//! lock in which a question is shown.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{QueueSelector, tcflush};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;

/// The longest line that a terminal gives.
const LONGEST: usize = 4096;

pub(super) struct Keys {
    gate: Arc<Gate>,
    lines: mpsc::Receiver<Typed>,
}

/// A line, or the end of the input, and the question it came under.
struct Typed(u64, Option<String>);

#[derive(Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Which question stands on the screen, counted.
    question: u64,
    /// It waits for a line.
    waits: bool,
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keys {
    /// Reading a terminal cannot be stopped, so a thread of its own does it, and ends with the process.
    pub(super) fn start() -> Self {
        let (gate, (send, lines)) = (Arc::new(Gate::default()), mpsc::channel(8));
        let reads = gate.clone();
        std::thread::spawn(move || while read(&reads, &send) {});
        Self { gate, lines }
    }

    /// Shows a question: what is typed from here on is about it. Returns its number.
    pub(super) fn ask(&self, show: impl FnOnce()) -> u64 {
        let mut state = self.gate.state();
        // One that cannot be flushed has nothing to be flushed.
        let _ = tcflush(rustix::stdio::stdin(), QueueSelector::IFlush);
        state.question += 1;
        state.waits = true;
        show();
        self.gate.changed.notify_all();
        state.question
    }

    /// Nothing stands there any more.
    pub(super) fn rest(&self) {
        self.gate.state().waits = false;
    }

    /// What was typed under this question; `None` is the end of the input. Safe to drop.
    pub(super) async fn line(&mut self, question: u64) -> Option<String> {
        loop {
            match self.lines.recv().await {
                Some(Typed(under, line)) if under == question => return line,
                Some(_) => {}
                None => return None,
            }
        }
    }
}

/// Reads one line, when a question waits for it. False when there is no one to take it.
fn read(gate: &Gate, send: &mpsc::Sender<Typed>) -> bool {
    drop(gate.changed.wait_while(gate.state(), |state| !state.waits));
    if !readable(None) {
        return true;
    }
    let mut state = gate.state();
    // While the lock was free, it may have been flushed, or left alone.
    if !state.waits || !readable(Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
        return true;
    }
    let mut bytes = [0; LONGEST];
    let line = match rustix::io::read(rustix::stdio::stdin(), &mut bytes) {
        Ok(count @ 1..) => Some(String::from_utf8_lossy(&bytes[..count]).trim().to_owned()),
        Ok(_) => None,
        Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => return true,
        Err(_) => None,
    };
    state.waits = false;
    send.try_send(Typed(state.question, line)).is_ok()
}

fn readable(limit: Option<&Timespec>) -> bool {
    let stdin = rustix::stdio::stdin();
    let mut asked = [PollFd::new(&stdin, PollFlags::IN)];
    poll(&mut asked, limit).is_ok_and(|ready| ready > 0)
}
