//! Which platform has which option: one place that both the check and the setting ask.

use socket2::{Socket, TcpKeepalive};
use std::{io, net::Ipv4Addr, num::NonZeroU32, time::Duration};

/// Sets an option; `None` where the platform does not have it.
pub(super) type Setter<T> = Option<fn(&Socket, T) -> io::Result<()>>;
/// The same for a text.
pub(super) type TextSetter = Option<fn(&Socket, &str) -> io::Result<()>>;
/// Adds a part to the keep-alive settings, which some platforms take only as a whole.
pub(super) type KeepAlivePart<T> = Option<fn(TcpKeepalive, T) -> TcpKeepalive>;

macro_rules! platform_options {
    ($($(#[doc = $doc:literal])* #[cfg($have:meta)] $name:ident: $setter:ty = $set:expr;)*) => {$(
        $(#[doc = $doc])*
        #[cfg($have)]
        pub(super) const $name: $setter = Some($set);
        #[cfg(not($have))]
        pub(super) const $name: $setter = None;
    )*};
}

// The conditions are socket2's own.
platform_options! {
    #[cfg(all())]
    RECV_BUFFER_SIZE: Setter<usize> = Socket::set_recv_buffer_size;
    #[cfg(all())]
    SEND_BUFFER_SIZE: Setter<usize> = Socket::set_send_buffer_size;
    #[cfg(all())]
    REUSE_ADDRESS: Setter<bool> = Socket::set_reuse_address;
    /// FreeBSD shares a port without spreading connections unless asked for its own variant.
    #[cfg(all(unix, not(any(
        target_os = "solaris", target_os = "illumos", target_os = "cygwin", target_os = "nuttx",
    ))))]
    REUSE_PORT: Setter<bool> = reuse_port;
    #[cfg(all())]
    ONLY_V6: Setter<bool> = Socket::set_only_v6;
    #[cfg(all())]
    HOP_LIMIT_V4: Setter<u8> = |socket, hops| socket.set_ttl_v4(hops.into());
    /// Linux sends to IPv4 peers of an IPv6 socket by the IPv4 option.
    #[cfg(all())]
    HOP_LIMIT_V6: Setter<u8> = |socket, hops| {
        if cfg!(any(target_os = "linux", target_os = "android")) {
            socket.set_ttl_v4(hops.into())?;
        }
        socket.set_unicast_hops_v6(hops.into())
    };
    #[cfg(not(any(target_os = "fuchsia", target_os = "redox", target_os = "solaris", target_os = "haiku")))]
    TRAFFIC_CLASS_V4: Setter<u8> = |socket, class| socket.set_tos_v4(class.into());
    /// As for the hop limit. Fuchsia has no IPv4 counterpart.
    #[cfg(any(
        target_os = "android", target_os = "dragonfly", target_os = "freebsd", target_os = "fuchsia",
        target_os = "linux", target_os = "macos", target_os = "netbsd", target_os = "openbsd",
        target_os = "cygwin", target_os = "illumos",
    ))]
    TRAFFIC_CLASS_V6: Setter<u8> = |socket, class| {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        socket.set_tos_v4(class.into())?;
        socket.set_tclass_v6(class.into())
    };
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    MARK: Setter<u32> = Socket::set_mark;
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    PRIORITY: Setter<u32> = Socket::set_priority;
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    BIND_DEVICE: TextSetter = |socket, name| socket.bind_device(Some(name.as_bytes()));
    #[cfg(any(
        target_os = "ios", target_os = "visionos", target_os = "macos", target_os = "tvos", target_os = "watchos",
        target_os = "illumos", target_os = "solaris", target_os = "linux", target_os = "android",
    ))]
    BIND_DEVICE_INDEX_V4: Setter<NonZeroU32> = |socket, index| socket.bind_device_by_index_v4(Some(index));
    #[cfg(any(
        target_os = "ios", target_os = "visionos", target_os = "macos", target_os = "tvos", target_os = "watchos",
        target_os = "illumos", target_os = "solaris", target_os = "linux", target_os = "android",
    ))]
    BIND_DEVICE_INDEX_V6: Setter<NonZeroU32> = |socket, index| socket.bind_device_by_index_v6(Some(index));
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    FREEBIND_V4: Setter<bool> = Socket::set_freebind_v4;
    #[cfg(any(target_os = "android", target_os = "linux"))]
    FREEBIND_V6: Setter<bool> = Socket::set_freebind_v6;
    #[cfg(any(target_os = "android", target_os = "linux"))]
    TRANSPARENT_V4: Setter<bool> = Socket::set_ip_transparent_v4;
    #[cfg(any(target_os = "android", target_os = "linux"))]
    TRANSPARENT_V6: Setter<bool> = Socket::set_ip_transparent_v6;
    #[cfg(target_os = "linux")]
    BUSY_POLL: Setter<u32> = Socket::set_busy_poll;
    #[cfg(target_os = "linux")]
    INCOMING_CPU: Setter<usize> = Socket::set_cpu_affinity;
    #[cfg(target_os = "freebsd")]
    FIB: Setter<u32> = Socket::set_fib;
    #[cfg(all(unix, not(target_os = "redox")))]
    MSS: Setter<u16> = |socket, bytes| socket.set_tcp_mss(bytes.into());

    #[cfg(all())]
    BROADCAST: Setter<bool> = Socket::set_broadcast;
    #[cfg(all())]
    MULTICAST_HOPS_V4: Setter<u8> = |socket, hops| socket.set_multicast_ttl_v4(hops.into());
    #[cfg(all())]
    MULTICAST_HOPS_V6: Setter<u8> = |socket, hops| socket.set_multicast_hops_v6(hops.into());
    #[cfg(all())]
    MULTICAST_LOOP_V4: Setter<bool> = Socket::set_multicast_loop_v4;
    #[cfg(all())]
    MULTICAST_LOOP_V6: Setter<bool> = Socket::set_multicast_loop_v6;
    #[cfg(all())]
    MULTICAST_INTERFACE_V4: Setter<Ipv4Addr> = |socket, address| socket.set_multicast_if_v4(&address);
    #[cfg(all())]
    MULTICAST_INTERFACE_V6: Setter<u32> = Socket::set_multicast_if_v6;

    #[cfg(all())]
    NODELAY: Setter<bool> = Socket::set_tcp_nodelay;
    #[cfg(all())]
    KEEPALIVE: Setter<bool> = Socket::set_keepalive;
    #[cfg(not(any(target_os = "openbsd", target_os = "haiku", target_os = "vita")))]
    KEEPALIVE_IDLE: KeepAlivePart<Duration> = TcpKeepalive::with_time;
    #[cfg(any(
        target_os = "android", target_os = "dragonfly", target_os = "freebsd", target_os = "fuchsia",
        target_os = "illumos", target_os = "ios", target_os = "visionos", target_os = "linux", target_os = "macos",
        target_os = "netbsd", target_os = "tvos", target_os = "watchos", target_os = "windows",
        target_os = "cygwin",
    ))]
    KEEPALIVE_INTERVAL: KeepAlivePart<Duration> = TcpKeepalive::with_interval;
    #[cfg(any(
        target_os = "android", target_os = "dragonfly", target_os = "freebsd", target_os = "fuchsia",
        target_os = "illumos", target_os = "ios", target_os = "visionos", target_os = "linux", target_os = "macos",
        target_os = "netbsd", target_os = "tvos", target_os = "watchos", target_os = "windows",
        target_os = "cygwin",
    ))]
    KEEPALIVE_RETRIES: KeepAlivePart<u32> = TcpKeepalive::with_retries;
    #[cfg(all())]
    LINGER: Setter<Duration> = |socket, time| socket.set_linger(Some(time));
    #[cfg(not(target_os = "redox"))]
    OUT_OF_BAND_INLINE: Setter<bool> = Socket::set_out_of_band_inline;
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux", target_os = "cygwin"))]
    USER_TIMEOUT: Setter<Duration> = |socket, time| socket.set_tcp_user_timeout(Some(time));
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux", target_os = "cygwin"))]
    QUICKACK: Setter<bool> = Socket::set_tcp_quickack;
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    CORK: Setter<bool> = Socket::set_tcp_cork;
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    THIN_LINEAR_TIMEOUTS: Setter<bool> = Socket::set_tcp_thin_linear_timeouts;
    #[cfg(any(target_os = "android", target_os = "linux"))]
    NOTSENT_LOWAT: Setter<u32> = Socket::set_tcp_notsent_lowat;
    #[cfg(any(target_os = "freebsd", target_os = "linux"))]
    CONGESTION: TextSetter = |socket, name| socket.set_tcp_congestion(name.as_bytes());
    #[cfg(windows)]
    ACK_FREQUENCY: Setter<u8> = Socket::set_tcp_ack_frequency;
}

#[cfg(all(
    unix,
    not(any(
        target_os = "freebsd",
        target_os = "solaris",
        target_os = "illumos",
        target_os = "cygwin",
        target_os = "nuttx",
    ))
))]
fn reuse_port(socket: &Socket, reuse: bool) -> io::Result<()> {
    socket.set_reuse_port(reuse)
}

#[cfg(target_os = "freebsd")]
fn reuse_port(socket: &Socket, reuse: bool) -> io::Result<()> {
    socket.set_reuse_port_lb(reuse)
}
