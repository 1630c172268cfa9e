//! Options of a connection.

use super::{
    OptionError, OptionWhy, Pass,
    common::{Common, stream_setters},
    platform, refuse_unless, setters, whole_seconds,
};
use socket2::{Domain, Socket, TcpKeepalive};
use std::{fmt::Debug, time::Duration};

/// Options of a TCP connection: set after accepting, or before connecting.
///
/// ```
/// use netwright_transport::StreamOptions;
/// use socket2::{Domain, SockRef};
/// use std::{net::{TcpListener, TcpStream}, time::Duration};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let stream = TcpStream::connect(listener.local_addr()?)?;
///
/// let options = StreamOptions::new().keepalive_idle(Duration::from_secs(60)).hop_limit(32);
/// options.apply(&SockRef::from(&stream), Domain::IPV4)?;
/// assert!(stream.nodelay()?, "the default");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "options do nothing until they are applied"]
pub struct StreamOptions {
    common: Common,
    nodelay: Option<bool>,
    keepalive: Option<bool>,
    keepalive_idle: Option<Duration>,
    keepalive_interval: Option<Duration>,
    keepalive_retries: Option<u32>,
    linger: Option<Duration>,
    out_of_band_inline: Option<bool>,
    user_timeout: Option<Duration>,
    quickack: Option<bool>,
    cork: Option<bool>,
    thin_linear_timeouts: Option<bool>,
    notsent_lowat: Option<u32>,
    congestion: Option<String>,
    ack_frequency: Option<u8>,
}

/// What Linux takes at most for idle time and interval, and for the number of probes.
const KEEPALIVE_SECONDS_MAX: u64 = 32_767;
const KEEPALIVE_RETRIES_MAX: u32 = 127;

