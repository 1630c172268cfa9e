use super::*;
use crate::{
    HttpPart,
    web::testing::{Directory, request},
};
use http::HeaderMap;
use netwright_core::{EmbeddedChannel, pipeline};

fn asked(method: &str, path: &str, headers: &[(&str, &str)]) -> request::Parts {
    match request(method, path, headers) {
        HttpPart::Head(head) => head.into_parts(),
        _ => unreachable!(),
    }
}

/// Status, headers, and the body as it would be sent.
fn get(files: &Files, path: &str, headers: &[(&str, &str)]) -> (u16, HeaderMap, Vec<u8>) {
    ask(files, "GET", path, headers)
}

fn ask(files: &Files, method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, HeaderMap, Vec<u8>) {
    let reply = files.answer(&asked(method, path, headers));
    let (head, mut body) = ((reply.head().status.as_u16(), reply.head().headers.clone()), Vec::new());
    let mut ended = false;
    for part in reply.into_parts() {
        assert!(!ended, "nothing follows the end");
        match part {
            HttpPart::Head(_) => assert!(body.is_empty()),
            HttpPart::Whole(_, whole) => {
                body.extend_from_slice(&whole);
                ended = true;
            }
            HttpPart::Data(data) => body.extend_from_slice(&data),
            HttpPart::File(region) => {
                let mut chunk = vec![0; region.remaining() as usize];
                let read = region.read_into(&mut chunk).unwrap();
                body.extend_from_slice(&chunk[..read]);
            }
            HttpPart::End(_) => ended = true,
            HttpPart::Interim(_) => panic!("no such thing"),
        }
    }
    assert!(ended);
    if let Some(length) = head.1.get("content-length")
        && method == "GET"
    {
        assert_eq!(length.to_str().unwrap(), body.len().to_string());
    }
    (head.0, head.1, body)
}

/// A name that needs to be escaped, in a link and as text. Windows has no such signs in names, but for one.
const ODD: (&str, &str, &str) = if cfg!(windows) {
    ("&.txt", "%26.txt", "&amp;.txt")
} else {
    ("<&>.txt", "%3C%26%3E.txt", "&lt;&amp;&gt;.txt")
};

fn site() -> (Directory, Files) {
    let directory = Directory::new();
    directory.write("index.html", "<h1>home").write("a b.txt", "0123456789").write("empty", "");
    directory.write("sub/page.html", "page").write("sub/.hidden", "no").write(ODD.0, "odd");
    let files = Files::below(directory.path()).unwrap();
    (directory, files)
}

#[test]
fn files_are_sent_with_their_type_and_validators() {
    let (_directory, files) = site();
    let (status, headers, body) = get(&files, "/a%20b.txt?x=y", &[]);
    assert_eq!((status, &*body), (200, &b"0123456789"[..]));
    assert_eq!(headers["content-type"], "text/plain; charset=utf-8");
    assert_eq!(headers["accept-ranges"], "bytes");
    assert_eq!(headers["x-content-type-options"], "nosniff");
    assert!(headers.contains_key("etag") && headers.contains_key("last-modified"));
    assert_eq!(get(&files, "/", &[]).2, b"<h1>home");
    assert_eq!(get(&files, "/empty", &[]).0, 200);
    let (status, headers, body) = ask(&files, "HEAD", "/a%20b.txt", &[("range", "bytes=0-1")]);
    assert_eq!((status, &headers["content-length"], body.len()), (200, &"10".parse().unwrap(), 0));
}

#[test]
fn what_is_not_there_or_must_not_be_seen_is_404() {
    let (_directory, files) = site();
    for path in [
        "/missing",
        "/sub/.hidden",
        "/sub/",
        "/a%20b.txt/",
        "/a%20b.txt/x",
        "/../x",
        "/%2e%2e/x",
        "/%00",
        &format!("/{}", "x".repeat(300)),
    ] {
        let (status, headers, body) = get(&files, path, &[]);
        assert_eq!((status, &*body), (404, &b"404 Not Found\n"[..]), "{path}");
        assert!(!headers.contains_key("etag"));
    }
    assert_eq!(ask(&files, "HEAD", "/missing", &[]).1["content-length"], "14");
    for (method, status) in [("POST", 405), ("DELETE", 405), ("OPTIONS", 204)] {
        let reply = ask(&files, method, "/", &[]);
        assert_eq!((reply.0, &reply.1["allow"]), (status, &"GET, HEAD, OPTIONS".parse().unwrap()));
    }
}

