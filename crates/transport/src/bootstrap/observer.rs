//! Looking on at the listening side of a server.

use super::ListenEnd;
use crate::{
    admission::{AcceptRate, AccessDenied, Network},
    blocking::ThreadError,
    socket::ListenerFigures,
};
use netwright_core::{Address, WeakEventLoop, internal::catch};
use std::{
    borrow::Cow,
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Looks on while a server listens: what it is bound to, who is accepted, who is refused and why, when it is over.
/// Given to [`ServerBuilder::observer`](super::ServerBuilder::observer).
///
/// Every method is called on the loop that accepts, for each loop that does: a server with two accepting loops has two
/// listeners for each address, and both are told of. Only that a loop has died is told when it is none any more, on its thread.
/// What is slow here holds up accepting. A panic is told in the log and changes nothing else. `at` is always the address that
/// is listened on.
///
/// A connection that is `accepted` may be `refused` afterwards, when no loop takes it. One that is refused because the process
/// has no descriptor left was not accepted before.
///
/// ```
/// use netwright_core::{Address, pipeline};
/// use netwright_transport::{Client, Refusal, Server, ServerObserver};
/// use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
///
/// /// Counts who comes, and says who was sent away.
/// struct Doorkeeper(Arc<AtomicU64>);
///
/// impl ServerObserver for Doorkeeper {
///     fn bound(&self, at: &Address) {
///         println!("listening on {at}");
///     }
///     fn accepted(&self, _: &Address, _: &Address) {
///         self.0.fetch_add(1, Ordering::Relaxed);
///     }
///     fn refused(&self, at: &Address, peer: &Address, why: &Refusal) {
///         eprintln!("{peer} was refused by {at}: {why}");
///     }
/// }
///
/// let guests = Arc::new(AtomicU64::new(0));
/// let server = Server::builder()
///     .observer(Doorkeeper(guests.clone()))
///     .pipeline(|_| pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())))
///     .bind("local:with-a-doorkeeper")
///     .wait()?;
/// let client = Client::builder().pipeline(|| pipeline().handle(|_, _| {}))?;
/// let _channel = client.connect(server.address()).wait()?;
/// server.shutdown_now().wait()?;
/// assert_eq!(guests.load(Ordering::Relaxed), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[allow(unused_variables)]
pub trait ServerObserver: Send + Sync + 'static {
    /// A listener is open. Told again when one is opened on the successor of a loop that died.
    fn bound(&self, at: &Address) {}

    /// A connection has been accepted; its pipeline has not been made yet.
    fn accepted(&self, at: &Address, peer: &Address) {}

    /// A connection has been refused. Its peer may know already.
    fn refused(&self, at: &Address, peer: &Address, why: &Refusal) {}

    /// Accepting failed. `pause`: how long it rests for that reason; none if it concerned a single connection, which was gone
    /// before it was accepted.
    fn accept_failed(&self, at: &Address, error: &io::Error, pause: Option<Duration>) {}

    /// A listener is closed, and why. The server may have others: [`Server::closed`](super::Server::closed) tells of the last.
    fn closed(&self, at: &Address, cause: &ListenEnd) {}
}

