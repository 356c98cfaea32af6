//! What is promised about commands and their ends.

use crate::support::{Place, block_on, start_gateway, text, within};
use convoke_tools::process::{Command, Error, Finished, Live, Processes, Reaper};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

pub(crate) static ALL: &[(&str, fn())] = &[
    ("output_and_exit_code_come_back", output_and_exit_code_come_back),
    ("a_signal_is_told", a_signal_is_told),
    ("what_cannot_start_is_refused_with_a_reason", what_cannot_start_is_refused_with_a_reason),
    ("standard_input_is_empty", standard_input_is_empty),
    ("an_input_is_read_and_errors_are_kept_apart", an_input_is_read_and_errors_are_kept_apart),
    ("errors_without_end_are_bounded_and_hold_nobody_up", errors_without_end_are_bounded_and_hold_nobody_up),
    ("a_long_command_line_arrives", a_long_command_line_arrives),
    ("the_time_limit_ends_everything", the_time_limit_ends_everything),
    ("strays_die_with_their_call", strays_die_with_their_call),
    ("cancelling_ends_everything", cancelling_ends_everything),
    ("a_dropped_call_ends_everything", a_dropped_call_ends_everything),
    ("whoever_is_ended_puts_things_in_order_first", whoever_is_ended_puts_things_in_order_first),
    ("whoever_does_not_want_to_end_is_ended", whoever_does_not_want_to_end_is_ended),
    ("long_output_is_bounded_and_saved", long_output_is_bounded_and_saved),
    ("what_is_printed_is_seen_before_the_end", what_is_printed_is_seen_before_the_end),
    ("the_environment_is_exactly_what_was_given", the_environment_is_exactly_what_was_given),
    ("no_descriptor_is_inherited", no_descriptor_is_inherited),
    ("a_script_that_signals_its_group_ends_only_itself", a_script_that_signals_its_group_ends_only_itself),
    ("fifty_at_once_keep_their_outputs_apart", fifty_at_once_keep_their_outputs_apart),
    ("a_killed_gateway_leaves_nothing", a_killed_gateway_leaves_nothing),
    ("a_stopped_gateway_loses_its_commands", a_stopped_gateway_loses_its_commands),
    ("a_runtime_that_is_busy_for_long_loses_no_command", a_runtime_that_is_busy_for_long_loses_no_command),
    ("a_killed_reaper_is_an_error_and_then_replaced", a_killed_reaper_is_an_error_and_then_replaced),
    ("a_killed_runner_is_an_error_and_leaves_nothing", a_killed_runner_is_an_error_and_leaves_nothing),
    ("a_stopped_runner_does_not_save_its_command", a_stopped_runner_does_not_save_its_command),
    ("the_bash_tool_tells_what_happened", the_bash_tool_tells_what_happened),
    ("the_bash_tool_cuts_and_saves_long_output", the_bash_tool_cuts_and_saves_long_output),
];

const SOON: Duration = Duration::from_secs(2);

/// A command that detaches in every usual way, and says `up` in a file once its strays run.
const STRAYS: &str = "
    setsid sleep MARK >/dev/null 2>&1 &
    (sleep MARK & disown)
    setsid --fork bash -c 'touch one; exec sleep MARK' &
    while ! [ -e one ]; do sleep 0.01; done
    touch up
";

fn output_and_exit_code_come_back() {
    let place = Place::new();
    let finished = block_on(place.run("echo out; echo err >&2; pwd; exit 3")).unwrap();
    let dir = place.dir.path().canonicalize().unwrap();
    assert_eq!(text(&finished), format!("out\nerr\n{}\n", dir.display()));
    assert_eq!((finished.code, finished.signal), (Some(3), None));
    assert!(!finished.truncated && !finished.timed_out && !finished.cancelled);
    assert_eq!(finished.total, finished.output.len() as u64);
}

fn a_signal_is_told() {
    let finished = block_on(Place::new().run("kill -TERM $$")).unwrap();
    assert_eq!((finished.code, finished.signal), (None, Some(15)));
}

fn what_cannot_start_is_refused_with_a_reason() {
    let place = Place::new();
    let mut missing = place.bash("true");
    missing.program = "no-such-program".into();
    let mut nowhere = place.bash("true");
    nowhere.dir = place.file("nowhere");
    block_on(async {
        for (command, says) in [(missing, "No such file"), (nowhere, "is not a directory")] {
            let error = place.reaper.run(command, &CancellationToken::new()).await.unwrap_err();
            assert!(matches!(&error, Error::Start { .. }) && error.to_string().contains(says), "{error}");
        }
    });
}

