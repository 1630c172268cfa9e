//! Question: does anything take more instructions than it did?
//!
//! ```text
//!   for each side:   valgrind --tool=callgrind ─▶ this program, FEW rounds  ─┐ the difference: set-up and end are in both
//!                                              ─▶ this program, MANY rounds ─┘
//!   budget.txt  ◀── compared: a figure above its budget by more than TOLERANCE, and the exit code is 1
//! ```
//! Answer in instructions per operation. No neighbour disturbs them, so a change of a few percent is seen where times would
//! hide it; what they cost in time is for the other benches to say.
//!
//! `cargo bench -p netwright-benches --bench instructions` compares, `-- --update` writes what was counted into `budget.txt`.
//! Some operations are the difference of two sides: a stage is a pipeline of seventeen less one of one, a reply is an answered
//! request less one whose reply never reaches the codec.
//!
//! Compilers differ, and so do processors in what they have of AVX. The budget says where it comes from, and a run elsewhere
//! says that it is not the same place. What is compiled incrementally is other code, in which no function of another crate is
//! inlined that does not say so: it is not compared.

mod conversations;
mod sides;

use netwright_benches::{Budget, Scale};
use sides::{BATCH, STREAMS, Side, TASKS};
use std::{
    env,
    process::{self, Command},
};

/// Rounds that are counted, and so many more the second time.
const FEW: usize = 1_000;
const MANY: usize = 3_000;
/// What does not count as a change.
const TOLERANCE_PERCENT: f64 = 3.0;

/// Only the environment can ask for that: no profile with optimisation does.
const COMPILED_INCREMENTALLY: bool =
    matches!(option_env!("CARGO_INCREMENTAL"), Some(asked) if !matches!(asked.as_bytes(), b"0"));

/// What is counted: one side, or what it has more than another, for so many operations.
struct Operation {
    name: &'static str,
    side: Side,
    less: Option<Side>,
    operations: usize,
}

const fn of(name: &'static str, side: Side, operations: usize) -> Operation {
    Operation { name, side, less: None, operations }
}

const fn difference(name: &'static str, side: Side, less: Side, operations: usize) -> Operation {
    Operation { name, side, less: Some(less), operations }
}

const fn http(heads_differ: bool, replies: bool) -> Side {
    Side::Http { heads_differ, replies }
}

const fn idle(watched: bool, carried: bool) -> Side {
    Side::Idle { watched, carried }
}

const fn frames(frames: usize, echoed: bool) -> Side {
    Side::Frames { frames, echoed }
}

const OPERATIONS: [Operation; 19] = [
    difference("pipeline: one more stage", Side::Echo(17), Side::Echo(1), 16),
    of("pipeline: a message through one stage and back", Side::Echo(1), 1),
    of("embedded channel: a message echoed", Side::Embedded, 1),
    difference("recorder: a message and its answer", Side::Recorded(true), Side::Recorded(false), 1),
    difference("idle timeout: a message and its answer", idle(true, false), idle(false, false), 1),
    difference("idle timeout: the same, carried by what it takes", idle(true, true), idle(false, true), 1),
    difference(
        "child: a conversation, beside its pipeline",
        Side::Conversation { with_child: true },
        Side::Conversation { with_child: false },
        1,
    ),
    of("timer: armed and cancelled", Side::TimerCancelled, 1),
    of("timer: armed and fired", Side::TimerFired, 1),
    of("task: from the loop's own thread", Side::TaskOfOwnThread, TASKS),
    of("task: from another thread", Side::TaskOfOtherThread, TASKS),
    difference("line: a frame", Side::Lines(2 * BATCH), Side::Lines(BATCH), BATCH),
    of("HTTP: a request, same head again", http(false, false), BATCH),
    of("HTTP: a request, heads differ", http(true, false), BATCH),
    difference("HTTP: a reply", http(false, true), http(false, false), BATCH),
    of("HTTP/2: a request and its reply, same head again", Side::Http2 { heads_differ: false }, STREAMS),
    of("HTTP/2: a request and its reply, paths differ", Side::Http2 { heads_differ: true }, STREAMS),
    difference("WebSocket: a frame decoded", frames(2 * BATCH, false), frames(BATCH, false), BATCH),
    difference("WebSocket: a frame encoded", frames(BATCH, true), frames(BATCH, false), BATCH),
];

