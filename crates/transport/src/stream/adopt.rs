//! From a connection to its channel.

use super::{Carrier, ChannelSettings, Stream, channel::StreamChannel};
#[cfg(unix)]
use crate::socket::unix::{PeerCredentials, ReceivedDescriptors};
#[cfg(all(target_os = "linux", feature = "uring"))]
use crate::uring::{Uring, UringStream};
use crate::{
    attributes::Attributes,
    live::Guard,
    open::{Connection, contained},
    readiness::Readiness,
    socket::{self, SocketKind, SocketStream},
};
use bytes::BytesMut;
use netwright_core::{
    Address, Channel, Host, HostOf, LocalLoop, Outgoing, Segment, SourceCaller,
    driver::{Source, Token},
    internal::{CarriedBy, Kin, PipeOf},
};
use socket2::Socket;
use std::{io, rc::Rc, sync::Arc, time::Duration};

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

/// What a channel is made of, but for its pipeline.
pub(crate) struct Adoption<'a> {
    pub(crate) local: &'a LocalLoop,
    pub(crate) carried: Carried,
    pub(crate) peer: Address,
    /// Who the peer is, if it is known.
    #[cfg(unix)]
    pub(crate) credentials: Option<PeerCredentials>,
    pub(crate) settings: &'a Arc<ChannelSettings>,
}

impl<'a> Adoption<'a> {
    pub(crate) fn new(
        local: &'a LocalLoop,
        carried: Carried,
        peer: Address,
        settings: &'a Arc<ChannelSettings>,
    ) -> Self {
        Self {
            local,
            #[cfg(unix)]
            credentials: carried.credentials(&peer),
            carried,
            peer,
            settings,
        }
    }
}

/// Takes a connection into the loop of the calling thread and makes its channel active: somebody holds it. `guard` is dropped
/// with it.
pub(crate) fn adopt<P, W>(adoption: Adoption<'_>, pipeline: P, guard: Guard) -> io::Result<Channel<P::Tail>>
where
    P: Segment<BytesMut, W>,
    W: CarriedBy<Outgoing>,
{
    let host = Host::new(adoption.local.clone(), pipeline, adoption.settings.host);
    let channel = host.channel();
    begin(adoption, host, |_| guard)?;
    Ok(channel)
}

/// The same for one of many channels that nobody holds unless a stage hands its handle on. `introduce` is told how the channel is
/// called before anything happens to it; what it returns is dropped with the channel.
pub(crate) fn adopt_kin<P, W>(
    adoption: Adoption<'_>,
    pipeline: P,
    kin: &Arc<Kin>,
    introduce: impl FnOnce(SourceCaller) -> Guard,
) -> io::Result<()>
where
    P: Segment<BytesMut, W>,
    W: CarriedBy<Outgoing>,
{
    let host = Host::of_kin(adoption.local.clone(), pipeline, &adoption.settings.host, kin);
    begin(adoption, host, introduce)
}

fn begin<Q: PipeOf<BytesMut, Outgoing> + 'static>(
    adoption: Adoption<'_>,
    mut host: HostOf<Q>,
    introduce: impl FnOnce(SourceCaller) -> Guard,
) -> io::Result<()> {
    let Adoption { local, settings, .. } = adoption;
    let plan = adoption.plan()?;
    host.attach(&settings.attributes);
    host.attach(&plan.attributes);
    let place = local.place().map_err(io::Error::from)?;
    let token = place.token();
    let seat = Seat {
        host,
        local,
        settings,
        guard: introduce(local.caller(token)),
        local_end: plan.local,
        peer: Some(plan.peer),
    };
    let source = match plan.stream.open(local, token)? {
        Opened::Socket(stream) => seat.take(stream, token),
        #[cfg(all(target_os = "linux", feature = "uring"))]
        Opened::Uring(stream) => seat.take(stream, token),
        Opened::Other(stream) => seat.take(stream, token),
    };
    place.fill(source);
    Ok(())
}