/// Why a connection was refused.
///
/// ```
/// use netwright_transport::Refusal;
///
/// let why = Refusal::Stalled { waiting_max: 1024 };
/// assert_eq!(why.to_string(), "1024 connections wait for every loop that could host it");
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Refusal {
    /// The process has no descriptor left.
    NoDescriptor,
    /// Every connection has a thread of its own, and there is none for this one.
    NoThread(ThreadError),
    /// Every loop that could host it has ended, or ended while it waited.
    LoopsEnded,
    /// As many connections as are allowed ([`waiting_max`](super::ServerBuilder::waiting_max)) wait for every loop.
    Stalled {
        /// How many may wait for one loop.
        waiting_max: usize,
    },
    /// As many connections as are allowed ([`connections_max`](super::ServerBuilder::connections_max)) are open.
    Full {
        /// How many may be open.
        connections_max: usize,
    },
    /// Its network may not come in ([`Admission::deny`](crate::Admission::deny), [`allow`](crate::Admission::allow)).
    Denied(AccessDenied),
    /// As many connections of its address as are allowed ([`Admission::per_address`](crate::Admission::per_address)) are open.
    AddressFull {
        /// What counts as its address.
        network: Network,
        /// How many may be open.
        connections_max: usize,
    },
    /// Connections come faster than they may ([`Admission::rate`](crate::Admission::rate),
    /// [`rate_per_address`](crate::Admission::rate_per_address)).
    TooFast {
        /// How fast they may come.
        rate: AcceptRate,
        /// What counts as its address, if it is too fast by itself.
        network: Option<Network>,
    },
    /// It would have taken one of the last descriptors of the process
    /// ([`Admission::descriptor_reserve`](crate::Admission::descriptor_reserve)).
    Reserved {
        /// How many descriptors there may be.
        limit: u64,
        /// How many are left to the rest of the process.
        reserve: u64,
    },
    /// A function of the user's said so ([`Admission::judge`](crate::Admission::judge), [`decide`](crate::Admission::decide)), for
    /// this reason; or it panicked.
    Judged(Cow<'static, str>),
    /// Nobody had [decided](crate::Admission::decide) about it in time.
    Undecided {
        /// How long was waited.
        deadline: Duration,
    },
    /// As many connections as may ([`Admission::undecided_max`](crate::Admission::undecided_max)) waited for a decision.
    UndecidedFull {
        /// How many may wait.
        undecided_max: usize,
    },
    /// The server stopped listening while it waited for a [decision](crate::Admission::decide).
    StoppedListening,
    /// Its options could not be set, or its loop could not take it.
    Setup(Arc<io::Error>),
    /// The function that makes the pipeline panicked, with these words.
    Panicked(String),
}

impl Refusal {
    /// Where such refusals are counted.
    pub(super) fn counter<'a>(&self, figures: &'a ListenerFigures) -> Option<&'a AtomicU64> {
        match self {
            Self::NoDescriptor | Self::NoThread(_) | Self::Reserved { .. } => Some(&figures.refused),
            Self::LoopsEnded => Some(&figures.refused_ended),
            Self::Stalled { .. } => Some(&figures.refused_stalled),
            Self::Full { .. } => Some(&figures.refused_full),
            Self::Denied(_) => Some(&figures.refused_denied),
            Self::AddressFull { .. } => Some(&figures.refused_per_address),
            Self::TooFast { .. } => Some(&figures.refused_too_fast),
            Self::Judged(_) => Some(&figures.refused_judged),
            Self::Undecided { .. } | Self::UndecidedFull { .. } | Self::StoppedListening => {
                Some(&figures.refused_undecided)
            }
            Self::Setup(_) | Self::Panicked(_) => None,
        }
    }

    /// What it is called where many of a kind are counted.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::NoDescriptor | Self::Reserved { .. } => "no descriptor",
            Self::NoThread(_) => "no thread",
            Self::LoopsEnded => "loops have ended",
            Self::Stalled { .. } => "too many wait for every loop",
            Self::Full { .. } => "too many in all",
            Self::Denied(_) => "network",
            Self::AddressFull { .. } => "too many of one address",
            Self::TooFast { .. } => "too fast",
            Self::Judged(_) => "judged",
            Self::Undecided { .. } | Self::UndecidedFull { .. } | Self::StoppedListening => "not decided",
            Self::Setup(_) | Self::Panicked(_) => "not set up",
        }
    }

    /// Whether a peer that behaves may hear of it, too: there is too much to do, or the user said so.
    pub(crate) fn is_for_load_or_judged(&self) -> bool {
        matches!(
            self,
            Self::Stalled { .. }
                | Self::Full { .. }
                | Self::AddressFull { .. }
                | Self::TooFast { .. }
                | Self::Judged(_)
                | Self::Undecided { .. }
                | Self::UndecidedFull { .. }
                | Self::NoThread(_)
        )
    }

    pub(super) fn count(&self, figures: &ListenerFigures) {
        if let Some(counter) = self.counter(figures) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDescriptor => f.write_str("the process has no descriptor left"),
            Self::NoThread(error) => error.fmt(f),
            Self::LoopsEnded => f.write_str("its loop has ended"),
            Self::Stalled { waiting_max } => {
                write!(f, "{waiting_max} connections wait for every loop that could host it")
            }
            Self::Full { connections_max } => {
                write!(f, "{connections_max} connections are open, and no more are allowed")
            }
            Self::Denied(why) => why.fmt(f),
            Self::AddressFull { network, connections_max } => {
                write!(f, "{connections_max} connections of {network} are open, and no more are allowed")
            }
            Self::TooFast { rate, network: Some(network) } => {
                write!(f, "connections of {network} come faster than {rate}")
            }
            Self::TooFast { rate, network: None } => write!(f, "connections come faster than {rate}"),
            Self::Reserved { limit, reserve } => {
                write!(f, "of {limit} descriptors the last {reserve} are not for connections")
            }
            Self::Judged(reason) => write!(f, "it was judged: {reason}"),
            Self::Undecided { deadline } => write!(f, "nobody had decided about it within {deadline:?}"),
            Self::UndecidedFull { undecided_max } => {
                write!(f, "{undecided_max} connections wait for a decision, and no more are allowed")
            }
            Self::StoppedListening => {
                f.write_str("the server stopped listening while it waited for a decision")
            }
            Self::Setup(error) => write!(f, "it could not be set up: {error}"),
            Self::Panicked(panic) => write!(f, "the function that makes the pipeline panicked: {panic}"),
        }
    }
}

impl std::error::Error for Refusal {}

/// An observer of one listener.
pub(super) struct Watch {
    observer: Arc<dyn ServerObserver>,
    at: Address,
    /// The loop that accepts.
    home: WeakEventLoop,
}

impl Watch {
    pub(super) fn new(observer: Arc<dyn ServerObserver>, at: Address, home: WeakEventLoop) -> Arc<Self> {
        Arc::new(Self { observer, at, home })
    }

    /// Tells the observer something, on the calling thread.
    pub(super) fn tell(&self, call: impl FnOnce(&dyn ServerObserver, &Address)) {
        if let Err(panic) = catch(|| call(&*self.observer, &self.at)) {
            let _ = catch(|| tracing::error!(at = %self.at, panic, "an observer of a server panicked"));
        }
    }

    /// Tells of a refusal, on the loop that accepts while there is one.
    pub(super) fn refused(self: Arc<Self>, peer: Address, why: Refusal) {
        let here = match self.home.upgrade() {
            Some(home) if !home.in_event_loop() => Some(home),
            _ => None,
        };
        let tell = move || self.tell(|observer, at| observer.refused(at, &peer, &why));
        match here {
            Some(home) => {
                if let Err(refused) = home.execute(tell) {
                    (refused.task)();
                }
            }
            None => tell(),
        }
    }
}
