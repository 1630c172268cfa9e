//! Who may come in: judged where a server listens, on the loop that accepts, before any loop is asked to host a connection.
//!
//! ```text
//!   accepted ─▶ networks ─▶ most in all ─▶ most from its address ─▶ rates ─▶ the user ─▶ the user, later ─▶ a loop
//!                   │            │                  │                 │          │              │ held here meanwhile, until a deadline
//!                   └────────────┴──────────────────┴───┬─────────────┴──────────┴──────────────┘
//!                                          counted by its reason, told to the observer ─▶ words, or a reset
//! ```
//!
//! | file | what it is |
//! | --- | --- |
//! | `mod` | [`Admission`], the builder |
//! | `network`, `networks`, `access` | one network; many; who is allowed and denied |
//! | `rate` | a bucket of tokens in eight bytes |
//! | `addresses` | what is known of each address, in bounded memory |
//! | `incoming` | what the user is asked, and says |
//! | `gate` | what all acceptors of a server share, and ask |
//! | `farewell` | refusals in words |
//! | `log` | refusals in the log, not a line for each |
//! | `settings`, `control` | what may change while the server runs, and by whom |
//!
//! Not here: what holds a connection until a decision (`bootstrap/deciding.rs`), how many are accepted in one turn (`socket/accepting.rs`).

mod access;
mod addresses;
mod control;
mod farewell;
mod gate;
mod incoming;
mod log;
mod network;
mod networks;
mod rate;
mod settings;

pub use access::{AccessDenied, AccessList, LiveAccessList};
pub use control::AdmissionControl;
pub(crate) use gate::{Counted, Gate, Undecided};
pub(crate) use incoming::Decider;
pub use incoming::{Incoming, Verdict};
pub use network::{Network, NetworkError};
pub use networks::Networks;
pub use rate::AcceptRate;

use crate::bootstrap::Refusal;
use bytes::Bytes;
use incoming::Judge;
use settings::Limits;
use std::{fmt, sync::Arc, time::Duration};

/// How many connections may wait for a decision unless told otherwise: each is a descriptor, and takes its place among those that may be open.
const UNDECIDED_MAX: usize = 256;

/// What is said of refused connections.
type Words = Arc<dyn Fn(&Refusal) -> Option<Bytes> + Send + Sync>;

/// Who may come in. Given to [`ServerBuilder::admission`](crate::ServerBuilder::admission).
///
/// Everything is judged on the loop that accepts, in the order of this table, before a worker hears of the connection. Whoever is refused is counted by
/// the reason ([`ServerFigures`](crate::ServerFigures)), told to the [observer](crate::ServerObserver::refused), and reset, or
/// [told in words](Self::farewell). The log has the first of a kind, then a count for each second.
///
/// | limit | default |
/// | --- | --- |
/// | networks: [`allow`](Self::allow), [`deny`](Self::deny) | everybody |
/// | descriptors that are left to the rest of the process: [`descriptor_reserve`](Self::descriptor_reserve) | a sixteenth of the limit |
/// | connections in all: [`connections_max`](crate::ServerBuilder::connections_max) | as many as there are descriptors, but for that reserve |
/// | connections of one address: [`per_address`](Self::per_address), where an address is a [prefix](Self::prefixes) | none |
/// | how fast they come, of one address and in all: [`rate_per_address`](Self::rate_per_address), [`rate`](Self::rate) | none |
/// | what a function says: [`judge`](Self::judge), or later, [`decide`](Self::decide) | nothing |
/// | how fast they are accepted at all: [`pace`](Self::pace) | as fast as may be |
///
/// All counts are those of the server, however many loops accept. What goes by addresses does not concern peers that have none on a network, such as those of
/// Unix sockets: the rest does. Behind a proxy every address is the proxy's; what goes by a client's address is judged there by stages, when
/// the proxy has told it.
///
/// ```
/// use netwright_core::pipeline;
/// use netwright_transport::{AcceptRate, Admission, Client, Server};
///
/// let admission = Admission::new()
///     .allow("127.0.0.0/8")?
///     .deny("127.6.6.0/24")?
///     .per_address(1)
///     .rate_per_address(AcceptRate::per_second(100))
///     .farewell("421 too many connections\r\n");
/// let server = Server::builder()
///     .admission(admission)
///     .pipeline(|_| pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())))
///     .bind("127.0.0.1:0")
///     .wait()?;
///
/// let first = std::net::TcpStream::connect(server.local_addr().unwrap())?;
/// let mut second = std::net::TcpStream::connect(server.local_addr().unwrap())?;
/// let told = std::io::read_to_string(&mut second)?;
/// assert_eq!(told, "421 too many connections\r\n");
/// assert_eq!(server.figures().refused_per_address, 1);
/// # drop(first);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use = "it does nothing until a server has it"]
#[doc(alias = "rate limit")]
#[doc(alias = "connection limit")]
#[doc(alias = "IpFilter")]
pub struct Admission {
    access: LiveAccessList,
    limits: Limits,
    reserve: Option<u64>,
    judge: Option<Judge>,
    decider: Option<Decider>,
    undecided_max: usize,
    words: Option<Words>,
}

