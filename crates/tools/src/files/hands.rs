//! Who works on files: threads beside the async workers, so many and no more.
//!
//! A file system may not answer: one across a network, one that a program makes up. Whoever waits for it cannot be
//! stopped, only left behind. So every call has a time limit, after which it ends with words of its own; what it left
//! behind still counts against its session and against all of them, so that the threads that others need are there.

use crate::{Error, ToolCx};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Half of what the runtime has for work that blocks: the store and the system's resolver need some too.
const MOST: usize = 256;
/// More than a session's calls at once.
const MOST_OF_ONE: usize = 24;
/// A search through a large repository on a slow disk takes a minute.
const PATIENCE: Duration = Duration::from_secs(120);

/// Cloning shares it.
#[derive(Debug, Clone)]
pub struct Hands {
    all: Arc<Semaphore>,
    own: Arc<Semaphore>,
    patience: Duration,
}

impl Default for Hands {
    fn default() -> Self {
        Self::new(MOST, MOST_OF_ONE, PATIENCE)
    }
}

impl Hands {
    pub fn new(all: usize, own: usize, patience: Duration) -> Self {
        Self { all: Arc::new(Semaphore::new(all)), own: Arc::new(Semaphore::new(own)), patience }
    }

    /// For another session: a count of its own within that of all.
    #[must_use]
    pub fn of_another(&self) -> Self {
        Self { own: Arc::new(Semaphore::new(MOST_OF_ONE)), ..self.clone() }
    }

    /// Runs work that may block. It is told to stop when its time is over, when `cancel` says so or when nobody waits any
    /// more; one that cannot hear that is left behind. A panic in it is that tool's, and nobody else's.
    pub async fn work<T: Send + 'static>(
        &self,
        tool: &'static str,
        cancel: &CancellationToken,
        work: impl FnOnce(&CancellationToken) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let stop = cancel.child_token();
        let _stops = stop.clone().drop_guard();
        let done = async {
            let own = Arc::clone(&self.own).acquire_owned().await;
            let room = (own, Arc::clone(&self.all).acquire_owned().await);
            let work = move || {
                let _room = room;
                work(&stop)
            };
            tokio::task::spawn_blocking(work).await
        };
        match tokio::time::timeout(self.patience, done).await {
            Ok(Ok(result)) => result,
            Ok(Err(source)) => Err(Error::Broken { tool, source: Box::new(source) }),
            Err(_) => Err(Error::tell(format!(
                "it took longer than {} s, its time limit: ask for less, or the file system does not answer",
                self.patience.as_secs_f64()
            ))),
        }
    }
}

/// Work on files for a call, with a context whose `cancel` is that of the work.
pub(crate) async fn blocking<T: Send + 'static>(
    tool: &'static str,
    cx: &ToolCx,
    work: impl FnOnce(&ToolCx) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let own = cx.clone();
    cx.hands.work(tool, &cx.cancel, move |cancel| work(&ToolCx { cancel: cancel.clone(), ..own })).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[tokio::test]
    async fn work_that_hangs_ends_its_call_and_uses_up_its_own_threads_alone() {
        let hands = Hands::new(6, 2, Duration::from_millis(50));
        let cancel = CancellationToken::new();
        let (_open, never) = mpsc::channel::<()>();
        let never = Arc::new(std::sync::Mutex::new(never));
        let mut told = Vec::new();
        for _ in 0..5 {
            let never = Arc::clone(&never);
            let hang = move |_: &CancellationToken| {
                let _ = never.lock().unwrap().recv_timeout(Duration::from_secs(5));
                Ok(())
            };
            told.push(hands.work("read", &cancel, hang).await.unwrap_err().to_string());
        }
        assert!(told.iter().all(|why| why.contains("time limit")), "{told:?}");
        assert_eq!((hands.own.available_permits(), hands.all.available_permits()), (0, 4));
        assert_eq!(hands.of_another().work("read", &cancel, |_| Ok(1)).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn work_is_told_to_stop_when_its_time_is_over_and_a_panic_is_its_own() {
        let hands = Hands::new(2, 2, Duration::from_millis(50));
        let (stopped, hears) = mpsc::channel();
        let wait = move |cancel: &CancellationToken| {
            while !cancel.is_cancelled() {
                std::thread::yield_now();
            }
            stopped.send(()).unwrap();
            Ok(())
        };
        assert!(hands.work("grep", &CancellationToken::new(), wait).await.is_err());
        hears.recv_timeout(Duration::from_secs(10)).unwrap();
        let broke = Hands::default().work::<()>("grep", &CancellationToken::new(), |_| panic!("what a pattern")).await;
        assert!(matches!(broke, Err(Error::Broken { tool: "grep", .. })));
    }
}
