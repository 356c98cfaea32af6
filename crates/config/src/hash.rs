//! SHA-256 over several texts, in hexadecimal.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// Each text is preceded by its length, so that moving a byte from one to the next changes the hash.
#[derive(Default)]
pub(crate) struct Hasher(Sha256);

impl Hasher {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> String {
        self.0.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
            write!(text, "{byte:02x}").expect("writing to a string does not fail");
            text
        })
    }
}

/// The first twelve digits: enough to keep the homes of one machine apart, short enough for a socket's name.
pub(crate) fn short(bytes: &[u8]) -> String {
    let mut hasher = Hasher::default();
    hasher.add(bytes);
    let mut text = hasher.finish();
    text.truncate(12);
    text
}
