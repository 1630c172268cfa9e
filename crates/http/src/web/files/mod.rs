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
//! | `find` | from a request to its reply: conditions, codings, ranges |
//! | `reply` | [`FileReply`]: a head, and a body that may lie in a file |
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

mod find;
mod listing;
mod mime;
mod path;
mod reply;
mod respond;
mod root;
mod stage;
#[cfg(test)]
mod tests;

pub use mime::mime_of;
pub use reply::FileReply;
pub use stage::FileServer;

use self::{find::status_of, root::Root};
use super::Reply;
use http::{HeaderValue, Method, StatusCode, header, request};
use std::{error::Error, fmt, io, path::Path, sync::Arc};

/// A directory whose files are replies. Cheap to clone: one for all connections.
///
/// ```
/// use http::Request;
/// use netwright_http::{HttpPart, web::Files};
/// # let directory = std::env::temp_dir().join(format!("netwright-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// # std::fs::write(directory.join("hello.txt"), "hello")?;
///
/// let files = Files::below(&directory)?.prefix("/static")?;
/// let (request, ()) = Request::get("/static/hello.txt").body(())?.into_parts();
/// let reply = files.answer(&request.into());
/// assert_eq!(reply.head().status, 200);
/// assert_eq!(reply.head().headers["content-type"], "text/plain; charset=utf-8");
/// assert!(reply.into_parts().any(|part| matches!(part, HttpPart::File(region) if region.remaining() == 5)));
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
