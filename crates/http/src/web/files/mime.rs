//! Types by the ends of names: what the web is made of, and no more.

use std::path::Path;

/// Sorted by name, for a binary search.
const TYPES: &[(&str, &str)] = &[
    ("7z", "application/x-7z-compressed"),
    ("aac", "audio/aac"),
    ("apng", "image/apng"),
    ("avi", "video/x-msvideo"),
    ("avif", "image/avif"),
    ("bin", "application/octet-stream"),
    ("bmp", "image/bmp"),
    ("bz2", "application/x-bzip2"),
    ("conf", "text/plain; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("eot", "application/vnd.ms-fontobject"),
    ("epub", "application/epub+zip"),
    ("flac", "audio/flac"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("htm", "text/html; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/x-icon"),
    ("ics", "text/calendar; charset=utf-8"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("jsonld", "application/ld+json"),
    ("jxl", "image/jxl"),
    ("log", "text/plain; charset=utf-8"),
    ("m4a", "audio/mp4"),
    ("m4v", "video/mp4"),
    ("map", "application/json"),
    ("md", "text/markdown; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("mov", "video/quicktime"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("mpeg", "video/mpeg"),
    ("oga", "audio/ogg"),
    ("ogg", "audio/ogg"),
    ("ogv", "video/ogg"),
    ("opus", "audio/ogg"),
    ("otf", "font/otf"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("rs", "text/plain; charset=utf-8"),
    ("rss", "application/rss+xml"),
    ("rtf", "application/rtf"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("toml", "text/plain; charset=utf-8"),
    ("ts", "video/mp2t"),
    ("ttf", "font/ttf"),
    ("txt", "text/plain; charset=utf-8"),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("weba", "audio/webm"),
    ("webm", "video/webm"),
    ("webmanifest", "application/manifest+json"),
    ("webp", "image/webp"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("xhtml", "application/xhtml+xml"),
    ("xml", "text/xml; charset=utf-8"),
    ("yaml", "text/plain; charset=utf-8"),
    ("yml", "text/plain; charset=utf-8"),
    ("zip", "application/zip"),
    ("zst", "application/zstd"),
];

/// The type of a file by its name; bytes of any kind if the name says nothing.
///
/// ```
/// use netwright_http::web::mime_of;
///
/// assert_eq!(mime_of("page.HTML"), "text/html; charset=utf-8");
/// assert_eq!(mime_of("archive.tar.gz"), "application/gzip");
/// assert_eq!(mime_of("README"), "application/octet-stream");
/// ```
pub fn mime_of(name: impl AsRef<Path>) -> &'static str {
    let extension = name.as_ref().extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    if extension.len() > LONGEST {
        return UNKNOWN;
    }
    let extension = extension.to_ascii_lowercase();
    TYPES
        .binary_search_by(|(known, _)| known.cmp(&extension.as_str()))
        .map_or(UNKNOWN, |place| TYPES[place].1)
}

const UNKNOWN: &str = "application/octet-stream";
const LONGEST: usize = "webmanifest".len();

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::MediaType;

    #[test]
    fn all_types_are_found_and_well_formed() {
        for (extension, mime) in TYPES {
            assert_eq!(mime_of(format!("a.{extension}")), *mime);
            assert!(MediaType::parse(mime).is_ok() && extension.len() <= LONGEST, "{extension}");
        }
        assert!(TYPES.windows(2).all(|pair| pair[0].0 < pair[1].0), "sorted, and none twice");
        assert_eq!(mime_of(".png"), UNKNOWN);
    }
}
