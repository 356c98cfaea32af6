//! Signals that ask the process to end, on a thread of its own with a runtime of its own: whatever the other threads hang
//! in, the process ends.

use crate::failure::{Failure, INTERRUPTED, cannot};
use rustix::process::{Signal, getpid, kill_process};
use std::future::Future;
use std::time::Duration;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::sync::mpsc;

/// How long the process may take to leave by itself once it has to be cut off.
const LAST: Duration = Duration::from_millis(500);

/// How a process ends that was asked to.
pub(crate) struct Ending {
    /// How long it may take after the first signal. The second one ends it at once.
    pub(crate) limit: Duration,
    /// Its exit code if it takes longer.
    pub(crate) late: u8,
}

/// From now on every signal calls `asked`. The time limit counts from the first one, or from when `begun` is over.
pub(crate) fn watch(
    ending: Ending,
    begun: impl Future<Output = ()> + Send + 'static,
    asked: impl Fn() + Send + 'static,
) -> Result<(), Failure> {
    let failed = |error: std::io::Error| cannot("listen for signals", &error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let (interrupt, terminate) = {
        let _inside = runtime.enter();
        (signal(SignalKind::interrupt()).map_err(failed)?, signal(SignalKind::terminate()).map_err(failed)?)
    };
    let watch = move || {
        let code = runtime.block_on(until_late((interrupt, terminate), &ending, begun, asked));
        cut_off(code);
    };
    std::thread::Builder::new().name("signals".into()).spawn(watch).map_err(failed)?;
    Ok(())
}

/// Waits until the process has to end now, with this exit code.
async fn until_late(
    mut signals: (Signals, Signals),
    ending: &Ending,
    begun: impl Future<Output = ()>,
    asked: impl Fn(),
) -> u8 {
    let mut received = 0;
    tokio::select! {
        () = next(&mut signals) => {
            received += 1;
            asked();
        }
        () = begun => {}
    }
    let mut late = std::pin::pin!(tokio::time::sleep(ending.limit));
    while received < 2 {
        tokio::select! {
            () = &mut late => return ending.late,
            () = next(&mut signals) => {
                received += 1;
                asked();
            }
        }
    }
    tokio::time::sleep(LAST).await;
    INTERRUPTED
}

async fn next(signals: &mut (Signals, Signals)) {
    tokio::select! {
        _ = signals.0.recv() => {}
        _ = signals.1.recv() => {}
    }
}

/// Ends the process, which loses no more than a crash does. A regular exit, and the log, may wait for a lock that a hung
/// thread holds; the kernel waits for nobody.
fn cut_off(code: u8) -> ! {
    let regular = move || {
        tracing::error!("the process did not end in time and is cut off");
        std::process::exit(i32::from(code));
    };
    // Where no thread can be had, the kernel alone has to do.
    let _ = std::thread::Builder::new().spawn(regular);
    std::thread::sleep(LAST);
    let _ = kill_process(getpid(), Signal::KILL);
    std::process::abort();
}

/// Signals as something to wait for.
pub(crate) struct Interrupts(mpsc::Receiver<()>);

impl Interrupts {
    pub(crate) fn listen(ending: Ending) -> Result<Self, Failure> {
        let (send, received) = mpsc::channel(2);
        watch(ending, std::future::pending(), move || {
            // One that does not fit tells nothing new.
            let _ = send.try_send(());
        })?;
        Ok(Self(received))
    }

    pub(crate) async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}
