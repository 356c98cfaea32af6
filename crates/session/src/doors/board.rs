//! The board as a call reaches it. Unlike children and letters, a change is stored at once, before the call's result: a
//! call that a crash cuts off in between is made again, and finds its change by its own id.

use super::Doors;
use crate::board::Board;
use async_trait::async_trait;
use proto::methods::{BoardAddInput, BoardClaimInput, BoardListInput, BoardPage, BoardUpdateInput};
use proto::{BoardTask, Error};

impl Doors {
    fn board(&self) -> Board<'_> {
        Board { rt: &self.rt, root: self.caller.row.root.clone(), by: Some(&self.caller.row) }
    }

    /// A call changes a board once.
    fn once(&self) -> Option<String> {
        Some(self.call.to_string())
    }
}

#[async_trait]
impl tools::Board for Doors {
    async fn list(&self, input: BoardListInput) -> Result<BoardPage, Error> {
        self.board().list(&input).await
    }

    async fn add(&self, input: BoardAddInput) -> Result<BoardTask, Error> {
        self.board().add(BoardAddInput { idempotency_key: self.once(), ..input }).await
    }

    async fn update(&self, input: BoardUpdateInput) -> Result<BoardTask, Error> {
        self.board().update(BoardUpdateInput { idempotency_key: self.once(), ..input }).await
    }

    async fn claim(&self, input: BoardClaimInput) -> Result<BoardTask, Error> {
        self.board().claim(BoardClaimInput { idempotency_key: self.once(), ..input }).await
    }
}
