//! Many datagrams by one system call: `recvmmsg` and `sendmmsg`, with segments by the kernel where it has them.
//!
//! ```text
//!   receive:  headers[i] ─▶ pieces[i] ─▶ spare capacity of slots[i]      send:  headers[i] ─▶ pieces[a..b] ─▶ messages
//!                        ─▶ names[i]     who sent it                                       ─▶ names[i]      whereto
//!                        ─▶ control[i]   segment size, descriptors                         ─▶ control[i]    segment size
//! ```
//! The rules that every `unsafe` block here argues from:
//! 1. The arrays are boxed slices of a fixed length that are never replaced, so pointers into them hold as long as the
//!    batch does.
//! 2. Pointers to others' memory (slots, messages, descriptors) are written into the arrays and used by the kernel within
//!    one call of `receive` or `send`, which borrows that memory for as long as it runs. What stays in the arrays afterwards
//!    is overwritten before the kernel sees it again.
//! 3. Every length told to the kernel is the length of the memory behind it: asserted for slots, by construction else.
//! 4. The kernel has written as many bytes to a slot as it says, and no more than it was offered; names and control
//!    messages likewise. What it has written is plain data: any bytes are a valid value of those types.
//! 5. A descriptor that the kernel has put into a control message is ours alone. It becomes an `OwnedFd` at once, before
//!    anything can fail.
//!
//! Not here: what a datagram is and what becomes of it (`mailbox`, `channel`).

#![allow(unsafe_code)]
#![allow(clippy::unnecessary_cast)] // the C libraries differ in the types of lengths

use super::{Ask, Extra, SendRules, Whereto};
use crate::{return_stack::refill, socket::unix::PeerCredentials};
use bytes::BytesMut;
use netwright_core::{Address, Outbound, UnixName};
use socket2::Socket;
use std::{
    ffi::OsStr,
    io, mem,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6},
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    ptr,
};

/// Datagrams in one call. More gain little, and hold up others.
pub(super) const BATCH_MAX: usize = 64;
/// Pieces in one call to send: with segments by the kernel, a header has many.
const PIECES_MAX: usize = 1024;
/// Segments of one header: what every kernel that has them takes.
const SEGMENTS_MAX: usize = 64;
/// Bytes of one header with segments: what an IPv4 packet carries, with room for options.
const SEGMENTS_BYTES_MAX: usize = 65_000;
/// What a control message with a segment size takes, in words.
const SEGMENT_WORDS: usize = control_space(size_of::<u16>()).div_ceil(8);
/// Where the name of a Unix socket begins.
const UNIX_NAME_AT: usize = mem::offset_of!(libc::sockaddr_un, sun_path);

/// The length of a control message with so many bytes. With room for exactly this many, no more descriptors come than
/// asked for.
pub(super) const fn control_len(bytes: usize) -> usize {
    // SAFETY: `CMSG_LEN` only calculates.
    unsafe { libc::CMSG_LEN(bytes as u32) as usize }
}

/// The same with what the kernel pads it to.
const fn control_space(bytes: usize) -> usize {
    // SAFETY: `CMSG_SPACE` only calculates.
    unsafe { libc::CMSG_SPACE(bytes as u32) as usize }
}

/// # Safety
/// All zeroes has to be a valid value of the type.
unsafe fn zeroed<T>(count: usize) -> Box<[T]> {
    // SAFETY: the caller's promise.
    (0..count).map(|_| unsafe { mem::zeroed() }).collect()
}

type Arrays = (Box<[libc::mmsghdr]>, Box<[libc::iovec]>, Box<[libc::sockaddr_storage]>);

fn arrays(pieces: usize) -> Arrays {
    // SAFETY: structs of integers and raw pointers.
    unsafe { (zeroed(BATCH_MAX), zeroed(pieces), zeroed(BATCH_MAX)) }
}

fn checked(result: libc::c_int) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Receives; lives as long as its loop.
pub(super) struct ReceiveBatch {
    headers: Box<[libc::mmsghdr]>,
    pieces: Box<[libc::iovec]>,
    names: Box<[libc::sockaddr_storage]>,
    /// Grown to what the greediest channel asks for.
    control: Vec<u64>,
    extras: Vec<Extra>,
}

