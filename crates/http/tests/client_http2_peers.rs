//! The pooled client over HTTP/2 against servers of others: nghttpd (Debian: nghttp2-server), nginx, Node. Each is used if it is there, and so is
//! `openssl`, which makes the certificate.
#![cfg(all(feature = "tls", unix))]

use http::{Request, Response};
use netwright_http::{
    Body,
    client::{Asking, WebClient},
};
use netwright_tls::{Connector, Roots};
use netwright_transport::event_loops;
use std::{
    fs, io,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Longer than any healthy start takes; only a failing test waits that long.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server with a folder of its own; both go when it is dropped.
struct Peer {
    process: Child,
    folder: PathBuf,
    port: u16,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn large() -> Vec<u8> {
    (0..3 << 20).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

impl Peer {
    /// Starts one that serves `file.txt` and `large`. `None`: it is not there, or what makes its certificate is not.
    fn start(name: &str, command: impl FnOnce(&Path, u16) -> Command) -> Option<Self> {
        let folder = std::env::temp_dir().join(format!("netwright-http2-{name}-{}", std::process::id()));
        fs::create_dir_all(folder.join("files")).unwrap();
        fs::write(folder.join("files/file.txt"), format!("from {name}")).unwrap();
        fs::write(folder.join("files/large"), large()).unwrap();
        let peer = make_certificate(&folder).and_then(|()| {
            let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
            let mut command = command(&folder, port);
            let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
            Ok(Self { process, folder: folder.clone(), port })
        });
        match peer {
            Ok(mut peer) => {
                peer.wait();
                Some(peer)
            }
            Err(error) => {
                let _ = fs::remove_dir_all(&folder);
                println!("skipped: {name} or openssl is not there: {error}");
                None
            }
        }
    }

    fn wait(&mut self) {
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            let ended = self.process.try_wait().unwrap();
            assert!(ended.is_none(), "it ended: {ended:?}");
            assert!(begun.elapsed() < PATIENCE, "it runs and does not listen");
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn client(&self) -> WebClient {
        let roots = Roots::from_pem(fs::read(self.folder.join("certificate")).unwrap()).unwrap();
        let connector = Connector::builder().roots(roots).build().unwrap();
        WebClient::builder().group(event_loops(1).unwrap()).connector(connector).build().unwrap()
    }

    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.port)
    }
}

fn make_certificate(folder: &Path) -> io::Result<()> {
    let subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"];
    let how =
        ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
    let more = ["-addext", "basicConstraints=critical,CA:FALSE"];
    let status = Command::new("openssl")
        .args(how)
        .args(subject)
        .args(more)
        .arg("-keyout")
        .arg(folder.join("key"))
        .arg("-out")
        .arg(folder.join("certificate"))
        .stderr(Stdio::null())
        .status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other("openssl makes no certificate")) }
}

fn body(reply: Response<Body>) -> Vec<u8> {
    let collected = reply.into_body().collect(1 << 23);
    event_loops(1).unwrap().next().spawn(collected).ok().unwrap().wait().unwrap().unwrap().to_vec()
}

/// Many at a time, short and long.
fn ask_for_files(client: &WebClient, url: impl Fn(&str) -> String, name: &str) {
    let short: Vec<Asking> = (0..300).map(|_| client.get(url("/file.txt"))).collect();
    let long: Vec<Asking> = (0..3).map(|_| client.get(url("/large"))).collect();
    for asking in short {
        assert_eq!(body(asking.wait().unwrap()), format!("from {name}").as_bytes());
    }
    for asking in long {
        assert_eq!(body(asking.wait().unwrap()), large());
    }
    assert!(client.figures().shared > 0, "it was HTTP/2: {:?}", client.figures());
    assert_eq!(client.get(url("/missing")).wait().unwrap().status(), 404);
    assert_eq!(client.head(url("/large")).wait().unwrap().headers()["content-length"], (3 << 20).to_string());
    // One is left in its middle, and the connection goes on.
    drop(client.get(url("/large")).wait().unwrap());
    assert_eq!(body(client.get(url("/file.txt")).wait().unwrap()), format!("from {name}").as_bytes());
}

#[test]
fn nghttpd_answers_our_client_over_tls_and_in_the_clear() {
    let peer = Peer::start("nghttpd", |folder, port| {
        let mut command = Command::new("nghttpd");
        command.arg("-d").arg(folder.join("files")).arg("-m").arg("20").arg(port.to_string());
        command.arg(folder.join("key")).arg(folder.join("certificate"));
        command
    });
    let Some(peer) = peer else { return };
    ask_for_files(&peer.client(), |path| peer.url(path), "nghttpd");
    drop(peer);
    let peer = Peer::start("nghttpd", |folder, port| {
        let mut command = Command::new("nghttpd");
        command.arg("--no-tls").arg("-d").arg(folder.join("files")).arg(port.to_string());
        command
    });
    let Some(peer) = peer else { return };
    let client = WebClient::builder().group(event_loops(1).unwrap()).http2_prior_knowledge().build().unwrap();
    ask_for_files(&client, |path| format!("http://127.0.0.1:{}{path}", peer.port), "nghttpd");
}

