//! `board.*`: the tasks that a tree shares. Whoever calls acts as a person (C7).

use super::agent::chosen;
use crate::Gateway;
use proto::methods::{
    BoardAdd, BoardAddInput, BoardClaim, BoardClaimInput, BoardList, BoardListInput, BoardPage, BoardUpdate,
    BoardUpdateInput, Handle,
};
use proto::{BoardTask, Error};

impl Handle<BoardList> for Gateway {
    async fn handle(&self, input: BoardListInput) -> Result<BoardPage, Error> {
        self.runtime.board(input.session.as_deref()).await?.list(&input).await
    }
}

impl Handle<BoardAdd> for Gateway {
    async fn handle(&self, mut input: BoardAddInput) -> Result<BoardTask, Error> {
        input.idempotency_key = chosen(input.idempotency_key)?;
        self.runtime.board(input.session.as_deref()).await?.add(input).await
    }
}

impl Handle<BoardUpdate> for Gateway {
    async fn handle(&self, mut input: BoardUpdateInput) -> Result<BoardTask, Error> {
        input.idempotency_key = chosen(input.idempotency_key)?;
        self.runtime.board(input.session.as_deref()).await?.update(input).await
    }
}

impl Handle<BoardClaim> for Gateway {
    async fn handle(&self, mut input: BoardClaimInput) -> Result<BoardTask, Error> {
        input.idempotency_key = chosen(input.idempotency_key)?;
        self.runtime.board(input.session.as_deref()).await?.claim(input).await
    }
}
