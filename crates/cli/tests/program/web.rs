use super::{Peer, Running, numbered, run, text};
use serde_json::Value;
use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

/// A directory that goes with the test.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("netwright-cli-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory can be made");
        Self(path)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).expect("a file can be written");
        path
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn text(&self) -> &str {
        self.0.to_str().expect("a path of text")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Starts one of the servers on HTTP on a free port.
pub(crate) fn serve(arguments: &[&str]) -> (Running, SocketAddr) {
    let (running, addresses) =
        Running::serve(&[&["serve"], arguments, &["--listen", "127.0.0.1:0"]].concat(), 1);
    (running, addresses[0])
}

/// One exchange in HTTP/1.0, which ends with the connection.
fn get(address: SocketAddr, path: &str) -> (String, Vec<u8>) {
    let answer = Peer::connect(address).send(format!("GET {path} HTTP/1.0\r\n\r\n")).rest();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head");
    (text(&answer[..end]), answer[end + 4..].to_vec())
}

#[test]
fn hello_answers_in_every_reactor_model() {
    for model in [&["--model", "single"][..], &["--model", "shared-port"], &["--backend", "blocking"]] {
        let (_server, address) = serve(&[&["hello"], model].concat());
        let (head, body) = get(address, "/");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{model:?} {head}");
        assert_eq!(body, b"Hello, World!", "{model:?}");
        assert_eq!(get(address, "/json").1, br#"{"message":"Hello, World!"}"#);
        let made: Vec<u8> = (0..1_000_000_u32).map(|place| (place % 251) as u8).collect();
        assert!(get(address, "/bytes/1000000").1 == made, "{model:?}");
        assert!(get(address, "/nowhere").0.starts_with("HTTP/1.1 404 "));
    }
}

#[test]
fn hello_echoes_bodies_longer_than_it_would_hold() {
    let (_server, address) = serve(&["hello"]);
    let body = numbered(40 << 20);
    let head = format!("POST /echo HTTP/1.0\r\nContent-Length: {}\r\n\r\n", body.len());
    let answer = Peer::connect(address).exchange(&[head.as_bytes(), &body].concat());
    assert!(answer.ends_with(&body), "{} bytes came back", answer.len());
}

#[test]
fn files_are_served_and_nothing_else() {
    let directory = Directory::new();
    directory.write("page.html", "<p>hello");
    let big = numbered(3_000_000);
    directory.write("big", &big);
    let (_server, address) = serve(&["http", "--dir", directory.text()]);
    let (head, body) = get(address, "/page.html");
    assert!(head.contains("content-type: text/html"), "{head}");
    assert_eq!(body, b"<p>hello");
    assert!(get(address, "/big").1 == big);
    for path in ["/", "/nothing", "/../Cargo.toml", "/%2e%2e/%2e%2e/etc/passwd"] {
        let (head, _) = get(address, path);
        assert!(head.starts_with("HTTP/1.1 404 ") || head.starts_with("HTTP/1.1 400 "), "{path}: {head}");
    }
    let (_server, address) = serve(&["http", "--dir", directory.text(), "--listing"]);
    assert!(text(&get(address, "/").1).contains("page.html"));
}

#[test]
fn what_is_no_websocket_is_told_so() {
    let (_server, address) = serve(&["ws-echo"]);
    let (head, _) = get(address, "/");
    assert!(head.starts_with("HTTP/1.1 426 Upgrade Required\r\n"), "{head}");
}

#[test]
fn every_server_says_its_url() {
    for (arguments, scheme) in
        [(&["hello"][..], "http"), (&["hello", "--tls"], "https"), (&["ws-echo", "--tls"], "wss")]
    {
        let (server, address) = serve(arguments);
        assert_eq!(server.line(), format!("{scheme}://{address}/"));
    }
}

fn load(arguments: &[&str]) -> (Option<i32>, Value) {
    let output = run(&[&["load"], arguments, &["--json", "--seconds", "0.2", "-c", "4"]].concat());
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error} in {:?}; it said {:?}", text(&output.stdout), text(&output.stderr))
    });
    assert_eq!(text(&output.stderr), "");
    (output.status.code(), report)
}