impl ReceiveBatch {
    pub(super) fn new() -> Self {
        let (headers, pieces, names) = arrays(BATCH_MAX);
        Self { headers, pieces, names, control: Vec::new(), extras: Vec::new() }
    }

    /// Receives at most as many datagrams as there are slots, each into its own, which is empty and has room for
    /// `ask.limit`.
    pub(super) fn receive(
        &mut self,
        socket: &Socket,
        slots: &mut [BytesMut],
        ask: &Ask,
    ) -> io::Result<usize> {
        let count = slots.len().min(BATCH_MAX);
        let words = ask.control.div_ceil(8);
        if self.control.len() < words * count {
            self.control.resize(words * count, 0);
        }
        for (slot, piece) in slots[..count].iter_mut().zip(&mut self.pieces) {
            let room = slot.spare_capacity_mut();
            assert!(room.len() >= ask.limit, "{} bytes of room for {}", room.len(), ask.limit);
            *piece = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: ask.limit };
        }
        let (pieces, names) = (self.pieces.as_mut_ptr(), self.names.as_mut_ptr());
        let control = self.control.as_mut_ptr();
        for (index, header) in self.headers[..count].iter_mut().enumerate() {
            let header = &mut header.msg_hdr;
            // SAFETY: `index < count`, which is the number of pieces, of names and of `words` in the control room.
            unsafe {
                header.msg_iov = pieces.add(index);
                header.msg_name = if ask.names { names.add(index).cast() } else { ptr::null_mut() };
                header.msg_control =
                    if words > 0 { control.add(index * words).cast() } else { ptr::null_mut() };
            }
            header.msg_iovlen = 1;
            header.msg_namelen = if ask.names { size_of::<libc::sockaddr_storage>() as u32 } else { 0 };
            header.msg_controllen = ask.control as _;
            header.msg_flags = 0;
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC | libc::MSG_CMSG_CLOEXEC;
        // SAFETY: rules 1 to 3; `count` headers were just filled in.
        let result = unsafe {
            let headers = self.headers.as_mut_ptr();
            libc::recvmmsg(socket.as_raw_fd(), headers, count as u32, flags as _, ptr::null_mut())
        };
        refill();
        let received = checked(result)?;
        self.extras.clear();
        for (header, slot) in self.headers[..received].iter().zip(slots) {
            if words > 0 {
                self.extras.push(extra_of(&header.msg_hdr));
            }
            // SAFETY: rule 4: with `MSG_TRUNC` the kernel tells the datagram's length, of which it wrote what fitted.
            unsafe { slot.set_len((header.msg_len as usize).min(ask.limit)) };
        }
        Ok(received)
    }

    /// How long the datagram of this index was, also beyond what was received of it.
    pub(super) fn length(&self, index: usize) -> usize {
        self.headers[index].msg_len as usize
    }

    /// What came along with it.
    pub(super) fn extra(&mut self, index: usize) -> Extra {
        self.extras.get_mut(index).map(mem::take).unwrap_or_default()
    }

    /// Who sent it.
    pub(super) fn from(&self, index: usize) -> Option<Address> {
        address_of(&self.names[index], self.headers[index].msg_hdr.msg_namelen as usize)
    }
}

/// Takes what the kernel put into a control message. To be called once for each that was received.
fn extra_of(header: &libc::msghdr) -> Extra {
    let mut extra = Extra { cut: header.msg_flags & libc::MSG_CTRUNC != 0, ..Extra::default() };
    // SAFETY: rules 1 and 4: the kernel has filled in `msg_controllen` bytes of well-formed control messages, and the
    // macros walk along within them.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while let Some(here) = message.as_ref() {
            let data = libc::CMSG_DATA(here);
            match (here.cmsg_level, here.cmsg_type) {
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    extra.segment = data.cast::<libc::c_int>().read_unaligned().max(0) as usize;
                }
                (libc::SOL_SOCKET, libc::SCM_RIGHTS) => {
                    let len = (here.cmsg_len as usize).saturating_sub(control_len(0));
                    for at in 0..len / size_of::<RawFd>() {
                        let fd = data.cast::<RawFd>().add(at).read_unaligned();
                        extra.descriptors.push(OwnedFd::from_raw_fd(fd)); // rule 5
                    }
                }
                (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) => {
                    let sender = data.cast::<libc::ucred>().read_unaligned();
                    let pid = u32::try_from(sender.pid).ok().filter(|pid| *pid != 0);
                    extra.credentials = Some(PeerCredentials { pid, uid: sender.uid, gid: sender.gid });
                }
                _ => {}
            }
            message = libc::CMSG_NXTHDR(header, here);
        }
    }
    extra
}

