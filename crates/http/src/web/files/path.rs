//! From the path of a request to one below the root.

use crate::web::percent::percent_decode;
use std::path::{Path, PathBuf};

/// A path that names something below a root, and nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SafePath {
    /// No root, no `.`, no `..`.
    pub(super) relative: PathBuf,
    /// The same, decoded, with slashes, beginning with one.
    pub(super) shown: String,
    /// Whether it was written with a slash at its end.
    pub(super) is_directory: bool,
}

/// Decodes a path once, segment by segment. `None` if any of them could lead elsewhere, or is hidden and must not be seen:
///
/// - `.` and `..`, and empty ones;
/// - slashes and backslashes that were encoded, control characters, NUL;
/// - what cannot be decoded;
/// - on Windows, a colon (drives, streams of a file) and a tilde (`ENV~1` is `.env` by its short name);
/// - names that begin with a dot, unless `hidden`; but for `.well-known` in the first place, which is there to be seen.
pub(super) fn safe_path(path: &str, hidden: bool) -> Option<SafePath> {
    let path = path.strip_prefix('/')?;
    let (segments, is_directory) = match path.strip_suffix('/') {
        Some(rest) => (rest, true),
        None => (path, path.is_empty()),
    };
    let (mut relative, mut shown) = (PathBuf::new(), String::with_capacity(path.len() + 1));
    if !segments.is_empty() {
        for (place, raw) in segments.split('/').enumerate() {
            let segment = percent_decode(raw.as_bytes()).ok()?;
            let well_known = place == 0 && segment == ".well-known";
            let forbidden = segment.is_empty()
                || segment == "."
                || segment == ".."
                || segment
                    .contains(|character: char| character.is_control() || matches!(character, '/' | '\\'))
                || (cfg!(windows) && segment.contains([':', '~']))
                || (segment.starts_with('.') && !hidden && !well_known);
            if forbidden {
                return None;
            }
            relative.push(Path::new(&*segment));
            shown.push('/');
            shown.push_str(&segment);
        }
    } else if is_directory && !path.is_empty() {
        return None; // nothing but slashes
    }
    Some(SafePath { relative, shown, is_directory })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Component;

    #[test]
    fn paths_are_decoded_once() {
        let path = safe_path("/a%20b/c%252e/d", false).unwrap();
        assert_eq!((path.relative.as_path(), &*path.shown), (Path::new("a b/c%2e/d"), "/a b/c%2e/d"));
        assert!(!path.is_directory);
        assert!(safe_path("/a/", false).unwrap().is_directory);
        let root = safe_path("/", false).unwrap();
        assert_eq!((root.relative.as_path(), &*root.shown, root.is_directory), (Path::new(""), "", true));
        assert!(safe_path("/.well-known/acme", false).is_some() && safe_path("/.hidden", true).is_some());
    }

    #[test]
    fn nothing_leads_out_of_the_root() {
        for path in [
            "",
            "a",
            "*",
            "//",
            "//etc/passwd",
            "/a//b",
            "/a//",
            "/..",
            "/../",
            "/a/..",
            "/a/../b",
            "/.",
            "/./a",
            "/%2e%2e/a",
            "/%2E%2e",
            "/.%2e",
            "/%2e",
            "/a%2fb",
            "/..%2fa",
            "/%2fetc",
            "/a%5c..%5cb",
            "/a\\b",
            "/a%00",
            "/a%0a",
            "/a%7f",
            "/%",
            "/%2",
            "/%zz",
            "/%ff",
            "/%c0%ae%c0%ae/",
            "/.git",
            "/a/.env",
            "/a/.well-known",
            "/%2ehidden",
            "/\u{80}",
        ] {
            assert_eq!(safe_path(path, false), None, "{path:?}");
        }
        for path in ["/..", "/a/../b", "/%2e%2e", "/.", "/a/.%2E/"] {
            assert_eq!(safe_path(path, true), None, "{path:?} even if hidden files may be seen");
        }
    }

    #[test]
    fn every_path_that_passes_has_normal_components_only() {
        #[cfg(windows)]
        for path in ["/a:b", "/C%3a", "/ENV~1", "/a/GIT~1/config"] {
            assert_eq!(safe_path(path, false), None, "{path:?}");
        }
        // All combinations of what matters, up to five pieces.
        const PIECES: [&str; 10] = ["/", ".", "..", "%2e", "%2f", "a", "%5c", "%00", "~", "%25"];
        let mut count = [0usize; 5];
        loop {
            let path: String = count.iter().map(|&place| PIECES[place]).collect();
            if let Some(safe) = safe_path(&path, true) {
                let normal = |component| matches!(component, Component::Normal(_));
                assert!(safe.relative.components().all(normal), "{path:?} gives {:?}", safe.relative);
            }
            let Some(place) = count.iter().position(|&place| place + 1 < PIECES.len()) else { break };
            count[..place].fill(0);
            count[place] += 1;
        }
    }
}
