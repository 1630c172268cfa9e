//! Which replies are compressed, and how.

mod stage;
#[cfg(test)]
mod tests;

pub use stage::ReplyCompressionStage;

use super::format;
use crate::{
    ReplyHead,
    grammar::{content_length, elements},
    web::{Coding, MediaType},
};
use http::{HeaderMap, header};
use netwright_codec::Compressor;
use netwright_core::InvalidArgument;
use std::sync::Arc;

/// A smaller body saves less than a packet; that is not worth the work.
const THRESHOLD: u64 = 1024;
/// How far back streams refer: a reply that is under way keeps a few times as much, and there may be many.
const WINDOW: u64 = 1 << 18;

/// Which replies are compressed, and how. Cheap to clone: one for all connections.
///
/// Left alone are replies to `HEAD` and `CONNECT`, 1xx, 204, 205, 206 and 304, what is coded already, has a range or a digest, says
/// `no-transform`, lies in a file, is shorter than the threshold, or is of a type that does not get smaller.
///
/// ```
/// use netwright_core::{Workers, pipeline};
/// use netwright_http::{HttpServer, web::{Coding, ReplyCompression}};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let compression = ReplyCompression::new().threshold(4096).codings(&[Coding::Gzip])?.level(Coding::Gzip, 4)?;
/// // for each connection
/// let stages = pipeline().add(HttpServer::new()).add(compression.stage());
/// # drop(stages);
/// // or, where replies are large
/// let workers = Workers::new(4)?;
/// let stages = pipeline().add(HttpServer::new()).add_on(&workers, compression.stage());
/// # drop(stages);
/// # Ok(())
/// # }
/// ```
///
/// A page that shows both a secret and what a request said gives the secret away by its length when it is compressed, over TLS too
/// (BREACH). Such a reply says `Cache-Control: no-transform`.
///
/// Compressing is done on the loop: a megabyte of text takes some 10 ms. What is large and does not change is better
/// compressed beforehand ([`Files::precompressed`](crate::web::Files::precompressed)), or on workers (`add_on`).
#[derive(Debug, Clone)]
pub struct ReplyCompression(Arc<Settings>);

#[derive(Debug, Clone)]
struct Settings {
    threshold: u64,
    codings: Vec<Coding>,
    levels: Vec<(Coding, i32)>,
    all_types: bool,
}

impl Default for ReplyCompression {
    fn default() -> Self {
        Self::new()
    }
}

impl ReplyCompression {
    /// With zstd, Brotli and gzip, in this order among equals, for text of 1 KiB and more.
    pub fn new() -> Self {
        Self(Arc::new(Settings {
            threshold: THRESHOLD,
            codings: vec![Coding::Zstd, Coding::Brotli, Coding::Gzip],
            levels: Vec::new(),
            all_types: false,
        }))
    }

    /// How long a body has to be, if its length is known. Default: 1 KiB.
    pub fn threshold(mut self, bytes: u64) -> Self {
        self.settings().threshold = bytes;
        self
    }

    /// Which codings are offered, the one first that one would rather use.
    ///
    /// # Errors
    /// There are none among them that compress.
    pub fn codings(mut self, codings: &[Coding]) -> Result<Self, InvalidArgument> {
        let codings: Vec<_> = codings.iter().copied().filter(|coding| *coding != Coding::Identity).collect();
        if codings.is_empty() {
            let (value, expected) = ("[]".to_owned(), "at least one that compresses".to_owned());
            return Err(InvalidArgument { argument: "the codings of replies", value, expected });
        }
        self.settings().codings = codings;
        Ok(self)
    }

    /// How hard a coding tries.
    ///
    /// # Errors
    /// The coding has no such level.
    pub fn level(mut self, coding: Coding, level: i32) -> Result<Self, InvalidArgument> {
        if let Some(format) = format(coding) {
            Compressor::new(format).level(level)?;
            let settings = self.settings();
            settings.levels.retain(|(known, _)| *known != coding);
            settings.levels.push((coding, level));
        }
        Ok(self)
    }

    /// Compresses all types, and what has none.
    pub fn all_types(mut self) -> Self {
        self.settings().all_types = true;
        self
    }

    /// A stage for one connection.
    pub fn stage(&self) -> ReplyCompressionStage {
        ReplyCompressionStage::new(self.clone())
    }

    fn settings(&mut self) -> &mut Settings {
        Arc::make_mut(&mut self.0)
    }

    /// Whether a reply may be compressed at all, for whoever accepts it.
    fn is_for(&self, head: &ReplyHead, len: Option<u64>) -> bool {
        let (settings, headers) = (&self.0, &head.headers);
        let len = len.or_else(|| content_length(headers));
        let bodiless = head.status.is_informational() || matches!(head.status.as_u16(), 204..=206 | 304);
        !bodiless
            && len.is_none_or(|len| len >= settings.threshold)
            && !LEFT_ALONE.iter().any(|name| headers.contains_key(*name))
            && !says_no_transform(headers)
            && (settings.all_types
                || MediaType::of(headers)
                    .is_ok_and(|media| media.is_some_and(|media| media.is_compressible())))
    }

    fn compressor(&self, coding: Coding) -> Option<Box<Compressor>> {
        let mut compressor = Compressor::new(format(coding)?);
        if coding != Coding::Gzip {
            compressor = compressor.window(WINDOW).ok()?;
        }
        if let Some((_, level)) = self.0.levels.iter().find(|(known, _)| *known == coding) {
            compressor = compressor.level(*level).ok()?;
        }
        Some(Box::new(compressor))
    }
}

/// Headers that are about the very bytes of a body.
const LEFT_ALONE: &[&str] =
    &["content-encoding", "content-range", "content-md5", "content-digest", "digest", "repr-digest"];

fn says_no_transform(headers: &HeaderMap) -> bool {
    headers.get_all(header::CACHE_CONTROL).iter().any(|value| {
        elements(value.as_bytes()).any(|directive| directive.eq_ignore_ascii_case(b"no-transform"))
    })
}
