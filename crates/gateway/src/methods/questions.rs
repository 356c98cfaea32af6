//! `questions.*`: what models want to know from a person, and what is said to it.

use crate::Gateway;
use proto::Error;
use proto::letter::AskReply;
use proto::methods::{AsksInput, Done, Handle, QuestionAnswer, QuestionsList, QuestionsOutput, QuestionsReply};

impl Handle<QuestionsList> for Gateway {
    async fn handle(&self, input: AsksInput) -> Result<QuestionsOutput, Error> {
        let root = match &input.reference {
            Some(reference) => Some(self.named(reference).await?.root),
            None => None,
        };
        let asks = self.store().asks(root.as_ref()).await?;
        let questions = asks.iter().filter(|ask| !ask.questions.is_empty()).map(session::asked::question);
        Ok(QuestionsOutput { questions: questions.collect() })
    }
}

impl Handle<QuestionsReply> for Gateway {
    async fn handle(&self, input: QuestionAnswer) -> Result<Done, Error> {
        match (input.reject, input.answers.is_empty()) {
            (true, true) => self.reject(&input.id, input.message).await?,
            (false, false) if input.message.is_none() => {
                self.runtime.answer_questions(&input.id, input.answers).await?;
            }
            (false, false) => return Err(Error::invalid("`message` goes with `reject`").hint("leave it out")),
            (true, false) => return Err(Error::invalid("both `answers` and `reject` are given").hint("give one")),
            (false, true) => {
                return Err(Error::invalid("there is no answer").hint("give `answers`, or `reject: true`"));
            }
        }
        Ok(Done { ok: true })
    }
}

impl Gateway {
    async fn reject(&self, id: &proto::AskId, message: Option<String>) -> Result<(), Error> {
        if self.store().ask(id).await?.is_some_and(|ask| ask.questions.is_empty()) {
            let what = format!("`{id}` asks for leave, not for an answer");
            return Err(Error::invalid(what).hint("answer it with `permissions.reply`"));
        }
        self.runtime.answer(id, AskReply::Reject, message).await
    }
}
