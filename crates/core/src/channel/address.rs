//! Where the two ends of a channel are: on the network, in the file system, or in this process.

use std::{fmt, net::SocketAddr, path::Path, str::FromStr, sync::Arc};

/// The address of one end of a channel.
///
/// ```
/// use netwright_core::Address;
///
/// assert_eq!("127.0.0.1:80".parse::<Address>()?.to_string(), "127.0.0.1:80");
/// assert_eq!("unix:/run/app.sock".parse::<Address>()?.to_string(), "unix:/run/app.sock");
/// assert_eq!("unix:@app".parse::<Address>()?.to_string(), "unix:@app");
/// assert_eq!("local:app".parse::<Address>()?.to_string(), "local:app");
/// assert!("localhost".parse::<Address>().is_err()); // names are a resolver's business
/// # Ok::<(), netwright_core::AddressError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Address {
    /// A host and a port.
    Ip(SocketAddr),
    /// A socket of this machine.
    Unix(UnixName),
    /// A name in this process, for channels that never leave it.
    Local(Arc<str>),
    /// A place that only another transport knows how to find.
    Other(OtherAddress),
}

/// An address of a transport that is not built in: its scheme, and a name that means something to that transport alone.
///
/// ```
/// use netwright_core::Address;
///
/// let address = Address::other("vsock", "2:5000")?;
/// let Address::Other(other) = &address else { unreachable!() };
/// assert_eq!((other.scheme(), other.name(), address.to_string().as_str()), ("vsock", "2:5000", "vsock:2:5000"));
/// # Ok::<(), netwright_core::AddressError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OtherAddress {
    /// Both, with the colon between them: an address is to take no more room for it.
    text: Arc<str>,
}

impl OtherAddress {
    /// What stands before the first colon.
    pub fn scheme(&self) -> &str {
        self.parts().0
    }

    /// What stands behind it.
    pub fn name(&self) -> &str {
        self.parts().1
    }

    fn parts(&self) -> (&str, &str) {
        self.text.split_once(':').unwrap_or((&self.text, ""))
    }
}

/// What a Unix socket is called.
///
/// ```
/// use netwright_core::{Address, UnixName};
///
/// let address: Address = "unix:@chat".parse()?;
/// assert_eq!(address, Address::Unix(UnixName::Abstract(b"chat".as_slice().into())));
/// # Ok::<(), netwright_core::AddressError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UnixName {
    /// A file.
    Path(Arc<Path>),
    /// A name that is no file and vanishes with its socket; Linux has these.
    Abstract(Arc<[u8]>),
    /// Nothing: a client that did not bind, or one end of a pair.
    Unnamed,
}

impl Address {
    /// The host and port, if it is on the network.
    pub fn ip(&self) -> Option<SocketAddr> {
        match self {
            Self::Ip(address) => Some(*address),
            _ => None,
        }
    }

    /// The address of a transport that is not built in. A scheme is a small letter and then small letters, digits, `+`, `-`
    /// and `.`; a name is anything but nothing.
    ///
    /// # Errors
    /// The scheme is none, or belongs to a transport that is built in (`tcp`, `unix`, `local`), or the name is empty.
    pub fn other(scheme: &str, name: &str) -> Result<Self, AddressError> {
        let text = format!("{scheme}:{name}");
        let refused = |why| Err(AddressError { text: text.clone(), why });
        if !is_scheme(scheme) {
            return refused("a scheme is a small letter, and then small letters, digits, `+`, `-` or `.`");
        }
        if BUILT_IN.contains(&scheme) {
            return refused("the schemes `tcp`, `unix` and `local` have addresses of their own kind");
        }
        if name.is_empty() {
            return refused("a name is missing behind the scheme");
        }
        Ok(Self::Other(OtherAddress { text: text.into() }))
    }

