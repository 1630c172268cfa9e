//! What may be asked of a channel's socket while the channel lives, from any thread.
//!
//! Always true: once the channel has let go of the socket, it is closed. Whoever asks for something just then holds the
//! channel up for one system call and not longer, and nobody keeps the descriptor open.

use netwright_core::Channel;
use socket2::{Domain, InterfaceIndexOrAddress, Socket};
use std::{
    error::Error,
    fmt, io,
    net::{IpAddr, Ipv4Addr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// The socket of a datagram channel: multicast groups and figures.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use netwright_core::{AppContext, Application, Envelope, pipeline};
/// use netwright_transport::{Datagram, DatagramSocket, Datagrams, Multicast};
///
/// struct Discard;
///
/// impl Application for Discard {
///     type Read = Datagram;
///     type Write = Envelope;
///     fn read(&mut self, _: &mut AppContext<'_, Self>, _: Datagram) {}
/// }
///
/// let datagrams = Datagrams::builder().pipeline(|| pipeline().app(Discard))?;
/// let channel = datagrams.bind("0.0.0.0:0").wait()?;
/// let socket = DatagramSocket::of(&channel).expect("a datagram channel has one");
/// let group = Multicast::group([224, 0, 0, 251].into()).on([127, 0, 0, 1].into());
/// if let Err(error) = socket.join(&group) {
///     println!("{error}"); // a machine without multicast says so
/// }
/// assert_eq!(socket.figures().received, 0);
/// # Ok(())
/// # }
/// ```
pub struct DatagramSocket {
    domain: Domain,
    socket: Mutex<Held>,
    pub(super) counts: Counts,
}

/// What can be asked for more than figures.
enum Held {
    Socket(Arc<Socket>),
    /// The channel's socket is one of a network that stands in for the system's.
    NoSocket,
    Closed,
}

/// Written by the loop alone, read by anybody.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) received: AtomicU64,
    pub(super) sent: AtomicU64,
    pub(super) truncated: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) undelivered: AtomicU64,
}

/// Adds to a figure that only this thread writes: no need for an operation that others could interrupt.
pub(super) fn add(figure: &AtomicU64, more: usize) {
    figure.store(figure.load(Ordering::Relaxed) + more as u64, Ordering::Relaxed);
}

/// What a datagram channel has done.
///
/// ```
/// use netwright_core::Channel;
/// use netwright_transport::DatagramSocket;
///
/// fn report<W: 'static>(channel: &Channel<W>) {
///     if let Some(figures) = DatagramSocket::of(channel).map(|socket| socket.figures()) {
///         println!("{} received, {} sent, {} dropped", figures.received, figures.sent, figures.truncated);
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatagramFigures {
    /// Datagrams received, those that were dropped included.
    pub received: u64,
    /// Datagrams that the system has taken.
    pub sent: u64,
    /// Datagrams that were dropped because they did not fit.
    pub truncated: u64,
    /// Datagrams that could not be sent.
    pub refused: u64,
    /// How often the network reported that a datagram did not arrive.
    pub undelivered: u64,
}

impl DatagramSocket {
    pub(super) fn new(domain: Domain, socket: Arc<Socket>) -> Self {
        Self { domain, socket: Mutex::new(Held::Socket(socket)), counts: Counts::default() }
    }

    /// Of a channel whose socket is not the system's.
    pub(super) fn without_socket(domain: Domain) -> Self {
        Self { domain, socket: Mutex::new(Held::NoSocket), counts: Counts::default() }
    }

    /// That of a channel; `None` if it is no datagram channel.
    pub fn of<W: 'static>(channel: &Channel<W>) -> Option<Arc<Self>> {
        channel.attribute::<Arc<Self>>().map(|socket| (*socket).clone())
    }

    /// Receives what is sent to a group.
    ///
    /// # Errors
    /// The group is none, or of another family than the socket; the channel is closed; what the system says.
    pub fn join(&self, group: &Multicast) -> Result<(), MulticastError> {
        self.act(group, "join")
    }

    /// Receives it no longer. Groups are left by themselves when the channel closes.
    ///
    /// # Errors
    /// As for [`join`](Self::join); the system's `AddrNotAvailable` if it was not joined.
    pub fn leave(&self, group: &Multicast) -> Result<(), MulticastError> {
        self.act(group, "leave")
    }

    fn act(&self, group: &Multicast, verb: &'static str) -> Result<(), MulticastError> {
        let failed = |why| MulticastError { verb, group: group.clone(), why };
        group.check(self.domain).map_err(failed)?;
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let socket = match &*socket {
            Held::Socket(socket) => socket,
            Held::NoSocket => return Err(failed(MulticastWhy::NoSocket)),
            Held::Closed => return Err(failed(MulticastWhy::Closed)),
        };
        group.apply(socket, verb == "join").map_err(|error| failed(MulticastWhy::System(Arc::new(error))))
    }

    /// What the channel has done so far.
    pub fn figures(&self) -> DatagramFigures {
        let get = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let Counts { received, sent, truncated, refused, undelivered } = &self.counts;
        DatagramFigures {
            received: get(received),
            sent: get(sent),
            truncated: get(truncated),
            refused: get(refused),
            undelivered: get(undelivered),
        }
    }

    /// The channel closes: nobody can ask for anything any more.
    pub(super) fn let_go(&self) {
        let held = &mut *self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        *held = Held::Closed;
    }
}

