//! Which faults there are, as values and in words.

use super::{ChaosStage, draw::Draw};
use crate::shape::{Pieces, Rate, shortened};
use std::{fmt, str::FromStr, time::Duration};

/// How much may be under way in one direction, by default.
const BUFFER: u64 = 1 << 20;
/// No delay is longer.
const DELAY_MAX: Duration = Duration::from_secs(3600);

/// How often something happens, in millionths.
///
/// ```
/// use netwright_handler::chaos::Chance;
///
/// let chance: Chance = "0.1%".parse()?;
/// assert_eq!(chance, Chance::per_million(1_000).unwrap());
/// assert!("101%".parse::<Chance>().is_err());
/// # Ok::<(), netwright_handler::chaos::ChaosError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Chance(u32);

impl Chance {
    /// So often of a million times, which is a million at most.
    pub const fn per_million(times: u32) -> Option<Self> {
        if times <= 1_000_000 { Some(Self(times)) } else { None }
    }

    /// In millionths.
    pub(super) fn millionths(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Chance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 % 10_000 {
            0 => write!(f, "{}%", self.0 / 10_000),
            rest => write!(f, "{}.{}%", self.0 / 10_000, format!("{rest:04}").trim_end_matches('0')),
        }
    }
}

impl FromStr for Chance {
    type Err = ChaosError;

    fn from_str(text: &str) -> Result<Self, ChaosError> {
        let error = || {
            ChaosError::new(
                "chance",
                text,
                "a percentage of at most 100% with up to four decimals, such as 0.1%",
            )
        };
        let number = text.strip_suffix('%').ok_or_else(error)?;
        let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
        if !is_number(whole) || !is_number(decimals) || decimals.len() > 4 {
            return Err(error());
        }
        let whole: u32 = whole.parse().map_err(|_| error())?;
        let decimals: u32 = format!("{decimals:0<4}").parse().map_err(|_| error())?;
        let millionths = whole.checked_mul(10_000).and_then(|whole| whole.checked_add(decimals));
        millionths.and_then(Self::per_million).ok_or_else(error)
    }
}

/// What happens to one direction of a connection. By default nothing.
///
/// ```
/// use netwright_handler::chaos::{Chance, Chaos, Faults};
/// use std::time::Duration;
///
/// let mut slow = Faults::default();
/// slow.latency = Duration::from_millis(50);
/// slow.cut = Chance::per_million(1_000).unwrap();
/// assert_eq!(Chaos::seed(7).read(slow).to_string(), "read.latency=50ms,read.cut=0.1%,seed=7");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Faults {
    /// Everything comes so much later.
    pub latency: Duration,
    /// And up to so much later than that. The order stays.
    pub jitter: Duration,
    /// No more passes in a second.
    pub rate: Rate,
    /// Pieces of a random length up to this.
    pub split: Option<u32>,
    /// A bit is changed, for each piece of bytes; those of files stay as they are.
    pub corrupt: Chance,
    /// The connection ends, for each piece: this one and all behind it are lost.
    pub cut: Chance,
    /// The same, with a reset: the peer sees one too, on transports that have them.
    pub reset: Chance,
    /// So many bytes may be under way: more are not read, or count as pending, which writers see.
    pub buffer: u64,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            latency: Duration::ZERO,
            jitter: Duration::ZERO,
            rate: Rate::unlimited(),
            split: None,
            corrupt: Chance::default(),
            cut: Chance::default(),
            reset: Chance::default(),
            buffer: BUFFER,
        }
    }
}

/// Faults of a bad network, drawn from a seed: latency, jitter, a rate, cuts, resets, bits that change, pieces.
///
/// In words they are separated by commas. Those that begin with `read.` or `write.` are for that direction only, the others for both:
///
/// | word | value | what it does |
/// | --- | --- | --- |
/// | `latency`, `jitter` | `50ms`, `300us`, `2s` | everything comes later, by a random time more; the order stays |
/// | `rate` | `1m`, `64ki` | no more bytes pass in a second |
/// | `split` | `100` | pieces of 1 to so many bytes |
/// | `corrupt`, `cut`, `reset` | `0.1%` | the chance, for each piece, that a bit changes, or that the connection ends |
/// | `buffer` | `1m` | how many bytes may be under way |
/// | `seed` | `7` | the same seed draws the same |
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_handler::Chaos;
/// use std::time::Duration;
///
/// let chaos: Chaos = "latency=50ms,jitter=20ms,rate=1m,cut=0.1%,seed=7".parse()?;
/// assert_eq!(chaos.to_string().parse(), Ok(chaos));
///
/// let number = 1; // of the connection: each has faults of its own
/// let echo = pipeline().filter(chaos.stage(number)).handle(|cx, bytes| cx.write_and_flush(bytes));
/// let mut channel = EmbeddedChannel::new(echo);
/// channel.write_inbound("hello").advance(Duration::from_millis(99));
/// assert_eq!(channel.outbound_bytes(), b"");
/// channel.advance(Duration::from_millis(50));
/// assert_eq!(channel.outbound_bytes(), b"hello"); // there and back
/// # Ok::<(), netwright_handler::chaos::ChaosError>(())
/// ```
///
/// What is drawn depends on the seed, on the number of the connection, and on nothing else; which bytes it meets, on the pieces in which they come. In a simulation these are the same each
/// time as well.
#[doc(alias = "fault injection")]
#[doc(alias = "netem")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Chaos {
    seed: u64,
    read: Faults,
    write: Faults,
}

