//! nghttp and h2load.

use super::{
    site::{Site, numbered},
    support::{Folder, program, succeeds},
};
use std::{path::Path, process::Command};

/// Runs h2load, which has to see each of these requests answered as it should be.
#[track_caller]
pub(crate) fn h2load(h2load: &Path, requests: usize, status: char, arguments: &[&str]) -> String {
    let number = requests.to_string();
    let said = succeeds(Command::new(h2load).args(["-n", &number, "-N", "60"]).args(arguments));
    let done = format!("{requests} done, {requests} succeeded, 0 failed, 0 errored, 0 timeout");
    let failed = format!("{requests} done, 0 succeeded, {requests} failed, 0 errored, 0 timeout");
    assert!(said.contains(if status == '2' { &done } else { &failed }), "{arguments:?}: {said}");
    assert!(said.contains(&format!("{requests} {status}xx")), "{arguments:?}: {said}");
    said
}

#[test]
fn h2load_finds_no_errors() {
    let Some(path) = program("h2load", "nghttp2-client") else { return };
    let folder = Folder::new("h2load");
    let upload = folder.write("upload", numbered(1_000_000));
    let upload = upload.to_str().unwrap();
    for site in [Site::plain(), Site::secure()] {
        h2load(&path, 2000, '2', &["-c", "8", "-m", "32", &site.url("/")]);
        h2load(&path, 200, '2', &["-c", "8", "-m", "32", &site.url("/bytes/100000")]);
        h2load(&path, 20, '2', &["-c", "4", "-m", "8", &site.url("/file")]);
        h2load(&path, 40, '2', &["-c", "2", "-m", "20", "-d", upload, &site.url("/sum")]);
        h2load(&path, 40, '2', &["-c", "2", "-m", "20", "-d", upload, &site.url("/echo")]);
        // Windows of 16 KiB, and more streams than are allowed.
        h2load(&path, 20, '2', &["-c", "1", "-m", "4", "-w", "14", "-W", "14", &site.url("/bytes/100000")]);
        h2load(&path, 1000, '2', &["-c", "2", "-m", "200", &site.url("/")]);
        // Bodies that nobody wants.
        h2load(&path, 1000, '4', &["-c", "2", "-m", "100", "-d", upload, &site.url("/early")]);
    }
}

#[test]
fn nghttp_gets_what_it_asks_for_whatever_it_thinks_of_priorities() {
    let Some(nghttp) = program("nghttp", "nghttp2-client") else { return };
    let folder = Folder::new("nghttp");
    let upload = folder.write("upload", numbered(300_000));
    let upload = upload.to_str().unwrap();
    for site in [Site::plain(), Site::secure()] {
        let get = |arguments: &[&str]| {
            succeeds(Command::new(&nghttp).args(["-n", "-s", "-t", "60s"]).args(arguments))
        };
        let said = get(&["-m", "50", "-p", "7", &site.url("/bytes/100000"), &site.url("/file")]);
        assert!(said.contains(" 200 ") && said.contains("/file"), "{said}");
        let said = get(&["-b", "1000", &site.url("/bytes/1000")]);
        assert!(said.contains(" 200 "), "padded: {said}");
        let said = get(&["--continuation", &site.url("/"), &site.url("/file")]);
        assert_eq!(said.matches(" 431 ").count(), 2, "a head of 32 KiB costs nobody the connection: {said}");
        let said = get(&["--no-dep", "--trailer", "x: y", "-d", upload, &site.url("/echo")]);
        assert!(said.contains(" 200 "), "{said}");
        if site.url("/").starts_with("http:") {
            let said = get(&["-u", &site.url("/file")]);
            assert!(said.contains(" 200 "), "by upgrade: {said}");
        }
    }
}
