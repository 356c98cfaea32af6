//! A request's body, put together from cached pieces while it is being sent.
//!
//! Large pieces go out as they are; small ones are gathered into blocks, since a write per message would cost more than
//! copying it. Either way no more than one block exists besides the cached pieces themselves.

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use std::convert::Infallible;

/// From here on a piece is sent by reference.
const LARGE: usize = 16 * 1024;

const BLOCK: usize = 64 * 1024;

/// The pieces of a body, in order.
#[derive(Default)]
pub(crate) struct Pieces(Vec<Bytes>);

impl Pieces {
    pub(crate) fn with_capacity(pieces: usize) -> Self {
        Self(Vec::with_capacity(pieces))
    }

    pub(crate) fn push(&mut self, piece: impl Into<Bytes>) {
        self.0.push(piece.into());
    }

    /// Pieces with commas between them.
    pub(crate) fn list<'a>(&mut self, pieces: impl IntoIterator<Item = &'a Bytes>) {
        for (n, piece) in pieces.into_iter().enumerate() {
            if n > 0 {
                self.push(Bytes::from_static(b","));
            }
            self.push(piece.clone());
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    pub(crate) fn into_body(self) -> reqwest::Body {
        reqwest::Body::wrap_stream(stream::iter(self.blocks().map(Ok::<_, Infallible>)))
    }

    fn blocks(self) -> impl Iterator<Item = Bytes> + Send {
        let mut pieces = self.0.into_iter().filter(|piece| !piece.is_empty()).peekable();
        std::iter::from_fn(move || {
            let first = pieces.next()?;
            if first.len() >= LARGE {
                return Some(first);
            }
            let mut block = BytesMut::with_capacity(BLOCK);
            block.extend_from_slice(&first);
            while let Some(next) = pieces.next_if(|next| next.len() < LARGE && block.len() + next.len() <= BLOCK) {
                block.extend_from_slice(&next);
            }
            Some(block.freeze())
        })
    }
}

#[cfg(test)]
impl Pieces {
    /// The whole body, for tests.
    pub(crate) fn joined(self) -> Vec<u8> {
        self.blocks().collect::<Vec<_>>().concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pieces(sizes: &[usize]) -> Pieces {
        let mut pieces = Pieces::default();
        for (n, size) in sizes.iter().enumerate() {
            pieces.push(vec![n as u8; *size]);
        }
        pieces
    }

    #[test]
    fn a_large_piece_is_not_copied() {
        let large = Bytes::from(vec![7; LARGE]);
        let mut pieces = pieces(&[1]);
        pieces.push(large.clone());
        let blocks: Vec<Bytes> = pieces.blocks().collect();
        assert_eq!(blocks[1].as_ptr(), large.as_ptr());
    }

    #[test]
    fn a_thousand_small_messages_are_few_writes() {
        assert_eq!(pieces(&[100; 1000]).blocks().count(), 2);
    }

    proptest! {
        #[test]
        fn the_blocks_are_the_pieces_joined(sizes in prop::collection::vec(0usize..40_000, 0..30)) {
            let joined = pieces(&sizes).0.concat();
            let length = pieces(&sizes).len();
            let sent: Vec<Bytes> = pieces(&sizes).blocks().collect();
            prop_assert_eq!(sent.concat(), joined);
            prop_assert_eq!(length, sizes.iter().sum::<usize>());
        }
    }
}
