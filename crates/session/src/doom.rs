//! Whether a model runs in circles (A8): the same call over and over, or the same few in turn.
//!
//! Only what goes on across steps counts: calls of one reply were thought of together. Something new that comes in ends
//! the circle, since the same call may well be right then.

use proto::entry::{Call, CallResult, State};
use std::hash::{DefaultHasher, Hash, Hasher};

/// How often the same may be done before somebody is asked: this time included.
const TIMES: usize = 3;

/// Steps in a row of nothing but circles that were refused: whoever goes on then listens to nobody.
const REFUSED: usize = 5;

/// The longest circle that is looked for.
const LONGEST: usize = 8;

/// Calls that are remembered: enough for that.
const REMEMBERED: usize = TIMES * LONGEST * 4;

/// The calls of a run, as far as doing something again goes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Made(Vec<One>);

/// Nothing in it is on the heap: the view is copied for every commit, and this with it.
#[derive(Debug, Clone, Copy)]
struct One {
    /// A print of the call's id.
    id: u64,
    step: u32,
    what: u64,
    outcome: Option<u64>,
    /// It was one more round of a circle.
    again: bool,
    denied: bool,
}

impl Made {
    pub(crate) fn called(&mut self, step: u32, call: &Call) {
        let old = self.0.len().saturating_sub(REMEMBERED);
        self.0.drain(..old);
        let what = print(&call.tool, call.given().get());
        let again = self.repeats(&call.tool, call.given().get());
        self.0.push(One { id: print("", call.id.as_str()), step, what, outcome: None, again, denied: false });
    }

    pub(crate) fn settled(&mut self, result: &CallResult) {
        let id = print("", result.call.as_str());
        if let Some(one) = self.0.iter_mut().rev().find(|one| one.id == id) {
            one.outcome = Some(print("", &result.output));
            one.denied = result.state == State::Denied;
        }
    }

    /// Whether one more call of this would be a circle: the third in a row or in a row of the same few, or the third of
    /// this run when the two before came to the same.
    pub(crate) fn repeats(&self, tool: &str, input: &str) -> bool {
        let next = print(tool, input);
        let mut steps: Vec<u64> = Vec::new();
        let mut at = None;
        for one in &self.0 {
            let begins = at != Some(one.step);
            at = Some(one.step);
            // The same twice in one reply is one deed.
            if begins || steps.last() != Some(&one.what) {
                steps.push(one.what);
            }
        }
        steps.push(next);
        (1..=LONGEST).any(|length| goes_round(&steps, length)) || self.comes_to_nothing(next)
    }

    /// Whether the newest steps were circles that were refused, and nothing else.
    pub(crate) fn is_hopeless(&self) -> bool {
        let mut steps: Vec<u32> =
            self.0.iter().rev().take_while(|one| one.again && one.denied).map(|one| one.step).collect();
        steps.dedup();
        steps.len() >= REFUSED
    }

    /// The newest calls of this in other steps came to the same.
    fn comes_to_nothing(&self, what: u64) -> bool {
        let mut before: Vec<&One> = self.0.iter().filter(|one| one.what == what).collect();
        before.dedup_by_key(|one| one.step);
        let newest = &before[before.len().saturating_sub(TIMES - 1)..];
        newest.len() == TIMES - 1 && newest.iter().all(|one| one.outcome.is_some() && one.outcome == newest[0].outcome)
    }
}

/// Whether a row of calls ends with the same few, often enough.
fn goes_round(calls: &[u64], length: usize) -> bool {
    let Some(from) = calls.len().checked_sub(TIMES * length) else { return false };
    let newest = &calls[from..];
    newest.chunks(length).all(|few| few == &newest[..length])
}

fn print(tool: &str, text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (tool, text).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::CallId;
    use proto::entry::Decision;

    /// Steps stand between bars; `a=1` is the call `a` with the result `1`, which is its place in the row otherwise.
    #[track_caller]
    fn check(history: &str, next: &str, expected: bool) {
        let mut made = Made::default();
        let steps = history.split('|').map(str::split_whitespace).zip(1..);
        for (n, (step, word)) in steps.flat_map(|(words, step)| words.map(move |word| (step, word))).enumerate() {
            let (tool, output) = word.split_once('=').map_or((word, n.to_string()), |(tool, o)| (tool, o.to_owned()));
            let id = CallId::new();
            let input = serde_json::value::to_raw_value("x").unwrap();
            let (decision, changed, wire_id) = (Decision::Run, None, None);
            made.called(step, &Call { id: id.clone(), tool: tool.into(), input, changed, decision, wire_id });
            let (state, data, ms, ends_turn, shutdown, loads) = (State::Ok, None, 0, false, None, Vec::new());
            made.settled(&CallResult {
                call: id,
                state,
                output,
                data,
                files: Vec::new(),
                ms,
                ends_turn,
                shutdown,
                loads,
                wrote: Vec::new(),
            });
        }
        assert_eq!(made.repeats(next, "\"x\""), expected, "{next} after {history}");
    }

    #[test]
    fn the_third_time_in_a_row_is_a_circle() {
        check("", "a", false);
        check("a", "a", false);
        check("a | a", "a", true);
        check("a | a", "b", false);
        check("a | b | a", "a", false);
        check("c | a | a", "a", true);
    }

    #[test]
    fn so_is_the_third_time_of_a_few_in_turn() {
        check("a | b | a | b | a", "b", true);
        check("a | b | a | b", "a", false);
        check("a | b | c | a | b | c | a | b", "c", true);
        check("a b | a b | a", "b", true);
        check("a | b | a | c | a", "b", false);
    }

    #[test]
    fn and_the_third_time_of_one_that_always_comes_to_the_same() {
        check("a=0 | b | a=0 | c", "a", true);
        check("a=0 | b | a=1 | c", "a", false);
        check("a=0 | a=1 | b | a=1 | c", "a", true);
        check("a=0 | b | a=0 | c", "b", false);
    }

    #[test]
    fn calls_of_one_reply_are_one_deed() {
        check("a a a", "a", false);
        check("a=0 a=0 a=0", "a", false);
        check("a=0 a=0 | b", "a", false);
    }

    #[test]
    fn a_long_run_remembers_enough_and_no_more() {
        let row: Vec<String> = (0..500).map(|n| format!("t{n}")).collect();
        check(&row.join(" | "), "t499", false);
        let many = ["a", "b", "c", "d", "e", "f", "g", "h"].join(" | ");
        check(&format!("{many} | {many} | a | b | c | d | e | f | g"), "h", true);
    }
}
