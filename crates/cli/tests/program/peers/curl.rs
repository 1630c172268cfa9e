//! curl asks everything that it can ask.

use super::{or_skip, program, run};
use crate::{Running, numbered, web};
use std::{net::SocketAddr, path::PathBuf, process::Command};
use web::{Directory, serve};

struct Curl {
    path: PathBuf,
    _server: Running,
    address: SocketAddr,
}

impl Curl {
    fn of(arguments: &[&str]) -> Option<Self> {
        let path = program("curl", "curl")?;
        let (server, address) = serve(arguments);
        Some(Self { path, _server: server, address })
    }

    /// `{}` stands for the server's address.
    #[track_caller]
    fn ask(&self, arguments: &[&str]) -> String {
        let arguments = arguments.iter().map(|word| word.replace("{}", &self.address.to_string()));
        let mut curl = Command::new(&self.path);
        curl.args(["-sS", "--max-time", "60"]).args(arguments);
        run(&mut curl).unwrap_or_else(|error| panic!("{error}"))
    }
}

#[test]
fn curl_uploads_and_gets_back_what_it_uploaded() {
    let directory = Directory::new();
    let bytes = numbered(5_000_000);
    let (file, copy) = (directory.write("file", &bytes), directory.path().join("copy"));
    let (file, copy) = (file.to_str().unwrap(), copy.to_str().unwrap());
    for (server, url) in [(&["hello"][..], "http://{}/echo"), (&["hello", "--tls"], "https://{}/echo")] {
        let Some(curl) = Curl::of(server) else { return };
        let ways: [&[&str]; 9] = [
            &["-T", file, "--http1.1"],
            &["-T", file, "--http2"],
            &["-T", file, "--http2-prior-knowledge"],
            &["-T", file],
            &["--data-binary", &format!("@{file}")],
            &["-T", file, "-H", "Transfer-Encoding: chunked"],
            &["-T", file, "-H", "Expect: 100-continue", "--expect100-timeout", "30"],
            &["-X", "PATCH", "--data-binary", &format!("@{file}"), "-H", "Expect:"],
            &["-T", file, "--http1.0"],
        ];
        for way in ways {
            let code = curl.ask(&[&["-k", "-o", copy, "-w", "%{http_code}", url], way].concat());
            assert_eq!(code, "200", "{way:?}");
            assert!(std::fs::read(copy).unwrap() == bytes, "{way:?}");
        }
    }
}

#[test]
fn curl_keeps_one_connection_for_many_requests() {
    let Some(curl) = Curl::of(&["hello", "--tls"]) else { return };
    let said =
        curl.ask(&["-k", "-w", "%{num_connects}.", "https://{}/", "https://{}/json", "https://{}/bytes/9"]);
    assert!(said.starts_with("Hello, World!1.{\"message\":\"Hello, World!\"}0."), "{said:?}");
    let head = curl.ask(&["-k", "-I", "https://{}/bytes/1000000"]);
    assert!(head.contains("content-length: 1000000\r\n"), "{head}");
}

#[test]
fn curl_gets_the_version_that_it_asks_for() {
    let Some(secure) = Curl::of(&["hello", "--tls"]) else { return };
    let Some(plain) = Curl::of(&["hello"]) else { return };
    for (curl, arguments, version) in [
        (&secure, ["--http1.1", "https://{}/"], "1.1"),
        (&secure, ["--http2", "https://{}/"], "2"),
        (&plain, ["--http1.0", "http://{}/"], "1.1"),
        (&plain, ["--http1.1", "http://{}/"], "1.1"),
        (&plain, ["--http2", "http://{}/"], "2"), // by Upgrade: h2c
        (&plain, ["--http2-prior-knowledge", "http://{}/"], "2"),
    ] {
        let said = curl.ask(&[&["-k", "-w", " by %{http_version}"][..], &arguments].concat());
        assert_eq!(said, format!("Hello, World! by {version}"), "{arguments:?}");
    }
}

#[test]
fn curl_gets_ranges_and_hears_that_nothing_has_changed() {
    let directory = Directory::new();
    let digits = directory.write("digits", "0123456789");
    let Some(curl) = Curl::of(&["http", "--dir", directory.text()]) else { return };
    assert_eq!(curl.ask(&["-r", "2-4", "http://{}/digits"]), "234");
    assert_eq!(curl.ask(&["-r", "-3", "http://{}/digits"]), "789");
    assert_eq!(curl.ask(&["-r", "7-", "http://{}/digits"]), "789");
    let parts = curl.ask(&["-r", "0-1,8-9", "http://{}/digits"]);
    assert!(parts.contains("Content-Range: bytes 8-9/10\r\n\r\n89\r\n"), "{parts}");
    let code = ["-o", "/dev/null", "-w", "%{http_code}", "http://{}/digits"];
    assert_eq!(curl.ask(&[&["-r", "20-"], &code[..]].concat()), "416");
    assert_eq!(curl.ask(&[&["-z", digits.to_str().unwrap()], &code[..]].concat()), "304");
    // A download that was broken off goes on.
    let half = directory.write("half", "01234");
    curl.ask(&["-C", "-", "-o", half.to_str().unwrap(), "http://{}/digits"]);
    assert_eq!(std::fs::read_to_string(half).unwrap(), "0123456789");
}

#[test]
fn curl_trusts_a_certificate_that_it_is_given() {
    let Some(openssl) = program("openssl", "openssl") else { return };
    let directory = Directory::new();
    let (cert, key) = (directory.path().join("cert.pem"), directory.path().join("key.pem"));
    let mut made = Command::new(openssl);
    made.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]);
    made.args(["-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"]);
    made.arg("-keyout").arg(&key).arg("-out").arg(&cert);
    let Some(_) = or_skip("a certificate by openssl", run(&mut made)) else { return };
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let Some(curl) = Curl::of(&["hello", "--tls", "--cert", cert, "--key", key]) else { return };
    assert_eq!(curl.ask(&["--cacert", cert, "https://{}/"]), "Hello, World!");
}