fn standard_input_is_empty() {
    let finished = block_on(Place::new().run("cat; echo done")).unwrap();
    assert_eq!(text(&finished), "done\n");
}

fn an_input_is_read_and_errors_are_kept_apart() {
    let place = Place::new();
    // More than a pipe holds, and read late.
    let input = "line\n".repeat(100_000);
    let script = "echo no >&2; sleep 0.05; wc -l; echo why >&2; exit 2";
    let command = Command { input: Some(input), ..place.bash(script) };
    let finished = block_on(place.reaper.run(command, &CancellationToken::new())).unwrap();
    assert_eq!((text(&finished).trim(), finished.code), ("100000", Some(2)));
    assert_eq!(String::from_utf8_lossy(&finished.errors), "no\nwhy\n");
    let unread = Command { input: Some("x".repeat(1 << 20)), ..place.bash("echo done") };
    let finished = block_on(place.reaper.run(unread, &CancellationToken::new())).unwrap();
    assert_eq!((text(&finished).as_str(), finished.errors.len()), ("done\n", 0));
}

fn errors_without_end_are_bounded_and_hold_nobody_up() {
    let place = Place::new();
    let script = "head -c 3000000 /dev/zero | tr '\\0' x >&2; echo end";
    let command = Command { input: Some(String::new()), ..place.bash(script) };
    let finished = block_on(place.reaper.run(command, &CancellationToken::new())).unwrap();
    assert_eq!((text(&finished).as_str(), finished.errors.len()), ("end\n", 16 << 10));
}

fn a_long_command_line_arrives() {
    let place = Place::new();
    let mut command = place.bash("echo ${#1}");
    command.args.extend(["name".into(), "x".repeat(120_000)]);
    let finished = block_on(place.reaper.run(command, &CancellationToken::new())).unwrap();
    assert_eq!(text(&finished), "120000\n");
}

fn the_time_limit_ends_everything() {
    let place = Place::new();
    let mut command = place.bash(&format!("{STRAYS} echo before; sleep MARK"));
    command.timeout = Duration::from_secs(1);
    let finished = block_on(place.reaper.run(command, &CancellationToken::new())).unwrap();
    assert!(place.file("up").exists(), "the strays had started");
    assert!(finished.timed_out && !finished.cancelled);
    assert_eq!(text(&finished), "before\n");
    assert_eq!(place.running(), 0);
}

fn strays_die_with_their_call() {
    let place = Place::new();
    let finished = block_on(place.run(STRAYS)).unwrap();
    assert!(place.file("up").exists(), "the strays had started");
    assert_eq!(finished.code, Some(0));
    assert_eq!(place.running(), 0);
}

fn cancelling_ends_everything() {
    let place = Place::new();
    let cancel = CancellationToken::new();
    let finished = block_on(async {
        let watch = async {
            while !place.file("up").exists() || place.running() < 4 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            cancel.cancel();
        };
        let command = place.bash(&format!("{STRAYS} sleep MARK"));
        tokio::join!(place.reaper.run(command, &cancel), watch).0
    })
    .unwrap();
    assert!(finished.cancelled && !finished.timed_out);
    assert_eq!(finished.signal, Some(15));
    assert_eq!(place.running(), 0);
    let again = block_on(place.reaper.run(place.bash("echo"), &cancel)).unwrap();
    assert!(again.cancelled && again.output.is_empty(), "a cancelled call does not start");
}

fn a_dropped_call_ends_everything() {
    let place = Place::new();
    block_on(async {
        tokio::select! {
            _ = place.run("touch up; setsid sleep MARK & sleep MARK") => panic!("it sleeps"),
            () = async { while !place.file("up").exists() { tokio::task::yield_now().await } } => {}
        }
        within(SOON, "all are gone", || place.running() == 0);
    });
}

/// Runs a script until it says `up` in a file, and then cancels it.
fn cancelled_once_up(place: &Place, script: &str) -> Finished {
    let cancel = CancellationToken::new();
    block_on(async {
        let watch = async {
            while !place.file("up").exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            cancel.cancel();
        };
        tokio::join!(place.reaper.run(place.bash(script), &cancel), watch).0
    })
    .unwrap()
}

