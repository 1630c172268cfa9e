//! Whatever a peer sends ends in a value or an error.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, Request};
use netwright_http::web::{
    Coding, Cors, Files, FormLimits, MediaType, Multipart, Query, Ranges, Router, Urlencoded, Validators,
    choose_type, cookies, percent_decode,
};
use netwright_testkit::verify::Numbers;

/// What matters to these parsers, and some noise.
const PIECES: &[&str] = &[
    "a",
    "b",
    "=",
    "&",
    "%",
    "%41",
    "%2",
    "%ff",
    "+",
    ";",
    ",",
    " ",
    "\t",
    "\"",
    "\\",
    "q",
    "q=",
    "0",
    "1",
    ".",
    "0.5",
    "9999999999999999999999",
    "-",
    "bytes=",
    "*",
    "/",
    "*/*",
    "text/plain",
    "gzip",
    "identity",
    "W/",
    "\"x\"",
    "..",
    "~",
    "form-data",
    "name",
    "boundary",
    "\u{e9}",
    "https://",
    "null",
    ":",
];

fn text(numbers: &mut Numbers) -> String {
    let count = numbers.below(14);
    (0..count).map(|_| PIECES[numbers.below(PIECES.len())]).collect()
}

const HEADERS: &[&str] = &[
    "accept",
    "accept-encoding",
    "cookie",
    "range",
    "if-range",
    "if-match",
    "if-none-match",
    "if-modified-since",
    "content-type",
    "origin",
    "access-control-request-method",
    "access-control-request-headers",
    "host",
];

#[test]
fn headers_of_any_kind_end_in_a_value_or_an_error() {
    let mut numbers = Numbers::new(20_241);
    let current = Validators { etag: Some(HeaderValue::from_static("\"x\"")), modified: None };
    let cors = [Cors::any().any_headers(), Cors::matching(|origin| origin.len() % 2 == 0).strict()];
    for _ in 0..20_000 {
        let mut headers = HeaderMap::new();
        for _ in 0..3 {
            if let Ok(value) = HeaderValue::from_str(&text(&mut numbers)) {
                headers.append(HEADERS[numbers.below(HEADERS.len())], value);
            }
        }
        let _ = Coding::choose(&headers, &Coding::ALL);
        assert!(choose_type(&headers, &["text/plain", "a/b"]).is_none_or(|place| place < 2));
        cookies(&headers).for_each(|(name, value)| assert!(!name.is_empty() && !value.contains(';')));
        let _ = MediaType::of(&headers).map(|media| media.map(|media| media.parameter("name").is_some()));
        let _ = (current.check(&Method::GET, &headers), current.range_applies(&headers));
        if let Ranges::Some(ranges) = Ranges::of(&headers, 1000, 4) {
            assert!(!ranges.is_empty() && ranges.len() <= 4);
            assert!(ranges.iter().all(|range| range.start < range.end && range.end <= 1000));
        }
        let (mut head, ()) = Request::builder().method("OPTIONS").body(()).unwrap().into_parts();
        head.headers = headers;
        cors.iter().for_each(|cors| drop(cors.decide(&head)));
    }
}

#[test]
fn texts_of_any_kind_end_in_a_value_or_an_error_and_forms_agree_with_queries() {
    let mut numbers = Numbers::new(7);
    let router = Router::new().get("/{a}/b", 1).unwrap().get("/b/{*rest}", 2).unwrap();
    let limits = FormLimits { fields: 4, head_bytes: 8, field_bytes: 16, total_bytes: 64 };
    for _ in 0..20_000 {
        let text = text(&mut numbers);
        let _ = percent_decode(text.as_bytes());
        let _ = router.find(&Method::GET, &text).map(|found| found.params.text("a").is_ok());
        let whole = Query::with_limits(text.as_bytes(), &limits);
        // The same text as a body in pieces.
        let (mut form, mut body, mut fields, mut failed) =
            (Urlencoded::with_limits(limits), BytesMut::new(), Vec::new(), false);
        for piece in text.as_bytes().chunks(1 + numbers.below(5)) {
            body.extend_from_slice(piece);
            while !failed {
                match form.next(&mut body) {
                    Ok(Some(field)) => fields.push(field),
                    Ok(None) => break,
                    Err(_) => failed = true,
                }
            }
        }
        while !failed {
            match form.finish(&mut body) {
                Ok(Some(field)) => fields.push(field),
                Ok(None) => break,
                Err(_) => failed = true,
            }
        }
        match whole {
            Ok(query) => {
                assert!(!failed, "{text:?}");
                let same: Vec<_> =
                    query.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
                assert_eq!(fields, same, "{text:?}");
            }
            Err(error) => assert!(failed, "{text:?}: {error}"),
        }
        let _ = Multipart::of(&text);
    }
}

#[test]
fn no_path_leads_out_of_a_directory() {
    let base = std::env::temp_dir().join(format!("netwright-hostile-{}", std::process::id()));
    std::fs::create_dir_all(base.join("root/a/b")).unwrap();
    std::fs::write(base.join("root/a/b/inside"), "inside").unwrap();
    std::fs::write(base.join("outside"), "outside").unwrap();
    let files = Files::below(base.join("root")).unwrap().listing(true).hidden(true);
    const PATHS: &[&str] = &[
        "/", "..", ".", "a", "b", "inside", "outside", "%2e", "%2f", "%5c", "\\", "%00", "//", "root",
        "%252e",
    ];
    let mut numbers = Numbers::new(99);
    for _ in 0..5_000 {
        let count = numbers.below(9);
        let path: String =
            std::iter::once("/").chain((0..count).map(|_| PATHS[numbers.below(PATHS.len())])).collect();
        let Ok(request) = Request::get(&path).body(()) else { continue };
        let reply = files.answer(&request.into_parts().0);
        assert!(matches!(reply.head().status.as_u16(), 200 | 301 | 404), "{path}: {}", reply.head().status);
        for part in reply.into_parts() {
            let body = match part {
                netwright_http::HttpPart::File(region) => region.read_chunk(100).unwrap(),
                netwright_http::HttpPart::Whole(_, body) => body,
                _ => Bytes::new(),
            };
            assert!(
                !body.windows(7).any(|window| window == b"outside") || path.contains("outside"),
                "{path}"
            );
            assert_ne!(body, "outside", "{path}");
        }
    }
    std::fs::remove_dir_all(&base).unwrap();
}
