//! A small reader of pcapng with raw packets of IP and TCP, which believes nothing: lengths, padding and checksums are looked at.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

#[derive(Debug, Default)]
pub(crate) struct File {
    pub(crate) packets: Vec<Packet>,
    /// Key logs, and how many packets came before each.
    pub(crate) secrets: Vec<(usize, String)>,
    pub(crate) statistics: Vec<Statistics>,
}

#[derive(Debug)]
pub(crate) struct Statistics {
    pub(crate) packets: u64,
    pub(crate) lost: u64,
    pub(crate) comment: String,
}

#[derive(Debug, Clone)]
pub(crate) struct Packet {
    pub(crate) at: Duration,
    /// Towards us, as its flags say.
    pub(crate) inbound: bool,
    pub(crate) comment: Option<String>,
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: String,
    pub(crate) window: u16,
    pub(crate) payload: Vec<u8>,
}

fn u16_of(bytes: &[u8]) -> u16 {
    u16::from_le_bytes(bytes[..2].try_into().unwrap())
}

fn u32_of(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[..4].try_into().unwrap())
}

fn u64_of(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

/// Reads a file to its end.
pub(crate) fn parse(mut bytes: &[u8]) -> File {
    let mut file = File::default();
    let mut index = 0;
    while !bytes.is_empty() {
        let (kind, len) = (u32_of(bytes), u32_of(&bytes[4..]) as usize);
        assert!(len >= 12 && len % 4 == 0 && len <= bytes.len(), "block {index} of {len} bytes");
        assert_eq!(u32_of(&bytes[len - 4..]) as usize, len, "both lengths of block {index}");
        let body = &bytes[8..len - 4];
        match (index, kind) {
            (0, 0x0a0d_0d0a) => {
                assert_eq!((u32_of(body), u16_of(&body[4..]), u16_of(&body[6..])), (0x1a2b_3c4d, 1, 0));
                assert_eq!(u64_of(&body[8..]), u64::MAX);
                options(&body[16..]);
            }
            (1, 1) => {
                assert_eq!((u16_of(body), u32_of(&body[4..])), (101, 0));
                assert!(options(&body[8..]).contains(&(9, vec![9])), "nanoseconds");
            }
            (2.., 6) => file.packets.push(packet(body)),
            (2.., 10) => {
                assert_eq!(u32_of(body), 0x544c_534b);
                let len = u32_of(&body[4..]) as usize;
                assert_eq!(body.len(), 8 + len.next_multiple_of(4));
                let lines = String::from_utf8(body[8..8 + len].to_vec()).unwrap();
                file.secrets.push((file.packets.len(), lines));
            }
            (2.., 5) => {
                let options = options(&body[12..]);
                let of = |code| options.iter().find(|(known, _)| *known == code).unwrap().1.clone();
                let comment = String::from_utf8(of(1)).unwrap();
                file.statistics.push(Statistics { packets: u64_of(&of(4)), lost: u64_of(&of(5)), comment });
            }
            other => panic!("block {other:?}"),
        }
        bytes = &bytes[len..];
        index += 1;
    }
    assert!(index >= 2, "a section and an interface");
    file
}

fn options(mut bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut all = Vec::new();
    loop {
        let (code, len) = (u16_of(bytes), usize::from(u16_of(&bytes[2..])));
        if code == 0 {
            assert_eq!((len, bytes.len()), (0, 4), "nothing behind the last option");
            return all;
        }
        all.push((code, bytes[4..4 + len].to_vec()));
        bytes = &bytes[4 + len.next_multiple_of(4)..];
    }
}

fn packet(body: &[u8]) -> Packet {
    assert_eq!(u32_of(body), 0, "the only interface");
    let at = u64::from(u32_of(&body[4..])) << 32 | u64::from(u32_of(&body[8..]));
    let (captured, original) = (u32_of(&body[12..]) as usize, u32_of(&body[16..]) as usize);
    assert_eq!(captured, original);
    let options = options(&body[20 + captured.next_multiple_of(4)..]);
    let of = |code| options.iter().find(|(known, _)| *known == code).map(|(_, value)| value.clone());
    let inbound = match u32_of(&of(2).expect("flags")) {
        1 => true,
        2 => false,
        other => panic!("flags {other}"),
    };
    let ip = &body[20..20 + captured];
    let (from, to, tcp): (IpAddr, IpAddr, &[u8]) = match ip[0] {
        0x45 => {
            assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), ip.len());
            assert_eq!((ip[9], sum(&ip[..20])), (6, 0xffff), "of the head");
            let address = |at: usize| Ipv4Addr::from(<[u8; 4]>::try_from(&ip[at..at + 4]).unwrap());
            (address(12).into(), address(16).into(), &ip[20..])
        }
        0x60 => {
            assert_eq!(usize::from(u16::from_be_bytes([ip[4], ip[5]])) + 40, ip.len());
            assert_eq!(ip[6], 6);
            let address = |at: usize| Ipv6Addr::from(<[u8; 16]>::try_from(&ip[at..at + 16]).unwrap());
            (address(8).into(), address(24).into(), &ip[40..])
        }
        other => panic!("no head of IP begins with {other:x}"),
    };
    let addresses = if ip[0] == 0x45 { &ip[12..20] } else { &ip[8..40] };
    let mut summed = addresses.to_vec();
    summed.extend([0, 6]);
    summed.extend((tcp.len() as u16).to_be_bytes());
    summed.extend(tcp);
    assert_eq!(sum(&summed), 0xffff, "of the segment");
    assert_eq!(tcp[12], 0x50);
    let names = [(2, "SYN"), (1, "FIN"), (4, "RST"), (8, "PSH"), (16, "ACK")];
    let flags: Vec<_> = names.iter().filter(|(bit, _)| tcp[13] & bit != 0).map(|(_, name)| *name).collect();
    let port = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
    let number = |at: usize| u32::from_be_bytes(tcp[at..at + 4].try_into().unwrap());
    Packet {
        at: Duration::from_nanos(at),
        inbound,
        comment: of(1).map(|text| String::from_utf8(text).unwrap()),
        from: SocketAddr::new(from, port(0)),
        to: SocketAddr::new(to, port(2)),
        seq: number(4),
        ack: number(8),
        flags: flags.join(" "),
        window: port(14),
        payload: tcp[20..].to_vec(),
    }
}

/// 0xffff if a checksum in it is right.
fn sum(bytes: &[u8]) -> u16 {
    let pairs = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = pairs.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
