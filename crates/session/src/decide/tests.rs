//! The order of decisions as a table, and what must hold for any log: nothing is lost to an order of arrival.

use super::*;
use crate::view::View;
use proptest::prelude::*;
use proto::entry::{
    Call, CallResult, Compaction, CompactionState, Decision, Ended, Entry, Finish, Input, On, Reply, ReplyPart, State,
    Text, Waiting,
};
use proto::letter::{Abort, InputPart, Prompt, Reason, Sender, Switch};
use proto::{Body, CallId, Job, JobId, JobNews, Outcome, RunId, SessionId, Status, Usage};

fn run(name: &str) -> RunId {
    RunId::parse(name).unwrap()
}

fn letter(class: Class, name: &str) -> Letter {
    let body = match class {
        Class::Control => Body::Abort(Abort { reason: Reason::User, run: None, wave: None }),
        Class::Steer | Class::Request => Body::Prompt(Prompt::text("hello")),
    };
    Letter {
        id: LetterId::parse(name).unwrap(),
        to: SessionId::parse("ses_1").unwrap(),
        from: Sender::Person,
        class,
        body,
        provenance: None,
        conversation: None,
        report: None,
        expires: None,
    }
}

fn input(of: &str, subtask: bool) -> Entry {
    let mut parts = vec![InputPart::Text { text: "hello".into() }];
    if subtask {
        parts.push(InputPart::Subtask { agent: "explore".into(), prompt: "look".into(), description: "look".into() });
    }
    let (agent, model) = ("build".into(), "p/m".into());
    Entry::Input(Input {
        letter: run(of).letter(),
        run: run(of),
        parts,
        agent,
        name: None,
        model,
        provenance: None,
        conversation: None,
        until: None,
        purse: None,
        shutdown: None,
        compact: None,
    })
}

fn reply(text: &str, calls: &[(&str, Decision)], tokens: u64) -> Entry {
    let mut parts = vec![ReplyPart::Text(Text { text: text.into() })];
    for (id, decision) in calls {
        parts.push(ReplyPart::Call(Call {
            id: CallId::parse(id).unwrap(),
            tool: "read".into(),
            input: serde_json::value::to_raw_value(&serde_json::json!({})).unwrap(),
            changed: None,
            decision: *decision,
            wire_id: None,
        }));
    }
    let usage = Usage { input: tokens, ..Usage::default() };
    let finish = if calls.is_empty() { Finish::Stop } else { Finish::ToolCalls };
    Entry::Reply(Reply { step: 1, parts, usage, finish, model: "p/m".into(), deferred: Vec::new() })
}

fn settled(call: &str) -> Entry {
    let call = CallId::parse(call).unwrap();
    Entry::Result(CallResult {
        call,
        state: State::Ok,
        output: "done".into(),
        data: None,
        files: Vec::new(),
        ms: 1,
        ends_turn: false,
        shutdown: None,
        loads: Vec::new(),
        wrote: Vec::new(),
    })
}

fn waiting(call: &str) -> Entry {
    let on = On::Run { run: run("run_c"), session: SessionId::parse("ses_c").unwrap() };
    Entry::Waiting(Waiting { call: CallId::parse(call).unwrap(), on, until: None, note: None })
}

fn ended(of: &str) -> Entry {
    Entry::Ended(Ended { run: run(of), outcome: Outcome::Ok, code: None, message: None, hint: None })
}

fn pending() -> Entry {
    Entry::Compaction(Compaction { state: CompactionState::Pending, auto: true, ..Compaction::default() })
}

#[track_caller]
fn check(log: &[Entry], mail: &[(Class, &str)], expected: Next) {
    let view = View::of(log.iter().zip(1..).map(|(entry, seq)| (seq, entry)));
    let mut inbox = Inbox::default();
    inbox.extend(mail.iter().zip(1..).map(|((class, name), at)| (at, Unread::of(letter(*class, name), 9))));
    let limits = Limits { steps: Some(3), context: 1000, spent: false, stopped: false };
    assert_eq!(decide(&view, &inbox, &limits), expected, "after {log:?} with {mail:?}");
}