/// An address that the kernel has written.
fn address_of(storage: &libc::sockaddr_storage, len: usize) -> Option<Address> {
    let place = &raw const *storage;
    match libc::c_int::from(storage.ss_family) {
        _ if len == 0 => None,
        libc::AF_INET if len >= size_of::<libc::sockaddr_in>() => {
            // SAFETY: rule 4, and a storage is large and aligned enough for any address.
            let name = unsafe { &*place.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(name.sin_addr.s_addr.to_ne_bytes());
            Some(Address::Ip(SocketAddrV4::new(ip, u16::from_be(name.sin_port)).into()))
        }
        libc::AF_INET6 if len >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: as above.
            let name = unsafe { &*place.cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(name.sin6_addr.s6_addr);
            let (port, scope) = (u16::from_be(name.sin6_port), name.sin6_scope_id);
            Some(Address::Ip(SocketAddr::V6(SocketAddrV6::new(ip, port, name.sin6_flowinfo, scope))))
        }
        libc::AF_UNIX => {
            let len = len.clamp(UNIX_NAME_AT, size_of::<libc::sockaddr_un>());
            // SAFETY: rule 4, and the length is clamped to that of the type.
            let name = unsafe {
                let start = place.cast::<u8>().add(UNIX_NAME_AT);
                std::slice::from_raw_parts(start, len - UNIX_NAME_AT)
            };
            Some(Address::Unix(match name {
                [] => UnixName::Unnamed,
                [0, name @ ..] => UnixName::Abstract(name.into()),
                path => {
                    let end = path.iter().position(|&byte| byte == 0).unwrap_or(path.len());
                    UnixName::Path(Path::new(OsStr::from_bytes(&path[..end])).into())
                }
            }))
        }
        _ => None,
    }
}

/// Writes an address for the kernel; its length, or `None` if a socket cannot have it.
fn write_address(storage: &mut libc::sockaddr_storage, address: &Address) -> Option<usize> {
    let place = &raw mut *storage;
    match address {
        Address::Ip(SocketAddr::V4(ip)) => {
            // SAFETY: a storage is large and aligned enough for any address, and ours alone.
            let name = unsafe { &mut *place.cast::<libc::sockaddr_in>() };
            name.sin_family = libc::AF_INET as _;
            name.sin_port = ip.port().to_be();
            name.sin_addr.s_addr = u32::from_ne_bytes(ip.ip().octets());
            Some(size_of::<libc::sockaddr_in>())
        }
        Address::Ip(SocketAddr::V6(ip)) => {
            // SAFETY: as above.
            let name = unsafe { &mut *place.cast::<libc::sockaddr_in6>() };
            name.sin6_family = libc::AF_INET6 as _;
            name.sin6_port = ip.port().to_be();
            name.sin6_addr.s6_addr = ip.ip().octets();
            name.sin6_flowinfo = ip.flowinfo();
            name.sin6_scope_id = ip.scope_id();
            Some(size_of::<libc::sockaddr_in6>())
        }
        address => {
            let name = crate::socket::sock_addr(address).ok()?;
            let len = name.len() as usize;
            // SAFETY: socket2 has an address of `len` bytes, at most those of a storage, at that place.
            unsafe { ptr::copy_nonoverlapping(name.as_ptr().cast::<u8>(), place.cast::<u8>(), len) };
            Some(len)
        }
    }
}

/// Sends; lives as long as its loop.
pub(super) struct SendBatch {
    headers: Box<[libc::mmsghdr]>,
    pieces: Box<[libc::iovec]>,
    names: Box<[libc::sockaddr_storage]>,
    segments: Box<[[u64; SEGMENT_WORDS]]>,
    /// How many messages a header stands for.
    counts: Box<[usize]>,
}

/// Messages of one header: all of `segment` bytes for one address, but for the last, which may be shorter.
struct Run<'a> {
    to: Option<&'a Address>,
    segment: usize,
    bytes: usize,
    open: bool,
}