impl StreamOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// `TCP_NODELAY`: sends what is flushed at once instead of waiting for more. Default: on, because channels gather
        /// writes until `flush` already; off if [`cork`](Self::cork) is on.
        nodelay(nodelay: bool);

        /// `SO_KEEPALIVE`: probes a silent peer, by default after two hours. Default: off, unless a time is given.
        #[doc(alias = "keep-alive")]
        keepalive(probe: bool);

        /// `TCP_KEEPIDLE`: silence before the first probe; turns `keepalive` on. Whole seconds, 1 to 32,767. Not on
        /// OpenBSD. Default: the system's, two hours.
        keepalive_idle(silence: Duration);

        /// `TCP_KEEPINTVL`: from one probe to the next. Whole seconds, 1 to 32,767; only with
        /// [`keepalive_idle`](Self::keepalive_idle). Default: the system's, 75 s.
        keepalive_interval(interval: Duration);

        /// `TCP_KEEPCNT`: unanswered probes before the connection counts as dead, 1 to 127; only with
        /// [`keepalive_idle`](Self::keepalive_idle). Default: the system's, 8 or 9.
        keepalive_retries(probes: u32);

        /// `SO_LINGER`: what closing does with bytes that the peer has not acknowledged. Zero: throws them away and resets the
        /// connection. Otherwise whole seconds, up to 65,535, for which a channel's close waits: it is complete when the peer's
        /// system has everything, or the time is over, and then the connection is reset. Only the close waits: the loop does
        /// not, and no thread is started. Bytes that the peer sends meanwhile are not read. Where the system does not tell what is
        /// acknowledged (only Linux and Android do), the close waits for the peer's end instead. Default: unset; a close is complete
        /// at once, and the system sends the rest in the background, which is nearly always right.
        ///
        /// A socket that [`apply`](Self::apply) sets up for somebody else waits in `close`, *with its thread*: see
        /// [`blocks_on_close`](Self::blocks_on_close).
        linger(time: Duration);

        /// `SO_OOBINLINE`: urgent bytes come with the others. Default: off.
        out_of_band_inline(inline: bool);

        /// `TCP_USER_TIMEOUT`: how long sent bytes may stay unacknowledged before the connection counts as dead. Whole
        /// milliseconds, from 1 to 2,147,483,647. Linux. Default: the system's, some 15 minutes.
        user_timeout(time: Duration);

        /// `TCP_QUICKACK`: acknowledges at once. Not for good: the system goes back to delaying when it sees fit. Linux.
        /// Default: the system's.
        quickack(quick: bool);

        /// `TCP_CORK`: sends full segments only, the rest after 200 ms. Refused together with `nodelay(true)`, which wants
        /// the opposite. Linux. Default: off.
        cork(cork: bool);

        /// `TCP_THIN_LINEAR_TIMEOUTS`: resends sooner where few packets are under way. Linux. Default: off.
        thin_linear_timeouts(linear: bool);

        /// `TCP_NOTSENT_LOWAT`: the socket counts as writable only while fewer bytes than this wait unsent in the system, so
        /// that what waits does so in the channel, where water marks see it. At least 1. Linux. Default: no limit.
        notsent_lowat(bytes: u32);

        /// `TCP_CONGESTION`: the congestion control by name, 1 to 15 bytes: `cubic`, `reno`, `bbr`. Linux, FreeBSD.
        /// Default: the system's.
        congestion(name: impl Into<String>);

        /// `SIO_TCP_SET_ACK_FREQUENCY`: segments after which to acknowledge without delay. Windows. Default: 2.
        ack_frequency(segments: u8);
    }

    stream_setters!();

    /// Whether closing a socket that has these options may block the closing thread ([`linger`](Self::linger) of a second or
    /// more). Channels see to that themselves.
    pub fn blocks_on_close(&self) -> bool {
        self.linger.is_some_and(|time| !time.is_zero())
    }

    /// Takes out the seconds for which a close would block its thread.
    pub(crate) fn take_waiting_linger(&mut self) -> u16 {
        let time = if self.blocks_on_close() { self.linger.take() } else { None };
        time.map_or(0, |time| u16::try_from(time.as_secs()).unwrap_or(u16::MAX)) // no more passes the check
    }

    /// Whether closing resets the connection ([`linger`](Self::linger) of zero).
    pub fn resets_on_close(&self) -> bool {
        self.linger == Some(Duration::ZERO)
    }

    /// The sizes of the receive and the send buffer, if given.
    pub fn buffer_sizes(&self) -> (Option<usize>, Option<usize>) {
        (self.common.recv_buffer_size, self.common.send_buffer_size)
    }

    /// Whether and how a silent peer is probed: after which silence, at which interval, and how many probes may stay unanswered. What was not
    /// given is what Linux has.
    ///
    /// ```
    /// use netwright_transport::StreamOptions;
    /// use std::time::Duration;
    ///
    /// assert_eq!(StreamOptions::new().keepalive_probes(), None);
    /// let options = StreamOptions::new().keepalive_idle(Duration::from_secs(60));
    /// assert_eq!(options.keepalive_probes(), Some((Duration::from_secs(60), Duration::from_secs(75), 9)));
    /// ```
    pub fn keepalive_probes(&self) -> Option<(Duration, Duration, u32)> {
        let probes = self.keepalive.unwrap_or(self.keepalive_idle.is_some());
        let idle = self.keepalive_idle.unwrap_or(Duration::from_secs(7200));
        let interval = self.keepalive_interval.unwrap_or(Duration::from_secs(75));
        probes.then_some((idle, interval, self.keepalive_retries.unwrap_or(9)))
    }

    /// How long sent bytes may stay unacknowledged, if [given](Self::user_timeout).
    pub fn unacknowledged_max(&self) -> Option<Duration> {
        self.user_timeout
    }

    /// Whether all of it can be asked of a connection that is no socket: buffer sizes, and a
    /// `linger` of zero.
    pub(crate) fn check_without_socket(&self) -> Result<(), &'static str> {
        let Common { recv_buffer_size, send_buffer_size, .. } = self.common;
        let common = Common { recv_buffer_size, send_buffer_size, ..Common::default() };
        let linger = self.linger.filter(Duration::is_zero);
        if *self == (Self { common, linger, ..Self::default() }) {
            return Ok(());
        }
        Err(
            "such a connection has no socket: of its options only recv_buffer_size, send_buffer_size and a linger of \
             zero can be set",
        )
    }

    /// Whether all of it can be asked of a socket of that family on this platform.
    ///
    /// # Errors
    /// The first option that cannot.
    pub fn check(&self, domain: Domain) -> Result<(), OptionError> {
        self.common.check()?;
        self.check_keepalive()?;
        whole_seconds("linger", self.linger, 0..=65_535, "whole seconds, 0 s to 65535 s")?;
        if let Some(time) = self.user_timeout {
            let whole = time.subsec_nanos().is_multiple_of(1_000_000);
            let fits = whole && (1..=i32::MAX as u128).contains(&time.as_millis());
            refuse_unless(fits, "user_timeout", time, "whole milliseconds, 1 ms to 2147483647 ms")?;
        }
        if let Some(bytes) = self.notsent_lowat {
            let fits = i32::try_from(bytes).is_ok_and(|bytes| bytes > 0);
            refuse_unless(fits, "notsent_lowat", bytes, "1 to 2147483647 bytes")?;
        }
        if let Some(name) = &self.congestion {
            let fits = (1..16).contains(&name.len()) && !name.contains('\0');
            refuse_unless(fits, "congestion", name, "the name of a congestion control, 1 to 15 bytes")?;
        }
        if self.cork == Some(true) && self.nodelay == Some(true) {
            let with = "nodelay is true as well, which wants the opposite";
            return Err(OptionError::new("cork", true, OptionWhy::Combination { with }));
        }
        self.walk(Pass::Check, domain)
    }

    fn check_keepalive(&self) -> Result<(), OptionError> {
        let seconds = 1..=KEEPALIVE_SECONDS_MAX;
        let expected = "whole seconds, 1 s to 32767 s";
        whole_seconds("keepalive_idle", self.keepalive_idle, seconds.clone(), expected)?;
        whole_seconds("keepalive_interval", self.keepalive_interval, seconds, expected)?;
        if let Some(retries) = self.keepalive_retries {
            let fits = (1..=KEEPALIVE_RETRIES_MAX).contains(&retries);
            refuse_unless(fits, "keepalive_retries", retries, "1 to 127")?;
        }
        let refuse = |with| Err(OptionWhy::Combination { with });
        let judge = |needs_idle: bool| match (self.keepalive, self.keepalive_idle) {
            (Some(false), _) => refuse("keepalive is false"),
            (_, None) if needs_idle => {
                refuse("keepalive_idle is not set, and without it no probe has a time")
            }
            _ => Ok(()),
        };
        if let Some(idle) = self.keepalive_idle {
            judge(false).map_err(|why| OptionError::new("keepalive_idle", idle, why))?;
        }
        if let Some(interval) = self.keepalive_interval {
            judge(true).map_err(|why| OptionError::new("keepalive_interval", interval, why))?;
        }
        if let Some(retries) = self.keepalive_retries {
            judge(true).map_err(|why| OptionError::new("keepalive_retries", retries, why))?;
        }
        Ok(())
    }

    /// [Checks](Self::check) everything, then sets everything on `socket`, which is of the family `domain`.
    ///
    /// # Errors
    /// As `check`, with nothing set; or the system's refusal of one option, with those before it set.
    pub fn apply(&self, socket: &Socket, domain: Domain) -> Result<(), OptionError> {
        self.check(domain)?;
        self.walk(Pass::Apply(socket), domain)
    }

    fn walk(&self, pass: Pass<'_>, domain: Domain) -> Result<(), OptionError> {
        if domain == Domain::UNIX && !matches!(pass, Pass::Refuse(_)) {
            let (common, others) = self.common.split_for_unix();
            Self { common: others, ..self.clone() }.walk(Pass::Refuse(domain), domain)?;
            return common.walk(pass, domain);
        }
        use platform as p;
        let default = (domain != Domain::UNIX).then_some(self.cork != Some(true));
        pass.option("nodelay", self.nodelay.or(default), p::NODELAY)?;
        self.walk_keepalive(pass)?;
        pass.option("linger", self.linger, p::LINGER)?;
        pass.option("out_of_band_inline", self.out_of_band_inline, p::OUT_OF_BAND_INLINE)?;
        pass.option("user_timeout", self.user_timeout, p::USER_TIMEOUT)?;
        pass.option("quickack", self.quickack, p::QUICKACK)?;
        pass.option("cork", self.cork, p::CORK)?;
        pass.option("thin_linear_timeouts", self.thin_linear_timeouts, p::THIN_LINEAR_TIMEOUTS)?;
        pass.option("notsent_lowat", self.notsent_lowat, p::NOTSENT_LOWAT)?;
        pass.option("congestion", self.congestion.as_deref(), p::CONGESTION)?;
        pass.option("ack_frequency", self.ack_frequency, p::ACK_FREQUENCY)?;
        self.common.walk(pass, domain)
    }

    /// One call for all parts, because Windows forgets those that a call does not mention.
    fn walk_keepalive(&self, pass: Pass<'_>) -> Result<(), OptionError> {
        use platform as p;
        pass.option("keepalive", self.keepalive, p::KEEPALIVE)?;
        let parts = TcpKeepalive::new();
        let parts = part(parts, "keepalive_idle", self.keepalive_idle, p::KEEPALIVE_IDLE)?;
        let parts = part(parts, "keepalive_interval", self.keepalive_interval, p::KEEPALIVE_INTERVAL)?;
        let parts = part(parts, "keepalive_retries", self.keepalive_retries, p::KEEPALIVE_RETRIES)?;
        // There are no others without it: see `check_keepalive`.
        let set = |socket: &Socket, _| socket.set_tcp_keepalive(&parts);
        pass.option("keepalive_idle", self.keepalive_idle, Some(set))
    }
}

