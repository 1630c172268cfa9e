//! Question: what does one more handler cost?
//!
//! ```text
//!   received ─▶ [pass]─▶[pass]─▶ … ─▶[echo]      1, 4 or 16 stages that pass everything on, both ways
//!   flushed  ◀─ [pass]◀─[pass]◀─ … ◀─┘           in memory: no socket, no loop
//! ```
//! Answer in nanoseconds per additional stage, for a message that is read, written back, and flushed at the end of the
//! read: four calls of each handler. The difference between two depths, so what comes before and behind the stages does
//! not count. Target: at most 12 ns, and no allocation at any depth.

use bytes::{Bytes, BytesMut};
use netwright_benches::{
    Rounds, Scale, interleave_all,
    stages::{Echo, Pass},
};
use netwright_core::{ManualLoop, Segment, pipeline};
use netwright_testkit::{CountingAllocator, Wire, allocations_during};
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const MESSAGES: usize = 500_000;
const STAGE_NS_MAX: f64 = 12.0;

/// Stages in a row: the depth of a pipeline is part of its type.
macro_rules! stages {
    (1) => {
        pipeline().add(Pass)
    };
    (4) => {
        stages!(1).add(Pass).add(Pass).add(Pass)
    };
    (8) => {
        stages!(4).add(Pass).add(Pass).add(Pass).add(Pass)
    };
    (16) => {
        stages!(8).add(Pass).add(Pass).add(Pass).add(Pass).add(Pass).add(Pass).add(Pass).add(Pass)
    };
}

fn main() {
    let Some(scale) = Scale::from_args() else { return };
    let messages = scale.amount(MESSAGES);
    ManualLoop::new().enter(|| {
        let mut one = Wire::new(stages!(1).app(Echo).into_segment());
        let mut four = Wire::new(stages!(4).app(Echo).into_segment());
        let mut sixteen = Wire::new(stages!(16).app(Echo).into_segment());
        let [of_one, of_four, of_sixteen] = interleave_all(scale.rounds(), |side| match side {
            0 => time(&mut one, messages),
            1 => time(&mut four, messages),
            _ => time(&mut sixteen, messages),
        });
        let allocations = [
            allocations_during(|| time(&mut one, messages)).0,
            allocations_during(|| time(&mut four, messages)).0,
            allocations_during(|| time(&mut sixteen, messages)).0,
        ];
        println!("\npipeline_depth: nanoseconds per message, read, written back and flushed\n");
        println!(
            "stages  per message  one more  middle half      target       allocations of {messages} messages"
        );
        let line = |stages: usize, rounds: &Rounds, more: Option<Rounds>, allocations| {
            let more = more.map_or(String::new(), |more| {
                let (low, high) = more.middle_half();
                let met = if more.median() <= STAGE_NS_MAX { "met" } else { "MISSED" };
                format!("{:.1}  {low:.1} … {high:.1}  <= {STAGE_NS_MAX} {met}", more.median())
            });
            let clean = if allocations == 0 { "met" } else { "MISSED" };
            println!("{stages:>6}  {:>11.1}  {more:>41}  {allocations} {clean}", rounds.median());
        };
        line(1, &of_one, None, allocations[0]);
        line(4, &of_four, Some(of_four.per_step(&of_one, 3)), allocations[1]);
        line(16, &of_sixteen, Some(of_sixteen.per_step(&of_one, 15)), allocations[2]);
    });
}

/// Nanoseconds per message.
fn time<P: Segment<BytesMut, Bytes>>(wire: &mut Wire<P, Bytes>, messages: usize) -> f64 {
    let start = Instant::now();
    for _ in 0..messages {
        assert_eq!(wire.turn(&[7; 64]), 64, "what came goes back");
    }
    start.elapsed().as_secs_f64() * 1e9 / messages as f64
}
