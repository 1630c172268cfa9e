//! From a name to addresses, away from the loop, and the order in which to try them.
//!
//! ```text
//!   "[::1]:80"        ──▶ parsed ─────────────────────────────▶ Promised, done already
//!   "example.org:80"  ──▶ in line for one of the process's few threads: the system's resolver ─▶ Promised<Vec<SocketAddr>>
//!                                                   └─ interleave ─▶ v6 v4 v6 v4 …  (RFC 8305)
//! ```
//! Always true:
//! 1. A literal address needs no thread and is there at once.
//! 2. A list that is resolved is not empty, names no address twice, and is in the resolver's order.
//! 3. Errors name the input as it was given.
//! 4. On a loop with a network in place of the system's, the names are that network's.
//! 5. However many clients, servers and hosts there are, their names share as many threads as [`THREADS`] says, and no more
//!    than [`WAITING_MAX`] of them wait for one, in the order in which they came.
//!
//! Not here: connecting, and the delay between two attempts (transports); caching (the system's own resolver does it).

use crate::open::Substitute;
use netwright_core::{
    LocalLoop, Promise, PromiseError, Promised, RefusedWhy, Workers, WorkersError, internal::catch, promise,
};
use std::{
    collections::HashSet,
    error::Error,
    fmt, io,
    net::{SocketAddr, ToSocketAddrs},
    sync::{Arc, Mutex, PoisonError},
};

/// Turns `host:port` into addresses. Implement it to bring a resolver of your own; [`Resolver`] is the system's.
///
/// ```
/// use netwright_core::Promised;
/// use netwright_transport::{Resolve, ResolveError};
/// use std::{net::SocketAddr, sync::Arc};
///
/// /// Everybody lives at home.
/// struct Home;
///
/// impl Resolve for Home {
///     fn resolve(&self, name: &str) -> Promised<Vec<SocketAddr>, ResolveError> {
///         let port = name.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
///         Promised::ready(match port {
///             Some(port) => Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))]),
///             None => Err(ResolveError::malformed(name, "host:port")),
///         })
///     }
/// }
///
/// let resolver: Arc<dyn Resolve> = Arc::new(Home);
/// assert_eq!(resolver.resolve("example.org:80").wait().unwrap(), ["127.0.0.1:80".parse().unwrap()]);
/// ```
pub trait Resolve: Send + Sync + 'static {
    /// The addresses of `name`, in the order of preference; called on loops, so it must not block.
    fn resolve(&self, name: &str) -> Promised<Vec<SocketAddr>, ResolveError>;
}

/// A function is a resolver.
impl<F> Resolve for F
where
    F: Fn(&str) -> Promised<Vec<SocketAddr>, ResolveError> + Send + Sync + 'static,
{
    fn resolve(&self, name: &str) -> Promised<Vec<SocketAddr>, ResolveError> {
        self(name)
    }
}

/// Asks a resolver. It may be a user's, and what it throws is its answer.
pub(crate) async fn look_up(resolver: &dyn Resolve, name: &str) -> Result<Vec<SocketAddr>, ResolveError> {
    match catch(|| resolver.resolve(name)) {
        Ok(looking) => looking.await,
        Err(panic) => Err(ResolveError::Panicked { name: name.to_owned(), panic }),
    }
}

/// Threads that look names up, for the whole process. A name server that does not answer holds one for many seconds, and
/// the names behind it should not have to wait for that.
const THREADS: usize = 8;
/// Names that may wait for one of these threads: as many as a busy proxy asks for in the seconds in which a name server is
/// out of order, and too few to be a burden.
const WAITING_MAX: usize = 4096;

/// The system's resolver, which blocks, on threads that may. Asked on a loop whose driver brought a [network](crate::open::Network) along,
/// it is that network's.
///
/// A handle: clones are the same resolver. All that [`new`](Self::new) makes share eight threads of the process, and up to
/// 4,096 names wait for one of them; one more is refused, and the error names this limit. For others there is
/// [`on`](Self::on).
///
/// ```
/// use netwright_transport::{Resolve, Resolver};
///
/// # fn main() -> Result<(), netwright_transport::ResolveError> {
/// let resolver = Resolver::new();
/// assert_eq!(resolver.resolve("127.0.0.1:80").wait()?, ["127.0.0.1:80".parse().unwrap()]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Resolver {
    /// None: those of the process.
    workers: Option<Workers>,
}

impl Resolver {
    /// A resolver on the threads that the whole process shares, which start with the first name that is not a literal
    /// address.
    pub fn new() -> Self {
        Self::default()
    }

