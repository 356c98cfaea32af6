//! What a command prints, for whoever watches it: the newest of it, as often as they like to look. Never kept.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The most that waits to be shown: a screen or two. What does not fit is counted.
const MOST: usize = 8 << 10;

/// A place for what is being printed. Cloning shares it.
#[derive(Debug, Clone, Default)]
pub struct Live {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    more: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    dropped: u64,
}

/// What was printed since the last look.
#[derive(Debug, PartialEq, Eq)]
pub struct Glimpse {
    pub text: String,
    /// Bytes before it that nobody sees.
    pub dropped: u64,
}

impl Live {
    pub fn tell(&self, bytes: &[u8]) {
        self.waiting().add(bytes);
        self.shared.more.notify_one();
    }

    /// Waits until there is something to see. Safe to drop.
    pub async fn next(&self) -> Glimpse {
        loop {
            if let Some(glimpse) = self.take(false) {
                return glimpse;
            }
            self.shared.more.notified().await;
        }
    }

    /// What is left, when nothing more will come.
    pub fn rest(&self) -> Option<Glimpse> {
        self.take(true)
    }

    fn take(&self, last: bool) -> Option<Glimpse> {
        let mut waiting = self.waiting();
        // A line that is only half printed is left for the next look.
        let end = if last { waiting.bytes.len() } else { whole(&waiting.bytes) };
        if end == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&waiting.bytes[..end]).into_owned();
        waiting.bytes.drain(..end);
        Some(Glimpse { text, dropped: std::mem::take(&mut waiting.dropped) })
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn add(&mut self, bytes: &[u8]) {
        let newest = &bytes[bytes.len().saturating_sub(MOST)..];
        let over = (self.bytes.len() + newest.len()).saturating_sub(MOST);
        self.bytes.drain(..over);
        self.bytes.extend_from_slice(newest);
        // Not from the middle of a character.
        let half = if over > 0 || newest.len() < bytes.len() { continuing(&self.bytes) } else { 0 };
        self.bytes.drain(..half);
        self.dropped += (bytes.len() - newest.len() + over + half) as u64;
    }
}

/// Bytes at the beginning that belong to a character before it.
fn continuing(bytes: &[u8]) -> usize {
    bytes.iter().take(3).take_while(|byte| *byte & 0xC0 == 0x80).count()
}

/// How much of it can be shown: whole lines, as far as there are any, so that nothing that is to be blanked is cut in
/// two. A line that fills half of the place is shown in pieces.
fn whole(bytes: &[u8]) -> usize {
    let lines = bytes.iter().rposition(|byte| matches!(byte, b'\n' | b'\r')).map(|at| at + 1);
    lines.unwrap_or_else(|| if bytes.len() >= MOST / 2 { characters(bytes) } else { 0 })
}

/// How much of it ends with a whole character, or with what is none anyway.
fn characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_came_since_the_last_look_is_one_glimpse_of_whole_lines() {
        let live = Live::default();
        live.tell(b"one\n");
        live.tell("tw\u{f6}\n50 %\rth".as_bytes());
        assert_eq!(live.next().await, Glimpse { text: "one\ntw\u{f6}\n50 %\r".into(), dropped: 0 });
        assert_eq!(live.take(false), None, "half a line waits for the rest");
        live.tell(b"ree\n");
        assert_eq!(live.next().await.text, "three\n");
        live.tell(&[0xC3]);
        assert_eq!(live.rest().unwrap().text, "\u{fffd}");
        assert_eq!(live.rest(), None);
    }

    #[tokio::test]
    async fn the_newest_is_shown_and_the_rest_is_counted() {
        let live = Live::default();
        live.tell(&vec![b'a'; 3 * MOST]);
        live.tell(b"end");
        let seen = live.next().await;
        assert_eq!((seen.text.len(), seen.dropped), (MOST, 2 * MOST as u64 + 3));
        assert!(seen.text.ends_with("aend"));
        live.tell("\u{f6}".repeat(MOST).as_bytes());
        live.tell(b"x");
        let seen = live.next().await;
        assert!(seen.text.starts_with('\u{f6}') && seen.text.len() <= MOST, "{}", seen.text.len());
        assert_eq!(seen.text.len() as u64 + seen.dropped, 2 * MOST as u64 + 1);
    }
}