impl SendBatch {
    pub(super) fn new() -> Self {
        let (headers, pieces, names) = arrays(PIECES_MAX);
        let (segments, counts) = (vec![[0; SEGMENT_WORDS]; BATCH_MAX].into(), vec![0; BATCH_MAX].into());
        Self { headers, pieces, names, segments, counts }
    }

    /// Sends what is flushed, as far as one call does. Returns how many messages the kernel has taken: none if the first
    /// one cannot be sent at all. An error is about the first message.
    pub(super) fn send(
        &mut self,
        socket: &Socket,
        outbound: &Outbound,
        rules: &SendRules,
    ) -> io::Result<usize> {
        let (mut headers, mut pieces) = (0, 0);
        let mut run: Option<Run<'_>> = None;
        let mut control = Vec::new(); // only for descriptors, which are rare
        for message in outbound.messages().take(PIECES_MAX) {
            let Some(Whereto { bytes, to, descriptors }) = rules.whereto(message) else { break };
            let piece = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
            if let Some(run) = &mut run
                && run.takes(to, bytes.len(), self.counts[headers - 1])
                && descriptors.is_empty()
            {
                self.pieces[pieces] = piece;
                pieces += 1;
                self.counts[headers - 1] += 1;
                run.bytes += bytes.len();
                run.open = bytes.len() == run.segment;
                continue;
            }
            if headers == BATCH_MAX || (headers > 0 && !descriptors.is_empty()) {
                break;
            }
            let name_len = match to {
                None => 0,
                Some(to) => match write_address(&mut self.names[headers], to) {
                    Some(len) => len,
                    None => break,
                },
            };
            self.headers[headers].msg_hdr.msg_namelen = name_len as u32;
            self.pieces[pieces] = piece;
            self.counts[headers] = 1;
            headers += 1;
            pieces += 1;
            if !descriptors.is_empty() {
                control = rights(descriptors);
                break;
            }
            let open = rules.segments && !bytes.is_empty();
            run = Some(Run { to, segment: bytes.len(), bytes: bytes.len(), open });
        }
        if headers == 0 {
            return Ok(0);
        }
        self.point(headers, &mut control);
        // SAFETY: rules 1 to 3; `headers` of them were just filled in, and the kernel only reads what they point to.
        let result = unsafe {
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            libc::sendmmsg(socket.as_raw_fd(), self.headers.as_mut_ptr(), headers as u32, flags as _)
        };
        refill();
        drop(control);
        Ok(self.counts[..checked(result)?].iter().sum())
    }

    /// Fills in where the headers point to, once nothing moves any more. Descriptors go with a header that is alone.
    fn point(&mut self, headers: usize, rights: &mut [u64]) {
        let (pieces, names) = (self.pieces.as_mut_ptr(), self.names.as_mut_ptr());
        let segments = self.segments.as_mut_ptr();
        let mut first = 0;
        for (index, header) in self.headers[..headers].iter_mut().enumerate() {
            let (header, count) = (&mut header.msg_hdr, self.counts[index]);
            (header.msg_control, header.msg_controllen) = (ptr::null_mut(), 0);
            // SAFETY: rule 1: `index` is below the lengths of names and segments, and `first` below that of the pieces, which
            // are as many as the counts add up to.
            unsafe {
                header.msg_name =
                    if header.msg_namelen > 0 { names.add(index).cast() } else { ptr::null_mut() };
                header.msg_iov = pieces.add(first);
                if count > 1 {
                    let len = (*pieces.add(first)).iov_len as u16; // at most `SEGMENTS_BYTES_MAX`
                    segment_size(header, &mut *segments.add(index), len);
                }
            }
            header.msg_iovlen = count as _;
            first += count;
        }
        if !rights.is_empty() {
            let header = &mut self.headers[0].msg_hdr;
            header.msg_control = rights.as_mut_ptr().cast();
            header.msg_controllen = size_of_val(rights) as _;
        }
    }

    /// Whether the last call offered several messages as the first one.
    pub(super) fn joined_first(&self) -> bool {
        self.counts[0] > 1
    }
}

impl Run<'_> {
    fn takes(&self, to: Option<&Address>, len: usize, count: usize) -> bool {
        self.open
            && len > 0
            && len <= self.segment
            && count < SEGMENTS_MAX
            && self.bytes + len <= SEGMENTS_BYTES_MAX
            && to == self.to
    }
}

