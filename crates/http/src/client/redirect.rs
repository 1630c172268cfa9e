//! Where a redirect leads, and what may go along.
//!
//! | status | method and body |
//! | --- | --- |
//! | 301, 302 | `POST` becomes `GET` without a body, others stay |
//! | 303 | `GET` without a body; `HEAD` stays |
//! | 307, 308 | as they were; a body that was streamed is gone, and the reply is handed out |
//!
//! Credentials go to the same scheme, host and port only.

use super::origin::same_origin;
use http::{HeaderMap, Method, StatusCode, Uri, header};

/// What to ask next.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) uri: Uri,
    pub(super) method: Method,
    /// Whether the body goes along.
    pub(super) body: bool,
    /// Whether credentials may go along.
    pub(super) same_origin: bool,
}

/// What a reply asks to be asked instead. `None`: it is no redirect that can be followed.
pub(super) fn next(status: StatusCode, headers: &HeaderMap, asked: &Uri, method: &Method) -> Option<Next> {
    let location = headers.get(header::LOCATION)?.to_str().ok()?;
    let (method, body) = match status.as_u16() {
        301 | 302 if *method == Method::POST => (Method::GET, false),
        303 if *method != Method::HEAD => (Method::GET, false),
        301 | 302 | 303 | 307 | 308 => (method.clone(), true),
        _ => return None,
    };
    let uri = resolve(asked, location)?;
    let same_origin = same_origin(&uri, asked);
    Some(Next { uri, method, body, same_origin })
}

/// What may not go to another origin.
pub(super) fn remove_credentials(headers: &mut HeaderMap) {
    for name in [header::AUTHORIZATION, header::COOKIE, header::PROXY_AUTHORIZATION, header::WWW_AUTHENTICATE]
    {
        headers.remove(name);
    }
}

/// Headers that tell of a body.
pub(super) fn remove_body_headers(headers: &mut HeaderMap) {
    for name in [
        header::CONTENT_TYPE,
        header::CONTENT_LENGTH,
        header::CONTENT_ENCODING,
        header::TRANSFER_ENCODING,
        header::EXPECT,
    ] {
        headers.remove(name);
    }
}

/// A reference as RFC 3986, section 5.2 has it, without its fragment.
pub(super) fn resolve(base: &Uri, reference: &str) -> Option<Uri> {
    let reference = reference.split('#').next().unwrap_or_default();
    let scheme = base.scheme_str()?;
    let authority = base.authority()?.as_str().rsplit('@').next()?;
    let has_scheme = reference.split_once(':').is_some_and(|(scheme, _)| {
        !scheme.is_empty()
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    });
    let text = if has_scheme {
        reference.to_owned()
    } else if let Some(rest) = reference.strip_prefix("//") {
        format!("{scheme}://{rest}")
    } else if let Some(query) = reference.strip_prefix('?') {
        format!("{scheme}://{authority}{}?{query}", base.path())
    } else if reference.is_empty() {
        format!("{scheme}://{authority}{}", base.path_and_query().map_or("/", |path| path.as_str()))
    } else {
        let (path, query) =
            reference.split_once('?').map_or((reference, None), |(path, query)| (path, Some(query)));
        let directory = base.path().rsplit_once('/').map_or("", |(directory, _)| directory);
        let path = if path.starts_with('/') { path.to_owned() } else { format!("{directory}/{path}") };
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        format!("{scheme}://{authority}{}{query}", without_dots(&path))
    };
    let uri: Uri = text.parse().ok()?;
    let known = matches!(uri.scheme_str(), Some("http" | "https"));
    (known && uri.host().is_some_and(|host| !host.is_empty())).then_some(uri)
}

/// `.` and `..` taken out of a path (RFC 3986, section 5.2.4).
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                if last {
                    kept.push("");
                }
            }
            other => kept.push(other),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved_as_the_rfc_says() {
        let base: Uri = "http://user@a/b/c/d?q".parse().unwrap();
        for (reference, expected) in [
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g/x", "http://g/x"),
            ("?y", "http://a/b/c/d?y"),
            ("g?y#z", "http://a/b/c/g?y"),
            ("#s", "http://a/b/c/d?q"),
            ("", "http://a/b/c/d?q"),
            (".", "http://a/b/c/"),
            ("..", "http://a/b/"),
            ("../../g", "http://a/g"),
            ("../../../../g", "http://a/g"),
            ("/./g", "http://a/g"),
            ("https://other:1/x", "https://other:1/x"),
            ("g:h/../x", ""),
            ("javascript:alert(1)", ""),
            ("file:///etc/passwd", ""),
            ("http://", ""),
        ] {
            let resolved = resolve(&base, reference).map(|uri| uri.to_string()).unwrap_or_default();
            assert_eq!(resolved, expected, "{reference:?}");
        }
    }

    #[test]
    fn methods_and_credentials_follow_the_rules() {
        let asked: Uri = "http://a/x".parse().unwrap();
        let ask = |status: u16, location: &str, method: Method| {
            let headers = HeaderMap::from_iter([(header::LOCATION, location.parse().unwrap())]);
            next(StatusCode::from_u16(status).unwrap(), &headers, &asked, &method)
        };
        for (status, method, then, body) in [
            (301, Method::POST, Method::GET, false),
            (302, Method::POST, Method::GET, false),
            (302, Method::PUT, Method::PUT, true),
            (303, Method::PUT, Method::GET, false),
            (303, Method::HEAD, Method::HEAD, true),
            (307, Method::POST, Method::POST, true),
            (308, Method::POST, Method::POST, true),
        ] {
            let next = ask(status, "/y", method).unwrap();
            assert_eq!((next.method, next.body, next.same_origin), (then, body, true), "{status}");
        }
        assert!(ask(304, "/y", Method::GET).is_none());
        assert!(ask(200, "/y", Method::GET).is_none());
        for other in ["http://b/", "https://a/", "http://a:81/", "http://a:65616/", "http://a:99999/"] {
            assert!(!ask(302, other, Method::GET).unwrap().same_origin, "{other}");
        }
        assert!(ask(302, "http://A:80/", Method::GET).unwrap().same_origin);
    }
}