#[test]
fn an_idle_session_rests_or_takes_one_letter() {
    use Class::{Request, Steer};
    check(&[], &[], Next::Rest);
    check(&[], &[(Request, "run_1")], Next::Take(1));
    check(&[], &[(Steer, "l_1"), (Steer, "l_2")], Next::Take(1));
    check(&[input("run_1", false), reply("hi", &[], 9), ended("run_1")], &[], Next::Rest);
}

#[test]
fn control_goes_before_everything() {
    let busy = [input("run_1", false), reply("", &[("call_1", Decision::Run)], 9)];
    check(&busy, &[(Class::Request, "run_2"), (Class::Control, "l_1")], Next::Obey);
    check(&[], &[(Class::Steer, "l_1"), (Class::Control, "l_2")], Next::Obey);
}

#[test]
fn a_turn_goes_through_its_steps() {
    let mut log = vec![input("run_1", false)];
    check(&log, &[], Next::CallModel);
    log.push(reply("", &[("call_1", Decision::Run), ("call_2", Decision::Run)], 9));
    check(&log, &[], Next::Settle);
    log.push(settled("call_2"));
    check(&log, &[], Next::Settle);
    log.push(settled("call_1"));
    check(&log, &[], Next::CallModel);
    log.push(reply("done", &[], 9));
    check(&log, &[], Next::End);
}

#[test]
fn a_turn_never_ends_over_unread_mail_but_requests_wait_their_turn() {
    let answered = [input("run_1", false), reply("hi", &[], 9)];
    check(&answered, &[(Class::Steer, "l_1"), (Class::Request, "run_2"), (Class::Steer, "l_2")], Next::Take(2));
    check(&answered, &[(Class::Request, "run_2")], Next::End);
}

#[test]
fn subtasks_then_room_then_steps_are_looked_at_in_this_order() {
    check(&[input("run_1", true), pending()], &[], Next::RunSubtask);
    let full = [input("run_1", false), reply("", &[("call_1", Decision::Run)], 1000), settled("call_1")];
    check(&full, &[], Next::Compact);
    check(&[input("run_1", false), pending()], &[], Next::Compact);
    let two = |id| [reply("", &[(id, Decision::Run)], 9), settled(id)];
    let late: Vec<_> = [input("run_1", false)].into_iter().chain(two("call_1")).chain(two("call_2")).collect();
    check(&late, &[], Next::Conclude);
    let later: Vec<_> = late.into_iter().chain(two("call_3")).collect();
    check(&later, &[], Next::Exhausted);
}

/// The context was summed up.
fn summed() -> Entry {
    let (state, keeps_from) = (CompactionState::Done, Some(1));
    Entry::Compaction(Compaction { state, auto: true, keeps_from, ..Compaction::default() })
}

#[test]
fn room_is_made_again_only_when_that_can_help() {
    let step = |id, tokens| [reply("", &[(id, Decision::Run)], tokens), settled(id)];
    let log = |parts: &[&[Entry]]| -> Vec<Entry> { [&[input("run_1", false)], parts.concat().as_slice()].concat() };
    let just = log(&[&step("call_1", 1000), &[pending(), summed()]]);
    check(&just, &[], Next::CallModel);
    // The server says it is still too long, and nothing came since.
    check(&[just.clone(), vec![pending()]].concat(), &[], Next::Full);
    // The first request after it is as full as before.
    check(&[just.clone(), step("call_2", 1000).to_vec()].concat(), &[], Next::Full);
    let fits = [just, step("call_2", 500).to_vec()].concat();
    check(&fits, &[], Next::Conclude);
    check(&[fits, vec![pending()]].concat(), &[], Next::Compact);
}