#[test]
fn nginx_answers_our_client_and_goes_away_every_now_and_then() {
    let peer = Peer::start("nginx", |folder, port| {
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|what| format!("{what}_temp_path {}/{what};\n", folder.display()))
            .concat();
        let configuration = format!(
            "daemon off; master_process off; pid {folder}/pid; error_log stderr;
             events {{ worker_connections 64; }}
             http {{
                 access_log off; keepalive_requests 20; http2_max_concurrent_streams 10; {temporary}
                 server {{
                     listen 127.0.0.1:{port} ssl http2;
                     ssl_certificate {folder}/certificate; ssl_certificate_key {folder}/key;
                     root {folder}/files;
                 }}
             }}",
            folder = folder.display(),
        );
        fs::write(folder.join("conf"), configuration).unwrap();
        let mut command = Command::new("nginx");
        command.arg("-c").arg(folder.join("conf")).arg("-e").arg("stderr");
        command
    });
    let Some(peer) = peer else { return };
    ask_for_files(&peer.client(), |path| peer.url(path), "nginx");
}

const NODE: &str = r#"
const http2 = require("http2"), fs = require("fs");
const [folder, port] = process.argv.slice(2);
const read = (name) => fs.readFileSync(`${folder}/${name}`);
const server = http2.createSecureServer({ key: read("key"), cert: read("certificate"), allowHTTP1: true });
server.on("stream", (stream, headers) => {
  const path = headers[":path"];
  stream.on("error", () => {}); // whoever asked has left
  if (path === "/echo") { stream.respond({ ":status": 200 }); stream.pipe(stream); return; }
  if (path === "/trailers") {
    stream.additionalHeaders({ ":status": 103, link: "</a>" });
    stream.respond({ ":status": 200 }, { waitForTrailers: true });
    stream.on("wantTrailers", () => stream.sendTrailers({ "x-sum": "4" }));
    return stream.end("body");
  }
  if (path === "/reset") { return stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR); }
  if (path === "/goaway") { stream.respond({ ":status": 200 }); stream.end("the last"); return stream.session.close(); }
  if (path === "/early") { stream.respond({ ":status": 413 }); return stream.end("too much"); }
  try { const file = read("files" + path); stream.respond({ "content-length": file.length }); stream.end(headers[":method"] === "HEAD" ? undefined : file); }
  catch { stream.respond({ ":status": 404 }); stream.end(); }
});
server.listen(Number(port), "127.0.0.1");
"#;

#[test]
fn node_echoes_ends_early_resets_and_says_trailers() {
    let peer = Peer::start("node", |folder, port| {
        fs::write(folder.join("server.js"), NODE).unwrap();
        let mut command = Command::new("node");
        command.arg(folder.join("server.js")).arg(folder).arg(port.to_string());
        command
    });
    let Some(peer) = peer else { return };
    let client = peer.client();
    ask_for_files(&client, |path| peer.url(path), "node");
    let echoed: Vec<Asking> = (0..5).map(|_| client.post(peer.url("/echo"), large())).collect();
    for asking in echoed {
        assert_eq!(body(asking.wait().unwrap()), large());
    }
    let mut reply = client.get(peer.url("/trailers")).wait().unwrap().into_body();
    let read = async move {
        let (piece, end) = (reply.read().await, reply.read().await);
        (piece.unwrap().unwrap(), end.unwrap(), reply.trailers().unwrap()["x-sum"].clone())
    };
    let (piece, end, sum) = event_loops(1).unwrap().next().spawn(read).ok().unwrap().wait().unwrap();
    assert_eq!((&piece[..], end, sum.to_str().unwrap()), (&b"body"[..], None, "4"));
    assert!(client.get(peer.url("/reset")).wait().is_err());
    let (sender, endless) = Body::channel();
    let early = client.request(Request::put(peer.url("/early")).body(endless).unwrap()).wait().unwrap();
    assert_eq!((early.status().as_u16(), &body(early)[..]), (413, &b"too much"[..]));
    drop(sender);
    for _ in 0..5 {
        assert_eq!(body(client.get(peer.url("/goaway")).wait().unwrap()), b"the last");
    }
}
