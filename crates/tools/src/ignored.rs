//! Fields of a call that no tool knows: passed over, and said so, since a model that means something by one should learn
//! that it had no effect.

use crate::{Error, Output};
use serde_json::Value;

/// Fields that are named; whoever sends more has lost the thread anyhow.
const NAMED: usize = 8;
const LONGEST: usize = 64;

/// The fields nobody read, by their path.
#[derive(Debug, Default)]
pub(crate) struct Ignored {
    fields: Vec<String>,
}

impl Ignored {
    pub(crate) fn add(&mut self, path: String) {
        if self.fields.len() < NAMED {
            self.fields.push(path.chars().take(LONGEST).collect());
        }
    }

    /// The result with a note about them. A call that still waits is noted when it ends.
    pub(crate) fn note(&self, result: Result<Output, Error>, json: bool) -> Result<Output, Error> {
        if self.fields.is_empty() {
            return result;
        }
        match result {
            Ok(output) if output.wait.is_some() => Ok(output),
            Ok(output) if json => Ok(self.in_json(output)),
            Ok(output) => Ok(Output { text: format!("{}\n\n({})", output.text.trim_end(), self.words()), ..output }),
            Err(Error::Tell(why)) => Err(Error::Tell(format!("{why} ({})", self.words()))),
            Err(error) => Err(error),
        }
    }

    fn in_json(&self, output: Output) -> Output {
        let Ok(Value::Object(mut fields)) = serde_json::from_str(&output.text) else { return output };
        let note = match fields.get("note").and_then(Value::as_str) {
            Some(note) => format!("{note} {}.", self.words()),
            None => format!("{}.", self.words()),
        };
        fields.insert("note".into(), note.into());
        let Output { wait, failed, ends_turn, .. } = output;
        Output { wait, failed, ends_turn, ..Output::json(&fields) }
    }

    fn words(&self) -> String {
        let fields: Vec<String> = self.fields.iter().map(|field| format!("`{field}`")).collect();
        format!("Ignored, since this tool has no such input: {}", fields.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Place;
    use serde_json::{Value, json};

    #[tokio::test]
    async fn a_field_nobody_knows_is_passed_over_and_named() {
        let place = Place::new();
        place.file("a.txt", "one\n");
        let read = place.call(&crate::read::Read, json!({ "filePath": "a.txt", "encoding": "utf8" })).await.unwrap();
        assert!(read.contains("one") && read.ends_with("(Ignored, since this tool has no such input: `encoding`)"));
        let plain = place.call(&crate::read::Read, json!({ "file_path": "a.txt" })).await.unwrap();
        assert!(!plain.contains("Ignored"), "another spelling is no stranger: {plain}");
    }

    #[tokio::test]
    async fn json_stays_json() {
        let place = Place::new();
        let told = place.call(&crate::agents_list::AgentsList, json!({ "verbose": true })).await.unwrap();
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told["note"], "Ignored, since this tool has no such input: `verbose`.");
        assert!(told["agents"].is_array());
    }

    #[tokio::test]
    async fn a_complaint_names_them_as_well() {
        let place = Place::new();
        let input = json!({ "sessionKey": "main", "text": "hello" });
        let why = place.call(&crate::sessions_send::SessionsSend, input).await.unwrap_err();
        assert!(why.contains("`message` is missing") && why.contains("`text`"), "{why}");
    }
}
