//! The HTTP programs as their users see them. `curl` plays the user; without it the tests say so and do nothing.
//!
//! `cargo test -p netwright-examples` builds the programs first; with `--test http` alone they are what was built before.

use std::{
    env, fs,
    io::{BufRead, BufReader, Read, Write},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

/// Longer than any healthy step takes; only a failing test waits that long.
const PATIENCE: Duration = Duration::from_secs(60);

struct Server {
    child: Child,
    /// Line by line.
    says: Receiver<String>,
    address: String,
}

impl Server {
    /// Cargo builds examples before tests, beside them.
    fn start(name: &str, arguments: &[&str]) -> Self {
        let test = env::current_exe().expect("a program has a path");
        let folder = test.parent().and_then(|deps| deps.parent()).expect("…/deps/http");
        let mut command = Command::new(folder.join("examples").join(name));
        command
            .arg("127.0.0.1:0")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().expect("the example is built");
        let (said, says) = channel();
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| said.send(line)));
        let line = says.recv_timeout(PATIENCE).expect("it says where it listens");
        let address = line.split(" on ").nth(1).and_then(|rest| rest.split(';').next());
        Self { child, says, address: address.unwrap_or_else(|| panic!("no address in {line:?}")).to_owned() }
    }

    /// Waits until it says this.
    fn wait_for(&self, words: &str) {
        while self.says.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("it never says {words:?}")) != words
        {
        }
    }

    /// What curl prints with these arguments; `{}` is the server.
    fn curl(&self, arguments: &[&str]) -> String {
        let arguments = arguments.iter().map(|argument| argument.replace("{}", &self.address));
        let output =
            Command::new("curl").args(["-s", "-m", "30"]).args(arguments).output().expect("curl is there");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn has_curl() -> bool {
    let there = Command::new("curl").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !there {
        eprintln!("skipped: curl is not installed");
    }
    there
}

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("netwright-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn notes_are_kept_listed_and_removed() {
    if !has_curl() {
        return;
    }
    let mut server = Server::start("http_json_api", &[]);
    let created = server.curl(&["-i", "{}/notes", "-d", r#"{"text": "buy milk"}"#]);
    assert!(created.starts_with("HTTP/1.1 201 ") && created.contains("location: /notes/1\r\n"), "{created}");
    assert!(created.ends_with(r#"{"id":1,"text":"buy milk"}"#), "{created}");
    server.curl(&["{}/notes", "-d", r#"{"text": "sell bread"}"#]);
    assert_eq!(server.curl(&["{}/notes?like=mi%6ck"]), r#"[{"id":1,"text":"buy milk"}]"#);
    assert_eq!(server.curl(&["{}/notes/2"]), r#"{"id":2,"text":"sell bread"}"#);
    assert!(server.curl(&["-i", "-X", "DELETE", "{}/notes/1"]).starts_with("HTTP/1.1 204 "));
    assert!(server.curl(&["-i", "{}/notes/1"]).starts_with("HTTP/1.1 404 "));
    assert!(
        server.curl(&["-i", "-X", "PUT", "{}/notes/1"]).contains("allow: GET, HEAD, DELETE, OPTIONS\r\n")
    );
    assert!(server.curl(&["-i", "{}/notes", "-d", "nonsense"]).starts_with("HTTP/1.1 400 "));
    assert!(server.curl(&["-I", "{}/notes"]).contains("content-length: "));
    let many = ["{}/notes/2"; 20]; // one connection
    assert_eq!(server.curl(&many).matches("sell bread").count(), 20);
    let mut input = server.child.stdin.take().unwrap();
    input.write_all(b"\n").unwrap();
    server.wait_for("ended; 0 connections did not finish in time");
    assert!(server.child.wait().unwrap().success());
}

#[test]
fn files_come_whole_in_ranges_compressed_and_only_if_they_changed() {
    if !has_curl() {
        return;
    }
    let directory = Directory::new("http-files");
    let text = "0123456789".repeat(30_000);
    fs::write(directory.0.join("big.txt"), &text).unwrap();
    fs::write(directory.0.join("big.txt.br"), "not really").unwrap();
    let server = Server::start("http_files", &[directory.0.to_str().unwrap()]);
    assert_eq!(server.curl(&["{}/big.txt"]), text);
    assert_eq!(server.curl(&["-r", "10-14", "{}/big.txt"]), "01234");
    assert_eq!(server.curl(&["-r", "-3", "{}/big.txt"]), "789");
    let parts = server.curl(&["-r", "0-1,299999-", "{}/big.txt"]);
    assert!(parts.contains("Content-Range: bytes 299999-299999/300000\r\n\r\n9\r\n"), "{parts}");
    let packed = server.curl(&["-i", "-H", "accept-encoding: br", "{}/big.txt"]);
    assert!(packed.contains("content-encoding: br\r\n") && packed.ends_with("not really"), "{packed}");
    assert!(server.curl(&["-I", "{}/big.txt"]).contains("content-length: 300000\r\n"));
    let saved = directory.0.join("etag");
    let saved = saved.to_str().unwrap();
    server.curl(&["--etag-save", saved, "-o", "/dev/null", "{}/big.txt"]);
    assert!(server.curl(&["-i", "--etag-compare", saved, "{}/big.txt"]).starts_with("HTTP/1.1 304 "));
    for path in ["{}/../../etc/passwd", "{}/%2e%2e/%2e%2e/etc/passwd", "{}//etc/passwd", "{}/.", "{}/none"] {
        assert!(server.curl(&["-i", "--path-as-is", path]).starts_with("HTTP/1.1 404 "), "{path}");
    }
    assert!(server.curl(&["{}/"]).contains("<a href=\"./big.txt\">big.txt</a>"));
}

fn has_openssl() -> bool {
    let there = Command::new("openssl").arg("version").stdout(Stdio::null()).status().is_ok();
    if !there {
        eprintln!("skipped: openssl is not installed");
    }
    there
}

#[test]
fn hello_greets_whoever_is_named() {
    if !has_curl() {
        return;
    }
    let server = Server::start("http_hello", &[]);
    assert_eq!(server.curl(&["http://{}/", "http://{}/ada"]), "hello, world\nhello, ada\n");
}

#[test]
fn hello_is_said_by_the_version_that_was_asked_for() {
    if !has_curl() {
        return;
    }
    let plain = Server::start("http_hello_both", &[]);
    let secure = Server::start("http_hello_both", &["--tls"]);
    for (server, scheme, version, said) in [
        (&plain, "http", "--http1.1", "HTTP/1.1"),
        (&plain, "http", "--http2", "HTTP/2.0"),
        (&plain, "http", "--http2-prior-knowledge", "HTTP/2.0"),
        (&secure, "https", "--http1.1", "HTTP/1.1"),
        (&secure, "https", "--http2", "HTTP/2.0"),
    ] {
        let hello = server.curl(&["-k", version, &format!("{scheme}://{{}}/ada")]);
        assert_eq!(hello, format!("hello, ada, by {said}\n"), "{version}");
    }
}

#[test]
fn conversations_within_requests_are_answered_while_they_go_on() {
    let test = env::current_exe().expect("a program has a path");
    let folder = test.parent().and_then(|deps| deps.parent()).expect("…/deps/http");
    let output =
        Command::new(folder.join("examples").join("http_both_ways")).output().expect("the example is built");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(said.matches("sums of [3, 4, 5]: [3, 7, 12]\n").count(), 3, "{said}");
    assert!(said.ends_with("ended; 0 connections did not finish in time\n"), "{said}");
}

/// By HTTP/2 from the client, by HTTP/1.1 to the server behind the proxy.
#[test]
fn the_proxy_passes_on_streams_of_http2() {
    if !has_curl() {
        return;
    }
    let directory = Directory::new("proxied-http2");
    let big: Vec<u8> = (0_u32..1_000_000).flat_map(u32::to_be_bytes).collect();
    fs::write(directory.0.join("big"), &big).unwrap();
    let files = Server::start("http_files", &[directory.0.to_str().unwrap()]);
    let proxy = Server::start("http_reverse_proxy", &[&files.address]);
    let copy = directory.0.join("copy");
    let shown =
        ["-o", copy.to_str().unwrap(), "-w", "%{http_code} %{http_version}", "--http2-prior-knowledge"];
    assert_eq!(proxy.curl(&[&["http://{}/big"], &shown[..]].concat()), "200 2");
    assert!(fs::read(&copy).unwrap() == big);
    assert_eq!(proxy.curl(&[&["http://{}/none"], &shown[..]].concat()), "404 2");
    let notes = Server::start("http_json_api", &[]);
    let proxy = Server::start("http_reverse_proxy", &[&notes.address]);
    let note = format!("{{\"text\":\"{}\"}}", "x".repeat(20_000));
    for more in [&[][..], &["-H", "expect: 100-continue"]] {
        let json = ["-H", "content-type: application/json", "-d", &note, "http://{}/notes"];
        assert_eq!(proxy.curl(&[&json[..], &shown, more].concat()), "201 2");
    }
    let several = ["--http2", "-w", "%{num_connects}.", "http://{}/notes/1", "http://{}/notes/2"];
    let several = proxy.curl(&several);
    assert!(several.matches("xxx\"}").count() == 2 && several.ends_with("0."), "on one connection");
}

#[test]
fn the_proxy_passes_on_heads_bodies_and_ends_in_both_directions() {
    if !has_curl() {
        return;
    }
    let directory = Directory::new("proxied");
    let big: Vec<u8> = (0_u32..1_000_000).flat_map(u32::to_be_bytes).collect();
    fs::write(directory.0.join("big"), &big).unwrap();
    fs::write(directory.0.join("page.html"), "<p>hello").unwrap();
    let upstream = Server::start("http_files", &[directory.0.to_str().unwrap()]);
    let proxy = Server::start("http_reverse_proxy", &[&upstream.address]);

    let copy = directory.0.join("copy");
    let copied = proxy.curl(&["http://{}/big", "-o", copy.to_str().unwrap(), "-w", "%{http_code}"]);
    assert_eq!(copied, "200");
    assert!(fs::read(&copy).unwrap() == big);
    let page = proxy.curl(&["-i", "http://{}/page.html"]);
    assert!(page.contains("content-type: text/html") && page.ends_with("\r\n\r\n<p>hello"), "{page}");
    let part = proxy.curl(&["-i", "-r", "4-7", "http://{}/page.html"]);
    assert!(part.starts_with("HTTP/1.1 206 ") && part.ends_with("\r\n\r\nello"), "{part}");
    let head = proxy.curl(&["-I", "http://{}/big", "-m", "5"]);
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("content-length: 4000000\r\n"),
        "{head}"
    );
    let etag = head.lines().find_map(|line| line.strip_prefix("etag: ")).expect("a tag").to_owned();
    let same = format!("If-None-Match: {}", etag.trim());
    assert_eq!(proxy.curl(&["http://{}/big", "-H", &same, "-w", "%{http_code}", "-m", "5"]), "304");
    // On one connection, with a refusal in the middle.
    let several = proxy.curl(&["http://{}/page.html", "http://{}/nothing", "http://{}/page.html"]);
    assert!(several.starts_with("<p>hello") && several.ends_with("<p>hello"), "{several}");

    drop(upstream);
    let lost = proxy.curl(&["-i", "http://{}/page.html"]);
    assert!(lost.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{lost}");
}

#[test]
fn the_proxy_passes_on_a_file_of_ten_megabytes() {
    let directory = Directory::new("proxied-whole");
    let big: Vec<u8> = (0_u32..2_500_000).flat_map(u32::to_be_bytes).collect();
    fs::write(directory.0.join("big"), &big).unwrap();
    let upstream = Server::start("http_files", &[directory.0.to_str().unwrap()]);
    let proxy = Server::start("http_reverse_proxy", &[&upstream.address]);
    let mut client = std::net::TcpStream::connect(&proxy.address).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.write_all(b"GET /big HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
    let mut reply = Vec::new();
    let ended = client.read_to_end(&mut reply);
    assert!(ended.is_ok(), "{ended:?} after {} bytes", reply.len());
    assert!(reply.starts_with(b"HTTP/1.1 200 OK\r\n") && reply.ends_with(&big), "{} bytes", reply.len());
}

#[test]
fn the_proxy_passes_on_what_is_uploaded() {
    if !has_curl() {
        return;
    }
    let upstream = Server::start("http_json_api", &[]);
    let proxy = Server::start("http_reverse_proxy", &[&upstream.address]);
    let json = ["-H", "content-type: application/json"];
    let note = format!("{{\"text\":\"{}\"}}", "x".repeat(20_000));
    for more in [&[][..], &["-H", "expect: 100-continue"], &["-H", "transfer-encoding: chunked"]] {
        let direct = upstream
            .curl(&[&json[..], more, &["-d", &note, "-w", "%{http_code}", "http://{}/notes"]].concat());
        let passed =
            proxy.curl(&[&json[..], more, &["-d", &note, "-w", "%{http_code}", "http://{}/notes"]].concat());
        assert!(direct.ends_with("201"), "{direct}");
        assert_eq!(direct.len(), passed.len(), "{more:?}: {passed}");
        assert!(passed.ends_with("201"), "{more:?}: {passed}");
    }
}

#[test]
fn a_certificate_is_exchanged_while_the_server_runs() {
    if !has_curl() || !has_openssl() {
        return;
    }
    let directory = Directory::new("https");
    let (chain, key) = (directory.0.join("cert.pem"), directory.0.join("key.pem"));
    let make = |name: &str| {
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
        openssl.args([
            "-days",
            "30",
            "-subj",
            &format!("/CN={name}"),
            "-addext",
            "subjectAltName=IP:127.0.0.1",
        ]);
        openssl.arg("-keyout").arg(&key).arg("-out").arg(&chain).stderr(Stdio::null());
        assert!(openssl.status().unwrap().success());
    };
    make("first");
    let server = Server::start("https", &[chain.to_str().unwrap(), key.to_str().unwrap()]);
    let first = directory.0.join("first.pem");
    fs::copy(&chain, &first).unwrap();
    let trusts = |ca: &PathBuf| {
        let ca = ca.to_str().unwrap();
        let url = format!("https://{}/x", server.address);
        let curl = Command::new("curl").args(["-s", "-m", "30", "--cacert", ca, &url]).output().unwrap();
        (curl.status.success(), String::from_utf8_lossy(&curl.stdout).into_owned())
    };
    assert_eq!(trusts(&first), (true, "/x in secret\n".to_owned()));
    make("second");
    server.wait_for("another certificate is shown from now on");
    assert!(trusts(&chain).0, "the second one is shown");
    assert!(!trusts(&first).0, "the first one is not shown any more");
}

#[test]
fn one_port_speaks_http_and_lines_in_clear_and_in_tls() {
    if !has_curl() {
        return;
    }
    let server = Server::start("one_port", &[]);
    assert_eq!(server.curl(&["http://{}/x"]), "hello over HTTP, /x\n");
    assert_eq!(server.curl(&["-k", "https://{}/y"]), "hello over HTTP, /y\n");
    let mut stream = std::net::TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
    stream.write_all(b"hello\nG").unwrap(); // it is not HTTP because of what comes later
    let mut answer = [0; 6];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"olleh\n");
    if !has_openssl() {
        return;
    }
    let mut openssl = Command::new("openssl");
    openssl.args(["s_client", "-quiet", "-connect", &server.address]);
    let mut openssl =
        openssl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    openssl.stdin.as_mut().unwrap().write_all(b"secret\n").unwrap();
    let mut line = String::new();
    BufReader::new(openssl.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "terces\n");
    let _ = openssl.kill();
    let _ = openssl.wait();
}

/// A WebSocket by hand: short frames, and a mask of zeros.
struct Socket(std::net::TcpStream);

impl Socket {
    fn open(server: &Server, path: &str) -> Self {
        let mut stream =
            std::net::TcpStream::connect(server.address.trim().trim_start_matches("http://")).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
        let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";
        let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
        write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\n{upgrade}{key}\r\n").unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
        Self(stream)
    }

    fn say(&mut self, text: &str) {
        let head = [0x81, 0x80 | text.len() as u8, 0, 0, 0, 0];
        self.0.write_all(&[&head, text.as_bytes()].concat()).unwrap();
    }

    fn hear(&mut self) -> String {
        let mut head = [0; 2];
        self.0.read_exact(&mut head).unwrap();
        assert!(head[0] == 0x81 && head[1] < 126, "a short text: {head:?}");
        let mut text = vec![0; head[1].into()];
        self.0.read_exact(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    }
}

#[test]
fn the_chat_serves_its_page_and_tells_everybody_what_one_says() {
    if !has_curl() {
        return;
    }
    let server = Server::start("websocket_chat", &[]);
    let url = server.address.trim().to_owned();
    assert!(server.curl(&[&url]).contains("new WebSocket("));
    let mut ada = Socket::open(&server, "/chat");
    assert!(ada.hear().ends_with("has come, 1 here"));
    let mut bob = Socket::open(&server, "/chat");
    assert!(bob.hear().ends_with("has come, 2 here") && ada.hear().ends_with("has come, 2 here"));
    bob.say("hello");
    assert!(ada.hear().ends_with(": hello") && bob.hear().ends_with(": hello"));
    drop(bob);
    assert!(ada.hear().ends_with("has left"));
}

/// Sends a reply without end; says how much was taken when for a while nothing more is.
fn endless_upstream() -> (String, std::sync::mpsc::Receiver<usize>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_write_timeout(Some(std::time::Duration::from_secs(1))).unwrap();
        let _ = stream.read(&mut [0; 4096]).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10000000000\r\n\r\n").unwrap();
        let (piece, mut taken) = (vec![b'x'; 64 * 1024], 0);
        while let Ok(len) = stream.write(&piece) {
            taken += len;
        }
        let _ = tell.send(taken);
    });
    (address, told)
}

#[test]
fn the_proxy_reads_no_more_than_its_client_takes() {
    let (upstream, taken) = endless_upstream();
    let proxy = Server::start("http_reverse_proxy", &[&upstream]);
    let mut client = std::net::TcpStream::connect(&proxy.address).unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let taken = taken.recv_timeout(std::time::Duration::from_secs(60)).expect("it stops");
    // What the system keeps on four sockets, and little more.
    assert!(taken < 64 << 20, "{taken} bytes of an endless reply were taken for a client that does not read");
    drop(client);
}

#[test]
fn the_proxy_takes_no_more_than_its_upstream_reads() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = listener.local_addr().unwrap().to_string();
    let proxy = Server::start("http_reverse_proxy", &[&upstream]);
    let mut client = std::net::TcpStream::connect(&proxy.address).unwrap();
    client.set_write_timeout(Some(std::time::Duration::from_secs(1))).unwrap();
    client.write_all(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10000000000\r\n\r\n").unwrap();
    let (_silent, _) = listener.accept().unwrap(); // reads nothing
    let (piece, mut taken) = (vec![b'x'; 64 * 1024], 0);
    while let Ok(len) = client.write(&piece) {
        taken += len;
        assert!(taken < 64 << 20, "{taken} bytes were taken for an upstream that does not read");
    }
}