/// Tells the kernel where to cut.
fn segment_size(header: &mut libc::msghdr, room: &mut [u64; SEGMENT_WORDS], len: u16) {
    header.msg_control = room.as_mut_ptr().cast();
    header.msg_controllen = control_space(size_of::<u16>()) as _;
    // SAFETY: rule 1, and the room is that of one control message with a `u16`.
    unsafe {
        let message = libc::CMSG_FIRSTHDR(header);
        (*message).cmsg_level = libc::SOL_UDP;
        (*message).cmsg_type = libc::UDP_SEGMENT;
        (*message).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as _;
        libc::CMSG_DATA(message).cast::<u16>().write_unaligned(len);
    }
}

/// A control message with these descriptors.
fn rights(descriptors: &[std::sync::Arc<OwnedFd>]) -> Vec<u64> {
    let len = descriptors.len() * size_of::<RawFd>();
    let mut room = vec![0_u64; control_space(len).div_ceil(8)];
    let message = room.as_mut_ptr().cast::<libc::cmsghdr>();
    // SAFETY: the room is that of one control message with so many descriptors, and aligned for its header.
    unsafe {
        (*message).cmsg_level = libc::SOL_SOCKET;
        (*message).cmsg_type = libc::SCM_RIGHTS;
        (*message).cmsg_len = libc::CMSG_LEN(len as u32) as _;
        let data = libc::CMSG_DATA(message).cast::<RawFd>();
        for (at, descriptor) in descriptors.iter().enumerate() {
            data.add(at).write_unaligned(descriptor.as_raw_fd());
        }
    }
    room
}

// ---- options that no safe wrapper has ----

/// Datagrams of one sender that arrived together come as one, to be cut by us.
pub(super) fn join_received(socket: &Socket) -> io::Result<()> {
    set_int(socket, libc::SOL_UDP, libc::UDP_GRO, 1)
}

/// The kernel tells which process sent a datagram; in front of descriptors.
pub(super) fn tell_credentials(socket: &Socket) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_PASSCRED, 1)
}

/// The room that takes.
pub(super) const CREDENTIALS_LEN: usize = control_space(size_of::<libc::ucred>());

/// Whether the kernel cuts what is sent into datagrams.
pub(super) fn cuts_sent(socket: &Socket) -> bool {
    set_int(socket, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok()
}

/// Errors that routers and peers report are kept, with the address of what they are about.
pub(super) fn keep_errors(socket: &Socket, v6: bool) -> io::Result<()> {
    if v6 {
        set_int(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)?;
    }
    set_int(socket, libc::IPPROTO_IP, libc::IP_RECVERR, 1)
}

fn set_int(socket: &Socket, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let (value, len) = ((&raw const value).cast(), size_of::<libc::c_int>() as u32);
    // SAFETY: the kernel reads `len` bytes of a local variable.
    checked(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value, len) }).map(drop)
}

/// The next error that was kept, and for which address the datagram was. `WouldBlock` if there is none.
pub(super) fn next_error(socket: &Socket) -> io::Result<(Option<Address>, io::Error)> {
    // SAFETY: structs of integers and raw pointers, for which all zeroes is a valid value.
    let (mut name, mut header): (libc::sockaddr_storage, libc::msghdr) =
        unsafe { (mem::zeroed(), mem::zeroed()) };
    let mut control = [0_u64; 64];
    header.msg_name = (&raw mut name).cast();
    header.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control) as _;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the header points to local variables and says their lengths.
    checked(unsafe { libc::recvmsg(socket.as_raw_fd(), &mut header, flags) } as libc::c_int)?;
    let mut error = 0;
    // SAFETY: rule 4, as in `extra_of`; an error message begins with a `sock_extended_err`.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(&header);
        while let Some(here) = message.as_ref() {
            if matches!(
                (here.cmsg_level, here.cmsg_type),
                (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
            ) {
                let about = libc::CMSG_DATA(here).cast::<libc::sock_extended_err>().read_unaligned();
                error = about.ee_errno as i32;
            }
            message = libc::CMSG_NXTHDR(&header, here);
        }
    }
    Ok((address_of(&name, header.msg_namelen as usize), io::Error::from_raw_os_error(error)))
}