fn right(arguments: &[&str]) -> Value {
    let (code, report) = load(arguments);
    assert_eq!((code, &report["errors"]["total"]), (Some(0), &Value::from(0)), "{arguments:?} {report:#}");
    assert!(report["requests"].as_u64().unwrap() > 0, "{report:#}");
    report
}

#[test]
fn a_load_compares_every_answer_of_an_http_server() {
    let (_plain, plain) = serve(&["hello"]);
    let (_secure, secure) = serve(&["hello", "--tls"]);
    let report = right(&["http", &format!("http://{plain}/"), "--depth", "16"]);
    assert_eq!(report["size"], 13);
    right(&["http", &format!("http://{plain}/bytes/300000")]);
    right(&["http", &format!("http://{plain}/echo"), "--size", "100000"]);
    right(&["http", &format!("https://localhost:{}/json", secure.port()), "--insecure"]);
    right(&["http", &format!("https://{secure}/echo"), "--insecure", "--size", "20000", "--depth", "3"]);
}

#[test]
fn a_load_by_http2_compares_every_answer_on_each_of_its_streams() {
    let (_plain, plain) = serve(&["hello"]);
    let (_secure, secure) = serve(&["hello", "--tls"]);
    let report = right(&["http", &format!("http://{plain}/"), "--http2", "--streams", "32"]);
    assert_eq!(
        (&report["protocol"], &report["size"], &report["depth"]),
        (&"http2".into(), &13.into(), &32.into())
    );
    // More streams than the server takes at a time.
    right(&["http", &format!("http://{plain}/json"), "--http2", "--streams", "150"]);
    right(&["http", &format!("http://{plain}/bytes/300000"), "--http2"]);
    right(&["http", &format!("http://{plain}/echo"), "--http2", "--streams", "4", "--size", "100000"]);
    let secure = format!("https://localhost:{}/echo", secure.port());
    right(&["http", &secure, "--http2", "--streams", "8", "--insecure", "--size", "2000"]);
    // What it sends is not what it was sent.
    let (code, report) = load(&["http", &format!("http://{plain}/"), "--http2", "--size", "13"]);
    assert_eq!((code, &report["errors"]["wrong_bytes"]), (Some(1), &Value::from(4)), "{report:#}");
    assert!(report["errors"]["examples"][0].as_str().unwrap().contains("405"), "{report:#}");
}

#[test]
fn a_server_speaks_the_versions_of_http_that_it_was_told_to() {
    let directory = Directory::new();
    directory.write("index.html", "<p>hello");
    let files = ["http", "--dir", directory.text()];
    for server in [&["hello"][..], &files] {
        let (_both, both) = serve(server);
        right(&["http", &format!("http://{both}/"), "--http2"]);
        right(&["http", &format!("http://{both}/")]);
        let (_new, new) = serve(&[server, &["--h2c"]].concat());
        right(&["http", &format!("http://{new}/"), "--http2"]);
        refused(&["load", "http", &format!("http://{new}/")], 1, &["505"]);
        let (head, body) = get(new, "/");
        assert!(head.starts_with("HTTP/1.1 505 ") && text(&body).contains("only HTTP/2"), "{head}");
        let (_old, old) = serve(&[server, &["--http1-only"]].concat());
        right(&["http", &format!("http://{old}/")]);
        refused(&["load", "http", &format!("http://{old}/"), "--http2"], 1, &["first answer"]);
        let (_old, old) = serve(&[server, &["--http1-only", "--tls"]].concat());
        let url = format!("https://{old}/");
        right(&["http", &url, "--insecure"]);
        refused(&["load", "http", &url, "--http2", "--insecure"], 1, &["NoApplicationProtocol"]);
    }
}

#[test]
fn a_load_compares_every_message_of_a_websocket_server() {
    let (_plain, plain) = serve(&["ws-echo"]);
    let (_secure, secure) = serve(&["ws-echo", "--tls"]);
    right(&["ws", &format!("ws://{plain}/")]);
    right(&["ws", &format!("ws://{plain}/any"), "--depth", "8", "--size", "70000"]);
    right(&["ws", &format!("wss://{secure}/"), "--insecure"]);
    right(&["ws", &format!("WS://{plain}?any")]);
}

