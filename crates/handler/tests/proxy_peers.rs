//! Proxies that are not ours in front of our server, and a server of ours as the proxy in front of one that is not: haproxy (Debian: haproxy) and curl, used
//! if they are there.
#![cfg(unix)]

use bytes::BytesMut;
use netwright_core::{AppContext, Application, CloseCause, Event, Fault, Outgoing, Peer, pipeline};
use netwright_handler::{ProxyHeader, ProxyProtocol, ProxySsl, SendProxyHeader, TrustedNetworks};
use netwright_transport::{Backend, Client, Server};
use std::{
    fmt::Write as _,
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// Longer than any healthy start takes; only a failing test waits that long.
const PATIENCE: Duration = Duration::from_secs(30);
/// What each server here is tried on.
const BACKENDS: [Backend; 3] = [Backend::Readiness, Backend::Uring, Backend::Blocking];

/// Answers the first bytes with what it knows of its client, in HTTP's words for curl.
#[derive(Default)]
struct Knows {
    header: Option<ProxyHeader>,
}

impl Application for Knows {
    type Read = BytesMut;
    type Write = Outgoing;

    fn event(&mut self, _: &mut AppContext<'_, Self>, event: Event) {
        self.header = event.take().ok();
    }

    fn read(&mut self, cx: &mut AppContext<'_, Self>, _: BytesMut) {
        let mut told = format!("peer {}\n", cx.view().peer().map_or("?".into(), |peer| peer.to_string()));
        let _ = writeln!(told, "wire {}", cx.view().wire_peer().is_some());
        if let Some(header) = &self.header {
            let _ = writeln!(told, "checked {}", header.was_checked());
            let _ = writeln!(told, "authority {:?}", header.authority());
            let _ = writeln!(told, "id {:?}", header.unique_id().map(|id| !id.is_empty()));
        }
        let length = told.len();
        cx.write_and_flush(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{told}"
        ));
        cx.close_when_flushed();
    }

    fn error(&mut self, cx: &mut AppContext<'_, Self>, fault: Fault) {
        cx.close_because(CloseCause::Fault(fault));
    }
}

/// A server that requires a header from this machine, on each backend that works here.
fn servers() -> Vec<Server> {
    let bind = |backend: Backend| {
        let mut server = Server::builder()
            .group(backend.event_loops(1).ok()?)
            .pipeline(|_| {
                pipeline().filter(ProxyProtocol::from(TrustedNetworks::loopback())).app(Knows::default())
            })
            .bind("127.0.0.1:0");
        Some(server.wait().expect("a free port"))
    };
    BACKENDS.into_iter().filter_map(bind).collect()
}

fn curl(arguments: &[&str]) -> Option<String> {
    let output = Command::new("curl").args(["-sS", "--max-time", "20"]).args(arguments).output().ok()?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Some(format!("{out}{err}"))
}

#[test]
fn curl_is_believed_who_it_is_and_refused_without_a_header() {
    for server in servers() {
        let url = format!("http://{}/", server.address());
        let Some(told) = curl(&["--haproxy-protocol", &url]) else {
            return println!("skipped: curl is not installed");
        };
        assert!(told.starts_with("peer 127.0.0.1:") && told.contains("checked false"), "{told}");
        let told = curl(&["--haproxy-protocol", "--haproxy-clientip", "192.0.2.7", &url]).expect("as before");
        // Older ones do not know the second option.
        assert!(told.starts_with("peer 192.0.2.7:") || told.contains("unknown"), "{told}");
        let told = curl(&[&url]).expect("as before");
        assert!(!told.contains("peer"), "{told}");
    }
}

/// An haproxy with a folder of its own; both go when it is dropped.
struct Haproxy {
    process: Child,
    folder: PathBuf,
}