impl fmt::Debug for DatagramSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatagramSocket")
            .field("domain", &self.domain)
            .field("figures", &self.figures())
            .finish_non_exhaustive()
    }
}

/// A multicast group, and where to listen for it.
///
/// ```
/// use netwright_transport::Multicast;
/// use std::net::Ipv4Addr;
///
/// let group = Multicast::group(Ipv4Addr::new(239, 0, 0, 1).into()).on(Ipv4Addr::LOCALHOST);
/// # let _ = group;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a group does nothing until it is joined"]
pub struct Multicast {
    group: IpAddr,
    address: Option<Ipv4Addr>,
    index: Option<u32>,
    source: Option<Ipv4Addr>,
}

impl Multicast {
    /// A group, by the interface that the system chooses.
    pub fn group(group: IpAddr) -> Self {
        Self { group, address: None, index: None, source: None }
    }

    /// By the interface that has this address. IPv4.
    pub fn on(mut self, address: Ipv4Addr) -> Self {
        self.address = Some(address);
        self
    }

    /// By the interface of this number. IPv4 and IPv6.
    pub fn on_index(mut self, index: u32) -> Self {
        self.index = Some(index);
        self
    }

    /// Only what this host sends to the group. IPv4.
    pub fn from_source(mut self, source: Ipv4Addr) -> Self {
        self.source = Some(source);
        self
    }

    fn check(&self, domain: Domain) -> Result<(), MulticastWhy> {
        let family = if self.group.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
        if !self.group.is_multicast() {
            return Err(MulticastWhy::NoGroup);
        }
        if family != domain {
            return Err(MulticastWhy::Family(domain));
        }
        match (self.group, self.address, self.index, self.source) {
            (IpAddr::V6(_), Some(_), ..) => {
                Err(MulticastWhy::Setting("an IPv6 group needs an interface's number"))
            }
            (IpAddr::V6(_), _, _, Some(_)) => {
                Err(MulticastWhy::Setting("a source can be chosen for IPv4 groups only"))
            }
            (_, Some(_), Some(_), _) => {
                Err(MulticastWhy::Setting("one interface, by its address or by its number"))
            }
            (_, _, Some(_), Some(_)) => {
                Err(MulticastWhy::Setting("with a source, the interface is chosen by its address"))
            }
            _ => Ok(()),
        }
    }

    fn apply(&self, socket: &Socket, join: bool) -> io::Result<()> {
        match self.group {
            IpAddr::V6(group) => {
                let call = if join { Socket::join_multicast_v6 } else { Socket::leave_multicast_v6 };
                call(socket, &group, self.index.unwrap_or(0))
            }
            IpAddr::V4(group) => {
                let address = self.address.unwrap_or(Ipv4Addr::UNSPECIFIED);
                if let Some(source) = self.source {
                    return with_source(socket, join, &source, &group, &address);
                }
                let interface = match self.index {
                    Some(index) => InterfaceIndexOrAddress::Index(index),
                    None => InterfaceIndexOrAddress::Address(address),
                };
                let call = if join { Socket::join_multicast_v4_n } else { Socket::leave_multicast_v4_n };
                call(socket, &group, &interface)
            }
        }
    }
}

#[cfg(not(any(
    target_os = "dragonfly",
    target_os = "haiku",
    target_os = "hurd",
    target_os = "netbsd",
    target_os = "openbsd",
    target_os = "redox",
    target_os = "fuchsia",
    target_os = "nto",
    target_os = "espidf",
    target_os = "vita",
)))]
fn with_source(
    socket: &Socket,
    join: bool,
    source: &Ipv4Addr,
    group: &Ipv4Addr,
    interface: &Ipv4Addr,
) -> io::Result<()> {
    let call = if join { Socket::join_ssm_v4 } else { Socket::leave_ssm_v4 };
    call(socket, source, group, interface)
}