impl Chaos {
    /// No faults yet, to be drawn from this seed.
    pub fn seed(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// What happens to what is read.
    #[must_use]
    pub fn read(mut self, faults: Faults) -> Self {
        self.read = faults;
        self
    }

    /// What happens to what is written.
    #[must_use]
    pub fn write(mut self, faults: Faults) -> Self {
        self.write = faults;
        self
    }

    /// What happens in both directions.
    #[must_use]
    pub fn both(self, faults: Faults) -> Self {
        self.read(faults).write(faults)
    }

    /// The stage for a connection of this number.
    pub fn stage<R: Pieces, W: Pieces>(&self, connection: u64) -> ChaosStage<R, W> {
        let draw = |direction| Draw::new(self.seed, connection, direction);
        ChaosStage::new((self.read, draw(0)), (self.write, draw(1)))
    }
}

/// A word of a [`Chaos`] that says nothing: which one, and what is allowed.
///
/// ```
/// use netwright_handler::Chaos;
///
/// let error = "latency=50".parse::<Chaos>().unwrap_err();
/// assert_eq!(error.to_string(), "latency is \"50\", but must be a time of at most an hour in us, ms or s, such as 50ms");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChaosError {
    /// The word.
    pub word: String,
    /// What was said of it.
    pub value: String,
    /// What is allowed.
    pub expected: &'static str,
}

impl ChaosError {
    fn new(word: &str, value: &str, expected: &'static str) -> Self {
        Self { word: shortened(word), value: shortened(value), expected }
    }
}

impl fmt::Display for ChaosError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {:?}, but must be {}", self.word, self.value, self.expected)
    }
}

impl std::error::Error for ChaosError {}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

const WORDS: &str = "one of latency, jitter, rate, split, corrupt, cut, reset, buffer (each also with read. or write. in front) and seed, with = and a value";

impl FromStr for Chaos {
    type Err = ChaosError;

    fn from_str(text: &str) -> Result<Self, ChaosError> {
        let mut chaos = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (word, value) = part.split_once('=').ok_or_else(|| ChaosError::new("a word", part, WORDS))?;
            if word == "seed" {
                let error = || ChaosError::new(word, value, "a number below 2⁶⁴");
                chaos.seed = is_number(value).then(|| value.parse().ok()).flatten().ok_or_else(error)?;
                continue;
            }
            match word.split_once('.') {
                Some(("read", name)) => chaos.read.set(word, name, value)?,
                Some(("write", name)) => chaos.write.set(word, name, value)?,
                _ => {
                    chaos.read.set(word, word, value)?;
                    chaos.write.set(word, word, value)?;
                }
            }
        }
        Ok(chaos)
    }
}

impl Faults {
    fn set(&mut self, word: &str, name: &str, value: &str) -> Result<(), ChaosError> {
        let chance =
            || value.parse::<Chance>().map_err(|error| ChaosError { word: shortened(word), ..error });
        match name {
            "latency" => self.latency = time(word, value)?,
            "jitter" => self.jitter = time(word, value)?,
            "rate" => self.rate = rate(word, value)?,
            "buffer" => self.buffer = rate(word, value)?.limit().map_or(u64::MAX, |limit| limit.get()),
            "split" => {
                let error = || ChaosError::new(word, value, "a number of bytes from 1 to 4294967295");
                let bytes: Option<u32> = is_number(value).then(|| value.parse().ok()).flatten();
                self.split = Some(bytes.filter(|bytes| *bytes > 0).ok_or_else(error)?);
            }
            "corrupt" => self.corrupt = chance()?,
            "cut" => self.cut = chance()?,
            "reset" => self.reset = chance()?,
            _ => return Err(ChaosError::new("a word", word, WORDS)),
        }
        Ok(())
    }

