//! Inputs that nobody means well with.

use super::Numbers;

/// How far into a stream lengths are put: headers are at the front.
const OFFSETS: usize = 12;
const WIDTHS: [usize; 5] = [1, 2, 3, 4, 8];

/// The stream with a length written over it: each width, at each place near its front, in both byte orders, and of each
/// value at which a number of that width changes its nature.
pub fn hostile_lengths(stream: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for at in 0..OFFSETS.min(stream.len()) {
        for width in WIDTHS {
            let top = 1u64 << (8 * width - 1);
            let most = top | (top - 1);
            for value in [0, 1, top - 1, top, top + 1, most - 1, most] {
                let big = &value.to_be_bytes()[8 - width..];
                let little = &value.to_le_bytes()[..width];
                all.extend([big, little].map(|length| {
                    let mut hostile = stream.to_vec();
                    hostile.resize(stream.len().max(at + width), 0);
                    hostile[at..at + width].copy_from_slice(length);
                    hostile
                }));
            }
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// The stream with random damage: bytes changed, left out and repeated; the same for the same seed.
pub fn damaged(seed: u64, stream: &[u8]) -> Vec<u8> {
    let mut numbers = Numbers::new(seed);
    let mut damaged = stream.to_vec();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(damaged.len());
        let end = (at + numbers.below(16)).min(damaged.len());
        match numbers.below(4) {
            0 => drop(damaged.drain(at..end)),
            1 => damaged.extend_from_within(at..end),
            _ if at < damaged.len() => damaged[at] = numbers.next_u64() as u8,
            _ => damaged.push(numbers.next_u64() as u8),
        }
    }
    damaged
}