#[cfg(any(
    target_os = "dragonfly",
    target_os = "haiku",
    target_os = "hurd",
    target_os = "netbsd",
    target_os = "openbsd",
    target_os = "redox",
    target_os = "fuchsia",
    target_os = "nto",
    target_os = "espidf",
    target_os = "vita",
))]
fn with_source(_: &Socket, _: bool, _: &Ipv4Addr, _: &Ipv4Addr, _: &Ipv4Addr) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

impl fmt::Display for Multicast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.group)?;
        if let Some(source) = self.source {
            write!(f, " from {source}")?;
        }
        match (self.address, self.index) {
            (Some(address), _) => write!(f, " on {address}"),
            (None, Some(index)) => write!(f, " on interface {index}"),
            (None, None) => Ok(()),
        }
    }
}

/// Why a multicast group was not joined, or not left.
///
/// ```
/// use netwright_transport::MulticastError;
///
/// fn report(error: &MulticastError) {
///     match error.io() {
///         Some(system) => eprintln!("{}: the system says {system}", error.group),
///         None => eprintln!("{error}"),
///     }
/// }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MulticastError {
    verb: &'static str,
    /// Which one.
    pub group: Multicast,
    why: MulticastWhy,
}

#[derive(Debug, Clone)]
enum MulticastWhy {
    NoGroup,
    Family(Domain),
    Setting(&'static str),
    NoSocket,
    Closed,
    System(Arc<io::Error>),
}

impl MulticastError {
    /// What the system said, if it was the system that refused.
    pub fn io(&self) -> Option<&io::Error> {
        match &self.why {
            MulticastWhy::System(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for MulticastError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: ", self.verb, self.group)?;
        match &self.why {
            MulticastWhy::NoGroup => f.write_str("it is no multicast address"),
            MulticastWhy::Family(Domain::IPV4) => f.write_str("the channel has an IPv4 socket"),
            MulticastWhy::Family(Domain::IPV6) => f.write_str("the channel has an IPv6 socket"),
            MulticastWhy::Family(_) => f.write_str("the channel is not on the network"),
            MulticastWhy::Setting(text) => f.write_str(text),
            MulticastWhy::NoSocket => f.write_str("the network of the channel's loop has no multicast"),
            MulticastWhy::Closed => f.write_str("the channel is closed"),
            MulticastWhy::System(error) => error.fmt(f),
        }
    }
}

impl Error for MulticastError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.io().map(|error| error as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_joined_is_refused_before_the_system_is_asked_and_says_why() {
        let v6 = "ff02::1".parse().unwrap();
        let v4: IpAddr = [224, 0, 0, 251].into();
        let here = Ipv4Addr::LOCALHOST;
        for (domain, group, expected) in [
            (Domain::IPV4, Multicast::group([10, 0, 0, 1].into()), "10.0.0.1: it is no multicast address"),
            (Domain::IPV4, Multicast::group(v6), "ff02::1: the channel has an IPv4 socket"),
            (Domain::IPV6, Multicast::group(v4), "224.0.0.251: the channel has an IPv6 socket"),
            (Domain::UNIX, Multicast::group(v4), "224.0.0.251: the channel is not on the network"),
            (
                Domain::IPV6,
                Multicast::group(v6).on(here),
                "ff02::1 on 127.0.0.1: an IPv6 group needs an interface's number",
            ),
            (
                Domain::IPV6,
                Multicast::group(v6).from_source(here),
                "ff02::1 from 127.0.0.1: a source can be chosen for IPv4 groups only",
            ),
            (
                Domain::IPV4,
                Multicast::group(v4).on(here).on_index(1),
                "224.0.0.251 on 127.0.0.1: one interface, by its address or by its number",
            ),
        ] {
            let socket = Socket::new(Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
            let socket = DatagramSocket::new(domain, Arc::new(socket));
            let error = socket.join(&group).unwrap_err();
            assert_eq!(error.to_string(), format!("cannot join {expected}"));
            assert!(error.io().is_none());
        }
    }

    #[test]
    fn nothing_is_asked_of_a_socket_that_was_let_go() {
        let socket = Arc::new(Socket::new(Domain::IPV4, socket2::Type::DGRAM, None).unwrap());
        let handle = DatagramSocket::new(Domain::IPV4, socket.clone());
        handle.let_go();
        assert_eq!(Arc::strong_count(&socket), 1);
        let error = handle.leave(&Multicast::group([224, 0, 0, 251].into())).unwrap_err();
        assert_eq!(error.to_string(), "cannot leave 224.0.0.251: the channel is closed");
    }
}
