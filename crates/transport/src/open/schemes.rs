//! From the text of an address to whoever can find it.

use super::{Connect, Connecting, Listen, Listener, Substitute, Transport, transport::name};
use crate::options::{ListenerOptions, StreamOptions};
use netwright_core::{Address, AddressError, LocalLoop, internal::catch};
use std::{
    fmt, future, io,
    net::Ipv6Addr,
    sync::Arc,
    task::{self, Poll},
};

/// The schemes that are built in. Names of hosts need none: `tcp` is for those that look like another scheme.
const SOCKETS: [&str; 2] = ["tcp", "unix"];
const LOCAL: &str = "local";

/// The schemes of one server or client.
#[derive(Clone)]
pub(crate) struct Schemes {
    /// In the order in which they were given.
    known: Vec<(String, Arc<dyn Transport>)>,
    /// The first one that cannot be used.
    refused: Option<SchemeError>,
}

impl Default for Schemes {
    fn default() -> Self {
        Self {
            known: vec![
                #[cfg(feature = "local")]
                (LOCAL.to_owned(), Arc::new(crate::local::LocalTransport)),
            ],
            refused: None,
        }
    }
}

/// Who finds an address.
pub(crate) enum Whereabouts<'a> {
    /// A transport that is no socket of the system.
    Open(Means, Address),
    /// A Unix socket.
    Unix(Address),
    /// A host and a port, which a resolver knows.
    Host(&'a str),
}

impl Schemes {
    /// One more scheme. What is wrong with it is told when it is used.
    pub(crate) fn add(&mut self, scheme: &str, transport: impl Transport) {
        let refused = if self.known.iter().any(|(known, _)| known == scheme && known != LOCAL) {
            Some(SchemeError::Twice { scheme: scheme.to_owned() })
        } else {
            let usable = Address::other(scheme, "name");
            usable.err().map(|error| SchemeError::Invalid { scheme: scheme.to_owned(), error })
        };
        match refused {
            Some(refused) => drop(self.refused.get_or_insert(refused)),
            None => self.known.push((scheme.to_owned(), Arc::new(transport))),
        }
    }

    /// Whether all schemes can be used.
    pub(crate) fn check(&self) -> Result<(), SchemeError> {
        self.refused.clone().map_or(Ok(()), Err)
    }

    /// Who finds this address. Asked on the loop that listens or connects: names within the process are those of its network.
    pub(crate) fn find<'a>(&self, text: &'a str) -> Result<Whereabouts<'a>, SchemeError> {
        if let Some(host) = text.strip_prefix("tcp:") {
            return Ok(Whereabouts::Host(host));
        }
        let Some((scheme, name)) = text.split_once(':') else { return Ok(Whereabouts::Host(text)) };
        let invalid = |error| SchemeError::Invalid { scheme: scheme.to_owned(), error };
        if let Some((_, transport)) = self.known.iter().find(|(known, _)| known == scheme) {
            let address = match Address::parse_prefixed(text) {
                Some(local) => local,
                None => Address::other(scheme, name),
            };
            return Ok(Whereabouts::Open(Means::new(transport), address.map_err(invalid)?));
        }
        match Address::parse_prefixed(text) {
            Some(_) if scheme == LOCAL => Err(self.unknown(text, scheme)), // built without channels within the process
            Some(unix) => Ok(Whereabouts::Unix(unix.map_err(invalid)?)),
            None if is_host(text, scheme, name) => Ok(Whereabouts::Host(text)),
            None => Err(self.unknown(text, scheme)),
        }
    }

    fn unknown(&self, text: &str, scheme: &str) -> SchemeError {
        let mut known: Vec<String> = Vec::new();
        for scheme in self.known.iter().map(|(known, _)| known.as_str()).chain(SOCKETS) {
            let at = known.partition_point(|before| before.as_str() <= scheme); // a sort of few is less code
            known.insert(at, scheme.to_owned());
        }
        SchemeError::Unknown { address: text.to_owned(), scheme: scheme.to_owned(), known }
    }
}

/// Whether a text with a colon is for a resolver to judge: a host with a port, or anything that cannot be a scheme.
fn is_host(text: &str, scheme: &str, rest: &str) -> bool {
    let a_port = rest.bytes().all(|byte| byte.is_ascii_digit());
    a_port || Address::other(scheme, "name").is_err() || text.parse::<Ipv6Addr>().is_ok()
}

