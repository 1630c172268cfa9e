//! Files of a directory as replies.
//!
//! ```text
//!   path ──▶ decoded, safe? ──▶ opened below the root ──▶ conditions ──▶ ranges ──▶ Head, File …, End
//!              │ no               │ not there              │ 304, 412     │ 416         └ sent by the system (sendfile)
//!              ▼ 404              ▼ 404                                                   where the transport can
//! ```
//! | file | what it is |
//! | --- | --- |
//! | `path` | from a request's path to one below the root |
//! | `root` | opening below the root, whatever links say |
//! | `mime` | types by names |
//! | `listing` | directories as pages |
//! | `respond` | [`Files::respond`], for services |
//! | `stage` | [`FileServer`], which asks a worker and writes what it answers |
//!
//! Always true:
//! 1. Nothing outside of the root is ever opened, and nothing hidden unless told so.
//! 2. A file is open before its head is written: what is announced is what is there, and a file that is replaced meanwhile is
//!    sent as it was. One that is cut short meanwhile ends the connection, so that nobody takes a part for the whole.
//! 3. What the peer sees of a mistake is a status, never a path.
//!
//! Not here: who asks. [`Files::answer`] blocks while the disk does; on a loop it is asked through workers.

mod listing;
mod mime;
mod path;
mod respond;
mod root;
mod stage;
#[cfg(test)]
mod tests;

pub use mime::mime_of;
pub use stage::FileServer;

use self::{
    path::{SafePath, safe_path},
    root::Root,
};
use super::{Coding, Precondition, Ranges, Reply, Validators, accept::add_vary, percent_encode_path};
use crate::{Part, ReplyHead, ReplyPart};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header, request};
use netwright_core::FileRegion;
use std::{
    error::Error,
    fmt,
    fs::{File, Metadata},
    hash::{BuildHasher, RandomState},
    io,
    ops::Range,
    path::Path,
    sync::Arc,
    time::UNIX_EPOCH,
};

/// A directory whose files are replies. Cheap to clone: one for all connections.
///
/// ```
/// use http::Request;
/// use netwright_http::{Part, web::Files};
/// # let directory = std::env::temp_dir().join(format!("netwright-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// # std::fs::write(directory.join("hello.txt"), "hello")?;
///
/// let files = Files::below(&directory)?.prefix("/static")?;
/// let (request, ()) = Request::get("/static/hello.txt").body(())?.into_parts();
/// let reply = files.answer(&request.into());
/// assert_eq!(reply.head().status, 200);
/// assert_eq!(reply.head().headers["content-type"], "text/plain; charset=utf-8");
/// assert!(reply.into_parts().any(|part| matches!(part, Part::File(region) if region.remaining() == 5)));
///
/// let (request, ()) = Request::get("/static/%2e%2e/secret").body(())?.into_parts();
/// assert_eq!(files.answer(&request).head().status, 404);
/// # std::fs::remove_dir_all(&directory)?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// As the last stage of a pipeline: [`server`](Self::server).
#[derive(Debug, Clone)]
pub struct Files(Arc<Settings>);

#[derive(Debug, Clone)]
struct Settings {
    root: Arc<Root>,
    prefix: String,
    index: Option<String>,
    listing: bool,
    hidden: bool,
    precompressed: bool,
    ranges: usize,
    cache_control: Option<HeaderValue>,
}

impl Files {
    /// The files below a directory, at `/`.
    ///
    /// # Errors
    /// It is not there, or no directory.
    pub fn below(directory: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self(Arc::new(Settings {
            root: Arc::new(Root::open(directory.as_ref())?),
            prefix: String::new(),
            index: Some("index.html".to_owned()),
            listing: false,
            hidden: false,
            precompressed: false,
            ranges: 16,
            cache_control: None,
        })))
    }

    /// Where in the paths of requests the directory is: `/static`.
    ///
    /// # Errors
    /// It does not begin with one slash, or ends with one.
    pub fn prefix(mut self, prefix: &str) -> Result<Self, PrefixError> {
        if !prefix.starts_with('/') || prefix.starts_with("//") || prefix.ends_with('/') || !prefix.is_ascii()
        {
            return Err(PrefixError(prefix.to_owned()));
        }
        self.settings().prefix = prefix.to_owned();
        Ok(self)
    }

    /// The file that stands for its directory. Default: `index.html`. `None`: there is none.
    pub fn index(mut self, name: Option<&str>) -> Self {
        self.settings().index = name.map(str::to_owned);
        self
    }

    /// Whether a directory without an index is shown as a list of its files. Default: no.
    pub fn listing(mut self, listing: bool) -> Self {
        self.settings().listing = listing;
        self
    }

    /// Whether names that begin with a dot are there. Default: no, but for `/.well-known`.
    pub fn hidden(mut self, hidden: bool) -> Self {
        self.settings().hidden = hidden;
        self
    }

    /// Whether `name.br`, `name.zst` or `name.gz` is sent instead of `name` to whoever accepts that. Default: no.
    pub fn precompressed(mut self, precompressed: bool) -> Self {
        self.settings().precompressed = precompressed;
        self
    }

    /// How many ranges one request may ask for; with more of them the whole file is sent. Default: 16.
    pub fn ranges(mut self, most: usize) -> Self {
        self.settings().ranges = most;
        self
    }

    /// What replies say in `Cache-Control`. Default: nothing, so that clients ask whether a file has changed.
    pub fn cache_control(mut self, value: HeaderValue) -> Self {
        self.settings().cache_control = Some(value);
        self
    }

    fn settings(&mut self) -> &mut Settings {
        Arc::make_mut(&mut self.0)
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        self.0.root.path()
    }

    /// A last stage that answers all requests of a connection with files.
    pub fn server(&self) -> FileServer {
        FileServer::new(self.clone())
    }

    /// The reply to a request. Opens files, so it may take as long as the disk does.
    pub fn answer(&self, request: &request::Parts) -> FileReply {
        if request.method != Method::GET && request.method != Method::HEAD {
            let status = match request.method {
                Method::OPTIONS => StatusCode::NO_CONTENT,
                _ => StatusCode::METHOD_NOT_ALLOWED,
            };
            let mut reply = Reply::status(status);
            reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD, OPTIONS"));
            return FileReply::plain(reply, request);
        }
        match self.0.find(request) {
            Ok(reply) => reply,
            Err(error) => FileReply::plain(Reply::status(status_of(&error)), request),
        }
    }
}