impl Haproxy {
    /// `None`: it is not installed.
    fn start(name: &str, configuration: &str, port: u16) -> Option<Self> {
        let folder = std::env::temp_dir().join(format!("netwright-haproxy-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for temporary files");
        let file = folder.join("conf");
        let head = "global\n maxconn 100\ndefaults\n mode tcp\n timeout connect 10s\n timeout client 10s\n timeout server 10s\n";
        fs::write(&file, format!("{head}{configuration}")).expect("a file in it");
        let process = Command::new("haproxy").arg("-db").arg("-f").arg(&file).stdin(Stdio::null()).spawn();
        let Ok(process) = process else {
            let _ = fs::remove_dir_all(folder);
            println!("skipped: haproxy is not installed");
            return None;
        };
        let mut haproxy = Self { process, folder };
        let begun = Instant::now();
        // It does not say when it listens: only trying tells.
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let status = haproxy.process.try_wait().expect("our own child");
            assert!(status.is_none(), "haproxy ended with {status:?}");
            assert!(begun.elapsed() < PATIENCE, "haproxy runs and does not listen");
            thread::sleep(Duration::from_millis(10));
        }
        Some(haproxy)
    }
}

impl Drop for Haproxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}

/// Asks through haproxy. Also returns where the question came from.
fn ask(port: u16) -> (String, SocketAddr) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("haproxy listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("an option that every socket has");
    stream.write_all(b"who am I?").expect("it reads");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    (answer, stream.local_addr().expect("it is connected"))
}

#[test]
fn behind_haproxy_the_client_is_seen_by_both_versions_with_values_and_checksum() {
    for server in servers() {
        let to = server.address();
        for (version, options, told) in [
            ("v1", "send-proxy", "checked false"),
            ("v2", "send-proxy-v2", "checked false"),
            ("v2-crc", "send-proxy-v2 proxy-v2-options crc32c,unique-id", "checked true"),
        ] {
            let port = free_port();
            let configuration = format!(
                "listen front\n bind 127.0.0.1:{port}\n unique-id-format %pid-%rt\n server ours {to} {options}\n"
            );
            let Some(_haproxy) = Haproxy::start(version, &configuration, port) else { return };
            let (answer, client) = ask(port);
            assert!(answer.contains(&format!("peer {client}\n")), "{version}: {client}: {answer}");
            assert!(answer.contains("wire true") && answer.contains(told), "{version}: {answer}");
            let has_id = answer.contains("id Some(true)");
            assert_eq!(has_id, version == "v2-crc", "{version}: {answer}");
        }
    }
}

/// A server that is not ours, behind an haproxy that expects our header and tells it on in its own words.
#[test]
fn haproxy_understands_the_headers_that_we_send_and_hands_them_on() {
    let server = servers().remove(0);
    let port = free_port();
    let configuration = format!(
        "listen front\n bind 127.0.0.1:{port} accept-proxy\n server ours {} send-proxy-v2 proxy-v2-options authority\n",
        server.address()
    );
    let Some(_haproxy) = Haproxy::start("accepts", &configuration, port) else { return };
    let client = "192.0.2.7:4711";
    let header = ProxyHeader::new(
        client.parse().expect("an address"),
        "198.51.100.1:443".parse().expect("an address"),
    );
    let full = header.clone().with_authority("example.org").with_ssl(&ProxySsl::new()).with_checksum();
    for (version, v2) in [(header, false), (full, true)] {
        let (tell, told) = mpsc::channel();
        let clients = Client::builder()
            .pipeline(move || {
                let send = match v2 {
                    true => SendProxyHeader::v2(&version),
                    false => SendProxyHeader::v1(&version),
                };
                let tell = tell.clone();
                pipeline().filter(send.expect("it can be written")).serve(async move |mut peer: Peer| {
                    peer.write_and_flush("who am I?").await?;
                    let mut answer = String::new();
                    while let Ok(Some(bytes)) = peer.read().await {
                        answer.push_str(&String::from_utf8_lossy(&bytes));
                    }
                    let _ = tell.send(answer);
                    Ok::<(), CloseCause>(())
                })
            })
            .expect("loops");
        let channel = clients.connect(format!("127.0.0.1:{port}")).wait().expect("haproxy listens");
        let answer = told.recv_timeout(PATIENCE).expect("an answer");
        assert!(answer.contains(&format!("peer {client}\n")), "{answer}");
        drop(channel);
    }
}