/// A transport, asked with care: what it does is foreign code.
#[derive(Clone)]
pub(crate) struct Means {
    transport: Arc<dyn Transport>,
    /// In which names within the process are looked for, if there is one.
    network: Option<Substitute>,
}

impl Means {
    fn new(transport: &Arc<dyn Transport>) -> Self {
        Self { transport: transport.clone(), network: Substitute::here() }
    }

    fn scope(&self) -> u64 {
        self.network.as_ref().map_or(0, Substitute::scope)
    }

    pub(crate) fn listen(
        &self,
        address: &Address,
        listener: &ListenerOptions,
        options: &StreamOptions,
    ) -> Result<io::Result<Arc<dyn Listener>>, String> {
        if !self.transport.has_socket_options() {
            listener.check_without_socket()?;
        }
        self.check(options)?;
        let backlog = match self.network {
            Some(_) => listener.backlog_without_system(),
            None => usize::try_from(listener.listen_backlog()).unwrap_or(usize::MAX),
        };
        Ok(contained(|| {
            let scope = self.scope();
            self.transport.listen(&Listen { address, name: name(address), backlog, listener, options, scope })
        }))
    }

    /// Whether its connections can have these options.
    pub(crate) fn check(&self, options: &StreamOptions) -> Result<(), &'static str> {
        if self.transport.has_socket_options() { Ok(()) } else { options.check_without_socket() }
    }

    /// The options have been [checked](Self::check).
    pub(crate) fn connect(
        &self,
        address: &Address,
        local: &LocalLoop,
        options: &StreamOptions,
    ) -> io::Result<Connecting> {
        contained_connecting(|| {
            let scope = self.scope();
            self.transport.connect(&Connect { address, name: name(address), local, options, scope })
        })
    }
}

/// Runs what a transport does; a panic is an error.
pub(crate) fn contained<T>(code: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    catch(code).unwrap_or_else(|panic| Err(panicked(&panic)))
}

/// The same for what becomes a connection later.
pub(crate) fn contained_connecting(begin: impl FnOnce() -> Connecting) -> io::Result<Connecting> {
    let mut connecting = contained(|| Ok(begin()))?;
    let poll = move |cx: &mut task::Context<'_>| match catch(|| connecting.as_mut().poll(cx)) {
        Ok(poll) => poll,
        Err(panic) => Poll::Ready(Err(panicked(&panic))),
    };
    Ok(Box::pin(future::poll_fn(poll)))
}

fn panicked(panic: &str) -> io::Error {
    io::Error::other(format!("the transport panicked: {panic}"))
}

/// Why an address leads nowhere: its scheme.
///
/// ```
/// use netwright_core::pipeline;
/// use netwright_transport::{Client, ConnectError, open::SchemeError};
///
/// let client = Client::builder().pipeline(|| pipeline().handle(|_, _| {}))?;
/// let error = client.connect("pipe:somewhere").wait().unwrap_err();
/// assert!(matches!(error, ConnectError::Scheme(SchemeError::Unknown { .. })));
/// assert_eq!(
///     error.to_string(),
///     "\"pipe:somewhere\" is no HOST:PORT, and no transport is known by the scheme \"pipe\", only by: local, tcp, unix"
/// );
/// # Ok::<(), ConnectError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemeError {
    /// Nobody was told of it.
    Unknown {
        /// The whole address.
        address: String,
        /// What stands before its first colon.
        scheme: String,
        /// What is known here, in the order of the alphabet.
        known: Vec<String>,
    },
    /// It is no scheme, or belongs to what is built in, or the name behind it is none.
    Invalid {
        /// What was to be one.
        scheme: String,
        /// What is wrong with it, or with the name.
        error: AddressError,
    },
    /// Two transports were given for it.
    Twice {
        /// The scheme.
        scheme: String,
    },
}

impl fmt::Display for SchemeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { address, scheme, known } => {
                write!(
                    f,
                    "{address:?} is no HOST:PORT, and no transport is known by the scheme {scheme:?}, only by: {}",
                    known.join(", ")
                )?;
                if cfg!(not(feature = "local")) && scheme == "local" {
                    f.write_str(
                        "; channels within the process were left out, and the feature `local` adds them",
                    )?;
                }
                Ok(())
            }
            Self::Invalid { error, .. } => error.fmt(f),
            Self::Twice { scheme } => write!(f, "two transports were given for the scheme {scheme:?}"),
        }
    }
}

impl std::error::Error for SchemeError {}