    /// A resolver that uses threads of others.
    pub fn on(workers: Workers) -> Self {
        Self { workers: Some(workers) }
    }

    fn workers(&self) -> Result<Workers, WorkersError> {
        /// Empty until they are needed, and again if they could not be started.
        static SHARED: Mutex<Option<Workers>> = Mutex::new(None);
        if let Some(workers) = &self.workers {
            return Ok(workers.clone());
        }
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        match &*shared {
            Some(workers) => Ok(workers.clone()),
            None => Ok(shared.insert(start_workers("resolver")?).clone()),
        }
    }

    fn start(&self, target: Target) -> Result<Promised<Vec<SocketAddr>, ResolveError>, ResolveError> {
        let name = target.name.clone();
        let workers =
            self.workers().map_err(|error| ResolveError::unresolvable(&name, io::Error::other(error)))?;
        let (promise, promised) = promise();
        workers
            .execute(move || target.look_up(promise))
            .map_err(|refused| ResolveError::Refused { name, why: refused.why })?;
        Ok(promised)
    }
}

fn start_workers(name: &str) -> Result<Workers, WorkersError> {
    Workers::builder().threads(THREADS).max_pending(WAITING_MAX).name(name).build()
}

impl Resolve for Resolver {
    /// Resolves on a worker thread, which also runs the promise's listeners; a literal address at once. Cancelling
    /// works as long as no thread has started on it.
    fn resolve(&self, name: &str) -> Promised<Vec<SocketAddr>, ResolveError> {
        if let Ok(literal) = name.parse() {
            return Promised::ready(Ok(vec![literal]));
        }
        let local = LocalLoop::current();
        let network = local.and_then(|local| Substitute::of(&local).map(|network| (local, network)));
        Target::parse(name)
            .and_then(|target| match network {
                Some((local, network)) => target.look_up_in(&local, network),
                None => self.start(target),
            })
            .unwrap_or_else(|error| Promised::ready(Err(error)))
    }
}

/// A name taken apart, not yet looked up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target {
    name: String,
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Target {
    pub(crate) fn parse(name: &str) -> Result<Self, ResolveError> {
        let malformed = |expected| ResolveError::malformed(name, expected);
        let (host, port) = name.rsplit_once(':').ok_or_else(|| malformed("host:port"))?;
        let port = port.parse().map_err(|_| malformed("host:port with a port from 0 to 65535"))?;
        // In brackets: an IPv6 address with a zone by name, which only the system can translate.
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(inner) => inner,
            None if host.contains(':') => return Err(malformed("an IPv6 address in brackets: [host]:port")),
            None => host,
        };
        if host.is_empty() {
            return Err(malformed("host:port with a host"));
        }
        Ok(Self { name: name.to_owned(), host: host.to_owned(), port })
    }

    fn look_up(self, mut promise: Promise<Vec<SocketAddr>, ResolveError>) {
        if !promise.claim() {
            return; // nobody waits any more
        }
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        promise.complete(self.judge(found));
    }

    /// Asks the network that stands in for the system's on this loop.
    fn look_up_in(
        self,
        local: &LocalLoop,
        network: Substitute,
    ) -> Result<Promised<Vec<SocketAddr>, ResolveError>, ResolveError> {
        let name = self.name.clone();
        let (promise, promised) = promise();
        let looking = async move {
            let found = network.look_up(&self.host, self.port).await;
            promise.complete(match found {
                Ok(found) => self.judge(found),
                Err(panic) => Err(ResolveError::Panicked { name: self.name, panic }),
            });
        };
        match local.spawn(looking) {
            Ok(_) => Ok(promised),
            Err(refused) => Err(ResolveError::Refused { name, why: refused.why }),
        }
    }

    fn judge(
        &self,
        found: io::Result<impl IntoIterator<Item = SocketAddr>>,
    ) -> Result<Vec<SocketAddr>, ResolveError> {
        let found = found.and_then(|found| {
            let mut seen = HashSet::new();
            let addresses: Vec<_> = found.into_iter().filter(|address| seen.insert(*address)).collect();
            if addresses.is_empty() { Err(io::Error::other("it has no address")) } else { Ok(addresses) }
        });
        found.map_err(|error| ResolveError::unresolvable(&self.name, error))
    }
}