fn whoever_is_ended_puts_things_in_order_first() {
    let place = Place::new();
    // As git does, below a shell that does not care.
    let script = "bash -c \"trap 'rm lock; exit' TERM; touch lock up; while :; do sleep 0.01; done\"; echo not reached";
    assert!(cancelled_once_up(&place, script).cancelled);
    assert!(!place.file("lock").exists());
}

fn whoever_does_not_want_to_end_is_ended() {
    let place = Place::new();
    let script = "trap '' TERM; touch up; sleep MARK & while :; do sleep 0.01; done";
    let finished = cancelled_once_up(&place, script);
    assert_eq!((finished.cancelled, finished.signal, place.running()), (true, Some(9), 0));
}

fn long_output_is_bounded_and_saved() {
    let place = Place::new();
    let mut command = place.bash("head -c 5000000 /dev/zero | tr '\\0' x; echo end");
    command.spill = Some(place.file("outputs/call.txt"));
    let finished = block_on(place.reaper.run(command, &CancellationToken::new())).unwrap();
    assert_eq!(finished.output.len(), 50 << 10);
    assert_eq!((finished.truncated, finished.total), (true, 5_000_004));
    let saved = std::fs::read(place.file("outputs/call.txt")).unwrap();
    assert_eq!(saved.len(), 5_000_004);
    assert!(saved.ends_with(b"xend\n"));
}

fn what_is_printed_is_seen_before_the_end() {
    let place = Place::new();
    let live = Live::default();
    let command = place.bash("echo hello; while ! [ -e seen ]; do sleep 0.01; done; printf there");
    let command = Command { live: Some(live.clone()), ..command };
    let finished = block_on(async {
        let cancel = CancellationToken::new();
        let run = place.reaper.run(command, &cancel);
        let look = async {
            assert_eq!(live.next().await.text, "hello\n");
            std::fs::write(place.dir.path().join("seen"), "").unwrap();
        };
        tokio::join!(run, look).0.unwrap()
    });
    assert_eq!((text(&finished).as_str(), live.rest().unwrap().text.as_str()), ("hello\nthere", "there"));
}

fn the_environment_is_exactly_what_was_given() {
    let mut place = Place::new();
    let env = [("PATH", "/usr/bin:/bin"), ("VENDOR_API_KEY", "hush"), ("HOME", "/")];
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    place.reaper = Arc::new(Reaper::new(std::env::current_exe().unwrap(), env));
    let mut command = place.bash("");
    command.program = "env".into();
    command.args.clear();
    block_on(async {
        let own = place.reaper.run(command, &CancellationToken::new()).await.unwrap();
        assert_eq!(text(&own), "HOME=/\nPATH=/usr/bin:/bin\nTERM=dumb\n");
        // A tool may look at the processes above it: they know nothing either.
        let above = place.run("tr '\\0' '\\n' </proc/$PPID/environ").await.unwrap();
        assert_eq!(text(&above), text(&own));
    });
}

fn no_descriptor_is_inherited() {
    let place = Place::new();
    let _held = std::fs::File::open("/proc/self/status").unwrap();
    let script = "for n in $(seq 3 400); do [ -e /proc/$$/fd/$n ] && echo $n; done; readlink /proc/$$/fd/0";
    assert_eq!(text(&block_on(place.run(script)).unwrap()), "/dev/null\n");
}

fn a_script_that_signals_its_group_ends_only_itself() {
    let finished = block_on(Place::new().run("echo hi; kill -KILL 0")).unwrap();
    assert_eq!((text(&finished).as_str(), finished.signal), ("hi\n", Some(9)));
}

fn fifty_at_once_keep_their_outputs_apart() {
    let place = Place::new();
    block_on(async {
        let place = Arc::new(place);
        let mut calls = tokio::task::JoinSet::new();
        for n in 0..50 {
            let place = Arc::clone(&place);
            calls.spawn(async move { (n, place.run(&format!("sleep 0.2; echo {n}; exit {n}")).await.unwrap()) });
        }
        while let Some(call) = calls.join_next().await {
            let (n, finished) = call.unwrap();
            assert_eq!((text(&finished), finished.code), (format!("{n}\n"), Some(n)));
        }
    });
}