    /// What is not as by default.
    fn words(&self) -> Vec<(&'static str, String)> {
        let none = Self::default();
        let mut words = Vec::new();
        let mut word = |name, differs: bool, value: String| {
            if differs {
                words.push((name, value));
            }
        };
        word("latency", self.latency != none.latency, in_words(self.latency));
        word("jitter", self.jitter != none.jitter, in_words(self.jitter));
        word("rate", self.rate != none.rate, self.rate.to_string());
        word("split", self.split.is_some(), self.split.unwrap_or_default().to_string());
        word("corrupt", self.corrupt != none.corrupt, self.corrupt.to_string());
        word("cut", self.cut != none.cut, self.cut.to_string());
        word("reset", self.reset != none.reset, self.reset.to_string());
        let buffer = Rate::try_from(self.buffer.max(1)).unwrap_or(none.rate);
        word("buffer", self.buffer != none.buffer, buffer.to_string());
        words
    }
}

fn rate(word: &str, value: &str) -> Result<Rate, ChaosError> {
    let expected = "a number of bytes above 0, with k, m, g, ki, mi, gi or nothing behind it";
    value.parse().map_err(|_| ChaosError::new(word, value, expected))
}

const UNITS: [(&str, u64); 3] = [("us", 1), ("ms", 1_000), ("s", 1_000_000)];

fn time(word: &str, value: &str) -> Result<Duration, ChaosError> {
    let error = || ChaosError::new(word, value, "a time of at most an hour in us, ms or s, such as 50ms");
    let (digits, unit) =
        UNITS.iter().find_map(|(name, unit)| Some((value.strip_suffix(name)?, *unit))).ok_or_else(error)?;
    let number: u64 = is_number(digits).then(|| digits.parse().ok()).flatten().ok_or_else(error)?;
    let time = Duration::from_micros(number.checked_mul(unit).ok_or_else(error)?);
    if time > DELAY_MAX { Err(error()) } else { Ok(time) }
}

fn in_words(time: Duration) -> String {
    let micros = time.as_micros();
    let (name, unit) =
        UNITS.iter().rev().find(|(_, unit)| micros.is_multiple_of(u128::from(*unit))).unwrap_or(&UNITS[0]);
    format!("{}{name}", micros / u128::from(*unit))
}

/// As it is read. Times are told to the microsecond.
impl fmt::Display for Chaos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (read, write) = (self.read.words(), self.write.words());
        for (name, value) in &read {
            let both = write.contains(&(*name, value.clone()));
            write!(f, "{}{name}={value},", if both { "" } else { "read." })?;
        }
        for (name, value) in write.iter().filter(|word| !read.contains(word)) {
            write!(f, "write.{name}={value},")?;
        }
        write!(f, "seed={}", self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_told_in_the_same_words() {
        for text in [
            "seed=0",
            "latency=50ms,jitter=20ms,rate=1m,cut=0.1%,seed=7",
            "latency=1s,jitter=1001us,rate=64ki,split=1,corrupt=100%,cut=0.0001%,reset=12.5%,buffer=64k,seed=18446744073709551615",
            "read.latency=1ms,write.latency=2ms,seed=1",
            "rate=5k,read.split=9,write.reset=1%,seed=1",
        ] {
            let chaos: Chaos = text.parse().unwrap();
            assert_eq!(chaos.to_string(), text);
            assert_eq!(chaos.to_string().parse(), Ok(chaos));
        }
        assert_eq!("".parse(), Ok(Chaos::default()));
        assert_eq!("cut=1%,read.cut=0%".parse::<Chaos>().unwrap().to_string(), "write.cut=1%,seed=0");
    }

    #[test]
    fn a_bad_word_is_named_with_what_is_allowed() {
        for (text, word, expected) in [
            ("latency", "a word", "seed"),
            ("lag=5ms", "a word", "latency, jitter"),
            ("both.cut=1%", "a word", "read."),
            ("seed=-1", "seed", "2⁶⁴"),
            ("jitter=5", "jitter", "us, ms or s"),
            ("jitter=ms", "jitter", "such as 50ms"),
            ("latency=3601s", "latency", "an hour"),
            ("latency=18446744073709551615s", "latency", "an hour"),
            ("rate=0", "rate", "above 0"),
            ("rate=1.5m", "rate", "k, m, g"),
            ("write.split=0", "write.split", "from 1"),
            ("split=4294967296", "split", "from 1"),
            ("cut=5", "cut", "percentage"),
            ("read.reset=100.0001%", "read.reset", "at most 100%"),
            ("corrupt=0.00001%", "corrupt", "four decimals"),
            ("corrupt=-1%", "corrupt", "percentage"),
            ("buffer=0", "buffer", "above 0"),
        ] {
            let error = text.parse::<Chaos>().unwrap_err();
            assert_eq!(error.word, word, "{text}");
            assert!(error.to_string().contains(expected), "{error}");
        }
        let long = format!("cut={}", "9".repeat(100_000));
        assert!(long.parse::<Chaos>().unwrap_err().to_string().len() < 300);
    }
}
