//! A datagram channel's socket of the system.
//!
//! Always true: the descriptor is registered once, for both directions, and deregistered before it is closed.

use super::{
    Ask, DatagramSettings, Opening, SendRules, Undelivered, batch,
    carrier::{DatagramBatch, DatagramQueue, DatagramSocket},
    socket::DatagramSocket as Handle,
};
use crate::{
    readiness::{Interest, Readiness, Registered},
    sys::errors::{is_about_segments, is_about_the_network},
};
use netwright_core::{Address, LocalLoop, driver::Ready};
use socket2::{Domain, Socket};
use std::{any::Any, io, sync::Arc};

/// What several datagrams that the system joined have together, at most.
const JOINED_MAX: usize = 65_535;
/// What a channel wants to hear of.
const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);

/// A socket that is bound, non-blocking, and connected if there is a peer.
pub(crate) struct Bound {
    pub(crate) socket: Socket,
    pub(crate) domain: Domain,
    pub(crate) peer: Option<Address>,
    /// What is dropped when the socket is closed: its file, if it has one.
    pub(crate) file: Option<Box<dyn Any>>,
}

impl Bound {
    /// What its channel is made of, on the loop of the calling thread.
    pub(crate) fn opening<'a>(
        self,
        local: &'a LocalLoop,
        settings: &'a DatagramSettings,
    ) -> io::Result<Opening<'a, ()>> {
        let Self { socket, domain, peer, file } = self;
        let readiness = Readiness::of(local).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::Unsupported,
                "datagram channels need a loop with a readiness driver: build its group with `Backend::Readiness`",
            )
        })?;
        let (unix, connected) = (domain == Domain::UNIX, peer.is_some());
        let (mut limit, mut control) = (settings.receive_max, 0);
        if settings.join_received && !unix && batch::join_received(&socket).is_ok() {
            limit = limit.max(JOINED_MAX);
            control = batch::control_len(size_of::<i32>());
        }
        if unix && settings.credentials {
            batch::tell_credentials(&socket)?;
            control += batch::CREDENTIALS_LEN;
        }
        if unix && settings.descriptors_max > 0 {
            control += batch::control_len(settings.descriptors_max * size_of::<i32>());
        }
        let reports = settings.report_undelivered && !unix;
        if reports {
            batch::keep_errors(&socket, domain == Domain::IPV6)?;
        }
        let segments = settings.cut_sent && !unix && batch::cuts_sent(&socket);
        let socket = Arc::new(socket);
        let handle = Arc::new(Handle::new(domain, socket.clone()));
        let ask = Ask { limit, names: !connected, control };
        let rules = SendRules { connected, unix, segments };
        let make = move |token| {
            let socket = Registered::new(readiness, socket, token, BOTH)?;
            let system = SystemSocket { socket, ask, rules, reports, errors_left: false, _file: file };
            Ok(Box::new(system) as Box<dyn DatagramSocket>)
        };
        Ok(Opening { local, make: Box::new(make), handle, rules, peer, pipeline: (), settings })
    }
}

struct SystemSocket {
    socket: Registered<Arc<Socket>>,
    ask: Ask,
    rules: SendRules,
    /// The system keeps errors for us.
    reports: bool,
    /// And there may be more of them: it tells of them with the next one only.
    errors_left: bool,
    _file: Option<Box<dyn Any>>,
}

impl DatagramSocket for SystemSocket {
    fn local(&self) -> Option<Address> {
        self.socket.local_addr().ok().and_then(|address| crate::socket::address(&address))
    }

    fn receive(&mut self, batch: &mut DatagramBatch<'_>) -> io::Result<()> {
        match batch.mailbox.receive(&self.socket, &self.ask, batch.want) {
            Ok(received) => {
                batch.count = received;
                Ok(())
            }
            Err(error) => Err(self.judge(error)),
        }
    }

    fn send(&mut self, queue: &mut DatagramQueue<'_>) -> io::Result<usize> {
        let send = &mut queue.mailbox.send;
        match send.send(&self.socket, queue.outbound, &self.rules) {
            // The way to the peer, or its device, cannot do what the system promised: one by one, then.
            Err(error) if send.joined_first() && is_about_segments(&error) => {
                self.rules.segments = false;
                Err(io::ErrorKind::Interrupted.into())
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Err(self.judge(error)),
            sent => sent,
        }
    }

    fn take_error(&mut self) -> io::Result<Option<Undelivered>> {
        if self.reports {
            if !self.errors_left {
                // Whether or not anybody reads at the moment. What a read finds afterwards is another error.
                let _ = self.socket.take_error();
            }
            let next = batch::next_error(&self.socket).ok();
            self.errors_left = next.is_some();
            return Ok(next.map(|(to, error)| Undelivered::new(to, error)));
        }
        match self.socket.take_error() {
            Ok(None) => Ok(None),
            Ok(Some(error)) | Err(error) if is_about_the_network(&error) => {
                Ok(Some(Undelivered::new(None, error)))
            }
            Ok(Some(error)) | Err(error) => Err(error),
        }
    }

    fn look(&mut self) -> Ready {
        if self.errors_left { Ready::ERROR } else { Ready::NONE }
    }

    /// A Unix socket that is not connected does not hear when somebody else's queue has room.
    fn tells_of_room(&self) -> bool {
        !self.rules.unix || self.rules.connected
    }

    #[inline]
    fn settle(&mut self, wants_read: bool, waits_for_room: bool) {
        self.socket.set_interest(wants_read, waits_for_room);
    }
}

impl SystemSocket {
    /// The network has told that a datagram did not arrive. Where the system keeps these errors, they will be fetched with their addresses.
    #[cold]
    fn judge(&self, error: io::Error) -> io::Error {
        match self.reports && is_about_the_network(&error) {
            true => io::ErrorKind::Interrupted.into(),
            false => error,
        }
    }
}
