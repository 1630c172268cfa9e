//! Multicast groups, joined and left while a channel lives.

use crate::support::*;
use netwright_core::Envelope;
use netwright_transport::{DatagramOptions, DatagramSocket, Multicast};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// What a channel that has joined receives, and one that has left does not. Loopback has no multicast flag on most
/// machines, but Linux delivers there all the same if the interface is named.
fn join_and_leave(bind_to: &str, group: Multicast, target: impl Into<SocketAddr>, options: DatagramOptions) {
    let [member, sender] =
        [(); 2].map(|()| bind_with(probe(), bind_to, |builder| builder.options(options.clone())));
    let mut target = target.into();
    target.set_port(member.addr().port());
    let socket = DatagramSocket::of(&member.channel).unwrap();
    if let Err(error) = socket.join(&group) {
        return println!("skipped: {error}");
    }
    let mut written = sender.channel.send(Envelope::to(target, "to all"));
    if let Err(error) = written.wait() {
        return println!("skipped: {error}");
    }
    let received = member.events.read();
    assert_eq!(received.bytes, b"to all");
    assert!(received.from.ends_with(&format!(":{}", sender.addr().port())), "{}", received.from);

    let again = socket.join(&group).unwrap_err();
    assert!(again.io().is_some(), "{again}");
    socket.leave(&group).unwrap();
    sender.channel.send(Envelope::to(target, "to the rest")).wait().unwrap();
    member.settle();
    member.events.nothing();
    let left = socket.leave(&group).unwrap_err();
    assert!(left.to_string().starts_with(&format!("cannot leave {group}: ")), "{left}");

    socket.join(&group).unwrap();
    sender.channel.send(Envelope::to(target, "back")).wait().unwrap();
    assert_eq!(member.events.read().bytes, b"back");
}

fn from_loopback() -> DatagramOptions {
    DatagramOptions::new().multicast_interface(Ipv4Addr::LOCALHOST).multicast_hops(0)
}

#[test]
fn an_ipv4_group_is_joined_and_left_by_the_address_of_an_interface() {
    let group = Ipv4Addr::new(239, 7, 7, 1);
    let membership = Multicast::group(group.into()).on(Ipv4Addr::LOCALHOST);
    join_and_leave("0.0.0.0:0", membership, (group, 0), from_loopback());
}

#[test]
fn an_ipv4_group_is_joined_and_left_by_the_number_of_an_interface() {
    let group = Ipv4Addr::new(239, 7, 7, 2);
    let membership = Multicast::group(group.into()).on_index(index_of("lo"));
    join_and_leave("0.0.0.0:0", membership, (group, 0), from_loopback());
}

#[test]
fn an_ipv4_group_of_one_source_is_joined_and_left() {
    let group = Ipv4Addr::new(232, 7, 7, 3);
    let membership = Multicast::group(group.into()).on(Ipv4Addr::LOCALHOST).from_source(Ipv4Addr::LOCALHOST);
    join_and_leave("0.0.0.0:0", membership, (group, 0), from_loopback());
}

#[test]
fn an_ipv6_group_is_joined_and_left_by_the_number_of_an_interface() {
    if let Err(error) = std::net::UdpSocket::bind("[::1]:0") {
        return println!("skipped: no IPv6 here: {error}");
    }
    // Loopback has no route for IPv6 groups. With a limit of 0 nothing leaves this machine.
    let Some(index) = interface_for_groups() else {
        return println!("skipped: no interface for multicast here");
    };
    let group: Ipv6Addr = "ff02::7:7:7".parse().unwrap();
    let options = DatagramOptions::new().multicast_interface_index(index).multicast_hops(0);
    let membership = Multicast::group(group.into()).on_index(index);
    join_and_leave("[::]:0", membership, SocketAddrV6::new(group, 0, 0, index), options);
}

fn attribute(interface: &str, name: &str) -> String {
    let text = std::fs::read_to_string(format!("/sys/class/net/{interface}/{name}"));
    text.unwrap_or_default().trim().to_owned()
}

fn index_of(interface: &str) -> u32 {
    attribute(interface, "ifindex").parse().unwrap_or(1)
}

/// One that is up and made for multicast.
fn interface_for_groups() -> Option<u32> {
    const UP_AND_MULTICAST: u32 = 0x1001;
    let names = std::fs::read_dir("/sys/class/net").ok()?;
    let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let fits = |name: &String| {
        let flags = attribute(name, "flags");
        let flags = u32::from_str_radix(flags.trim_start_matches("0x"), 16).unwrap_or(0);
        flags & UP_AND_MULTICAST == UP_AND_MULTICAST
    };
    names.into_iter().find(fits).map(|name| index_of(&name))
}