#[test]
fn wrong_answers_fail_a_load() {
    let (_server, address) = serve(&["hello"]);
    // What it sends is not what it was sent.
    let (code, report) = load(&["http", &format!("http://{address}/"), "--size", "13"]);
    assert_eq!((code, &report["errors"]["wrong_bytes"]), (Some(1), &Value::from(4)), "{report:#}");
    assert!(report["errors"]["examples"][0].as_str().unwrap().contains("405"), "{report:#}");
    let (code, report) = load(&["ws", &format!("ws://{address}/")]);
    let errors = &report["errors"];
    assert_eq!(
        (code, &errors["refused"], &errors["wrong_bytes"]),
        (Some(1), &4.into(), &0.into()),
        "{report:#}"
    );
    assert!(errors["examples"][0].as_str().unwrap().contains("a request for a WebSocket with 200"));
}

/// What cannot be run: the exit code, and words of the one line that says why.
fn refused(arguments: &[&str], code: i32, words: &[&str]) {
    let output = run(arguments);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    assert!(words.iter().all(|word| said.contains(word)), "{words:?} in {said:?}");
    assert_eq!(text(&output.stdout).lines().filter(|line| line.contains("listens")).count(), 0);
}

#[test]
fn what_cannot_be_served_or_asked_is_refused_in_words() {
    let listen = ["--listen", "127.0.0.1:0"];
    refused(&[&["serve", "echo", "--tls"][..], &listen].concat(), 2, &["--tls", "ws-echo", "echo"]);
    refused(&[&["serve", "hello", "--dir", "."][..], &listen].concat(), 2, &["--dir", "http"]);
    refused(&[&["serve", "http"][..], &listen].concat(), 2, &["--dir"]);
    refused(&[&["serve", "hello", "--cert", "x"][..], &listen].concat(), 2, &["--key"]);
    refused(&[&["serve", "http", "--dir", "/nowhere"][..], &listen].concat(), 1, &["/nowhere"]);
    let directory = Directory::new();
    let wrong = directory.write("key.pem", "this is no key\n");
    let wrong = wrong.to_str().unwrap();
    let tls = ["serve", "hello", "--tls", "--cert", wrong, "--key", wrong];
    refused(&[&tls[..], &listen].concat(), 1, &["key.pem"]);
    refused(&[&["serve", "hello", "--h2c", "--tls"][..], &listen].concat(), 2, &["--h2c", "--tls"]);
    refused(&[&["serve", "hello", "--h2c", "--http1-only"][..], &listen].concat(), 2, &["--http1-only"]);
    refused(&[&["serve", "echo", "--h2c"][..], &listen].concat(), 2, &["--h2c", "ws-echo", "not for echo"]);
    refused(&["load", "http", "http://127.0.0.1:1/", "--streams", "2"], 2, &["--http2"]);
    refused(
        &["load", "http", "http://127.0.0.1:1/", "--http2", "--depth", "2"],
        2,
        &["--depth", "--streams"],
    );
    refused(&["load", "ws", "ws://127.0.0.1:1/", "--http2"], 2, &["--http2", "http only"]);
    refused(&["load", "http", "127.0.0.1:1"], 2, &["127.0.0.1:1", "http://HOST:PORT/PATH"]);
    refused(&["load", "ws", "http://127.0.0.1:1/"], 2, &["scheme http", "ws"]);
    for place in ["ws ws://127.0.0.1:70000/", "http http://[::1]:70000/", "echo 127.0.0.1:70000"] {
        let (protocol, url) = place.split_once(' ').unwrap();
        refused(&["load", protocol, url], 2, &["70000", "65535"]);
    }
    refused(&["load", "ws", "wss://127.1:1/", "--insecure"], 1, &["127.1", "no name"]);
    refused(&["load", "http", "http://192.0.2.1/"], 2, &["192.0.2.1", "--allow-remote"]);
    refused(&["load", "echo", "127.0.0.1:1", "--insecure"], 2, &["--insecure"]);
    let (_server, address) = serve(&["hello", "--tls"]);
    refused(&["load", "http", &format!("https://{address}/")], 1, &["certificate"]);
    let (_server, address) = serve(&["hello"]);
    refused(&["load", "http", &format!("http://{address}/nowhere")], 1, &["404"]);
}
