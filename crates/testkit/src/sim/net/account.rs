//! What was written to connections and read from them, and whether that agrees.
//!
//! Both sides of a direction have a rolling hash. The writer's is kept at the end of each write until the reader has come there, so
//! that what was read is shown to be a prefix of what was written, in order and once, without keeping the bytes.

#[cfg(test)]
use super::StreamId;
use super::{Failure, Fnv, HostId};
use std::{collections::VecDeque, fmt};

/// One direction of a connection.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) written: u64,
    pub(crate) read: u64,
    pub(crate) written_hash: Fnv,
    pub(crate) read_hash: Fnv,
    pub(crate) ending: Ending,
    marks: VecDeque<(u64, Fnv)>,
}

/// How a direction of a connection has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It has not.
    #[default]
    Open,
    /// The reader was told the end, behind everything that was written.
    Finished,
    /// The connection broke first.
    Broken(Failure),
    /// The reader closed first, or its host crashed.
    Abandoned,
}

/// What must never be.
///
/// ```
/// use netwright_testkit::sim::Violation;
///
/// let lost = Violation::EndedEarly { connection: 4, written: 10, read: 9 };
/// assert_eq!(lost.to_string(), "c4: the end was told after 9 bytes of 10");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// Somewhere before `by`, other bytes were read than were written.
    Differs {
        /// The connection.
        connection: u32,
        /// How many bytes had been read.
        by: u64,
    },
    /// The reader was told the end before it had read everything.
    EndedEarly {
        /// The connection.
        connection: u32,
        /// Bytes that were written.
        written: u64,
        /// Bytes that were read.
        read: u64,
    },
    /// Programs that should have closed everything have not.
    LeftOpen {
        /// Where they run.
        host: HostId,
        /// How many sockets are open.
        sockets: usize,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Differs { connection, by } => {
                write!(f, "c{connection}: what was read is not what was written, before byte {by}")
            }
            Self::EndedEarly { connection, written, read } => {
                write!(f, "c{connection}: the end was told after {read} bytes of {written}")
            }
            Self::LeftOpen { host, sockets } => write!(f, "{host} has left {sockets} sockets open"),
        }
    }
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            written: 0,
            read: 0,
            written_hash: Fnv::default(),
            read_hash: Fnv::default(),
            ending: Ending::Open,
            marks: VecDeque::new(),
        }
    }
}

impl Flow {
    fn write(&mut self, bytes: &[u8]) {
        self.written += bytes.len() as u64;
        self.written_hash.bytes(bytes);
        if self.ending == Ending::Open {
            self.marks.push_back((self.written, self.written_hash));
        }
    }

    /// Whether they are what was written there.
    fn read(&mut self, mut bytes: &[u8]) -> bool {
        while let Some((end, hash)) = self.marks.front().copied() {
            let part = bytes.len().min((end - self.read) as usize);
            let (now, later) = bytes.split_at(part);
            self.read_hash.bytes(now);
            self.read += part as u64;
            bytes = later;
            if self.read < end {
                return true;
            }
            self.marks.pop_front();
            if self.read_hash != hash {
                return false;
            }
        }
        bytes.is_empty()
    }

    fn end(&mut self, ending: Ending) {
        if self.ending == Ending::Open {
            self.ending = ending;
            self.marks.clear();
        }
    }
}

/// Whose end of which connection: who connected, or who accepted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    pub(super) connection: u32,
    pub(super) accepted: bool,
}

#[derive(Debug, Default)]
pub(super) struct Accounts {
    /// By connection: what who connected wrote, and what who accepted wrote.
    flows: Vec<[Flow; 2]>,
    sides: Vec<Side>,
    violations: Vec<Violation>,
}

impl Accounts {
    /// A connection begins.
    pub(super) fn open(&mut self) -> u32 {
        self.flows.push([Flow::default(), Flow::default()]);
        (self.flows.len() - 1) as u32
    }

    /// The next stream is this side.
    pub(super) fn add_side(&mut self, side: Side) {
        self.sides.push(side);
    }

    #[cfg(test)]
    pub(super) fn of(&self, id: StreamId) -> Option<(&Flow, &Flow)> {
        let side = self.sides.get(id.0 as usize)?;
        let [connector, acceptor] = &self.flows[side.connection as usize];
        Some(if side.accepted { (acceptor, connector) } else { (connector, acceptor) })
    }

    fn outgoing(&mut self, side: Side) -> &mut Flow {
        &mut self.flows[side.connection as usize][usize::from(side.accepted)]
    }

    fn incoming(&mut self, side: Side) -> &mut Flow {
        &mut self.flows[side.connection as usize][usize::from(!side.accepted)]
    }

    pub(super) fn wrote(&mut self, side: Side, bytes: &[u8]) {
        self.outgoing(side).write(bytes);
    }

    pub(super) fn read(&mut self, side: Side, bytes: &[u8]) {
        let flow = self.incoming(side);
        // What is read behind a break was checked for as long as there was something to compare it with.
        if flow.ending == Ending::Open && !flow.read(bytes) {
            let by = flow.read;
            flow.end(Ending::Abandoned);
            self.violations.push(Violation::Differs { connection: side.connection, by });
        }
    }

    pub(super) fn told_the_end(&mut self, side: Side) {
        let flow = self.incoming(side);
        let (written, read, was_open) = (flow.written, flow.read, flow.ending == Ending::Open);
        flow.end(Ending::Finished);
        if was_open && written != read {
            self.violations.push(Violation::EndedEarly { connection: side.connection, written, read });
        }
    }

    /// The reader has gone, or was told of a break.
    pub(super) fn ended(&mut self, side: Side, ending: Ending) {
        self.incoming(side).end(ending);
    }

    pub(super) fn check(&self) -> Result<(), Vec<Violation>> {
        if self.violations.is_empty() { Ok(()) } else { Err(self.violations.clone()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIDES: [Side; 2] =
        [Side { connection: 0, accepted: false }, Side { connection: 0, accepted: true }];

    fn wrote(pieces: &[&[u8]]) -> Accounts {
        let mut accounts = Accounts::default();
        accounts.open();
        pieces.iter().for_each(|piece| accounts.wrote(SIDES[0], piece));
        accounts
    }

    #[test]
    fn what_was_written_may_be_read_in_any_pieces() {
        let mut accounts = wrote(&[b"abc", b"defg"]);
        [&b"a"[..], b"bcde", b"fg"].into_iter().for_each(|piece| accounts.read(SIDES[1], piece));
        accounts.told_the_end(SIDES[1]);
        assert_eq!(accounts.check(), Ok(()));
    }

    #[test]
    fn a_wrong_order_a_missing_byte_and_a_byte_too_many_are_noticed() {
        for read in [&b"acb"[..], b"abcd", b"abd"] {
            let mut accounts = wrote(&[b"abc"]);
            accounts.read(SIDES[1], read);
            assert!(matches!(accounts.check().unwrap_err()[..], [Violation::Differs { .. }]), "{read:?}");
        }
        let mut accounts = wrote(&[b"abc"]);
        accounts.read(SIDES[1], b"ab");
        accounts.told_the_end(SIDES[1]);
        let expected = Violation::EndedEarly { connection: 0, written: 3, read: 2 };
        assert_eq!(accounts.check(), Err(vec![expected]));
    }
}