fn a_killed_gateway_leaves_nothing() {
    let place = Place::new();
    let mut gateway = start_gateway(&place, &format!("{STRAYS} sleep MARK"));
    within(SOON, "all run", || place.running() >= 5);
    gateway.kill().unwrap();
    gateway.wait().unwrap();
    within(SOON, "all are gone", || place.running() == 0);
}

fn a_stopped_gateway_loses_its_commands() {
    let place = Place::new();
    let mut gateway = start_gateway(&place, &format!("{STRAYS} sleep MARK"));
    let pid = Pid::from_child(&gateway);
    kill_process(pid, Signal::STOP).unwrap();
    // The gateway itself still has the mark in its command line.
    within(SOON + SOON, "all but the gateway are gone", || place.running() == 1);
    gateway.kill().unwrap();
    gateway.wait().unwrap();
}

fn a_runtime_that_is_busy_for_long_loses_no_command() {
    let place = Place::new();
    let reaper = Arc::new(crate::support::reaper().feed_limit(Duration::from_millis(400)));
    let command = place.bash("touch begun; for i in $(seq 30); do sleep 0.1; done; touch ended");
    // One thread, which is the whole runtime.
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let running = tokio::spawn(async move { reaper.run(command, &CancellationToken::new()).await });
        while !place.file("begun").exists() {
            tokio::task::yield_now().await;
        }
        // Nothing else runs meanwhile.
        within(Duration::from_secs(20), "it goes on to its end", || place.file("ended").exists());
        assert_eq!(running.await.unwrap().unwrap().code, Some(0));
    });
}

fn a_killed_reaper_is_an_error_and_then_replaced() {
    let place = Place::new();
    block_on(async {
        let kill = "kill -9 $(awk '{print $4}' /proc/$PPID/stat)";
        let error = place.run(&format!("{STRAYS} {kill}; sleep MARK")).await.unwrap_err();
        assert!(matches!(error, Error::Lost { .. }), "{error}");
        within(SOON, "all are gone", || place.running() == 0);
        let next = place.run("echo again").await.unwrap();
        assert_eq!(text(&next), "again\n");
    });
}

fn a_killed_runner_is_an_error_and_leaves_nothing() {
    let place = Place::new();
    block_on(async {
        let error = place.run(&format!("{STRAYS} kill -9 $PPID; sleep MARK")).await.unwrap_err();
        assert!(matches!(error, Error::Lost { .. }), "{error}");
        within(SOON, "all are gone", || place.running() == 0);
    });
}

fn a_stopped_runner_does_not_save_its_command() {
    let place = Place::new();
    let mut command = place.bash("kill -STOP $PPID; sleep MARK");
    command.timeout = Duration::from_millis(300);
    let start = Instant::now();
    block_on(async {
        let finished = place.reaper.run(command, &CancellationToken::new()).await.unwrap();
        assert!(finished.timed_out);
        within(SOON, "all are gone", || place.running() == 0);
    });
    assert!(start.elapsed() < Duration::from_secs(10));
}

fn the_bash_tool_tells_what_happened() {
    let place = Place::new();
    block_on(async {
        let bash = async |input| place.bash_tool(input).await;
        assert_eq!(bash(json!({"command": "echo hi; echo no >&2; exit 4"})).await.unwrap(), "hi\nno\n\n(exit code 4)");
        assert_eq!(bash(json!({"command": "true"})).await.unwrap(), "(no output)\n(exit code 0)");
        let slow = bash(json!({"command": "echo begun; sleep 60", "timeout": "300"})).await.unwrap();
        assert!(slow.starts_with("begun\n\n(ended after 0.3 s, its time limit"), "{slow}");
        let lost = bash(json!({"command": "ls", "workdir": "nowhere"})).await.unwrap_err();
        assert!(lost.contains("nowhere` is not a directory"), "{lost}");
    });
}

fn the_bash_tool_cuts_and_saves_long_output() {
    let place = Place::new();
    for (script, last) in [("seq 100000", "100000"), ("seq 3000", "3000")] {
        let text = block_on(place.bash_tool(json!({"command": script}))).unwrap();
        assert!(text.len() < 60_000 && text.starts_with("1\n2\n"), "{}", text.len());
        assert!(text.ends_with(&format!("\n{last}\n\n(exit code 0)")), "{text}");
        let (_, rest) = text.split_once(" bytes are in ").unwrap();
        let saved = std::fs::read_to_string(rest.split_once(": use").unwrap().0).unwrap();
        assert_eq!(saved.lines().last(), Some(last));
    }
}
