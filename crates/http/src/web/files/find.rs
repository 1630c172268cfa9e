//! From a request to its reply.

use super::{
    FileReply, Settings, listing, mime_of,
    path::{SafePath, safe_path},
    reply::{Body, part_len},
};
use crate::{
    HttpPart, ReplyHead, ReplyPart,
    web::{Coding, Precondition, Ranges, Reply, Validators, accept::add_vary, percent_encode_path},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header, request};
use netwright_core::{FileRegion, world};
use std::{
    fs::{File, Metadata},
    io,
    ops::Range,
    path::Path,
    sync::Arc,
    time::UNIX_EPOCH,
};

/// What an error of the system comes to for a peer.
pub(super) fn status_of(error: &io::Error) -> StatusCode {
    use io::ErrorKind::{
        InvalidFilename, InvalidInput, IsADirectory, NotADirectory, NotFound, PermissionDenied,
    };
    match error.kind() {
        NotFound | NotADirectory | IsADirectory | PermissionDenied | InvalidFilename | InvalidInput => {
            StatusCode::NOT_FOUND
        }
        _ if is_about_links(error) => StatusCode::NOT_FOUND,
        _ => {
            tracing::warn!(%error, "a file could not be opened");
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}

/// Links in a circle, and links that lead out of the root: kinds that have no stable name yet.
#[cfg(target_os = "linux")]
fn is_about_links(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::LOOP | Errno::XDEV | Errno::NXIO))
}

#[cfg(not(target_os = "linux"))]
fn is_about_links(_: &io::Error) -> bool {
    false
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Settings {
    pub(super) fn find(&self, request: &request::Parts) -> io::Result<FileReply> {
        let path = request.uri.path().strip_prefix(&self.prefix).ok_or_else(not_found)?;
        if path.is_empty() {
            return Ok(self.with_slash("", request)); // the prefix itself, without its slash
        }
        let path = safe_path(path, self.hidden).ok_or_else(not_found)?;
        let (file, metadata) = self.root.open_below(&path.relative)?;
        match (metadata.is_dir(), path.is_directory) {
            (true, false) => Ok(self.with_slash(&path.shown, request)),
            (true, true) => self.directory(&path, &file, request),
            (false, true) => Err(not_found()),
            (false, false) => Ok(self.file(&path.relative, file, &metadata, request)),
        }
    }

    fn directory(
        &self,
        path: &SafePath,
        directory: &File,
        request: &request::Parts,
    ) -> io::Result<FileReply> {
        if let Some(index) = &self.index {
            let relative = path.relative.join(index);
            match self.root.open_below(&relative) {
                Ok((file, metadata)) if metadata.is_file() => {
                    return Ok(self.file(&relative, file, &metadata, request));
                }
                _ if self.listing => {}
                Ok(_) => return Err(not_found()),
                Err(error) => return Err(error),
            }
        }
        if !self.listing {
            return Err(not_found());
        }
        let real = self.root.path().join(&path.relative);
        let page = listing::page(directory, &real, &format!("{}{}/", self.prefix, path.shown), self.hidden)?;
        let mut reply = Reply::html(page);
        self.common(reply.headers_mut());
        Ok(FileReply::plain(reply, request))
    }

    /// Sends the client to the same directory with a slash, so that links in its page lead where they should.
    fn with_slash(&self, shown: &str, request: &request::Parts) -> FileReply {
        let mut location = format!("{}{}/", self.prefix, percent_encode_path(shown));
        if let Some(query) = request.uri.query() {
            location.push('?');
            location.push_str(query);
        }
        let reply = Reply::redirect(StatusCode::MOVED_PERMANENTLY, &location);
        FileReply::plain(reply.unwrap_or_else(|_| Reply::not_found()), request)
    }

    fn file(&self, relative: &Path, plain: File, metadata: &Metadata, request: &request::Parts) -> FileReply {
        let packed = if self.precompressed { self.packed(relative, &request.headers) } else { None };
        let (coding, file, metadata) = match &packed {
            Some((coding, _, metadata)) => (*coding, None, metadata),
            None => (Coding::Identity, Some(plain), metadata),
        };
        let (len, validators) = (metadata.len(), validators(metadata, coding));
        let mut head = ReplyHead::new();
        self.common(&mut head.headers);
        validators.write_to(&mut head.headers);
        if self.precompressed {
            add_vary(&mut head.headers, "accept-encoding");
        }
        match validators.check(&request.method, &request.headers) {
            Precondition::Holds => {}
            Precondition::NotModified => {
                head.status = StatusCode::NOT_MODIFIED;
                return FileReply { head, body: Body::Whole(Bytes::new()) };
            }
            Precondition::Failed => {
                return FileReply::plain(Reply::status(StatusCode::PRECONDITION_FAILED), request);
            }
        }
        let mime = HeaderValue::from_static(mime_of(relative));
        head.headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        if coding != Coding::Identity {
            head.headers.insert(header::CONTENT_ENCODING, coding.to_header());
        }
        let file = Arc::new(match (file, packed) {
            (Some(file), _) | (None, Some((_, file, _))) => file,
            (None, None) => return FileReply::plain(Reply::not_found(), request),
        });
        let reads = request.method == Method::GET; // ranges are defined for nothing else
        let ranges = match reads && validators.range_applies(&request.headers) {
            true => Ranges::of(&request.headers, len, self.ranges),
            false => Ranges::All,
        };
        let body = match ranges {
            Ranges::All => {
                head.headers.insert(header::CONTENT_TYPE, mime);
                vec![HttpPart::File(FileRegion::new(file, 0, len))]
            }
            Ranges::Unsatisfiable => {
                let mut reply = Reply::status(StatusCode::RANGE_NOT_SATISFIABLE);
                reply.headers_mut().insert(header::CONTENT_RANGE, text(format!("bytes */{len}")));
                return FileReply::plain(reply, request);
            }
            Ranges::Some(ranges) => {
                head.status = StatusCode::PARTIAL_CONTENT;
                match ranges.as_slice() {
                    [range] => {
                        head.headers.insert(header::CONTENT_TYPE, mime);
                        head.headers.insert(header::CONTENT_RANGE, text(content_range(range, len)));
                        vec![region(&file, range)]
                    }
                    several => {
                        let (content_type, parts) = byte_ranges(&file, several, len, &mime);
                        head.headers.insert(header::CONTENT_TYPE, content_type);
                        parts
                    }
                }
            }
        };
        let length: u64 = body.iter().map(part_len).sum();
        head.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        let body = match reads {
            true if length > 0 => Body::Parts(body),
            true => Body::Whole(Bytes::new()),
            false => Body::Parts(Vec::new()),
        };
        FileReply { head, body }
    }

    /// The file's compressed neighbour that the client would rather have, if there is one.
    fn packed(&self, relative: &Path, headers: &HeaderMap) -> Option<(Coding, File, Metadata)> {
        let mut offered = Coding::ALL.to_vec();
        loop {
            let coding = Coding::choose(headers, &offered)?;
            let extension = match coding {
                Coding::Brotli => "br",
                Coding::Zstd => "zst",
                Coding::Gzip => "gz",
                Coding::Identity => return None,
            };
            let mut name = relative.as_os_str().to_owned();
            name.push(".");
            name.push(extension);
            match self.root.open_below(Path::new(&name)) {
                Ok((file, metadata)) if metadata.is_file() => return Some((coding, file, metadata)),
                _ => offered.retain(|other| *other != coding),
            }
        }
    }

    /// What all replies with something of the directory say.
    fn common(&self, headers: &mut HeaderMap) {
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if let Some(value) = &self.cache_control {
            headers.insert(header::CACHE_CONTROL, value.clone());
        }
    }
}

/// A tag of time and length: it changes with every write that the file system's clock can tell from the one before.
fn validators(metadata: &Metadata, coding: Coding) -> Validators {
    let modified = metadata.modified().ok();
    let nanos =
        modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).map_or(0, |since| since.as_nanos());
    let ending = match coding {
        Coding::Identity => String::new(),
        coding => format!("-{}", coding.name()),
    };
    let etag = text(format!("\"{nanos:x}-{:x}{ending}\"", metadata.len()));
    Validators { etag: Some(etag), modified }
}

