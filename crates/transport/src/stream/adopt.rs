//! From a connection to its channel.

use super::{ChannelSettings, Stream, channel::StreamChannel};
#[cfg(unix)]
use crate::socket::unix::{PeerCredentials, ReceivedDescriptors};
#[cfg(target_os = "linux")]
use crate::uring::{Uring, UringStream};
use crate::{
    live::Guard,
    open::{Connection, contained},
    readiness::Readiness,
    socket::{self, SocketKind, SocketStream},
};
use bytes::BytesMut;
use netwright_core::{
    Address, Channel, Host, LocalLoop, Outgoing, RefusedWhy, Segment, driver::Token, internal::CarriedBy,
};
use socket2::Socket;
use std::{io, time::Duration};

/// What a listener accepted or a client opened.
pub(crate) enum Carried {
    /// A socket of the system, TCP or Unix, non-blocking.
    Socket(Socket),
    /// Anything else.
    Open(Box<dyn Connection>),
}

impl Carried {
    /// Ends it so that the peer learns that it was refused: a reset, not a silent end.
    pub(crate) fn reset(self) {
        match self {
            Self::Socket(socket) => {
                let _ = socket.set_linger(Some(Duration::ZERO));
            }
            Self::Open(connection) => connection.refuse(),
        }
    }
}

#[cfg(unix)]
impl Carried {
    /// Who the peer is, if the system tells.
    pub(crate) fn credentials(&self, peer: &Address) -> Option<PeerCredentials> {
        match (self, peer) {
            (Self::Socket(socket), Address::Unix(_)) => socket::unix::credentials(socket),
            _ => None,
        }
    }
}

/// What a channel is made of.
pub(crate) struct Adoption<'a, P> {
    pub(crate) local: &'a LocalLoop,
    pub(crate) carried: Carried,
    pub(crate) peer: Option<Address>,
    /// Who the peer is, if it is known.
    #[cfg(unix)]
    pub(crate) credentials: Option<PeerCredentials>,
    pub(crate) pipeline: P,
    pub(crate) settings: &'a ChannelSettings,
}

/// Takes a connection into the loop of the calling thread and makes its channel active. `introduce` sees the handle
/// before anything happens to the channel; what it returns is dropped with the channel.
pub(crate) fn adopt<P, W>(
    adoption: Adoption<'_, P>,
    introduce: impl FnOnce(&Channel<P::Tail>) -> Option<Guard>,
) -> io::Result<Channel<P::Tail>>
where
    P: Segment<BytesMut, W>,
    W: CarriedBy<Outgoing>,
{
    #[cfg(unix)]
    let credentials = adoption.credentials;
    let Adoption { local, carried, peer, pipeline, settings, .. } = adoption;
    let make = Make { local, peer, pipeline, settings };
    match carried {
        Carried::Socket(socket) => {
            let address = socket.local_addr().ok().and_then(|address| socket::address(&address));
            let is_unix = matches!(make.peer, Some(Address::Unix(_)));
            #[cfg(target_os = "linux")]
            if !is_unix && let Some(uring) = local.driver::<Uring>() {
                return make.channel(introduce, address, |token| UringStream::open(uring, socket, token));
            }
            let readiness = Readiness::of(local).ok_or_else(socket::no_driver)?;
            let kind = if is_unix { unix_kind(settings) } else { SocketKind::Tcp };
            #[cfg(unix)]
            let introduce = {
                let kind = kind.clone();
                move |channel: &Channel<P::Tail>| {
                    credentials.map(|credentials| channel.set_attribute(credentials));
                    if let SocketKind::Unix(Some(received)) = kind {
                        channel.set_attribute(received);
                    }
                    introduce(channel)
                }
            };
            make.channel(introduce, address, |token| SocketStream::open(readiness, socket, token, kind))
        }
        Carried::Open(connection) => {
            let resets = settings.options.resets_on_close();
            make.channel(introduce, connection.local(), |token| {
                let mut stream = contained(|| connection.open(local, token))?;
                if resets {
                    stream.reset_on_close();
                }
                Ok(stream)
            })
        }
    }
}

#[cfg(unix)]
fn unix_kind(settings: &ChannelSettings) -> SocketKind {
    SocketKind::Unix((settings.descriptors > 0).then(|| ReceivedDescriptors::new(settings.descriptors)))
}

#[cfg(not(unix))]
fn unix_kind(_: &ChannelSettings) -> SocketKind {
    SocketKind::Tcp
}

struct Make<'a, P> {
    local: &'a LocalLoop,
    peer: Option<Address>,
    pipeline: P,
    settings: &'a ChannelSettings,
}

impl<P> Make<'_, P> {
    fn channel<S, W>(
        self,
        introduce: impl FnOnce(&Channel<P::Tail>) -> Option<Guard>,
        address: Option<Address>,
        open: impl FnOnce(Token) -> io::Result<S>,
    ) -> io::Result<Channel<P::Tail>>
    where
        S: Stream,
        P: Segment<BytesMut, W>,
        W: CarriedBy<Outgoing>,
    {
        let Self { local, peer, pipeline, settings } = self;
        let host = Host::new(local.clone(), pipeline, settings.host);
        let channel = host.channel();
        channel.attach(&settings.attributes);
        let guard = introduce(&channel);
        local.register_with(|token| {
            let stream = open(token)?;
            let channel = StreamChannel::new(host, local.clone(), stream, token, settings, guard);
            Ok::<_, AdoptError>(channel.begin(address, peer))
        })?;
        Ok(channel)
    }
}

/// Lets `?` take both what the loop and what the system says.
struct AdoptError(io::Error);

impl From<io::Error> for AdoptError {
    fn from(error: io::Error) -> Self {
        Self(error)
    }
}

impl From<RefusedWhy> for AdoptError {
    fn from(why: RefusedWhy) -> Self {
        Self(io::Error::other(why.to_string()))
    }
}

impl From<AdoptError> for io::Error {
    fn from(error: AdoptError) -> Self {
        error.0
    }
}