#[test]
fn what_came_since_the_last_reply_counts() {
    let mut log = vec![input("run_1", false), reply("", &[("call_1", Decision::Run)], 900), settled("call_1")];
    check(&log, &[], Next::CallModel);
    log.push(Entry::Notice(proto::entry::Notice { text: "x".repeat(400) }));
    check(&log, &[], Next::Compact);
}

#[test]
fn a_job_is_known_from_its_call_until_its_end_is_told_and_through_summaries() {
    let job = |name: &str| Job { id: JobId::parse(name).unwrap(), command: "make".into(), file: "out".into() };
    let news = |call: &str, name: &str, over| {
        let Entry::Result(mut result) = settled(call) else { unreachable!() };
        result.data = serde_json::value::to_raw_value(&JobNews { job: job(name), over }).ok();
        Entry::Result(result)
    };
    let known = |log: &[Entry]| {
        let view = View::of((1..).zip(log));
        view.jobs().map(|job| job.id.to_string()).collect::<Vec<_>>()
    };
    let calls = ["call_1", "call_2", "call_3"].map(|call| (call, Decision::Run));
    let mut log = vec![input("run_1", false), reply("", &calls, 9)];
    log.extend([news("call_1", "job_1", false), news("call_2", "job_2", false)]);
    assert_eq!(known(&log), ["job_1", "job_2"]);
    log.push(news("call_3", "job_2", true));
    assert_eq!(known(&log), ["job_1"]);
    let carried = Some(View::of((1..).zip(&log)).carried());
    let summed = Entry::Compaction(Compaction { state: CompactionState::Done, carried, ..Compaction::default() });
    assert_eq!(known(&[summed]), ["job_1"]);
    let mut fork = View::of((1..).zip(&log));
    fork.disown_jobs(4);
    assert_eq!(fork.jobs().count(), 0);
    let Entry::Input(mut end) = input("run_1", false) else { unreachable!() };
    end.letter = job("job_1").id.end();
    log.push(Entry::Input(end));
    assert_eq!(known(&log), [""; 0]);
}

#[test]
fn a_wish_for_room_is_met_even_after_the_answer_and_forgotten_with_the_run() {
    let wish = Entry::Compaction(Compaction::default());
    let answered = [input("run_1", false), reply("hi", &[], 9), wish];
    check(&answered, &[], Next::Compact);
    check(&[&answered[..], &[summed()]].concat(), &[], Next::End);
    check(&[&answered[..], &[ended("run_1"), input("run_2", false)]].concat(), &[], Next::CallModel);
    let Entry::Input(mut only) = input("run_1", false) else { unreachable!() };
    only.compact = Some(proto::letter::Compact::default());
    let only = [Entry::Input(only), Entry::Compaction(Compaction::default())];
    check(&only, &[], Next::Compact);
    check(&[&only[..], &[summed()]].concat(), &[], Next::End);
    check(&[&only[..], &[input("run_1", false), summed()]].concat(), &[], Next::CallModel);
}

#[test]
fn a_paused_session_begins_nothing_and_ends_what_is_answered() {
    let paused = Entry::Switch(Switch { paused: Some(true), ..Switch::default() });
    let after = |log: &[Entry]| log.iter().cloned().chain([paused.clone()]).collect::<Vec<_>>();
    let request = [(Class::Request, "run_2")];
    check(&after(&[]), &request, Next::Rest);
    check(&after(&[]), &[(Class::Control, "l_1")], Next::Obey);
    check(&after(&[input("run_1", false)]), &[], Next::Rest);
    check(&after(&[input("run_1", false), reply("", &[("call_1", Decision::Run)], 9)]), &[], Next::Settle);
    check(&after(&[input("run_1", false), reply("hi", &[], 9)]), &[(Class::Steer, "l_1")], Next::End);
    let resumed = Entry::Switch(Switch { paused: Some(false), ..Switch::default() });
    check(&[paused, resumed], &request, Next::Take(1));
}

