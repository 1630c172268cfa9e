//! Real clients over sockets: `curl`. Without it, tests say so and do nothing.

use bytes::Bytes;
use http::{Request, Response};
use netwright_core::{EventLoop, pipeline, time};
use netwright_http::{
    Body, HttpServer, serve,
    web::{
        FormLimits, Multipart, MultipartEvent, Query, Reply, ReplyCompression, RequestDecompression,
        SseEvent, SseKeepAlive, cookie, event_stream,
    },
};
use netwright_transport::{Server, event_loops};
use std::{
    fmt::Write as _,
    io::Write as _,
    process::{Command, Stdio},
    time::Duration,
};

fn has_curl() -> bool {
    let there = Command::new("curl").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !there {
        eprintln!("skipped: curl is not installed");
    }
    there
}

/// Runs curl with `input` and gives what it prints; `{}` is the server.
fn curl(server: &Server, arguments: &[&str], input: &[u8]) -> String {
    let address = server.address().to_string();
    let mut child = Command::new("curl")
        .args(["-s", "-m", "30"])
        .args(arguments.iter().map(|argument| argument.replace("{}", &address)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let feed = std::thread::spawn(move || drop(stdin.write_all(&input))); // it may not want to hear all of it
    let output = child.wait_with_output().unwrap();
    feed.join().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Tells what a form has brought: names, file names, lengths, and a sum over the bytes.
async fn form(request: Request<Body>) -> Response<Body> {
    let content_type =
        request.headers().get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if content_type == "application/x-www-form-urlencoded" {
        let body = request.into_body().collect(1 << 20).await.unwrap_or_default();
        return match Query::with_limits(&body, &FormLimits::default()) {
            Ok(fields) => Reply::text(format!("{:?}", fields.iter().collect::<Vec<_>>())).map(Body::from),
            Err(error) => Reply::bad_request(error).map(Body::from),
        };
    }
    let Ok(form) = Multipart::of(content_type) else { return Reply::bad_request("no form").map(Body::from) };
    let mut form = form.reader(request.into_body());
    let (mut text, mut len, mut sum) = (String::new(), 0u64, 0u64);
    loop {
        match form.next().await {
            Ok(Some(MultipartEvent::Part(head))) => {
                let _ = write!(text, "{} {:?} {:?}", head.name(), head.file_name(), head.content_type());
                (len, sum) = (0, 0);
            }
            Ok(Some(MultipartEvent::Data(data))) => {
                len += data.len() as u64;
                sum = data.iter().fold(sum, |sum, &byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
            }
            Ok(Some(MultipartEvent::End)) => drop(writeln!(text, " {len} {sum}")),
            Ok(None) => return Reply::text(text).map(Body::from),
            Err(error) => {
                let mut reply = Reply::text(error.to_string());
                *reply.status_mut() = error.status();
                return reply.map(Body::from);
            }
        }
    }
}

async fn answer(request: Request<Body>) -> Response<Body> {
    match request.uri().path() {
        "/form" => form(request).await,
        "/cookie" => {
            Reply::text(cookie(request.headers(), "session").unwrap_or("none").to_owned()).map(Body::from)
        }
        "/text" => Reply::text("all work and no play, ".repeat(10_000)).map(Body::from),
        "/events" => {
            let (mut sender, body) = Body::channel();
            let ticks = async move {
                for tick in 0..3 {
                    let event = SseEvent::data(format!("tick\n{tick}")).id(tick.to_string());
                    if sender.send(event.unwrap_or_default().to_bytes()).await.is_err() {
                        return;
                    }
                    time::sleep(Duration::from_millis(5)).await;
                }
                sender.end();
            };
            EventLoop::current().map(|here| here.spawn_local(ticks).is_ok());
            Response::from_parts(event_stream(), body)
        }
        _ => Reply::not_found().map(Body::from),
    }
}

fn server() -> Server {
    let compression = ReplyCompression::new();
    Server::builder()
        .group(event_loops(1).unwrap())
        .pipeline(move |_| {
            pipeline()
                .add(HttpServer::new())
                .add(RequestDecompression::new())
                .add(compression.stage())
                .add(SseKeepAlive::every(Duration::from_secs(15)))
                .app(serve(answer))
        })
        .bind("127.0.0.1:0")
        .wait()
        .unwrap()
}

#[test]
fn curl_uploads_forms_of_both_kinds() {
    if !has_curl() {
        return;
    }
    let server = server();
    // Bytes that look like boundaries, line ends and everything else.
    let file: Vec<u8> = (0..3_000_000u32)
        .map(|number| b"\r\n--------x"[(number.wrapping_mul(2_654_435_761) >> 20) as usize % 11])
        .collect();
    let sum = file.iter().fold(0u64, |sum, &byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let text = curl(
        &server,
        &["{}/form", "-F", "a=1", "-F", "empty=", "-F", "f=@-;filename=x y.bin;type=image/png"],
        &file,
    );
    let expected = format!(
        "a None None 1 49\nempty None None 0 0\nf Some(\"x y.bin\") Some(\"image/png\") 3000000 {sum}\n"
    );
    assert_eq!(text, expected);

    let text = curl(&server, &["{}/form", "--data-urlencode", "name=Ada & Grace + 1", "-d", "b=%C3%A9"], b"");
    assert_eq!(text, r#"[("name", "Ada & Grace + 1"), ("b", "é")]"#);

    let field: Vec<u8> = vec![b'x'; (1 << 20) + 1];
    let text = curl(&server, &["-i", "{}/form", "-F", "big=<-"], &field);
    assert!(text.contains("413 ") && text.contains("the limit is 1048576"), "{text}");
}

#[test]
fn curl_reads_compressed_bodies_and_sends_them() {
    if !has_curl() {
        return;
    }
    let server = server();
    let expected = "all work and no play, ".repeat(10_000);
    assert_eq!(curl(&server, &["--compressed", "{}/text"], b""), expected);
    let head = curl(&server, &["-D", "-", "-o", "/dev/null", "-H", "accept-encoding: gzip", "{}/text"], b"");
    assert!(head.contains("content-encoding: gzip\r\n"), "{head}");
    let packed = super::stack::packed(b"a=1&b=2");
    let arguments = ["{}/form", "-H", "content-encoding: gzip", "--data-binary", "@-"];
    assert_eq!(curl(&server, &arguments, &packed), r#"[("a", "1"), ("b", "2")]"#);
    let text = curl(&server, &["-i", "{}/form", "-H", "content-encoding: deflate", "-d", "a=1"], b"");
    assert!(
        text.starts_with("HTTP/1.1 415 ") && text.contains("accept-encoding: zstd, br, gzip\r\n"),
        "{text}"
    );
    let bomb: Bytes = super::stack::packed(&vec![0; 5_000_000]).freeze();
    let text =
        curl(&server, &["-i", "{}/form", "-H", "content-encoding: gzip", "--data-binary", "@-"], &bomb);
    assert!(text.contains("413 ") && text.contains("connection: close\r\n"), "{text}");
}

#[test]
fn curl_reads_events_and_brings_cookies() {
    if !has_curl() {
        return;
    }
    let server = server();
    let expected: String = (0..3).map(|tick| format!("id: {tick}\ndata: tick\ndata: {tick}\n\n")).collect();
    assert_eq!(curl(&server, &["-N", "{}/events"], b""), expected);
    assert_eq!(curl(&server, &["-N", "--compressed", "{}/events"], b""), expected);
    assert_eq!(curl(&server, &["-b", "other=1; session=abc", "{}/cookie"], b""), "abc");
}
