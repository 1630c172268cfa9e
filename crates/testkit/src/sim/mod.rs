//! A network in a box: programs run as they are, on hosts that are made up, and everything comes from one seed.
//!
//! ```text
//!   Sim::seed(7).run(|sim| …)                    one thread, time that jumps, nothing that is left to chance
//!     ├─ host "server" ── loops, workers, Server::bind("0.0.0.0:80")     built as always: the host drives them
//!     ├─ host "client" ── Client::connect("server:80")                   names, addresses and ports are simulated
//!     └─ the network   ── latency, loss, cuts, resets, crashes           drawn, or said beforehand
//! ```
//! What runs in it is the user's program: [`enter`](Host::enter) a host, and build servers, clients, pools, workers and loops; what they are built on
//! comes from the host ([`netwright_core::world`], [`netwright_transport::open::Network`]). Waiting for a promise lets everything go on.
//!
//! ```
//! use netwright_core::pipeline;
//! use netwright_testkit::sim::Sim;
//! use netwright_transport::{Client, Server};
//! use std::{sync::mpsc, time::Duration};
//!
//! Sim::seed(7).run(|sim| {
//!     let server = sim.host("server");
//!     let echo = || pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze()));
//!     server.start(move || Server::builder().pipeline(move |_| echo()).bind("0.0.0.0:7").wait()).unwrap();
//!
//!     let (tell, told) = mpsc::channel();
//!     sim.host("client").enter(|| {
//!         let client = Client::builder().pipeline(move || {
//!             let tell = tell.clone();
//!             pipeline().handle(move |_, bytes| tell.send(bytes).unwrap())
//!         }).unwrap();
//!         let channel = client.connect("server:7").wait().unwrap();
//!         channel.write_and_flush("hello");
//!         sim.run_for(Duration::from_secs(1)); // takes no time
//!         assert_eq!(told.try_recv().unwrap(), "hello");
//!     });
//! });
//! ```
//!
//! # What is looked after
//!
//! At the end of each run every program is told to end, and then there must be nothing left: no channel, no timer, no loop, no socket, no promise of which
//! nobody has heard, no byte that still counts in a channel that is gone. No loop has cut off what lived on it, or left a timer whose owner had gone. What was
//! read from a stream is what was written to it, in order. A loop that spins, that is, goes on and on although nobody gives it anything to do, panics there and
//! then, and so does whoever waits for something that cannot come. [`for_seeds`] does all that with many seeds, and says which fault a failure needs.
//!
//! # What is not simulated
//!
//! Files are those of the machine. Threads that a program starts by itself have no place in a simulation: what they do is not the same each time. TLS draws its
//! keys from the system, so its bytes differ from run to run, and nothing else does.
//!
//! | module | what it is |
//! | --- | --- |
//! | `sim`, `host` | what a test uses |
//! | `engine`, `loops` | whose turn it is, and the clock |
//! | `end`, `spin` | what must never be, and is looked for |
//! | `universe` | what everything shares |
//! | `outside` | the scenario between its hosts |
//! | `driver`, `network`, `connection`, `acceptor`, `datagram` | the simulated network as loops see it |
//! | `net` | the network itself: a plain state machine |
//! | `script`, `seeds` | faults, and many runs |
//! | `trace` | what happened |
//! | `chance` | where everything that is drawn comes from |

mod acceptor;
mod chance;
mod connection;
mod datagram;
mod driver;
mod end;
mod engine;
mod failure;
mod host;
mod loops;
mod net;
mod network;
mod outside;
mod script;
mod seeds;
mod shrink;
#[allow(clippy::module_inception)] // what a test begins with
mod sim;
mod spin;
mod trace;
mod universe;

pub use host::Host;
pub use net::{Failure, Happened, HostId, HostLimits, Link, Oversized, Record, StreamId, Time, Violation};
pub use script::{Fault, FaultPlan};
pub use seeds::{for_seeds, for_seeds_with};
pub use sim::{Outcome, Sim, SimBuilder};
pub use trace::TraceHash;