/// `multipart/byteranges`: the value of `Content-Type`, and the body.
fn byte_ranges(
    file: &Arc<File>,
    ranges: &[Range<u64>],
    len: u64,
    mime: &HeaderValue,
) -> (HeaderValue, Vec<ReplyPart>) {
    // Nobody can put a boundary into a file beforehand that is made up afresh for each reply.
    let boundary = format!("{:016x}{:016x}", world::random(), world::random());
    let mime = mime.to_str().unwrap_or_default();
    let mut parts = Vec::with_capacity(ranges.len() * 2 + 1);
    let mut before = "";
    for range in ranges {
        let range_header = content_range(range, len);
        let head =
            format!("{before}--{boundary}\r\nContent-Type: {mime}\r\nContent-Range: {range_header}\r\n\r\n");
        parts.push(HttpPart::Data(head.into()));
        parts.push(region(file, range));
        before = "\r\n";
    }
    parts.push(HttpPart::Data(format!("\r\n--{boundary}--\r\n").into()));
    (text(format!("multipart/byteranges; boundary={boundary}")), parts)
}

fn content_range(range: &Range<u64>, len: u64) -> String {
    format!("bytes {}-{}/{len}", range.start, range.end - 1)
}

fn region(file: &Arc<File>, range: &Range<u64>) -> ReplyPart {
    HttpPart::File(FileRegion::new(file.clone(), range.start, range.end - range.start))
}

/// ASCII without control characters, which is all that is made here.
fn text(value: String) -> HeaderValue {
    HeaderValue::try_from(value).unwrap_or_else(|_| HeaderValue::from_static(""))
}