/// What a channel needs beside its stream.
struct Seat<'a, H> {
    host: H,
    local: &'a LocalLoop,
    settings: &'a Arc<ChannelSettings>,
    guard: Guard,
    local_end: Option<Address>,
    peer: Option<Address>,
}

impl<Q: PipeOf<BytesMut, Outgoing> + 'static> Seat<'_, HostOf<Q>> {
    /// The channel over this stream, begun.
    fn take<S: Carrier>(self, stream: S, token: Token) -> Box<dyn Source> {
        let Self { host, local, settings, guard, local_end, peer } = self;
        let mut channel = Box::new(StreamChannel::new(host, local.clone(), stream, token, settings, guard));
        S::begin(&mut *channel, local_end, peer);
        channel
    }
}

/// How a connection becomes a channel.
struct Plan {
    stream: Planned,
    local: Option<Address>,
    peer: Address,
    /// What is attached to it, beside what is attached to all.
    attributes: Attributes,
}

/// What will carry its bytes.
enum Planned {
    Socket(Rc<Readiness>, Socket, SocketKind),
    #[cfg(all(target_os = "linux", feature = "uring"))]
    Uring(Rc<Uring>, Socket),
    /// And whether its close is to be a reset.
    Other(Box<dyn Connection>, bool),
}

/// What carries them.
enum Opened {
    Socket(SocketStream),
    #[cfg(all(target_os = "linux", feature = "uring"))]
    Uring(UringStream),
    Other(Box<dyn Stream>),
}

impl Adoption<'_> {
    fn plan(self) -> io::Result<Plan> {
        let Self { local, carried, peer, settings, .. } = self;
        let mut attributes = Attributes::default();
        let (stream, own) = match carried {
            Carried::Socket(socket) => {
                let own = socket.local_addr().ok().and_then(|address| socket::address(&address));
                (plan_socket(local, socket, &peer, settings, &mut attributes)?, own)
            }
            Carried::Open(connection) => {
                let own = connection.local();
                (Planned::Other(connection, settings.options.resets_on_close()), own)
            }
        };
        #[cfg(unix)]
        if let Some(credentials) = self.credentials {
            attributes.set(credentials);
        }
        Ok(Plan { stream, local: own, peer, attributes })
    }
}

fn plan_socket(
    local: &LocalLoop,
    socket: Socket,
    peer: &Address,
    settings: &ChannelSettings,
    attributes: &mut Attributes,
) -> io::Result<Planned> {
    let is_unix = matches!(peer, Address::Unix(_));
    #[cfg(all(target_os = "linux", feature = "uring"))]
    if !is_unix && let Some(uring) = local.driver::<Uring>() {
        return Ok(Planned::Uring(uring, socket));
    }
    let readiness = Readiness::of(local).ok_or_else(socket::no_driver)?;
    let kind = if is_unix { unix_kind(settings) } else { SocketKind::Tcp };
    #[cfg(unix)]
    if let SocketKind::Unix(Some(received)) = &kind {
        attributes.set(received.clone());
    }
    #[cfg(not(unix))]
    let _ = attributes;
    Ok(Planned::Socket(readiness, socket, kind))
}

impl Planned {
    fn open(self, local: &LocalLoop, token: Token) -> io::Result<Opened> {
        match self {
            Self::Socket(readiness, socket, kind) => {
                SocketStream::open(readiness, socket, token, kind).map(Opened::Socket)
            }
            #[cfg(all(target_os = "linux", feature = "uring"))]
            Self::Uring(uring, socket) => UringStream::open(uring, socket, token).map(Opened::Uring),
            Self::Other(connection, resets) => {
                let mut stream = contained(|| connection.open(local, token))?;
                if resets {
                    stream.reset_on_close();
                }
                Ok(Opened::Other(stream))
            }
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