/// Why a name has no addresses for us.
///
/// ```
/// use netwright_core::pipeline;
/// use netwright_transport::{Client, ConnectError, ResolveError};
///
/// let client = Client::builder().pipeline(|| pipeline().handle(|_, _| {}))?;
/// let error = client.connect("no port").wait().unwrap_err();
/// assert!(matches!(error, ConnectError::Resolve(ResolveError::Malformed { .. })), "{error}");
/// # Ok::<(), ConnectError>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ResolveError {
    /// It is not of the form `host:port`; the call site is enough to fix it.
    Malformed {
        /// What was given.
        name: String,
        /// What would do.
        expected: &'static str,
    },
    /// The resolver knows no address for it, or got no answer. Trying again later may help.
    Unresolvable {
        /// What was given.
        name: String,
        /// What the resolver said.
        error: Arc<io::Error>,
    },
    /// The worker threads took no more work.
    Refused {
        /// What was given.
        name: String,
        /// Why they did not.
        why: RefusedWhy,
    },
    /// A resolver of somebody's own panicked.
    Panicked {
        /// What was given.
        name: String,
        /// What it said.
        panic: String,
    },
    /// The promise itself failed: cancelled, abandoned, or waited for on a loop.
    Promise(PromiseError),
}

impl ResolveError {
    /// For resolvers: `name` is not of the form that they take.
    pub fn malformed(name: &str, expected: &'static str) -> Self {
        Self::Malformed { name: name.to_owned(), expected }
    }

    /// For resolvers: `name` has no address, or none could be found out.
    pub fn unresolvable(name: &str, error: io::Error) -> Self {
        Self::Unresolvable { name: name.to_owned(), error: Arc::new(error) }
    }
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { name, expected } => write!(f, "malformed name {name:?}: expected {expected}"),
            Self::Unresolvable { name, error } => write!(f, "unresolvable name {name:?}: {error}"),
            Self::Refused { name, why } => write!(f, "the name {name:?} could not be looked up: {why}"),
            Self::Panicked { name, panic } => {
                write!(f, "the resolver that was asked for {name:?} panicked: {panic}")
            }
            Self::Promise(error) => write!(f, "the lookup has no result: {error}"),
        }
    }
}

impl Error for ResolveError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unresolvable { error, .. } => Some(&**error),
            Self::Promise(error) => Some(error),
            Self::Malformed { .. } | Self::Refused { .. } | Self::Panicked { .. } => None,
        }
    }
}

impl From<PromiseError> for ResolveError {
    fn from(error: PromiseError) -> Self {
        Self::Promise(error)
    }
}

impl From<ResolveError> for io::Error {
    fn from(error: ResolveError) -> Self {
        let kind = match &error {
            ResolveError::Malformed { .. } => io::ErrorKind::InvalidInput,
            ResolveError::Unresolvable { error, .. } => error.kind(),
            ResolveError::Refused { .. } | ResolveError::Panicked { .. } | ResolveError::Promise(_) => {
                io::ErrorKind::Other
            }
        };
        io::Error::new(kind, error)
    }
}

/// Which addresses to try first.
///
/// ```
/// use netwright_transport::{FamilyPreference, interleave};
/// use std::net::SocketAddr;
///
/// let found: Vec<SocketAddr> = ["127.0.0.1:80", "127.0.0.2:80", "[::1]:80"].iter().map(|text| text.parse().unwrap()).collect();
/// let order = interleave(&found, FamilyPreference::V6);
/// assert!(order[0].is_ipv6() && order[1].is_ipv4());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FamilyPreference {
    /// Those of the family that the resolver put first: it knows the machine's own rules (RFC 6724).
    #[default]
    AsResolved,
    /// IPv6.
    V6,
    /// IPv4.
    V4,
}