impl Admission {
    /// Everybody may come, as far as there are descriptors.
    pub fn new() -> Self {
        Self {
            access: LiveAccessList::default(),
            limits: Limits::default(),
            reserve: None,
            judge: None,
            decider: None,
            undecided_max: UNDECIDED_MAX,
            words: None,
        }
    }

    /// Allows a network, and from then on nobody who is in no allowed network. What is [denied](Self::deny) stays denied.
    ///
    /// # Errors
    /// It is no network.
    pub fn allow<N: TryInto<Network>>(self, network: N) -> Result<Self, NetworkError>
    where
        NetworkError: From<N::Error>,
    {
        self.access.replace(self.access.current().as_ref().clone().allow(network)?);
        Ok(self)
    }

    /// Denies a network, whatever is allowed.
    ///
    /// # Errors
    /// It is no network.
    pub fn deny<N: TryInto<Network>>(self, network: N) -> Result<Self, NetworkError>
    where
        NetworkError: From<N::Error>,
    {
        self.access.replace(self.access.current().as_ref().clone().deny(network)?);
        Ok(self)
    }

    /// This list in place of what was allowed and denied so far; a [`LiveAccessList`] can be changed later, for all who use it. What is allowed and denied
    /// here behind that is added to it, and so seen by all of them. Clones have their list in common, too.
    pub fn access(mut self, list: impl Into<LiveAccessList>) -> Self {
        self.access = list.into();
        self
    }

    /// How many connections of one address may be open at a time, those on their way to their loops included. Default: any number.
    #[doc(alias = "limit_conn")]
    pub fn per_address(mut self, connections: usize) -> Self {
        self.limits.per_address = Some(connections);
        self
    }

    /// How many bits of an address count as one address, of IPv4 and of IPv6. Default: 32 and 64, because whoever has one IPv6 address has a
    /// network of them.
    pub fn prefixes(mut self, v4: u8, v6: u8) -> Self {
        self.limits.prefixes = (v4.min(32), v6.min(128));
        self
    }

    /// How fast connections may come, in all; others are refused. Default: as fast as they do.
    pub fn rate(mut self, rate: AcceptRate) -> Self {
        self.limits.rate = Some(rate);
        self
    }

    /// How fast connections may come from one address; others are refused. At most 65,536 addresses without an open connection are remembered.
    /// Default: as fast as they do.
    #[doc(alias = "limit_req")]
    pub fn rate_per_address(mut self, rate: AcceptRate) -> Self {
        self.limits.rate_per_address = Some(rate);
        self
    }

    /// How fast connections are accepted: others wait in the system's queue, the [backlog](crate::ListenerOptions::backlog), and those for whom
    /// there is no room there hear nothing. Loops' timers are no finer than a millisecond, so a pace of more than a thousand in a second wants a
    /// [burst](AcceptRate::burst). Default: as fast as may be.
    pub fn pace(mut self, rate: AcceptRate) -> Self {
        self.limits.pace = Some(rate);
        self
    }

