//! Numbers that look random and are the same for the same seed, and streams cut into pieces by them.

/// A sequence of numbers that is the same for the same seed.
///
/// ```
/// use netwright_testkit::verify::Numbers;
///
/// let (mut a, mut b) = (Numbers::new(1), Numbers::new(1));
/// assert_eq!(a.below(1000), b.below(1000));
/// ```
#[derive(Debug, Clone)]
pub struct Numbers(u64);

impl Numbers {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        // SplitMix64: short, and good enough to choose places.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The next number, below a limit; 0 if the limit is.
    pub fn below(&mut self, limit: usize) -> usize {
        if limit == 0 { 0 } else { (self.next_u64() % limit as u64) as usize }
    }
}

/// A stream in random pieces of 1 to `max` bytes, the same for the same seed.
///
/// ```
/// use netwright_testkit::verify::chunks;
///
/// let pieces: Vec<&[u8]> = chunks(7, 3, b"how are you?").collect();
/// assert!(pieces.iter().all(|piece| (1..=3).contains(&piece.len())));
/// assert_eq!(pieces.concat(), b"how are you?");
/// ```
pub fn chunks(seed: u64, max: usize, stream: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut numbers = Numbers::new(seed);
    let mut left = stream;
    std::iter::from_fn(move || {
        let len = (1 + numbers.below(max.max(1))).min(left.len());
        let piece = left.split_off(..len)?;
        (!piece.is_empty()).then_some(piece)
    })
}