#[cfg(unix)]
#[test]
fn links_out_of_the_root_are_404() {
    let (directory, files) = site();
    std::os::unix::fs::symlink("/etc/passwd", directory.path().join("out")).unwrap();
    std::os::unix::fs::symlink("loop", directory.path().join("loop")).unwrap();
    std::os::unix::fs::symlink("a b.txt", directory.path().join("in")).unwrap();
    assert_eq!(get(&files, "/out", &[]).0, 404);
    assert_eq!(get(&files, "/loop", &[]).0, 404);
    assert_eq!(get(&files, "/in", &[]).2, b"0123456789");
}

#[test]
fn directories_lead_to_their_slash_and_never_to_another_host() {
    let (directory, files) = site();
    let (odd, link) = if cfg!(windows) { ("#x", "/%23x") } else { ("?#x", "/%3F%23x") };
    directory.write(&format!("{odd}/index.html"), "odd");
    let (status, headers, _) = get(&files, "/sub?q=1", &[]);
    assert_eq!((status, &headers["location"]), (301, &"/sub/?q=1".parse().unwrap()));
    assert_eq!(get(&files, link, &[]).1["location"], format!("{link}/"));
    assert_eq!(get(&files, "//sub", &[]).0, 404, "not a redirect to the host sub");
    let files = files.prefix("/static").unwrap();
    assert_eq!(get(&files, "/static/sub", &[]).1["location"], "/static/sub/");
    assert_eq!(get(&files, "/static", &[]).1["location"], "/static/");
    assert_eq!(get(&files, "/static/", &[]).0, 200);
    assert_eq!(get(&files, "/staticfoo", &[]).0, 404);
    assert_eq!(get(&files, "/sub/page.html", &[]).0, 404);
    assert!(
        files.clone().prefix("no").is_err()
            && files.clone().prefix("/a/").is_err()
            && files.prefix("//a").is_err()
    );
}

#[test]
fn listings_are_sorted_escaped_and_without_hidden_names() {
    let (_directory, files) = site();
    let files = files.index(None).listing(true);
    let (status, _, body) = get(&files, "/", &[]);
    let page = String::from_utf8(body).unwrap();
    assert_eq!(status, 200);
    let (_, link, text) = ODD;
    assert!(page.contains(&format!("<li><a href=\"./{link}\">{text}</a>")), "{page}");
    let places = ["./sub/", link, "./a%20b.txt", "./index.html"].map(|name| page.find(name).unwrap());
    assert!(places.is_sorted(), "{page}");
    assert!(!String::from_utf8(get(&files, "/sub/", &[]).2).unwrap().contains("hidden"));
    assert!(String::from_utf8(get(&files.hidden(true), "/sub/", &[]).2).unwrap().contains(".hidden"));
}

#[test]
fn conditions_spare_the_body() {
    let (_directory, files) = site();
    let (_, headers, _) = get(&files, "/a%20b.txt", &[]);
    let (etag, date) = (headers["etag"].to_str().unwrap(), headers["last-modified"].to_str().unwrap());
    let (status, headers, body) = get(&files, "/a%20b.txt", &[("if-none-match", etag)]);
    assert_eq!((status, body.len(), &headers["etag"]), (304, 0, &etag.parse().unwrap()));
    assert!(!headers.contains_key("content-length"));
    assert_eq!(get(&files, "/a%20b.txt", &[("if-modified-since", date)]).0, 304);
    assert_eq!(get(&files, "/a%20b.txt", &[("if-match", "\"other\"")]).0, 412);
    assert_eq!(get(&files, "/a%20b.txt", &[("range", "bytes=0-1"), ("if-range", etag)]).0, 206);
    assert_eq!(get(&files, "/a%20b.txt", &[("range", "bytes=0-1"), ("if-range", "\"other\"")]).0, 200);
}