fn main() {
    let (mut update, mut only, mut rounds) = (false, None, 0);
    let scale = Scale::from_args_with(", --update, which makes what is counted the budget", |arg, rest| {
        match arg {
            "--update" => update = true,
            // What runs below valgrind.
            "--only" => only = rest.next(),
            "--rounds" => rounds = rest.next().and_then(|rounds| rounds.parse().ok()).unwrap_or(0),
            _ => return false,
        }
        true
    });
    let before = Budget::read().unwrap_or_else(|error| fail(&error));
    if scale.is_none() {
        // A test: that everything runs, and has a budget.
        sides().into_iter().for_each(|side| side.run(3));
        OPERATIONS
            .iter()
            .for_each(|Operation { name, .. }| assert!(before.has(name), "{name} has no budget"));
        return;
    }
    if let Some(only) = only {
        match sides().into_iter().find(|side| format!("{side:?}") == only) {
            Some(side) => return side.run(rounds),
            None => fail(&format!("no side is called {only:?}")),
        }
    }
    let Some(valgrind) = said_by(Command::new("valgrind").arg("--version")) else {
        println!("instructions: skipped, because there is no valgrind to count them");
        return;
    };
    if COMPILED_INCREMENTALLY {
        fail("compiled incrementally, which inlines less: unset CARGO_INCREMENTAL");
    }
    let place = format!("{}, {valgrind}, {}", compiler(), vectors());
    let counted: Vec<(Side, f64)> = sides().into_iter().map(|side| (side, count(side))).collect();
    let of_side = |side| counted.iter().find(|(known, _)| *known == side).map_or(0.0, |(_, count)| *count);
    let figures = OPERATIONS.map(|Operation { name, side, less, operations }| {
        (name, (of_side(side) - less.map_or(0.0, of_side)) / operations as f64)
    });
    println!("\ninstructions: per operation, against the budget (tolerance {TOLERANCE_PERCENT} %)\n");
    let mut above = 0;
    for (name, figure) in figures {
        let verdict = before.judge(name, figure, TOLERANCE_PERCENT);
        above += usize::from(verdict.is_above());
        println!("{name:<48} {figure:>9.1}  {verdict}");
    }
    if before.place != place {
        println!("\nThe budget was counted by {}; this run by {place}.", before.place);
    }
    if update {
        Budget::write(&place, &figures).unwrap_or_else(|error| fail(&error));
        println!("\nWritten: {}", Budget::path().display());
    } else if above > 0 {
        fail(&format!("{above} above the budget, or without one; `-- --update` makes this run the budget"));
    }
}

fn fail(why: &str) -> ! {
    eprintln!("instructions: {why}");
    process::exit(1);
}

/// All sides that operations stand on, each once.
fn sides() -> Vec<Side> {
    let mut sides = Vec::new();
    for side in OPERATIONS.iter().flat_map(|operation| [Some(operation.side), operation.less]).flatten() {
        if !sides.contains(&side) {
            sides.push(side);
        }
    }
    sides
}

/// Instructions of one round.
fn count(side: Side) -> f64 {
    let [few, many] = [FEW, MANY].map(|rounds| {
        let program = env::current_exe().unwrap_or_else(|error| fail(&format!("where am I? {error}")));
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(program)
            .args(["--bench", "--only", &format!("{side:?}"), "--rounds", &rounds.to_string()])
            // Nothing of the caller's surroundings: their length moves the stack.
            .env_clear()
            .output()
            .unwrap_or_else(|error| fail(&format!("valgrind does not start: {error}")));
        let text = String::from_utf8_lossy(&output.stderr);
        let counted = text.lines().find_map(|line| line.split_once("Collected :"));
        match counted.and_then(|(_, count)| count.trim().parse::<u64>().ok()) {
            Some(count) if output.status.success() => count,
            _ => fail(&format!("{side:?} was not counted: {text}")),
        }
    });
    (many as f64 - few as f64) / (MANY - FEW) as f64
}

/// The first line of what a program says.
fn said_by(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).lines().next()?.to_owned())
}

fn compiler() -> String {
    let program = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = said_by(Command::new(program).arg("--version"));
    let words = version.as_deref().unwrap_or("an unknown rustc").split(" (").next();
    words.unwrap_or_default().to_owned()
}

/// What searching and copying are chosen by at run time, as far as valgrind has it as well.
fn vectors() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        return "x86-64 with AVX2";
    }
    env::consts::ARCH
}
