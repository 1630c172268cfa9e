//! Options of a socket that listens.

use super::{
    OptionError, OptionWhy, Pass,
    common::{Common, stream_setters},
    only_of, platform, refuse_unless, setters,
};
use socket2::{Domain, Socket};
use std::{fmt, fs, sync::OnceLock};

/// Options of a listener: set after the socket is made and before it is bound.
///
/// ```
/// use netwright_transport::ListenerOptions;
/// use socket2::{Domain, Socket, Type};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let options = ListenerOptions::new().backlog(512).recv_buffer_size(64 * 1024);
/// let address: std::net::SocketAddr = "127.0.0.1:0".parse()?;
/// let domain = Domain::for_address(address);
///
/// let socket = Socket::new(domain, Type::STREAM, None)?;
/// options.apply(&socket, domain)?;
/// socket.bind(&address.into())?;
/// socket.listen(options.listen_backlog())?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "options do nothing until they are applied"]
pub struct ListenerOptions {
    common: Common,
    backlog: Option<u32>,
    only_v6: Option<bool>,
    unix_mode: Option<u32>,
}

impl Default for ListenerOptions {
    fn default() -> Self {
        let reuse_address = cfg!(unix).then_some(true);
        Self {
            common: Common { reuse_address, ..Common::default() },
            backlog: None,
            only_v6: None,
            unix_mode: None,
        }
    }
}

impl ListenerOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// How many connections may wait to be accepted, at least 1. The system cuts it down to its own limit without a
        /// word. Default: that limit ([`system_backlog`]).
        backlog(connections: u32);

        /// `IPV6_V6ONLY`: an IPv6 listener takes no IPv4 connections. Refused on an IPv4 socket, whatever the value.
        /// Default: the system's, which is off on Linux (`net.ipv6.bindv6only`) and on for Windows and OpenBSD.
        only_v6(only: bool);

        /// The permissions of a Unix socket's file, such as `0o600`: who may connect. Only for sockets with a path. Default:
        /// what the process's umask leaves.
        unix_mode(mode: u32);
    }

    stream_setters!();

    /// The permissions of a Unix socket's file, if given.
    #[cfg_attr(not(unix), allow(dead_code))]
    pub(crate) fn mode(&self) -> Option<u32> {
        self.unix_mode
    }

    /// Whether it shares its port with others ([`reuse_port`](Self::reuse_port)).
    pub(crate) fn shares_port(&self) -> bool {
        self.common.reuse_port == Some(true)
    }

    /// Whether an IPv6 listener takes no IPv4 connections, if [given](Self::only_v6).
    pub fn takes_only_v6(&self) -> Option<bool> {
        self.only_v6
    }

    /// What to call `listen` with.
    pub fn listen_backlog(&self) -> i32 {
        i32::try_from(self.backlog.unwrap_or_else(system_backlog)).unwrap_or(i32::MAX)
    }

    /// How many connections may wait where a network stands in for the system's, whose own limit says nothing there.
    pub(crate) fn backlog_without_system(&self) -> usize {
        self.backlog
            .map_or(BACKLOG_FALLBACK as usize, |backlog| usize::try_from(backlog).unwrap_or(usize::MAX))
    }

    /// Whether all of it can be asked of a listener that is no socket: the backlog.
    pub(crate) fn check_without_socket(&self) -> Result<(), &'static str> {
        if *self == (Self { backlog: self.backlog, ..Self::default() }) {
            return Ok(());
        }
        Err("such a listener has no socket: of its options only backlog can be set")
    }

    /// Whether all of it can be asked of a socket of that family on this platform.
    ///
    /// # Errors
    /// The first option that cannot.
    pub fn check(&self, domain: Domain) -> Result<(), OptionError> {
        self.common.check()?;
        if let Some(backlog) = self.backlog {
            let allowed = i32::try_from(backlog).is_ok_and(|backlog| backlog > 0);
            refuse_unless(allowed, "backlog", backlog, "1 to 2147483647 connections")?;
        }
        if let Some(mode) = self.unix_mode {
            let mode = Octal(mode);
            refuse_unless(mode.0 <= 0o777, "unix_mode", mode, "0o0 to 0o777")?;
            if domain != Domain::UNIX {
                return Err(OptionError::new("unix_mode", mode, OptionWhy::Family(domain)));
            }
        }
        self.walk(Pass::Check, domain)
    }

    /// [Checks](Self::check) everything, then sets everything but the backlog on `socket`, which is of the family
    /// `domain` and not bound yet.
    ///
    /// # Errors
    /// As `check`, with nothing set; or the system's refusal of one option, with those before it set.
    pub fn apply(&self, socket: &Socket, domain: Domain) -> Result<(), OptionError> {
        self.check(domain)?;
        self.walk(Pass::Apply(socket), domain)
    }

    fn walk(&self, pass: Pass<'_>, domain: Domain) -> Result<(), OptionError> {
        only_of(domain, Domain::IPV6, "only_v6", self.only_v6)?;
        pass.option("only_v6", self.only_v6, platform::ONLY_V6)?;
        if domain == Domain::UNIX {
            let (common, others) = self.common.split_for_unix();
            others.walk(Pass::Refuse(domain), domain)?;
            return common.walk(pass, domain);
        }
        self.common.walk(pass, domain)
    }
}

