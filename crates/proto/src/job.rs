//! Jobs: commands that go on after the call that started them.
//!
//! A log tells which ones a session has: the result of the call that started one names it, and its end is a letter whose
//! id is made from the job's, so that it is told once, whoever finds out.

use crate::entry::CallResult;
use crate::{JobId, LetterId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A command in the background.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Job {
    pub id: JobId,
    /// The beginning of the command.
    pub command: String,
    /// The file that gets all it prints.
    pub file: String,
}

/// What the result of a call says of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobNews {
    // First: by it the data of such a result is told from others.
    pub job: Job,
    /// It was stopped by this call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub over: bool,
}

impl JobNews {
    /// The job that a call started or stopped.
    pub fn of(result: &CallResult) -> Option<Self> {
        let data = result.data.as_ref()?.get();
        if data.starts_with(r#"{"job":"#) { serde_json::from_str(data).ok() } else { None }
    }
}

const END: &str = "end_";

impl JobId {
    /// The letter that tells of its end.
    pub fn end(&self) -> LetterId {
        LetterId::derived(END, self.as_str())
    }

    /// The job whose end a letter tells of.
    pub fn ended_by(letter: &LetterId) -> Option<Self> {
        let id = letter.as_str().strip_prefix(END).filter(|id| id.starts_with(Self::PREFIX))?;
        Self::parse(id).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CallId;
    use crate::entry::State;
    use serde_json::value::to_raw_value;

    fn result(data: &impl Serialize) -> CallResult {
        CallResult {
            call: CallId::new(),
            state: State::Ok,
            output: String::new(),
            data: to_raw_value(data).ok(),
            files: Vec::new(),
            loads: Vec::new(),
            wrote: Vec::new(),
            ms: 0,
            ends_turn: false,
            shutdown: None,
        }
    }

    #[test]
    fn a_result_names_the_job_and_a_letter_its_end() {
        let job = Job { id: JobId::new(), command: "make".into(), file: "/tmp/out".into() };
        let news = JobNews { job: job.clone(), over: false };
        assert_eq!(JobNews::of(&result(&news)), Some(news));
        assert_eq!(JobNews::of(&result(&serde_json::json!({ "exitCode": 0 }))), None);
        assert_eq!(JobId::ended_by(&job.id.end()), Some(job.id));
        for other in ["end_run_1", "job_1", "end_"] {
            assert_eq!(JobId::ended_by(&LetterId::parse(other).unwrap()), None, "{other}");
        }
    }
}
