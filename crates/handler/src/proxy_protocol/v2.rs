//! Version 2: bytes.
//!
//! ```text
//!   signature, 12 │ version and command, 1 │ family, 1 │ length, 2 │ addresses: 12, 36 or 216 │ values …
//!                                                       └───────────▶ of what follows
//! ```

use super::crc32c::crc32c;
use super::{
    decode::Look,
    error::{ProxyProtocolError, malformed},
    header::{Command, ProxyHeader},
    tlv::{Tlv, kind, split},
    v1::as_v6,
};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use netwright_core::{Address, UnixName};
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
};

pub(super) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// What every header has.
const PREFIX: usize = 16;
/// The room of a Unix socket's name.
const UNIX: usize = 108;

/// Looks at bytes that begin with the signature.
pub(super) fn look(bytes: &[u8], max: usize) -> Result<Look, ProxyProtocolError> {
    let Some(&command) = bytes.get(12) else { return Ok(Look::More) };
    let command = match command {
        0x20 => Command::Local,
        0x21 => Command::Proxy,
        other if other >> 4 != 2 => return malformed("its version is not 2"),
        _ => return malformed("its command is neither LOCAL nor PROXY"),
    };
    let Some(&[high, low]) = bytes.get(14..PREFIX) else { return Ok(Look::More) };
    let length = PREFIX + usize::from(u16::from_be_bytes([high, low]));
    if length > max {
        return Err(ProxyProtocolError::TooLong { what: "header", limit: max, got: length });
    }
    let Some(whole) = bytes.get(..length) else { return Ok(Look::More) };
    let header = match command {
        Command::Local => ProxyHeader::local(), // whatever follows
        Command::Proxy => parse(whole)?,
    };
    Ok(Look::Header { header, length })
}

fn parse(whole: &[u8]) -> Result<ProxyHeader, ProxyProtocolError> {
    let mut rest = Bytes::copy_from_slice(&whole[PREFIX..]);
    let ends = ends(whole[13], &mut rest)?;
    let mut header = ProxyHeader::of(Command::Proxy, ends);
    header.datagrams = matches!(whole[13] & 0xf, 2);
    let begin = whole.len() - rest.len();
    for value in split(rest) {
        let (at, value) = value?;
        value.check()?;
        match value.kind {
            kind::NOOP => {}
            kind::CRC32C if header.checksum => return malformed("it has two checksums"),
            kind::CRC32C => {
                check_sum(whole, begin + at + 3, &value)?;
                header.checksum = true;
            }
            _ => header.values.push(value),
        }
    }
    Ok(header)
}

/// The checksum is that of the whole header with zeros in its own place.
fn check_sum(whole: &[u8], at: usize, value: &Tlv) -> Result<(), ProxyProtocolError> {
    let got = value.value.clone().get_u32();
    let expected = crc32c([&whole[..at], &[0; 4], &whole[at + 4..]]);
    if got == expected { Ok(()) } else { Err(ProxyProtocolError::Checksum { expected, got }) }
}

/// Takes the addresses.
fn ends(family: u8, rest: &mut Bytes) -> Result<Option<(Address, Address)>, ProxyProtocolError> {
    let needs = match family {
        0x00 => return Ok(None),
        0x11 | 0x12 => 12,
        0x21 | 0x22 => 36,
        0x31 | 0x32 => 2 * UNIX,
        _ => return malformed("its family is none that is known"),
    };
    if rest.len() < needs {
        return malformed("it is shorter than its addresses");
    }
    let mut ends = rest.split_to(needs);
    if family >> 4 == 3 {
        let source = unix(&ends.split_to(UNIX))?;
        return Ok(Some((source, unix(&ends)?)));
    }
    let mut ip = || match family >> 4 {
        1 => IpAddr::V4(Ipv4Addr::from_bits(ends.get_u32())),
        _ => IpAddr::V6(Ipv6Addr::from_bits(ends.get_u128())),
    };
    let (source, destination) = (ip(), ip());
    let (from, to) = (ends.get_u16(), ends.get_u16());
    Ok(Some((SocketAddr::new(source, from).into(), SocketAddr::new(destination, to).into())))
}

