//! curl, by each of the three ways to HTTP/2.

use super::{
    site::{FILE, Site, numbered, sum_of},
    support::{Folder, program, succeeds},
};
use std::{fs, path::Path, process::Command};

/// Each way to a site, and whether it is spoken in HTTP/2 from the first request on.
fn ways() -> Vec<(Site, &'static str)> {
    vec![(Site::plain(), "--http2-prior-knowledge"), (Site::plain(), "--http2"), (Site::secure(), "--http2")]
}

#[track_caller]
fn ask(curl: &Path, arguments: &[&str]) -> String {
    succeeds(Command::new(curl).args(["-sSk", "--max-time", "60"]).args(arguments))
}

#[test]
fn curl_is_answered_in_http2_by_prior_knowledge_by_upgrade_and_by_alpn() {
    let Some(curl) = program("curl", "curl") else { return };
    for (site, way) in ways() {
        let said = ask(&curl, &[way, "-w", "%{http_version} %{http_code}", &site.url("/slow/1")]);
        assert_eq!(said, "at last\n2 200", "{way}");
    }
    let site = Site::secure();
    assert_eq!(ask(&curl, &["--http1.1", &site.url("/")]), "hello by HTTP/1.1\n");
    assert_eq!(ask(&curl, &["--http2", &site.url("/")]), "hello by HTTP/2.0\n");
}

#[test]
fn curl_gets_back_what_it_uploads_and_all_that_it_downloads() {
    let Some(curl) = program("curl", "curl") else { return };
    let folder = Folder::new("curl");
    let bytes = numbered(5_000_000);
    let (upload, copy) = (folder.write("upload", &bytes), folder.join("copy"));
    let (upload, copy) = (upload.to_str().unwrap(), copy.to_str().unwrap());
    for (site, way) in ways() {
        for (path, len) in [("/bytes/3000000", 3_000_000), ("/file", FILE)] {
            ask(&curl, &[way, "-o", copy, &site.url(path)]);
            assert!(fs::read(copy).unwrap() == numbered(len), "{way} {path}");
        }
        for upload in [["-T", upload], ["--data-binary", &format!("@{upload}")]] {
            ask(&curl, &[&[way, "-o", copy, &site.url("/echo")], &upload[..]].concat());
            assert!(fs::read(copy).unwrap() == bytes, "{way} {upload:?}");
            assert_eq!(ask(&curl, &[&[way, &site.url("/sum")], &upload[..]].concat()), sum_of(&bytes));
        }
        let waits = ask(&curl, &[way, "-T", upload, "-H", "Expect: 100-continue", &site.url("/sum")]);
        assert_eq!(waits, sum_of(&bytes), "{way}");
        let head = ask(&curl, &[way, "-I", &site.url("/file")]);
        assert!(head.contains("HTTP/2 200") && head.contains("content-length: 3000001\r\n"), "{head}");
    }
}

#[test]
fn curl_reads_trailers_and_asks_many_things_at_once() {
    let Some(curl) = program("curl", "curl") else { return };
    let site = Site::secure();
    let head = ask(&curl, &["--http2", "-D", "-", "-d", "x", &site.url("/echo")]);
    assert!(head.contains("x-end: here\r\n") && head.contains("trailer: x-end\r\n"), "{head}");
    // One connection, many streams.
    let urls = site.url("/bytes/[1000-1099]");
    let said = ask(
        &curl,
        &[
            "--http2",
            "-Z",
            "--parallel-max",
            "50",
            "-o",
            "/dev/null",
            "-w",
            "%{num_connects} %{size_download}.",
            &urls,
        ],
    );
    let answers: Vec<_> = said.split_terminator('.').filter_map(|answer| answer.split_once(' ')).collect();
    let bytes: usize = answers.iter().map(|(_, bytes)| bytes.parse::<usize>().unwrap()).sum();
    assert_eq!((answers.len(), bytes), (100, (1000..1100).sum()), "{said}");
}
