//! Captures, read by `tshark` where it is installed: the package of that name in Debian. Without it each test says that it is skipped;
//! `NETWRIGHT_PEERS=required` makes that a failure.

use http::Response;
use netwright::{
    Server,
    handler::Capture,
    http::{HttpServer, client::WebClient, respond},
    pipeline,
    tls::{Acceptor, Certificate, Connector, KeyLines, Roots, Tls, rustls},
};
use std::{
    env, fs,
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(60);
const PATH: &str = "/a-path-that-nothing-else-has";

/// What `tshark` shows of these packets, one line each; `None` if it is not there.
fn tshark(file: &Path, port: u16, filter: &str, field: &str, inner: &str) -> Option<Vec<String>> {
    let output = Command::new("tshark")
        // Settings of nobody's: neither of a user, nor of how long names take to be looked up.
        .env("HOME", env::temp_dir())
        .args(["-n", "-r"])
        .arg(file)
        .args(["-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE"])
        .args(["-d", &format!("tcp.port=={port},{inner}"), "-d", &format!("tls.port=={port},http")])
        .args(["-Y", filter, "-T", "fields", "-e", field])
        .output();
    match output {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "tshark ended with {}: {said}", output.status);
            Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let required = env::var("NETWRIGHT_PEERS").is_ok_and(|peers| peers == "required");
            assert!(!required, "tshark is not installed");
            println!("skipped: tshark is not installed");
            None
        }
        Err(error) => panic!("tshark does not start: {error}"),
    }
}

/// All is well with heads, sums and sequences.
fn assert_nothing_is_strange(file: &Path, port: u16, inner: &str) {
    let strange = "_ws.malformed || _ws.expert.severity >= 6291456 || tcp.analysis.flags \
                   || tcp.checksum.status != 1 || (ip && ip.checksum.status != 1)";
    assert_eq!(tshark(file, port, strange, "_ws.col.Info", inner), Some(Vec::new()));
}

struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Self {
        Self(env::temp_dir().join(format!("netwright-tshark-{}-{name}.pcapng", std::process::id())))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn a_request_is_found_in_a_capture_over_each_version_of_ip() {
    for host in ["127.0.0.1", "[::1]"] {
        let there = Temporary::new("plain");
        let capture = Capture::to_file(&there.0, 1 << 20).unwrap();
        let taken = capture.clone();
        let server = Server::builder()
            .pipeline(move |_| {
                let hello = respond(|_| Response::new("hello".to_owned()));
                pipeline().add(taken.stage()).add(HttpServer::new()).app(hello)
            })
            .bind(format!("{host}:0"))
            .wait();
        let Ok(server) = server else {
            println!("skipped: nothing listens at {host} here");
            continue;
        };
        let address = server.local_addr().unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        write!(client, "GET {PATH} HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        client.read_to_end(&mut Vec::new()).unwrap();
        assert!(capture.finish(PATIENCE) && capture.error().is_none());

        let Some(found) = tshark(&there.0, address.port(), "http.request", "http.request.uri", "http") else {
            return;
        };
        assert_eq!(found, [PATH]);
        let codes = tshark(&there.0, address.port(), "http.response", "http.response.code", "http");
        assert_eq!(codes.unwrap(), ["200"]);
        assert_nothing_is_strange(&there.0, address.port(), "http");
    }
}

#[test]
fn a_request_is_found_behind_tls_if_its_secrets_are_there_and_not_without_them() {
    let versions: [&'static rustls::SupportedProtocolVersion; 2] =
        [&rustls::version::TLS12, &rustls::version::TLS13];
    for version in versions {
        for with_secrets in [true, false] {
            let there = Temporary::new("tls");
            let capture = Capture::ring(1 << 20).unwrap();
            let certificate = Certificate::self_signed(["localhost"]).unwrap();
            let mut builder = Acceptor::builder().certificate(&certificate).versions(&[version]);
            if with_secrets {
                let secrets = capture.clone();
                let lines = KeyLines::new(move |line| secrets.tls_secret_line(line).unwrap());
                builder = builder.key_log(Arc::new(lines));
            }
            let (acceptor, taken) = (builder.build().unwrap(), capture.clone());
            let server = Server::builder()
                .pipeline(move |_| {
                    let hello = respond(|_| Response::new("hello".to_owned()));
                    pipeline()
                        .add(taken.stage())
                        .add(Tls::server(&acceptor))
                        .add(HttpServer::new())
                        .app(hello)
                })
                .bind("127.0.0.1:0")
                .wait()
                .unwrap();
            let connector = Connector::builder().roots(Roots::of(&certificate).unwrap()).build().unwrap();
            let client = WebClient::builder().connector(connector).build().unwrap();
            let port = server.local_addr().unwrap().port();
            let reply = client.get(format!("https://localhost:{port}{PATH}")).wait().unwrap();
            let body = reply.into_body().collect(100);
            let body = netwright::event_loops(1).unwrap().next().spawn(body).unwrap().wait();
            assert_eq!(body.unwrap().unwrap(), "hello");

            capture.dump_to(&there.0).unwrap();
            let Some(found) = tshark(&there.0, port, "http.request", "http.request.uri", "tls") else {
                return;
            };
            let expected: &[&str] = if with_secrets { &[PATH] } else { &[] };
            assert_eq!(found, expected, "{version:?}");
            let hellos = tshark(&there.0, port, "tls.handshake.type == 1", "tcp.port", "tls");
            assert_eq!(hellos.unwrap().len(), 1, "a client's hello can always be read");
            assert_nothing_is_strange(&there.0, port, "tls");
        }
    }
}

#[test]
fn long_messages_fill_no_window() {
    let there = Temporary::new("long");
    let capture = Capture::to_file(&there.0, 16 << 20).unwrap();
    let taken = capture.clone();
    let server = Server::builder()
        .pipeline(move |_| {
            pipeline().add(taken.stage()).handle(|cx, _| {
                // As long as a window, and longer.
                [65_535, 3 << 20].into_iter().for_each(|len| cx.write(vec![b'x'; len]));
                cx.close_when_flushed();
            })
        })
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    let address = server.local_addr().unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(b"say something").unwrap();
    let mut said = Vec::new();
    client.read_to_end(&mut said).unwrap();
    assert_eq!(said.len(), 65_535 + (3 << 20));
    assert!(capture.finish(PATIENCE) && capture.error().is_none());
    let Some(found) = tshark(&there.0, address.port(), "tcp.len > 0", "tcp.len", "data") else {
        return;
    };
    assert!(found.len() > 3);
    assert_nothing_is_strange(&there.0, address.port(), "data");
}