/// As in the system's own address: a path ends at the first zero, an abstract name begins with one.
fn unix(name: &[u8]) -> Result<Address, ProxyProtocolError> {
    let end = |bytes: &[u8]| bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    Ok(Address::Unix(match name {
        [0, behind @ ..] => {
            let last = behind.iter().rposition(|byte| *byte != 0);
            last.map_or(UnixName::Unnamed, |last| UnixName::Abstract(behind[..=last].into()))
        }
        path => UnixName::Path(as_path(&path[..end(path)])?.into()),
    }))
}

#[cfg(unix)]
fn as_path(bytes: &[u8]) -> Result<&Path, ProxyProtocolError> {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    Ok(Path::new(OsStr::from_bytes(bytes)))
}

#[cfg(not(unix))]
fn as_path(bytes: &[u8]) -> Result<&Path, ProxyProtocolError> {
    std::str::from_utf8(bytes).map(Path::new).or(malformed("a path that is no text"))
}

pub(super) fn encode(header: &ProxyHeader) -> Result<Bytes, ProxyProtocolError> {
    let mut out = BytesMut::from(SIGNATURE);
    out.put_u8(0x20 | u8::from(header.command == Command::Proxy));
    let protocol = if header.datagrams { 2 } else { 1 };
    let (family, ends) = match &header.ends {
        Some((source, destination)) => encode_ends(source, destination)?,
        None => (0, BytesMut::new()),
    };
    out.put_u8(if family == 0 { 0 } else { family << 4 | protocol });
    out.put_u16(0); // said below
    out.extend_from_slice(&ends);
    for value in &header.values {
        if value.kind == kind::CRC32C {
            return malformed("a checksum is asked for by `with_checksum`, not given as a value");
        }
        value.check()?;
        value.write(&mut out)?;
    }
    let sum_at = header.checksum.then(|| {
        out.extend_from_slice(&[kind::CRC32C, 0, 4, 0, 0, 0, 0]);
        out.len() - 4
    });
    let Ok(length) = u16::try_from(out.len() - PREFIX) else {
        return Err(ProxyProtocolError::TooLong {
            what: "header",
            limit: PREFIX + usize::from(u16::MAX),
            got: out.len(),
        });
    };
    out[14..PREFIX].copy_from_slice(&length.to_be_bytes());
    if let Some(at) = sum_at {
        let sum = crc32c([&out[..]]);
        out[at..].copy_from_slice(&sum.to_be_bytes());
    }
    Ok(out.freeze())
}

/// The family, and the addresses. Of a kind that has no family nothing is told.
fn encode_ends(source: &Address, destination: &Address) -> Result<(u8, BytesMut), ProxyProtocolError> {
    let mut out = BytesMut::new();
    let family = match (source, destination) {
        (Address::Ip(source), Address::Ip(destination)) => {
            let family = match (source.ip(), destination.ip()) {
                (IpAddr::V4(from), IpAddr::V4(to)) => {
                    out.put_u32(from.to_bits());
                    out.put_u32(to.to_bits());
                    1
                }
                (from, to) => {
                    for end in [from, to] {
                        if let IpAddr::V6(v6) = as_v6(end) {
                            out.put_u128(v6.to_bits());
                        }
                    }
                    2
                }
            };
            out.put_u16(source.port());
            out.put_u16(destination.port());
            family
        }
        (Address::Unix(source), Address::Unix(destination)) => {
            encode_unix(source, &mut out)?;
            encode_unix(destination, &mut out)?;
            3
        }
        _ => 0,
    };
    Ok((family, out))
}

fn encode_unix(name: &UnixName, out: &mut BytesMut) -> Result<(), ProxyProtocolError> {
    let begin = out.len();
    match name {
        UnixName::Path(path) => out.extend_from_slice(path.as_os_str().as_encoded_bytes()),
        UnixName::Abstract(name) => {
            out.put_u8(0);
            out.extend_from_slice(name);
        }
        _ => {}
    }
    let got = out.len() - begin;
    if got > UNIX {
        return Err(ProxyProtocolError::TooLong { what: "Unix path", limit: UNIX, got });
    }
    out.put_bytes(0, UNIX - got);
    Ok(())
}