/// What an error of the system comes to for a peer.
fn status_of(error: &io::Error) -> StatusCode {
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
    fn find(&self, request: &request::Parts) -> io::Result<FileReply> {
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
                vec![Part::File(FileRegion::new(file, 0, len))]
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
    let boundary =
        format!("{:016x}{:016x}", RandomState::new().hash_one(len), RandomState::new().hash_one(ranges));
    let mime = mime.to_str().unwrap_or_default();
    let mut parts = Vec::with_capacity(ranges.len() * 2 + 1);
    let mut before = "";
    for range in ranges {
        let range_header = content_range(range, len);
        let head =
            format!("{before}--{boundary}\r\nContent-Type: {mime}\r\nContent-Range: {range_header}\r\n\r\n");
        parts.push(Part::Data(head.into()));
        parts.push(region(file, range));
        before = "\r\n";
    }
    parts.push(Part::Data(format!("\r\n--{boundary}--\r\n").into()));
    (text(format!("multipart/byteranges; boundary={boundary}")), parts)
}

fn content_range(range: &Range<u64>, len: u64) -> String {
    format!("bytes {}-{}/{len}", range.start, range.end - 1)
}

fn region(file: &Arc<File>, range: &Range<u64>) -> ReplyPart {
    Part::File(FileRegion::new(file.clone(), range.start, range.end - range.start))
}

fn part_len(part: &ReplyPart) -> u64 {
    match part {
        Part::Data(data) => data.len() as u64,
        Part::File(region) => region.remaining(),
        _ => 0,
    }
}

/// ASCII without control characters, which is all that is made here.
fn text(value: String) -> HeaderValue {
    HeaderValue::try_from(value).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// A reply whose body may lie in a file.
///
/// ```
/// use netwright_http::web::Files;
///
/// let files = Files::below(std::env::temp_dir())?;
/// let (request, ()) = http::Request::get("/no-such-file-here").body(()).unwrap().into_parts();
/// let reply = files.answer(&request.into());
/// assert_eq!(reply.head().status, 404);
/// for part in reply.into_parts() {
///     drop(part); // to be written
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct FileReply {
    head: ReplyHead,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Whole(Bytes),
    Parts(Vec<ReplyPart>),
}

impl FileReply {
    fn plain(reply: Response<Bytes>, request: &request::Parts) -> Self {
        let (head, body) = reply.into_parts();
        let mut head = ReplyHead::from(head);
        if request.method == Method::HEAD && !body.is_empty() {
            head.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
            return Self { head, body: Body::Parts(Vec::new()) };
        }
        Self { head, body: Body::Whole(body) }
    }

    /// Its head.
    pub fn head(&self) -> &ReplyHead {
        &self.head
    }

    /// Its head, to add headers.
    pub fn head_mut(&mut self) -> &mut ReplyHead {
        &mut self.head
    }

    /// Whether something of it lies in a file, which is open until it is sent.
    fn has_file(&self) -> bool {
        matches!(&self.body, Body::Parts(parts) if parts.iter().any(|part| matches!(part, Part::File(_))))
    }

    /// The parts to be written, in their order.
    pub fn into_parts(self) -> impl Iterator<Item = ReplyPart> {
        let (first, rest, end) = match self.body {
            Body::Whole(body) => (Part::Whole(self.head, body), Vec::new(), None),
            Body::Parts(parts) => (Part::Head(self.head), parts, Some(Part::End(None))),
        };
        std::iter::once(first).chain(rest).chain(end)
    }
}

/// What was given is no prefix of paths.
///
/// ```
/// use netwright_http::web::Files;
///
/// let files = Files::below(std::env::temp_dir())?;
/// assert!(files.clone().prefix("/static").is_ok());
/// assert!(files.prefix("static/").is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixError(String);

impl fmt::Display for PrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "prefix {:?}: it begins with one slash, does not end with one, and is ASCII", self.0)
    }
}

impl Error for PrefixError {}
