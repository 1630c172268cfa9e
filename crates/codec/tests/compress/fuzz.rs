//! Attacks on every format that last as long as one likes, as `tests/fuzz.rs` has them on frames:
//! `NETWRIGHT_FUZZ_SECONDS=600 cargo test --release --all-features --test compress fuzz`.
//!
//! What a damaged stream gives before its error depends on how it is split, so here only whether there is one must not.

use super::*;
use netwright_testkit::verify::damaged;
use std::{
    env,
    time::{Duration, Instant},
};

/// Inputs that a test tries when nobody asks for more.
const RUNS: u64 = 300;
/// Streams that were refused late are good ones to go on from; so many are kept.
const POOL_MAX: usize = 512;

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

fn attack(name: &str) {
    let Some(&format) = Format::all().iter().find(|format| format.name() == name) else { return };
    let mut pool = seeds::streams(format);
    pool.extend([packed(format, &[&text(1, 90), &text(2, 200)]), packed(format, &[&text(3, 4000)])]);
    let time = number("NETWRIGHT_FUZZ_SECONDS").map(Duration::from_secs);
    let mut numbers = Numbers::new(number("NETWRIGHT_FUZZ_SEED").unwrap_or(0));
    let (start, mut runs, mut whole) = (Instant::now(), 0, 0);
    while time.map_or(runs < RUNS, |time| start.elapsed() < time) {
        let seed = numbers.next_u64();
        let stream = damaged(seed, &pool[numbers.below(pool.len())]);
        let ok = damage::same_however_split(format, &stream, &format!("seed {seed}, {stream:02x?}"));
        whole += u64::from(ok);
        if ok || numbers.below(64) == 0 {
            let place = numbers.below(POOL_MAX);
            match pool.get_mut(place) {
                Some(old) => *old = stream,
                None => pool.push(stream),
            }
        }
        runs += 1;
    }
    if let Some(time) = time {
        println!("{name}: {time:?}, {runs} streams, {whole} of them whole, nothing found");
    }
}

macro_rules! attacks {
    ($($name:ident)*) => { $(#[test] fn $name() { attack(stringify!($name)); })* };
}

attacks! { brotli deflate gzip lz4 snappy zlib zstd }