    /// Reads addresses that carry their kind in front: `unix:/path`, `unix:@abstract`, `local:name`. `None` for anything
    /// else, which then is a host and a port.
    pub fn parse_prefixed(text: &str) -> Option<Result<Self, AddressError>> {
        let refused = |why| Some(Err(AddressError { text: text.to_owned(), why }));
        if let Some(name) = text.strip_prefix("unix:") {
            return match name.strip_prefix('@') {
                Some("") => refused("an abstract name needs at least one character behind `@`"),
                Some(name) => Some(Ok(Self::Unix(UnixName::Abstract(name.as_bytes().into())))),
                None if name.is_empty() => refused("a path is missing behind `unix:`"),
                None => Some(Ok(Self::Unix(UnixName::Path(Path::new(name).into())))),
            };
        }
        match text.strip_prefix("local:")? {
            "" => refused("a name is missing behind `local:`"),
            name => Some(Ok(Self::Local(name.into()))),
        }
    }
}

/// The schemes that no other transport can have.
const BUILT_IN: [&str; 3] = ["tcp", "unix", "local"];

/// Whether a text can stand before the colon of an address.
fn is_scheme(text: &str) -> bool {
    let within = |letter: char| {
        letter.is_ascii_lowercase() || letter.is_ascii_digit() || matches!(letter, '+' | '-' | '.')
    };
    text.starts_with(|first: char| first.is_ascii_lowercase()) && text.chars().all(within)
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        Self::parse_prefixed(text).unwrap_or_else(|| match text.parse() {
            Ok(address) => Ok(Self::Ip(address)),
            Err(_) => {
                let why = "expected `IP:PORT`, `unix:/PATH`, `unix:@NAME` or `local:NAME`";
                Err(AddressError { text: text.to_owned(), why })
            }
        })
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(address)
    }
}

/// An address on the network is equal to its host and port.
impl PartialEq<SocketAddr> for Address {
    fn eq(&self, other: &SocketAddr) -> bool {
        self.ip().as_ref() == Some(other)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Unix(UnixName::Path(path)) => write!(f, "unix:{}", path.display()),
            Self::Unix(UnixName::Abstract(name)) => write!(f, "unix:@{}", name.escape_ascii()),
            Self::Unix(UnixName::Unnamed) => f.write_str("unix:(unnamed)"),
            Self::Local(name) => write!(f, "local:{name}"),
            Self::Other(other) => f.write_str(&other.text),
        }
    }
}

/// A text that is no address.
///
/// ```
/// use netwright_core::Address;
///
/// let error = "unix:".parse::<Address>().unwrap_err();
/// assert!(error.to_string().contains("a path is missing"), "{error}");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressError {
    text: String,
    why: &'static str,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no address: {}", self.text, self.why)
    }
}

impl std::error::Error for AddressError {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_address_takes_no_more_room_than_a_socket_address() {
        // Every channel keeps two of them.
        assert_eq!(size_of::<Address>(), size_of::<SocketAddr>());
        assert_eq!(size_of::<Option<Address>>(), size_of::<SocketAddr>());
    }

    #[test]
    fn what_is_printed_can_be_read_again() {
        for text in ["[::1]:8080", "0.0.0.0:0", "unix:relative.sock", "unix:/a b", "unix:@x", "local:a:b"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_address_of_another_transport_has_a_scheme_and_a_name() {
        for (scheme, name) in [("vsock", "2:5000"), ("x", ":"), ("a+b-c.9", "any thing")] {
            let address = Address::other(scheme, name).unwrap();
            let Address::Other(other) = &address else { panic!("{address:?}") };
            assert_eq!((other.scheme(), other.name()), (scheme, name));
            assert_eq!(address.to_string(), format!("{scheme}:{name}"));
        }
        for (scheme, name, why) in [
            ("tcp", "host:1", "have addresses of their own kind"),
            ("local", "x", "have addresses of their own kind"),
            ("Pipe", "x", "a small letter"),
            ("9p", "x", "a small letter"),
            ("", "x", "a small letter"),
            ("a:b", "x", "a small letter"),
            ("pipe", "", "a name is missing"),
        ] {
            let error = Address::other(scheme, name).unwrap_err().to_string();
            assert!(error.contains(why), "{scheme:?}, {name:?}: {error}");
        }
    }

    #[test]
    fn an_empty_name_is_refused_with_the_reason() {
        for (text, why) in [
            ("unix:", "\"unix:\" is no address: a path is missing behind `unix:`"),
            ("unix:@", "\"unix:@\" is no address: an abstract name needs at least one character behind `@`"),
            ("local:", "\"local:\" is no address: a name is missing behind `local:`"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap_err().to_string(), why);
        }
    }
}
