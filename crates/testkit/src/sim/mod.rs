//! A network in memory: hosts, links, connections, datagrams and names, where every delay and fault comes from one seed.
//!
//! The same calls with the same seed give the same answers, always: no clock is read, no thread is started, nothing is global.
//!
//! ```
//! use netwright_testkit::sim::{HostLimits, Link};
//! use std::time::Duration;
//!
//! let far = Link::default().latency(Duration::from_millis(80)).jitter(Duration::from_millis(10)).loss(0.01);
//! assert_eq!(far.mtu, 65_507, "as the system has it: what is too large for one packet is sent in fragments");
//! let small = HostLimits::default().descriptors(16).backlog(2);
//! assert!(small.time_wait > Duration::ZERO, "who closes first keeps the port for a while");
//! ```

// The adapters to channels use all of it.
#[allow(dead_code)]
mod chance;
#[allow(dead_code, unused_imports)]
pub(crate) mod net;

pub use net::{Failure, Happened, HostId, HostLimits, Link, Oversized, Record, StreamId, Time, Violation};
