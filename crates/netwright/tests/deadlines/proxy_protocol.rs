//! The header of the PROXY protocol, in front of all else.

use crate::{
    embedded::subject,
    row::{
        Drip::{Byte, Nothing},
        Limit::Ours,
        Seen, Subject, Table, at, never, rows,
    },
};
use netwright::{
    CloseCause, EmbeddedChannel,
    handler::{ProxyProtocol, ProxyProtocolError, TrustedNetworks},
    pipeline,
};

pub(crate) const TABLE: Table = (
    "proxy_protocol",
    rows! {
        nothing_has_come_of_the_header ["handler/src/proxy_protocol/stage.rs State::Waits"]
            by behind("10.0.0.1:1", "") => "ProxyProtocol::deadline" at(5), too_late, Nothing("a byte begins a header");
        within_a_line []
            by behind("10.0.0.1:1", "PROXY UNKNOWN ") => "ProxyProtocol::deadline" at(5), too_late, Byte(b'x');
        within_a_header_of_bytes []
            by behind("10.0.0.1:1", "\r\n\r\n\0\r\nQUIT\n\x21\0\x01\0") => "ProxyProtocol::deadline" at(5), too_late, Byte(0);
        begins_like_a_header_of_one_who_is_not_trusted ["handler/src/proxy_protocol/stage.rs State::Guards"]
            by behind("192.0.2.1:1", "PROX") => "application" Ours("its own protocol goes on behind the deadline"), never, Nothing("a byte tells");
        behind_the_header ["handler/src/proxy_protocol/stage.rs State::Passes"]
            by behind("10.0.0.1:1", "PROXY UNKNOWN\r\n") => "application" Ours("its own protocol goes on"), never, Byte(b'x');
    },
);

fn too_late(seen: &Seen) -> bool {
    let Some(CloseCause::Fault(fault)) = &seen.cause else { return false };
    matches!(fault.downcast_ref(), Some(ProxyProtocolError::TooLate { .. }))
}

/// From 10.0.0.0/8 a header may come, and comes or not.
fn behind(peer: &str, bytes: &str) -> Box<dyn Subject> {
    let trusted: TrustedNetworks = "10.0.0.0/8".parse().unwrap();
    let required = peer.starts_with("10.");
    let stage = ProxyProtocol::from(trusted);
    let stage = if required { stage } else { stage.optional() };
    let stages = pipeline().filter(stage).handle(|_, _| {});
    let mut channel = EmbeddedChannel::<(), _>::between(stages, None, Some(peer.parse().unwrap()));
    channel.write_inbound(bytes);
    subject(channel)
}