/// The order in which to try addresses, by RFC 8305, section 4: one of the preferred family, one of the other, and so
/// on, so that a family that does not work costs one attempt and not all of its addresses. Within a family the order
/// stays.
///
/// ```
/// use netwright_transport::{FamilyPreference, interleave};
///
/// let resolved = ["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1"].map(|address| address.parse().unwrap());
/// let order = interleave(&resolved, FamilyPreference::AsResolved);
/// assert_eq!(order, ["[::1]:1", "1.1.1.1:1", "[::2]:1", "[::3]:1"].map(|address| address.parse().unwrap()));
/// ```
pub fn interleave(addresses: &[SocketAddr], first: FamilyPreference) -> Vec<SocketAddr> {
    let v6_first = match first {
        FamilyPreference::AsResolved => addresses.first().is_some_and(SocketAddr::is_ipv6),
        FamilyPreference::V6 => true,
        FamilyPreference::V4 => false,
    };
    let mut preferred = addresses.iter().filter(|address| address.is_ipv6() == v6_first);
    let mut others = addresses.iter().filter(|address| address.is_ipv6() != v6_first);
    let mut order = Vec::with_capacity(addresses.len());
    while order.len() < addresses.len() {
        order.extend(preferred.next());
        order.extend(others.next());
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use netwright_core::EventLoop;
    use std::{sync::mpsc, time::Duration};

    fn addresses<const N: usize>(texts: [&str; N]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    /// One that would have to refuse what needs a thread.
    fn without_threads() -> Resolver {
        let workers = Workers::new(1).unwrap();
        workers.shutdown_gracefully(Duration::MAX).wait().unwrap();
        Resolver::on(workers)
    }

    #[test]
    fn families_alternate_and_keep_their_own_order() {
        use FamilyPreference::{AsResolved, V4, V6};
        let mixed = addresses(["1.0.0.1:1", "1.0.0.2:1", "1.0.0.3:1", "[::1]:1", "[::2]:1"]);
        let v4_first = addresses(["1.0.0.1:1", "[::1]:1", "1.0.0.2:1", "[::2]:1", "1.0.0.3:1"]);
        assert_eq!(interleave(&mixed, AsResolved), v4_first);
        assert_eq!(interleave(&mixed, V4), v4_first);
        let v6_first = addresses(["[::1]:1", "1.0.0.1:1", "[::2]:1", "1.0.0.2:1", "1.0.0.3:1"]);
        assert_eq!(interleave(&mixed, V6), v6_first);

        let only_v4 = addresses(["1.0.0.1:1", "1.0.0.2:1"]);
        for first in [AsResolved, V4, V6] {
            assert_eq!(interleave(&only_v4, first), only_v4);
            assert_eq!(interleave(&[], first), []);
        }
    }

    #[test]
    fn a_literal_address_is_there_at_once_and_starts_no_thread() {
        let resolver = without_threads();
        for literal in ["127.0.0.1:80", "[::1]:443", "[fe80::1%3]:1"] {
            let promised = &mut resolver.resolve(literal);
            assert_eq!(promised.try_take().unwrap().unwrap(), addresses([literal]));
        }
    }

    #[test]
    fn localhost_is_found_on_a_worker_and_names_no_address_twice() {
        let resolver = Resolver::new();
        let found = resolver.resolve("localhost:80").wait().unwrap();
        assert!(!found.is_empty());
        assert!(found.iter().all(|address| address.ip().is_loopback() && address.port() == 80), "{found:?}");
        assert_eq!(found.iter().collect::<HashSet<_>>().len(), found.len());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn many_clients_look_names_up_on_the_same_few_threads() {
        use netwright_core::pipeline;
        let group = crate::event_loops(1).unwrap();
        let clients: Vec<_> = (0..20)
            .map(|_| {
                let builder = crate::Client::builder().group(group.clone());
                builder.pipeline(|| pipeline().handle(|_, _| {})).unwrap()
            })
            .collect();
        for (number, client) in clients.iter().enumerate() {
            // Refused by the system without asking the network.
            let name = format!("{}{number}.invalid:80", "x".repeat(64));
            client.connect(name).wait().unwrap_err();
        }
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        assert_eq!(names.filter(|name| name.starts_with("resolver-")).count(), THREADS);
    }

    #[test]
    fn a_name_too_many_is_refused_with_the_limit_and_those_that_wait_are_looked_up_in_order() {
        let workers = Workers::builder().threads(1).max_pending(3).build().unwrap();
        let (begun, running) = mpsc::channel::<()>();
        let (go, wait) = mpsc::channel::<()>();
        let busy = move || {
            begun.send(()).unwrap();
            wait.recv().unwrap();
        };
        workers.execute(busy).unwrap();
        running.recv().unwrap();
        let resolver = Resolver::on(workers);
        let (sent, done) = mpsc::channel();
        for port in 1..=3 {
            let sent = sent.clone();
            resolver.resolve(&format!("localhost:{port}")).listen(move |_| sent.send(port).unwrap());
        }
        let error = resolver.resolve("localhost:4").wait().unwrap_err().to_string();
        assert!(error.contains("localhost:4") && error.contains("limit is 3"), "{error}");
        go.send(()).unwrap();
        assert_eq!(done.iter().take(3).collect::<Vec<i32>>(), [1, 2, 3]);
    }

    #[test]
    fn what_all_resolvers_share_is_bounded() {
        let workers = start_workers("bounded").unwrap();
        let (go, wait) = mpsc::channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        let (begun, running) = mpsc::channel::<()>();
        for _ in 0..THREADS {
            let (wait, begun) = (wait.clone(), begun.clone());
            let busy = move || {
                begun.send(()).unwrap();
                let _ = wait.lock().unwrap_or_else(PoisonError::into_inner).recv(); // until it is hung up
            };
            workers.execute(busy).unwrap();
        }
        // The first of them has the lock and the others wait for it: all are busy.
        (0..THREADS).for_each(|_| running.recv().unwrap());
        let resolver = Resolver::on(workers);
        let waiting: Vec<_> = (0..WAITING_MAX).map(|_| resolver.resolve("localhost:1")).collect();
        let error = resolver.resolve("localhost:2").wait().unwrap_err().to_string();
        assert!(error.contains("localhost:2") && error.contains("limit is 4096"), "{error}");
        assert!(waiting.iter().all(Promised::cancel));
        drop(go);
    }

    #[test]
    fn a_loop_may_ask_and_is_answered_by_a_listener() {
        let workers = Workers::new(1).unwrap();
        let (resolver, event_loop) = (Resolver::on(workers), EventLoop::new());
        let (sent, answer) = mpsc::channel();
        event_loop
            .execute(move || {
                resolver.resolve("localhost:7").listen(move |found| sent.send(found.clone()).unwrap());
            })
            .unwrap();
        assert_eq!(answer.recv_timeout(Duration::from_secs(60)).unwrap().unwrap()[0].port(), 7);
    }

    #[test]
    fn what_is_no_name_is_refused_with_what_would_be() {
        let resolver = without_threads();
        for (name, expected) in [
            ("localhost", "host:port"),
            ("", "host:port"),
            (":80", "host:port with a host"),
            ("[]:80", "host:port with a host"),
            ("localhost:", "host:port with a port from 0 to 65535"),
            ("localhost:http", "host:port with a port from 0 to 65535"),
            ("localhost:65536", "host:port with a port from 0 to 65535"),
            ("::1:80", "an IPv6 address in brackets: [host]:port"),
        ] {
            let error = resolver.resolve(name).wait().unwrap_err();
            assert_eq!(error.to_string(), format!("malformed name {name:?}: expected {expected}"));
        }
    }

    #[test]
    fn an_address_with_a_named_zone_goes_to_the_system_without_its_brackets() {
        let target = Target::parse("[fe80::1%eth0]:80").unwrap();
        assert_eq!((target.host.as_str(), target.port), ("fe80::1%eth0", 80));
    }

    #[test]
    fn an_unresolvable_name_is_named() {
        // A label is 63 bytes at most: the system refuses without asking the network.
        let name = format!("{}.invalid:80", "x".repeat(64));
        let error = Resolver::new().resolve(&name).wait().unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with(&format!("unresolvable name {name:?}: ")), "{text}");
        assert!(text.len() > format!("unresolvable name {name:?}: ").len(), "{text}");
        assert!(error.source().is_some());
    }

    #[test]
    fn a_pool_that_takes_no_work_is_an_error_that_names_the_input() {
        let workers = Workers::new(1).unwrap();
        let resolver = Resolver::on(workers.clone());
        workers.shutdown_gracefully(Duration::MAX).wait().unwrap();
        let error = resolver.resolve("localhost:80").wait().unwrap_err();
        assert!(
            matches!(&error, ResolveError::Refused { name, why: RefusedWhy::ShutDown } if name == "localhost:80")
        );
    }

    #[test]
    fn a_lookup_cancelled_before_its_thread_begins_is_not_done() {
        let workers = Workers::new(1).unwrap();
        let (go, wait) = mpsc::channel::<()>();
        workers.execute(move || wait.recv().unwrap()).unwrap();
        let mut promised = Resolver::on(workers).resolve("localhost:80");
        assert!(promised.cancel());
        go.send(()).unwrap();
        assert!(matches!(promised.wait(), Err(ResolveError::Promise(PromiseError::Cancelled))));
    }

    #[test]
    fn a_function_is_a_resolver() {
        let resolver: Arc<dyn Resolve> =
            Arc::new(|name: &str| Promised::ready(Err(ResolveError::malformed(name, "nothing at all"))));
        let error = resolver.resolve("x").wait().unwrap_err();
        assert_eq!(error.to_string(), "malformed name \"x\": expected nothing at all");
        assert_eq!(io::Error::from(error).kind(), io::ErrorKind::InvalidInput);
    }
}
