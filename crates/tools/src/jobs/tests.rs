use super::{Jobs, lines};
use crate::doors::{Background, JobEnd, JobInfo, JobState};
use crate::process::Command;
use crate::testing::Place;
use crate::{AnyTool, ToolCx};
use async_trait::async_trait;
use proto::{Job, JobId};
use serde_json::{Value, json, value::to_raw_value};
use std::sync::Arc;

/// One job, as it is.
struct One(JobInfo);

#[async_trait]
impl Background for One {
    async fn start(&self, _: Command, _: &str) -> Result<Job, proto::Error> {
        Ok(self.0.job.clone())
    }

    fn jobs(&self) -> Vec<JobInfo> {
        vec![self.0.clone()]
    }

    async fn stop(&self, _: &str) -> Option<JobInfo> {
        let end = JobEnd { stopped: true, ms: 5, ..JobEnd::default() };
        Some(JobInfo { state: JobState::Ended(end), ..self.0.clone() })
    }
}

fn cx(place: &Place, state: JobState) -> (ToolCx, String) {
    let file = place.file("out.txt", "one\ntwo\nthr").display().to_string();
    let job = Job { id: JobId::new(), command: "make".into(), file };
    let id = job.id.to_string();
    (ToolCx { background: Arc::new(One(JobInfo { job, state })), ..place.cx() }, id)
}

async fn ask(cx: &ToolCx, input: Value) -> Value {
    let output = AnyTool::run(&Jobs, &to_raw_value(&input).unwrap(), cx).await.unwrap();
    serde_json::from_str(&output.text).unwrap()
}

#[tokio::test]
async fn output_is_paged_by_lines_and_the_next_page_goes_on() {
    let place = Place::new();
    let (cx, id) = cx(&place, JobState::Running { ms: 7 });
    let page = ask(&cx, json!({"action": "output", "id": id, "limit": 1})).await;
    assert_eq!((&page["output"], &page["nextOffset"], &page["more"]), (&json!("one\n"), &json!(2), &json!(true)));
    let page = ask(&cx, json!({"bash_id": id, "offset": 2})).await;
    assert_eq!((&page["output"], &page["nextOffset"], &page["more"]), (&json!("two\n"), &json!(3), &json!(false)));
    assert_eq!((&page["state"], page.get("exitCode")), (&json!("running"), None));
    let page = ask(&cx, json!({"action": "output", "id": id, "offset": 3})).await;
    assert_eq!((&page["output"], &page["nextOffset"]), (&json!(""), &json!(3)), "an unfinished line is left for later");
}

#[tokio::test]
async fn what_has_ended_shows_its_last_line_and_its_exit_code() {
    let place = Place::new();
    let (cx, id) = cx(&place, JobState::Ended(JobEnd { code: Some(3), ms: 9, ..JobEnd::default() }));
    let page = ask(&cx, json!({"action": "output", "id": id, "offset": "2"})).await;
    assert_eq!((&page["output"], &page["nextOffset"]), (&json!("two\nthr\n"), &json!(4)));
    assert_eq!((&page["state"], &page["exitCode"]), (&json!("ended"), &json!(3)));
    let list = ask(&cx, json!({})).await;
    assert_eq!((&list["jobs"][0]["id"], &list["jobs"][0]["command"]), (&json!(id), &json!("make")));
}

#[tokio::test]
async fn one_that_is_stopped_is_over_for_the_log_and_one_nobody_knows_is_refused() {
    let place = Place::new();
    let (cx, id) = cx(&place, JobState::Running { ms: 7 });
    let input = to_raw_value(&json!({"action": "stop", "id": id})).unwrap();
    let output = AnyTool::run(&Jobs, &input, &cx).await.unwrap();
    let stopped: Value = serde_json::from_str(&output.text).unwrap();
    assert_eq!((&stopped["state"], &stopped["over"]), (&json!("stopped"), &json!(true)));
    assert!(output.data.unwrap().get().starts_with(r#"{"job":{"#));
    let refused = ask(&cx, json!({"action": "stop", "id": "job_none"})).await;
    assert_eq!((&refused["status"], &refused["code"]), (&json!("error"), &json!("not_found")));
    let missing = AnyTool::run(&Jobs, &to_raw_value(&json!({"action": "output"})).unwrap(), &cx).await.unwrap_err();
    assert!(missing.to_string().contains("say which job"), "{missing}");
}

#[test]
fn a_page_has_an_end_whatever_the_lines_are() {
    let place = Place::new();
    let file = place.file("long.txt", format!("{}\n", "x".repeat(3000)).repeat(100));
    let (text, next, more) = lines(&file, 1, 2000, true).unwrap();
    assert!(text.len() <= crate::output::MAX_BYTES + 2100 && more, "{}", text.len());
    let (rest, ..) = lines(&file, next, 2000, true).unwrap();
    assert!(rest.starts_with("xxx"));
}
