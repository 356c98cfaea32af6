//! Going on without a gateway for a while: the next one is started and tried again, until the patience of a command is
//! over. It counts from each loss, since one gateway after another may be killed in the life of a long run.

use crate::failure::Failure;
use crate::home::Home;
use crate::reach::reach;
use client::Client;
use proto::methods::Method;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// How long a gateway that died may take to come back before a command gives up. What it asked for goes on in the store.
const LOST: Duration = Duration::from_secs(30);

/// A gateway that lived for less than this was never back: one that dies at every start has to be given up at last.
const LASTED: Duration = Duration::from_millis(200);

const PAUSE: Duration = Duration::from_millis(20);

#[derive(Default)]
pub(crate) struct Patience {
    lost: Option<Instant>,
    back: Option<Instant>,
}

impl Patience {
    /// A gateway was lost: true if this is a new loss, and not one more end of a gateway that was hardly there.
    pub(crate) fn lose(&mut self) -> bool {
        let new = self.lost.is_none() || self.back.take().is_some_and(|back| back.elapsed() >= LASTED);
        if new {
            self.lost = Some(Instant::now());
        }
        new
    }

    /// The next gateway. `error` is how the last one was lost.
    pub(crate) async fn next(&mut self, home: &Home, error: client::Error) -> Result<Client, Failure> {
        let since = *self.lost.get_or_insert_with(Instant::now);
        if since.elapsed() > LOST {
            return Err(error.into());
        }
        loop {
            sleep(PAUSE).await;
            match reach(home).await {
                Ok(client) => {
                    self.back = Some(Instant::now());
                    return Ok(client);
                }
                Err(failure) if since.elapsed() > LOST => return Err(failure),
                Err(_) => {}
            }
        }
    }
}

/// Calls a method whose input names itself, so that it counts once: when the gateway is lost, the next one is asked.
pub(crate) async fn insist<M: Method>(home: &Home, client: &mut Client, input: M::Input) -> Result<M::Output, Failure>
where
    M::Input: Clone,
{
    let mut patience = Patience::default();
    loop {
        match client.call::<M>(input.clone()).await {
            Err(error) if error.is_lost() => {
                patience.lose();
                *client = patience.next(home, error).await?;
            }
            answered => return Ok(answered?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_loss_counts_for_itself_unless_the_gateway_was_hardly_there() {
        let ago = |ms| Instant::now().checked_sub(Duration::from_millis(ms)).unwrap();
        let mut patience = Patience::default();
        assert!(patience.lose());
        patience.lost = Some(ago(60_000));
        patience.back = Some(ago(50_000));
        assert!(patience.lose() && patience.lost.unwrap().elapsed() < LOST, "it was back for long");
        patience.lost = Some(ago(60_000));
        patience.back = Some(ago(1));
        assert!(!patience.lose() && patience.lost.unwrap().elapsed() > LOST, "it dies at every start");
        assert!(!patience.lose(), "it never was back");
    }
}