/// Permissions as they are written.
#[derive(Clone, Copy)]
struct Octal(u32);

impl fmt::Debug for Octal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#o}", self.0)
    }
}

/// What to assume where the system does not say, or is not asked: the default of Linux since 5.4.
const BACKLOG_FALLBACK: u32 = 4096;

/// The longest queue of waiting connections that the system grants: Linux's `net.core.somaxconn`, else 4096. Read once.
///
/// ```
/// assert!(netwright_transport::options::system_backlog() > 0);
/// ```
pub fn system_backlog() -> u32 {
    static LIMIT: OnceLock<u32> = OnceLock::new();
    *LIMIT.get_or_init(|| parse_backlog(fs::read_to_string("/proc/sys/net/core/somaxconn").ok().as_deref()))
}

fn parse_backlog(somaxconn: Option<&str>) -> u32 {
    somaxconn
        .and_then(|text| text.trim().parse().ok())
        .filter(|limit| (1..=i32::MAX as u32).contains(limit))
        .unwrap_or(BACKLOG_FALLBACK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::Type;

    fn socket(domain: Domain) -> Socket {
        Socket::new(domain, Type::STREAM, None).unwrap()
    }

    #[test]
    #[cfg(unix)]
    fn a_listener_reuses_its_address_unless_told_otherwise_and_takes_what_the_system_grants() {
        let on = socket(Domain::IPV4);
        ListenerOptions::new().apply(&on, Domain::IPV4).unwrap();
        assert!(on.reuse_address().unwrap());
        let off = socket(Domain::IPV4);
        ListenerOptions::new().reuse_address(false).apply(&off, Domain::IPV4).unwrap();
        assert!(!off.reuse_address().unwrap());
        assert_eq!(ListenerOptions::new().listen_backlog(), system_backlog() as i32);
        assert_eq!(ListenerOptions::new().backlog(7).listen_backlog(), 7);
    }

    #[test]
    fn the_systems_backlog_is_read_and_nonsense_is_not_believed() {
        assert_eq!(parse_backlog(Some("128\n")), 128);
        for nonsense in [None, Some(""), Some("0"), Some("-1"), Some("many"), Some("4294967295")] {
            assert_eq!(parse_backlog(nonsense), BACKLOG_FALLBACK, "{nonsense:?}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn permissions_are_for_unix_sockets_which_refuse_what_is_for_the_network() {
        let check = |options: ListenerOptions, domain| options.check(domain).unwrap_err().to_string();
        ListenerOptions::new().unix_mode(0o600).check(Domain::UNIX).unwrap();
        assert_eq!(
            check(ListenerOptions::new().unix_mode(0o600), Domain::IPV4),
            "socket option unix_mode = 0o600: an IPv4 socket does not have it"
        );
        assert_eq!(
            check(ListenerOptions::new().unix_mode(0o1777), Domain::UNIX),
            "socket option unix_mode = 0o1777: must be 0o0 to 0o777"
        );
        assert_eq!(
            check(ListenerOptions::new().reuse_port(true), Domain::UNIX),
            "socket option reuse_port = true: a Unix socket does not have it"
        );
    }

    #[test]
    fn a_backlog_that_is_no_positive_int_is_refused() {
        for backlog in [0, u32::MAX] {
            let error = ListenerOptions::new().backlog(backlog).check(Domain::IPV4).unwrap_err();
            let expected = format!("socket option backlog = {backlog}: must be 1 to 2147483647 connections");
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    fn listeners_with_reuse_port_share_a_port_and_others_do_not() {
        let options = ListenerOptions::new().reuse_port(true);
        let bind = |options: &ListenerOptions, port| {
            let socket = socket(Domain::IPV4);
            options.apply(&socket, Domain::IPV4).unwrap();
            socket.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], port)).into()).map(|()| socket)
        };
        let first = bind(&options, 0).unwrap();
        assert!(first.reuse_port().unwrap());
        let port = first.local_addr().unwrap().as_socket().unwrap().port();
        let second = bind(&options, port).unwrap();
        drop(second);
        bind(&ListenerOptions::new().reuse_address(false), port).unwrap_err();
    }

    #[test]
    fn only_v6_is_set_on_ipv6_and_refused_on_ipv4_before_anything_is_set() {
        let options = ListenerOptions::new().only_v6(true).recv_buffer_size(4096);
        let v4 = socket(Domain::IPV4);
        let before = v4.recv_buffer_size().unwrap();
        let error = options.apply(&v4, Domain::IPV4).unwrap_err();
        assert_eq!(error.to_string(), "socket option only_v6 = true: an IPv4 socket does not have it");
        assert_eq!(v4.recv_buffer_size().unwrap(), before);
        assert!(ListenerOptions::new().only_v6(false).check(Domain::IPV4).is_err());

        let Ok(v6) = Socket::new(Domain::IPV6, Type::STREAM, None) else { return }; // a machine without IPv6
        options.apply(&v6, Domain::IPV6).unwrap();
        assert!(v6.only_v6().unwrap());
        ListenerOptions::new().only_v6(false).apply(&v6, Domain::IPV6).unwrap();
        assert!(!v6.only_v6().unwrap());
    }
}
