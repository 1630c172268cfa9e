//! Requests out of a socket. The client's own encoder is not what is tried here, so a plain reading will do; but every byte of
//! a body is looked at.

use super::content;
use std::{
    io::{self, ErrorKind, Read},
    net::TcpStream,
    time::Duration,
};

/// Bytes that are read and looked at together.
const ROOM: usize = 16 * 1024;
/// A request's head is not longer.
const HEAD_MAX: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct Request {
    pub(super) number: u64,
    pub(super) is_head: bool,
    pub(super) wants_upgrade: bool,
    /// It says that its connection closes.
    pub(super) closes: bool,
    length: Length,
}

#[derive(Debug, PartialEq, Eq)]
enum Length {
    Known(usize),
    Chunked,
}

impl Request {
    pub(super) fn has_body(&self) -> bool {
        self.length != Length::Known(0)
    }

    /// Whether its body is more than systems keep on the way.
    pub(super) fn is_large(&self) -> bool {
        matches!(self.length, Length::Known(len) if len >= super::LARGE)
    }

    fn parse(head: &str) -> io::Result<Self> {
        let bad = || io::Error::from(ErrorKind::InvalidInput);
        let field = |name: &str| {
            head.lines().skip(1).find_map(|line| {
                let (key, value) = line.split_once(':')?;
                key.eq_ignore_ascii_case(name).then(|| value.trim())
            })
        };
        let length = match (field("transfer-encoding"), field("content-length")) {
            (Some(_), _) => Length::Chunked,
            (None, length) => Length::Known(length.map_or(Ok(0), str::parse).map_err(|_| bad())?),
        };
        Ok(Self {
            number: field("x-number").and_then(|number| number.parse().ok()).ok_or_else(bad)?,
            is_head: head.starts_with("HEAD "),
            wants_upgrade: field("upgrade").is_some(),
            closes: field("connection").is_some_and(|value| value.contains("close")),
            length,
        })
    }
}

/// Bytes that were read and belong to nothing yet.
#[derive(Default)]
pub(super) struct Incoming {
    bytes: Vec<u8>,
}

impl Incoming {
    /// Reads more. The end of the connection is an error.
    fn more(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        let mut room = [0; ROOM];
        match stream.read(&mut room)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            len => {
                self.bytes.extend_from_slice(&room[..len]);
                Ok(())
            }
        }
    }

    fn take(&mut self, stream: &mut TcpStream, len: usize) -> io::Result<Vec<u8>> {
        while self.bytes.len() < len {
            self.more(stream)?;
        }
        Ok(self.bytes.drain(..len).collect())
    }

    /// A line, with its end.
    fn line(&mut self, stream: &mut TcpStream) -> io::Result<String> {
        loop {
            if let Some(end) = self.bytes.iter().position(|&byte| byte == b'\n') {
                let line = self.bytes.drain(..=end).collect();
                return String::from_utf8(line).map_err(|_| ErrorKind::InvalidInput.into());
            }
            if self.bytes.len() > HEAD_MAX {
                return Err(ErrorKind::InvalidInput.into());
            }
            self.more(stream)?;
        }
    }

    pub(super) fn head(&mut self, stream: &mut TcpStream) -> io::Result<Request> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            head.push_str(&self.line(stream)?);
        }
        Request::parse(&head)
    }

    /// Takes a body, and looks whether it is the one of its request.
    pub(super) fn body(&mut self, stream: &mut TcpStream, request: &Request) -> io::Result<()> {
        let (period, mut at) = (format!("<{}>", request.number).len(), 0);
        let pattern = content(request.number, ROOM + period);
        let mut check = |piece: &[u8]| {
            for piece in piece.chunks(ROOM) {
                if piece != &pattern[at..at + piece.len()] {
                    return Err(io::Error::new(ErrorKind::InvalidData, "its body is another's"));
                }
                at = (at + piece.len()) % period;
            }
            Ok(())
        };
        match request.length {
            Length::Known(mut left) => {
                while left > 0 {
                    if self.bytes.is_empty() {
                        self.more(stream)?;
                    }
                    let len = left.min(self.bytes.len());
                    check(&self.bytes[..len])?;
                    self.bytes.drain(..len);
                    left -= len;
                }
                Ok(())
            }
            Length::Chunked => loop {
                let line = self.line(stream)?;
                let size = usize::from_str_radix(line.trim(), 16).map_err(|_| ErrorKind::InvalidInput)?;
                let chunk = self.take(stream, size + 2)?;
                check(&chunk[..size])?;
                if size == 0 {
                    return Ok(());
                }
            },
        }
    }

    /// Reads so many bytes, or to the end, and forgets them.
    pub(super) fn skip(&mut self, stream: &mut TcpStream, len: usize) -> io::Result<()> {
        let mut left = len.saturating_sub(self.bytes.len());
        self.bytes.clear();
        while left > 0 {
            self.more(stream)?;
            left = left.saturating_sub(self.bytes.len());
            self.bytes.clear();
        }
        Ok(())
    }

    /// Whether anything comes, or the end, within a time.
    pub(super) fn comes_within(&mut self, stream: &mut TcpStream, time: Duration) -> io::Result<bool> {
        if !self.bytes.is_empty() {
            return Ok(true);
        }
        let before = stream.read_timeout()?;
        stream.set_read_timeout(Some(time))?;
        let came = match self.more(stream) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(false),
            Err(error) => Err(error),
        };
        stream.set_read_timeout(before)?;
        came
    }
}
