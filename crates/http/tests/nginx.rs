//! nginx as a peer: of our client, and in front of our server. Used if it is there (Debian: nginx-light).
#![cfg(all(feature = "client", unix))]

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use netwright_core::pipeline;
use netwright_http::{Body, HttpServer, client::WebClient, serve};
use netwright_transport::{Server, event_loops};
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

/// An nginx with a folder of its own; both go when it is dropped.
struct Nginx {
    process: Child,
    folder: PathBuf,
    url: String,
}

impl Nginx {
    /// Serves `file.txt` and `large`, three requests for each connection, and passes `/ours/` on to a server of ours.
    fn start(ours: &str) -> io::Result<Self> {
        let folder = std::env::temp_dir().join(format!("netwright-http-nginx-{}", std::process::id()));
        fs::create_dir_all(folder.join("files"))?;
        fs::write(folder.join("files/file.txt"), "from nginx")?;
        fs::write(folder.join("files/large"), large())?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        fs::write(folder.join("conf"), configuration(&folder, port, ours))?;
        let process = Command::new("nginx")
            .arg("-c")
            .arg(folder.join("conf"))
            .arg("-e")
            .arg("stderr")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut nginx = Self { process, folder, url: format!("http://127.0.0.1:{port}") };
        nginx.wait_for(port)?;
        Ok(nginx)
    }

    /// nginx does not say when it listens: only trying tells. One that has ended, as when somebody took the port, is none.
    fn wait_for(&mut self, port: u16) -> io::Result<()> {
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if let Some(status) = self.process.try_wait()? {
                return Err(io::Error::other(format!("it ended with {status}")));
            }
            assert!(begun.elapsed() < PATIENCE, "nginx runs and does not listen");
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn configuration(folder: &Path, port: u16, ours: &str) -> String {
    let folder = folder.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|what| format!("{what}_temp_path {folder}/{what};\n"))
        .concat();
    format!(
        "daemon off; master_process off; pid {folder}/pid; error_log stderr;
         events {{ worker_connections 64; }}
         http {{
             access_log off; keepalive_requests 3; {temporary}
             gzip on; gzip_types *; gzip_min_length 1;
             upstream ours {{ server {ours}; keepalive 2; }}
             server {{
                 listen 127.0.0.1:{port};
                 root {folder}/files;
                 location /moved {{ return 302 /file.txt; }}
                 location /ours/ {{
                     proxy_pass http://ours/; proxy_http_version 1.1; proxy_set_header Connection '';
                     proxy_request_buffering off; client_max_body_size 8m;
                 }}
             }}
         }}"
    )
}

fn large() -> Vec<u8> {
    (0..1 << 20).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn body(reply: Response<Body>) -> Bytes {
    let collected = reply.into_body().collect(1 << 22);
    event_loops(1).unwrap().next().spawn(collected).ok().unwrap().wait().unwrap().unwrap()
}

#[test]
fn nginx_serves_our_client_and_stands_in_front_of_our_server() {
    let ours = Server::builder()
        .group(event_loops(1).unwrap())
        .pipeline(|_| {
            let echo = async |request: Request<Body>| Response::new(request.into_body());
            pipeline().add(HttpServer::new()).app(serve(echo))
        })
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    let nginx = match Nginx::start(&ours.address().to_string()) {
        Ok(nginx) => nginx,
        Err(error) => return eprintln!("SKIPPED nginx: {error}"),
    };
    let client = WebClient::builder().group(event_loops(1).unwrap()).build().unwrap();
    let url = |path: &str| format!("{}{path}", nginx.url);
    let get = |path: &str, name: header::HeaderName, value: &str| {
        let request = Request::get(url(path)).header(name, value).body(Body::empty()).unwrap();
        client.request(request).wait().unwrap()
    };
    // More requests than a connection may have: the pool goes on with another one.
    for _ in 0..8 {
        assert_eq!(body(client.get(url("/file.txt")).wait().unwrap()), "from nginx");
    }
    assert_eq!(body(client.get(url("/moved")).wait().unwrap()), "from nginx");
    assert_eq!(client.get(url("/none")).wait().unwrap().status(), StatusCode::NOT_FOUND);
    assert!(body(client.get(url("/large")).wait().unwrap()) == large());

    let head = client.head(url("/large")).wait().unwrap();
    assert_eq!(head.headers()[header::CONTENT_LENGTH], (1 << 20).to_string());
    let part = get("/file.txt", header::RANGE, "bytes=5-");
    assert_eq!((part.status(), body(part)), (StatusCode::PARTIAL_CONTENT, "nginx".into()));
    let known =
        client.get(url("/file.txt")).wait().unwrap().headers()[header::ETAG].to_str().unwrap().to_owned();
    assert_eq!(get("/file.txt", header::IF_NONE_MATCH, &known).status(), StatusCode::NOT_MODIFIED);
    // What nginx compresses as it sends it has no length: chunks.
    let packed = get("/large", header::ACCEPT_ENCODING, "gzip");
    assert_eq!(packed.headers()[header::TRANSFER_ENCODING], "chunked");
    assert!(body(packed).starts_with(&[0x1f, 0x8b]));

    // Through nginx to a server of ours and back: with a length, and in chunks.
    for _ in 0..4 {
        let reply =
            client.request(Request::post(url("/ours/x")).body(Body::from(large())).unwrap()).wait().unwrap();
        assert!(body(reply) == large());
    }
    let (mut sender, streamed) = Body::channel();
    let asked = client.request(Request::post(url("/ours/x")).body(streamed).unwrap());
    event_loops(1)
        .unwrap()
        .next()
        .spawn(async move {
            for piece in ["in ", "three ", "pieces"] {
                sender.send(piece).await.unwrap();
            }
            sender.end();
        })
        .ok()
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(body(asked.wait().unwrap()), "in three pieces");
}