fn part<T: Copy + Debug>(
    parts: TcpKeepalive,
    name: &'static str,
    value: Option<T>,
    with: platform::KeepAlivePart<T>,
) -> Result<TcpKeepalive, OptionError> {
    match (value, with) {
        (None, _) => Ok(parts),
        (Some(value), Some(with)) => Ok(with(parts, value)),
        (Some(value), None) => Err(OptionError::new(name, value, OptionWhy::Platform)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::Type;

    fn socket(domain: Domain) -> Socket {
        Socket::new(domain, Type::STREAM, None).unwrap()
    }

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn set(options: StreamOptions) -> Socket {
        let socket = socket(Domain::IPV4);
        options.apply(&socket, Domain::IPV4).unwrap();
        socket
    }

    fn refusal(options: StreamOptions) -> String {
        options.check(Domain::IPV4).unwrap_err().to_string()
    }

    /// Sets what needs a privilege; without it the system has to be the one who refuses, by name.
    #[cfg(target_os = "linux")]
    fn set_if_privileged(options: StreamOptions, name: &str) -> Option<Socket> {
        let socket = socket(Domain::IPV4);
        match options.apply(&socket, Domain::IPV4) {
            Ok(()) => Some(socket),
            Err(error) => {
                assert_eq!(error.option, name);
                let OptionWhy::System(system) = &error.why else { panic!("{error}") };
                assert_eq!(system.kind(), std::io::ErrorKind::PermissionDenied, "{error}");
                None
            }
        }
    }

    #[test]
    fn nodelay_is_on_unless_told_otherwise_and_nothing_else_is_touched() {
        let (plain, with_defaults) = (socket(Domain::IPV4), set(StreamOptions::new()));
        assert!(with_defaults.tcp_nodelay().unwrap());
        assert_eq!(with_defaults.keepalive().unwrap(), plain.keepalive().unwrap());
        assert_eq!(with_defaults.linger().unwrap(), plain.linger().unwrap());
        assert_eq!(with_defaults.recv_buffer_size().unwrap(), plain.recv_buffer_size().unwrap());
        assert!(!set(StreamOptions::new().nodelay(false)).tcp_nodelay().unwrap());
    }

    #[test]
    fn options_of_every_platform_read_back_as_set() {
        let socket = set(StreamOptions::new()
            .keepalive(true)
            .linger(secs(3))
            .recv_buffer_size(32 * 1024)
            .send_buffer_size(48 * 1024)
            .reuse_address(true)
            .hop_limit(17));
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.linger().unwrap(), Some(secs(3)));
        assert!(socket.recv_buffer_size().unwrap() >= 32 * 1024, "Linux doubles it");
        assert!(socket.send_buffer_size().unwrap() >= 48 * 1024);
        assert!(socket.reuse_address().unwrap());
        assert_eq!(socket.ttl_v4().unwrap(), 17);
        assert!(!set(StreamOptions::new().keepalive(false)).keepalive().unwrap());
        assert_eq!(set(StreamOptions::new().linger(Duration::ZERO)).linger().unwrap(), Some(Duration::ZERO));
    }

    #[test]
    #[cfg(any(target_os = "linux", target_os = "macos", target_os = "freebsd"))]
    fn keepalive_times_read_back_and_turn_keepalive_on() {
        let idle = set(StreamOptions::new().keepalive_idle(secs(60)));
        assert!(idle.keepalive().unwrap());
        assert_eq!(idle.tcp_keepalive_time().unwrap(), secs(60));
        let options = StreamOptions::new().keepalive_idle(secs(61));
        let all = set(options.keepalive_interval(secs(7)).keepalive_retries(4));
        assert_eq!(all.tcp_keepalive_time().unwrap(), secs(61));
        assert_eq!(all.tcp_keepalive_interval().unwrap(), secs(7));
        assert_eq!(all.tcp_keepalive_retries().unwrap(), 4);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn options_of_linux_read_back_as_set() {
        let socket = set(StreamOptions::new()
            .out_of_band_inline(true)
            .user_timeout(Duration::from_millis(4_500))
            .quickack(false)
            .thin_linear_timeouts(true)
            .notsent_lowat(16 * 1024)
            .congestion("reno")
            .reuse_port(true)
            .traffic_class(0x48)
            .mss(1000)
            .priority(5)
            .incoming_cpu(0)
            .freebind(true)
            .busy_poll(0));
        assert!(socket.out_of_band_inline().unwrap());
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_millis(4_500)));
        assert!(!socket.tcp_quickack().unwrap());
        assert!(socket.tcp_thin_linear_timeouts().unwrap());
        assert_eq!(socket.tcp_notsent_lowat().unwrap(), 16 * 1024);
        assert!(socket.tcp_congestion().unwrap().starts_with(b"reno\0"));
        assert!(socket.reuse_port().unwrap());
        assert_eq!(socket.tos_v4().unwrap(), 0x48);
        assert_eq!(socket.tcp_mss().unwrap(), 1000);
        assert_eq!(socket.priority().unwrap(), 5, "not what the traffic class implies");
        assert_eq!(socket.cpu_affinity().unwrap(), 0);
        assert!(socket.freebind_v4().unwrap());
        assert_eq!(socket.busy_poll().unwrap(), 0);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn privileged_options_read_back_or_the_system_is_named_as_the_one_who_refused() {
        if let Some(socket) = set_if_privileged(StreamOptions::new().mark(7), "mark") {
            assert_eq!(socket.mark().unwrap(), 7);
        }
        if let Some(socket) = set_if_privileged(StreamOptions::new().transparent(true), "transparent") {
            assert!(socket.ip_transparent_v4().unwrap());
        }
        if let Some(socket) = set_if_privileged(StreamOptions::new().bind_device("lo"), "bind_device") {
            assert_eq!(socket.device().unwrap().unwrap(), b"lo");
        }
        let loopback = std::num::NonZeroU32::MIN; // Linux counts interfaces from `lo`
        let options = StreamOptions::new().bind_device_index(loopback);
        if let Some(socket) = set_if_privileged(options, "bind_device_index") {
            assert_eq!(socket.device_index_v4().unwrap(), Some(loopback));
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn on_ipv6_the_options_of_ipv6_are_set_and_those_for_its_ipv4_peers_too() {
        let Ok(socket) = Socket::new(Domain::IPV6, Type::STREAM, None) else { return }; // a machine without IPv6
        let options = StreamOptions::new().traffic_class(0x20).hop_limit(9).freebind(true);
        options.apply(&socket, Domain::IPV6).unwrap();
        assert_eq!((socket.tclass_v6().unwrap(), socket.tos_v4().unwrap()), (0x20, 0x20));
        assert_eq!((socket.unicast_hops_v6().unwrap(), socket.ttl_v4().unwrap()), (9, 9));
        assert!(socket.freebind_v6().unwrap());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn cork_turns_the_default_of_nodelay_off_and_is_refused_beside_an_explicit_one() {
        let corked = set(StreamOptions::new().cork(true));
        assert!(corked.tcp_cork().unwrap() && !corked.tcp_nodelay().unwrap());
        assert!(set(StreamOptions::new().cork(false)).tcp_nodelay().unwrap());
        assert_eq!(
            refusal(StreamOptions::new().cork(true).nodelay(true)),
            "socket option cork = true: nodelay is true as well, which wants the opposite"
        );
    }

    #[test]
    fn values_that_cannot_work_are_refused_with_what_would_do() {
        let new = StreamOptions::new;
        let half = Duration::from_millis(1_500);
        for (options, expected) in [
            (new().recv_buffer_size(0), "recv_buffer_size = 0: must be 1 to 2147483647 bytes"),
            (new().send_buffer_size(1 << 31), "send_buffer_size = 2147483648: must be 1 to 2147483647 bytes"),
            (new().hop_limit(0), "hop_limit = 0: must be 1 to 255"),
            (new().mss(0), "mss = 0: must be 1 to 65535 bytes"),
            (
                new().traffic_class(3),
                "traffic_class = 3: must be a multiple of 4: the two lowest bits are TCP's own (ECN)",
            ),
            (new().keepalive_idle(half), "keepalive_idle = 1.5s: must be whole seconds, 1 s to 32767 s"),
            (new().keepalive_idle(secs(0)), "keepalive_idle = 0ns: must be whole seconds, 1 s to 32767 s"),
            (
                new().keepalive_idle(secs(9)).keepalive_retries(128),
                "keepalive_retries = 128: must be 1 to 127",
            ),
            (new().linger(half), "linger = 1.5s: must be whole seconds, 0 s to 65535 s"),
            (
                new().user_timeout(Duration::from_micros(1)),
                "user_timeout = 1µs: must be whole milliseconds, 1 ms to 2147483647 ms",
            ),
            (new().notsent_lowat(0), "notsent_lowat = 0: must be 1 to 2147483647 bytes"),
            (new().bind_device(""), "bind_device = \"\": must be the name of an interface, 1 to 15 bytes"),
            (
                new().congestion("sixteen bytes!!!"),
                "congestion = \"sixteen bytes!!!\": must be the name of a congestion control, 1 to 15 bytes",
            ),
        ] {
            assert_eq!(refusal(options), format!("socket option {expected}"));
        }
    }

    #[test]
    fn keepalive_parts_without_their_whole_are_refused() {
        let new = StreamOptions::new;
        for (options, expected) in [
            (
                new().keepalive_interval(secs(5)),
                "keepalive_interval = 5s: keepalive_idle is not set, and without it no probe has a time",
            ),
            (
                new().keepalive(true).keepalive_retries(3),
                "keepalive_retries = 3: keepalive_idle is not set, and without it no probe has a time",
            ),
            (new().keepalive(false).keepalive_idle(secs(5)), "keepalive_idle = 5s: keepalive is false"),
        ] {
            assert_eq!(refusal(options), format!("socket option {expected}"));
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_the_platform_the_family_or_another_option_rules_out_is_refused_before_anything_is_set() {
        for (options, domain, expected) in [
            (StreamOptions::new().fib(1), Domain::IPV4, "fib = 1: this platform does not have it"),
            (
                StreamOptions::new().ack_frequency(1),
                Domain::IPV4,
                "ack_frequency = 1: this platform does not have it",
            ),
            (StreamOptions::new(), Domain::UNIX, "linger = 1s: a Unix socket does not have it"),
            (
                StreamOptions::new().bind_device("lo").bind_device_index(std::num::NonZeroU32::MIN),
                Domain::IPV4,
                "bind_device = \"lo\": bind_device_index is set as well, and one socket has one interface",
            ),
        ] {
            let socket = socket(Domain::IPV4);
            let error = options.linger(secs(1)).apply(&socket, domain).unwrap_err();
            assert_eq!(error.to_string(), format!("socket option {expected}"));
            assert_eq!(socket.linger().unwrap(), None, "nothing is set");
            assert!(!socket.tcp_nodelay().unwrap());
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_refusal_by_the_system_names_the_option_and_keeps_the_systems_kind() {
        let socket = socket(Domain::IPV4);
        let error =
            StreamOptions::new().congestion("no such thing").apply(&socket, Domain::IPV4).unwrap_err();
        assert_eq!(error.option, "congestion");
        assert!(std::error::Error::source(&error).is_some());
        let error = std::io::Error::from(error);
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
        assert!(
            error
                .to_string()
                .starts_with("socket option congestion = \"no such thing\": the system refused it")
        );
    }

    #[test]
    #[cfg(unix)]
    fn a_unix_socket_has_buffer_sizes_and_refuses_what_is_asked_for_beyond_them() {
        let unix = socket(Domain::UNIX);
        StreamOptions::new().recv_buffer_size(10_000).apply(&unix, Domain::UNIX).unwrap();
        assert!(unix.recv_buffer_size().unwrap() >= 10_000);
        for (options, expected) in [
            (StreamOptions::new().nodelay(true), "nodelay = true"),
            (StreamOptions::new().keepalive_idle(secs(1)), "keepalive_idle = 1s"),
            (StreamOptions::new().hop_limit(5), "hop_limit = 5"),
            (StreamOptions::new().reuse_port(true), "reuse_port = true"),
        ] {
            let error = options.check(Domain::UNIX).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("socket option {expected}: a Unix socket does not have it")
            );
        }
    }

    #[test]
    fn only_a_linger_of_a_second_or_more_blocks_on_close() {
        assert!(!StreamOptions::new().blocks_on_close());
        assert!(!StreamOptions::new().linger(Duration::ZERO).blocks_on_close());
        assert!(StreamOptions::new().linger(secs(1)).blocks_on_close());
    }
}
