//! Descriptors that say when they are ready: the driver on top of `mio`.
//!
//! ```text
//!   EventLoop ──▶ Driver::poll ──▶ mio::Poll (edge-triggered) ──▶ READ, WRITE, READ_CLOSED, ERROR by token
//!                                     ▲
//!   Source ──▶ Rc<Readiness> ── register, reregister, deregister: by descriptor, so that a rebuild needs no source
//! ```
//!
//! A loop that [blocks in `poll(2)`](crate::blocking) offers the same [`Readiness`], level-triggered.
//!
//! A source finds the [`Readiness`] of its loop with [`LocalLoop::driver`](netwright_core::LocalLoop::driver) and
//! registers its descriptor under its own token. A loop for any descriptor that the system can poll:
//!
//! ```
//! # #[cfg(unix)] fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use netwright_core::{EventLoop, LocalLoop, driver::{Event, Source}};
//! use netwright_transport::{Interest, Readiness, ReadinessSeed};
//! use std::{io::{Read, Write}, os::unix::net::UnixStream, rc::Rc, sync::mpsc};
//!
//! struct Ear { stream: UnixStream, readiness: Rc<Readiness>, heard: mpsc::Sender<String> }
//!
//! impl Source for Ear {
//!     fn ready(&mut self, event: Event) {
//!         if event.ready == netwright_core::driver::Ready::NONE { // our own first call
//!             return self.readiness.register(&self.stream, event.token, Interest::READABLE).unwrap();
//!         }
//!         let mut buffer = [0; 64];
//!         while let Ok(len @ 1..) = self.stream.read(&mut buffer) { // edge-triggered: until nothing is left
//!             self.heard.send(String::from_utf8_lossy(&buffer[..len]).into_owned()).unwrap();
//!         }
//!     }
//!     fn shut_down(&mut self) {
//!         // Nothing to finish: the loop drops what is left when its time to shut down is over.
//!     }
//! }
//!
//! impl Drop for Ear {
//!     fn drop(&mut self) {
//!         let _ = self.readiness.deregister(&self.stream); // before the descriptor is closed
//!     }
//! }
//!
//! let event_loop = EventLoop::builder().driver(ReadinessSeed::new()?).build()?;
//! let (mut mouth, stream) = UnixStream::pair()?;
//! stream.set_nonblocking(true)?;
//! let (heard, words) = mpsc::channel();
//! event_loop.execute(move || {
//!     let local = LocalLoop::current().unwrap();
//!     let readiness = local.driver::<Readiness>().unwrap();
//!     let token = local.register(Ear { stream, readiness, heard }).unwrap();
//!     local.call(token);
//! })?;
//! mouth.write_all(b"hello")?;
//! assert_eq!(words.recv()?, "hello");
//! # Ok(())
//! # }
//! # #[cfg(not(unix))] fn main() {}
//! ```
//!
//! Not here: reading and writing (channels).

mod driver;
mod edges;
mod registered;
mod registry;
mod wait;

pub use driver::ReadinessSeed;
#[cfg(all(unix, feature = "blocking"))]
pub(crate) use edges::moved_away;
#[cfg(any(all(unix, feature = "blocking"), all(target_os = "linux", feature = "uring")))]
pub(crate) use edges::{not_registered, registered_already};
/// What a source wants to hear about.
pub use mio::Interest;
pub(crate) use registered::Registered;
pub use registry::Readiness;
