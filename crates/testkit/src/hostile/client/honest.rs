//! A client that keeps to the protocol, and checks whether it is served as it should be.

use super::{Link, Site, http2, script, socket};
use crate::verify::Numbers;
use std::io;

/// Why a conversation did not go to its end.
#[derive(Debug)]
pub(super) enum Failure {
    /// The connection ended, or we were too slow for the server: that may happen to anybody on a busy machine.
    Cut(String),
    /// What came is not what was asked for.
    Wrong(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Cut(error.to_string())
    }
}

impl Failure {
    /// A head is not what was expected.
    pub(super) fn of_head(head: &str, expected: &str) -> Self {
        let text = format!("{head:?} instead of {expected}");
        if head.starts_with("HTTP/1.1 408 ") { Self::Cut(text) } else { Self::Wrong(text) }
    }
}

/// Asks for some things on one connection, and says how many.
pub(super) fn converse(link: &mut dyn Link, site: &Site, numbers: &mut Numbers) -> Result<usize, Failure> {
    if let Some(path) = &site.socket
        && numbers.below(2) == 0
    {
        return socket::converse(link, path, numbers);
    }
    if site.http2 && numbers.below(2) == 0 {
        return http2::converse(link, site, numbers);
    }
    let exchanges: Vec<_> = (0..1 + numbers.below(6)).map(|_| script::exchange(numbers, site)).collect();
    // All at once where that cannot hold both sides up: the replies of what is asked for have to fit on their way.
    let waits = exchanges.iter().map(|exchange| exchange.body.len()).sum::<usize>() > 100_000;
    let mut batches: Vec<&[script::Exchange]> = vec![&exchanges];
    if waits {
        batches = exchanges.chunks(1).collect();
    }
    for batch in batches {
        let bytes: Vec<u8> = batch.iter().flat_map(|exchange| &exchange.bytes).copied().collect();
        link.write_all(&bytes)?;
        link.flush()?;
        for exchange in batch {
            check(link, exchange)?;
        }
    }
    Ok(exchanges.len())
}

fn check(link: &mut dyn Link, exchange: &script::Exchange) -> Result<(), Failure> {
    let mut head = head_of(link)?;
    while head.starts_with("HTTP/1.1 100 ") {
        head = head_of(link)?;
    }
    if !head.starts_with(&format!("HTTP/1.1 {} ", exchange.status)) {
        return Err(Failure::of_head(&head, &exchange.status.to_string()));
    }
    let body = if exchange.head { Vec::new() } else { body_of(link, &head)? };
    let expected: &[u8] = if exchange.head { &[] } else { &exchange.body };
    if body != expected {
        let at =
            body.iter().zip(expected).position(|(a, b)| a != b).unwrap_or(body.len().min(expected.len()));
        let (got, len) = (body.len(), expected.len());
        return Err(Failure::Wrong(format!(
            "a body of {got} bytes instead of {len}, other from byte {at} on"
        )));
    }
    Ok(())
}

/// A head, to the empty line behind it. Byte by byte, as what follows belongs to somebody else.
pub(super) fn head_of(link: &mut dyn Link) -> Result<String, Failure> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        link.read_exact(&mut byte)?;
        head.extend(byte);
        if head.len() > 64 * 1024 {
            return Err(Failure::Wrong("a head without an end".to_owned()));
        }
    }
    String::from_utf8(head).map_err(|_| Failure::Wrong("a head that is not text".to_owned()))
}

fn body_of(link: &mut dyn Link, head: &str) -> Result<Vec<u8>, Failure> {
    let field = |name: &str| {
        let mut fields = head.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned())
    };
    if let Some(len) = field("content-length") {
        let len = len.parse().map_err(|_| Failure::Wrong(format!("a length of {len:?}")))?;
        let mut body = vec![0; len];
        link.read_exact(&mut body)?;
        return Ok(body);
    }
    if field("transfer-encoding").is_none() {
        return Err(Failure::Wrong(format!("a reply whose end cannot be told: {head:?}")));
    }
    let mut body = Vec::new();
    loop {
        let line = line_of(link)?;
        let bad = || Failure::Wrong(format!("a chunk of {line:?}"));
        let len = usize::from_str_radix(line.split(';').next().unwrap_or_default(), 16).map_err(|_| bad())?;
        let begins = body.len();
        body.resize(begins + len, 0);
        link.read_exact(&mut body[begins..])?;
        if len == 0 {
            while !line_of(link)?.is_empty() {}
            return Ok(body);
        }
        if !line_of(link)?.is_empty() {
            return Err(bad());
        }
    }
}

fn line_of(link: &mut dyn Link) -> Result<String, Failure> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        link.read_exact(&mut byte)?;
        line.extend(byte);
    }
    line.truncate(line.len() - 2);
    String::from_utf8(line).map_err(|_| Failure::Wrong("a line that is not text".to_owned()))
}