#[test]
fn ranges_are_sent_alone_or_together() {
    let (_directory, files) = site();
    let (status, headers, body) = get(&files, "/a%20b.txt", &[("range", "bytes=2-4")]);
    assert_eq!(
        (status, &*body, &headers["content-range"]),
        (206, &b"234"[..], &"bytes 2-4/10".parse().unwrap())
    );
    let (status, headers, _) = get(&files, "/a%20b.txt", &[("range", "bytes=10-")]);
    assert_eq!((status, &headers["content-range"]), (416, &"bytes */10".parse().unwrap()));
    let (status, headers, body) = get(&files, "/a%20b.txt", &[("range", "bytes=0-1,-2")]);
    let boundary =
        headers["content-type"].to_str().unwrap().strip_prefix("multipart/byteranges; boundary=").unwrap();
    assert_eq!(status, 206);
    let part = |range: &str, data: &str| {
        format!(
            "--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Range: bytes {range}/10\r\n\r\n{data}\r\n"
        )
    };
    assert_eq!(
        String::from_utf8(body).unwrap(),
        format!("{}{}--{boundary}--\r\n", part("0-1", "01"), part("8-9", "89"))
    );
    assert_eq!(get(&files, "/a%20b.txt", &[("range", &format!("bytes={}", "0-0,".repeat(17)))]).0, 200);
    assert_eq!(get(&files.ranges(0), "/a%20b.txt", &[("range", "bytes=0-0")]).0, 200);
}

#[test]
fn compressed_neighbours_are_sent_to_those_who_accept_them() {
    let (directory, files) = site();
    directory.write("app.js", "plain").write("app.js.gz", "gz").write("app.js.br", "br");
    let files = files.precompressed(true);
    for (accept, coding, content) in [
        ("gzip, br", Some("br"), "br"),
        ("gzip", Some("gzip"), "gz"),
        ("zstd, gzip;q=0.5", Some("gzip"), "gz"),
        ("identity", None, "plain"),
        ("zstd", None, "plain"),
    ] {
        let (status, headers, body) = get(&files, "/app.js", &[("accept-encoding", accept)]);
        assert_eq!((status, String::from_utf8(body).unwrap().as_str()), (200, content), "{accept}");
        assert_eq!(headers.get("content-encoding").map(|value| value.to_str().unwrap()), coding);
        assert_eq!(headers["vary"], "accept-encoding");
        assert_eq!(headers["content-type"], "text/javascript; charset=utf-8");
    }
    let tags = ["br", "gzip", "identity"]
        .map(|accept| get(&files, "/app.js", &[("accept-encoding", accept)]).1["etag"].clone());
    assert!(tags[0] != tags[1] && tags[1] != tags[2] && tags[0] != tags[2]);
}

#[test]
fn the_stage_answers_in_order_and_waits_for_no_disk() {
    let (_directory, files) = site();
    let workers = netwright_core::Workers::new(2).unwrap();
    let mut channel = EmbeddedChannel::of_messages(pipeline().app(files.server().on(workers)));
    for path in ["/a%20b.txt", "/missing", "/"] {
        channel
            .receive(request("GET", path, &[]))
            .receive(HttpPart::Data("ignored".into()))
            .receive(HttpPart::End(None));
    }
    let mut shown: Vec<String> = Vec::new();
    let begun = std::time::Instant::now();
    while shown.len() < 7 && begun.elapsed() < std::time::Duration::from_secs(60) {
        shown.extend(channel.read_outbound().iter().map(crate::web::testing::shown));
    }
    assert_eq!(
        shown,
        ["Head 200", "File 0+10", "End", "Whole 404 404 Not Found\\n", "Head 200", "File 0+8", "End"]
    );
    assert!(channel.is_open() && channel.read_outbound().is_none());
}