#[test]
fn the_status_says_what_is_waited_for() {
    let of = |log: &[Entry]| View::of(log.iter().zip(1..).map(|(entry, seq)| (seq, entry))).busy_status();
    let called = [input("run_1", false), reply("", &[("call_1", Decision::Run), ("call_2", Decision::Run)], 9)];
    assert_eq!(of(&[]), None);
    assert_eq!(of(&called), Some(Status::Running));
    let log: Vec<_> = called.iter().cloned().chain([waiting("call_1")]).collect();
    assert_eq!(of(&log), Some(Status::Running), "one call still runs");
    let log: Vec<_> = log.into_iter().chain([settled("call_2")]).collect();
    assert_eq!(of(&log), Some(Status::Waiting));
}

fn any_entry() -> impl Strategy<Value = Entry> {
    prop_oneof![
        any::<bool>().prop_map(|subtask| input("run_1", subtask)),
        Just(input("run_2", false)),
        Just(reply("words", &[], 10)),
        (0..4u8).prop_map(|n| reply("", &[(&format!("call_{n}"), Decision::Run)], 10)),
        (0..4u8).prop_map(|n| settled(&format!("call_{n}"))),
        (0..4u8).prop_map(|n| waiting(&format!("call_{n}"))),
        Just(pending()),
        Just(ended("run_1")),
    ]
}

proptest! {
    #[test]
    fn folding_in_one_go_or_entry_by_entry_decides_alike(log in prop::collection::vec(any_entry(), 0..40), cut in 0..40usize) {
        let cut = cut.min(log.len());
        let whole = View::of(log.iter().zip(1..).map(|(entry, seq)| (seq, entry)));
        let mut parts = View::of(log[..cut].iter().zip(1..).map(|(entry, seq)| (seq, entry)));
        for (entry, seq) in log[cut..].iter().zip(cut as u64 + 1..) {
            parts.apply(seq, entry);
        }
        let (inbox, limits) = (Inbox::default(), Limits { steps: Some(5), context: 500, spent: false, stopped: false });
        prop_assert_eq!(decide(&whole, &inbox, &limits), decide(&parts, &inbox, &limits));
    }

    #[test]
    fn no_order_of_letters_loses_one(classes in prop::collection::vec(0..3u8, 0..30), bytes in 0..LOT * 2) {
        let class = |n: u8| [Class::Control, Class::Steer, Class::Request][usize::from(n)];
        let mut inbox = Inbox::default();
        inbox.extend(classes.iter().zip(1..).map(|(n, at)| (at, Unread::of(letter(class(*n), &format!("l_{at}")), bytes))));
        let (mut log, mut taken) = (Vec::new(), 0);
        for _ in 0..200 {
            let view = View::of(log.iter().zip(1..).map(|(entry, seq)| (seq, entry)));
            match decide(&view, &inbox, &Limits::default()) {
                Next::Obey => {
                    let ids: Vec<_> = inbox.controls().map(|l| l.id.clone()).collect();
                    taken += ids.len();
                    inbox.consumed(&ids);
                }
                Next::Take(count) => {
                    let letters = inbox.due_letters(view.answering().is_some(), count);
                    prop_assert!((1..=count).contains(&letters.len()));
                    prop_assert!(letters.len() == 1 || letters.len() * bytes <= LOT);
                    let current = view.answering().map(|now| now.run.clone());
                    for l in &letters {
                        log.push(input(current.as_ref().unwrap_or(&l.run()).as_str(), false));
                    }
                    taken += letters.len();
                    inbox.consumed(&letters);
                }
                Next::CallModel => log.push(reply("ok", &[], 1)),
                Next::End => log.push(ended(view.answering().unwrap().run.as_str())),
                Next::Rest => break,
                other => prop_assert!(false, "{other:?}"),
            }
        }
        prop_assert_eq!(taken, classes.len());
        prop_assert!(inbox.is_empty());
    }
}