    /// Asks this function of every connection that nothing else refuses. It holds up accepting; one that panics refuses.
    ///
    /// ```
    /// use netwright_transport::{Admission, Incoming, Verdict};
    ///
    /// let from_user_ports = Admission::new().judge(|incoming: &Incoming| match incoming.peer.ip() {
    ///     Some(peer) if peer.port() < 1024 => Verdict::refuse("a port of root's"),
    ///     _ => Verdict::Admit,
    /// });
    /// # drop(from_user_ports);
    /// ```
    pub fn judge<V: Into<Verdict>>(mut self, judge: impl Fn(&Incoming) -> V + Send + Sync + 'static) -> Self {
        self.judge = Some(Arc::new(move |incoming| judge(incoming).into()));
        self
    }

    /// Asks this function last, and waits for what its future says: on the loop that accepts, which goes on accepting meanwhile. So connections are
    /// authenticated on the acceptors' loops, and a worker hears only of those who may come. Nothing is read from the connection.
    ///
    /// One that has not been decided at the `deadline` is refused, and so is one whose future panics; as many as
    /// [`undecided_max`](Self::undecided_max) may wait. They count as open connections. A server that stops listening refuses them.
    ///
    /// ```
    /// use netwright_core::time;
    /// use netwright_transport::{Admission, Incoming, Verdict};
    /// use std::time::Duration;
    ///
    /// async fn ask_the_directory(_: Incoming) -> Verdict {
    ///     time::sleep(Duration::from_millis(1)).await; // a query, say
    ///     Verdict::Admit
    /// }
    /// let admission = Admission::new().decide(Duration::from_secs(2), ask_the_directory).undecided_max(100);
    /// # drop(admission);
    /// ```
    pub fn decide<F, V>(
        mut self,
        deadline: Duration,
        ask: impl Fn(Incoming) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = V> + 'static,
        V: Into<Verdict>,
    {
        let ask = Arc::new(move |incoming| {
            let deciding = ask(incoming);
            Box::pin(async move { deciding.await.into() }) as incoming::Deciding
        });
        self.decider = Some(Decider { deadline, ask });
        self
    }

    /// How many connections may wait for a [decision](Self::decide); further ones are refused. Default: 256.
    pub fn undecided_max(mut self, connections: usize) -> Self {
        self.undecided_max = connections;
        self
    }

    /// Bytes for those who are refused because there are too many of them, because they come too fast, or because a function of the user's said so: they
    /// are written, and the connection is closed in order. Nothing that the peer sends is looked at. At most 64 are told at a time and each has a second;
    /// others are reset, and so is whoever comes from a denied network. In front of TLS nobody would understand it.
    #[doc(alias = "503")]
    pub fn farewell(self, words: impl Into<Bytes>) -> Self {
        let words = words.into();
        self.farewell_for(move |why| why.is_for_load_or_judged().then(|| words.clone()))
    }

    /// [`farewell`](Self::farewell) by the reason. Those for whom there are no words are reset.
    ///
    /// ```
    /// use netwright_transport::{Admission, Refusal};
    ///
    /// let admission = Admission::new().per_address(8).farewell_for(|why| match why {
    ///     Refusal::AddressFull { connections_max, .. } => Some(format!("421 no more than {connections_max}\r\n").into()),
    ///     Refusal::Full { .. } => Some("421 try again later\r\n".into()),
    ///     _ => None,
    /// });
    /// # drop(admission);
    /// ```
    pub fn farewell_for(mut self, words: impl Fn(&Refusal) -> Option<Bytes> + Send + Sync + 'static) -> Self {
        self.words = Some(Arc::new(words));
        self
    }

    /// How many descriptors connections leave to the rest of the process: one that would take one of the last is refused, whoever has the others. Default: a
    /// sixteenth of the process' limit, at most 1,024, and none where the limit is below 256. With 0 they may take all, and accepting rests for a second
    /// whenever there is none left. Where the system has no such limit, as Windows, nothing is kept.
    #[doc(alias = "ulimit")]
    pub fn descriptor_reserve(mut self, descriptors: u64) -> Self {
        self.reserve = Some(descriptors);
        self
    }
}

impl Default for Admission {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission")
            .field("access", &self.access.current())
            .field("limits", &self.limits)
            .field("judges", &self.judge.is_some())
            .field("decides_within", &self.decider.as_ref().map(|decider| decider.deadline))
            .finish_non_exhaustive()
    }
}
