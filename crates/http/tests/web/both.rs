//! What applications and stages do, by HTTP/1.1 and by HTTP/2 alike.

use crate::{
    stack::packed,
    versions::{Answer, Site, Version},
};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use netwright_codec::{Decompressor, Format};
use netwright_core::{AppContext, Application, pipeline, time};
use netwright_http::{
    Body, HttpLimits, HttpPart, Received, ReplyHead, ReplyPart, RequestPart, respond, serve,
    web::{
        AccessLog, Cors, Files, Miss, Multipart, MultipartEvent, Params, Query, Reply, ReplyCompression,
        RequestDecompression, Router, SseEvent, SseKeepAlive, event_stream,
    },
};
use std::{
    cell::RefCell,
    rc::Rc,
    sync::{Arc, Mutex},
    time::Duration,
};

fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut out = BytesMut::new();
    Decompressor::new(Format::Gzip).decompress(bytes, &mut out, usize::MAX).unwrap();
    out.to_vec()
}

type Handler = fn(&Received, &Params<'_, '_>) -> Response<Bytes>;

/// A router behind all stages, and what its log says.
fn api(version: Version) -> (Site, Arc<Mutex<Vec<String>>>) {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = {
        let lines = lines.clone();
        AccessLog::new(move |entry| {
            let line = entry.common().to_string();
            lines.lock().unwrap().push(line.split_once('"').unwrap().1.to_owned());
        })
    };
    let add: Handler = |request, params| {
        let (Ok(a), Ok(query)) = (params.parse::<u32>("a"), Query::of(request.uri())) else {
            return Reply::bad_request("no number");
        };
        match query.value::<u32>("b") {
            Ok(b) => Reply::text(format!("{}", a + b.unwrap_or(0))),
            Err(error) => Reply::bad_request(error),
        }
    };
    let echo: Handler = |request, _| Reply::text(request.body().clone());
    let router = Rc::new(Router::new().get("/add/{a}", add).unwrap().post("/echo", echo).unwrap());
    let site = Site::of(version, move || {
        let router = router.clone();
        pipeline()
            .add(log.stage())
            .add(Cors::origins(["https://app.example"]).unwrap().stage())
            .add(RequestDecompression::new())
            .add(ReplyCompression::new().threshold(100).stage())
            .app(respond(move |request: &Received| {
                match router.find(request.method(), request.uri().path()) {
                    Ok(found) => (found.handler)(request, &found.params),
                    Err(miss @ (Miss::Path | Miss::Method { .. } | Miss::Options { .. })) => miss.reply(),
                }
            }))
    });
    (site, lines)
}

/// Says for which version it was, if it is false.
fn by_both(test: impl Fn(Version)) {
    for version in Version::ALL {
        println!("by {}", version.text());
        test(version);
    }
}

#[test]
fn a_router_behind_all_stages_answers_and_the_log_says_by_which_version() {
    by_both(|version| {
        let (mut site, lines) = api(version);
        let reply = site.get("/add/40?b=2");
        assert_eq!((reply.status, reply.header("vary"), reply.text()), (200, "origin", "42".to_owned()));
        let reply = site.ask("HEAD", "/add/40?b=2", &[], &[]);
        assert_eq!((reply.header("content-length"), &reply.body[..]), ("2", &b""[..]));
        assert_eq!(site.ask("PUT", "/add/40", &[], &[]).header("allow"), "GET, HEAD, OPTIONS");
        assert_eq!(site.get("/add/x").status, 400);
        let version = version.text();
        let expected = [
            format!("GET /add/40?b=2 {version}\" 200 2"),
            format!("HEAD /add/40?b=2 {version}\" 200 2"),
            format!("PUT /add/40 {version}\" 405 19"),
            format!("GET /add/x {version}\" 400 10"),
        ];
        assert_eq!(*lines.lock().unwrap(), expected);
    });
}

#[test]
fn bodies_are_unpacked_and_packed_on_their_way() {
    by_both(|version| {
        let (mut site, lines) = api(version);
        let text = b"to and fro, ".repeat(100);
        let body = packed(&text);
        let length = body.len().to_string();
        let headers = [
            ("content-encoding", "gzip"),
            ("accept-encoding", "gzip"),
            ("origin", "https://app.example"),
            ("content-length", &length),
        ];
        for headers in [&headers[..], &headers[..3]] {
            let reply = site.ask("POST", "/echo", headers, &body.chunks(9).collect::<Vec<_>>());
            assert_eq!(reply.header("content-encoding"), "gzip");
            assert_eq!(reply.header("access-control-allow-origin"), "https://app.example");
            assert_eq!(unpacked(&reply.body), text);
        }
        assert_eq!(lines.lock().unwrap().len(), 2);
    });
}

#[test]
fn what_stages_answer_by_themselves_comes_as_it_should_and_is_in_the_log() {
    by_both(|version| {
        let (mut site, lines) = api(version);
        let asks = [("origin", "https://app.example"), ("access-control-request-method", "POST")];
        assert_eq!(site.ask("OPTIONS", "/echo", &asks, &[]).status, 204);
        let reply =
            site.ask("POST", "/echo", &[("content-encoding", "what"), ("content-length", "3")], &[b"abc"]);
        assert_eq!(reply.status, 415);
        assert_eq!(site.get("/add/2").text(), "2");
        assert_eq!(lines.lock().unwrap().len(), 3);
    });
}

#[test]
fn a_bomb_is_413() {
    by_both(|version| {
        let (mut site, lines) = api(version);
        let body = packed(&vec![0; 3_000_000]);
        let reply = site.ask(
            "POST",
            "/echo",
            &[("content-encoding", "gzip")],
            &body.chunks(1000).collect::<Vec<_>>(),
        );
        assert!(reply.status == 413 && !reply.body.is_empty(), "{reply:?}");
        assert!(lines.lock().unwrap()[0].contains(" 413 "));
    });
}

#[test]
fn events_are_flushed_through_compression_and_kept_alive() {
    by_both(|version| {
        let senders = Rc::new(RefCell::new(Vec::new()));
        let kept = senders.clone();
        let mut site = Site::of(version, move || {
            let kept = kept.clone();
            pipeline()
                .add(ReplyCompression::new().stage())
                .add(SseKeepAlive::every(Duration::from_secs(15)))
                .app(serve(move |_| {
                    let (sender, body) = Body::channel();
                    kept.borrow_mut().push(sender);
                    async move { Response::from_parts(event_stream(), body) }
                }))
        });
        let events = site.start("GET", "/events", &[("accept-encoding", "gzip")], true);
        assert_eq!(site.heard(events).header("content-type"), "text/event-stream");
        let mut sender = senders.borrow_mut().pop().unwrap();
        sender.try_send(SseEvent::data("one").to_bytes()).unwrap();
        site.channel.run();
        assert!(!site.heard(events).body.is_empty(), "at once");
        site.channel.advance(Duration::from_secs(31));
        let reply = site.heard(events);
        let text = String::from_utf8(unpacked(&reply.body)).unwrap();
        assert!(text.starts_with("data: one\n\n:\n\n") && !reply.whole, "{text:?}");
        drop(sender);
        site.channel.run();
        assert!(!site.heard(events).whole, "what was not ended is broken off");
    });
}

#[test]
fn files_are_sent_by_stage_and_by_service() {
    let directory = std::env::temp_dir().join(format!("netwright-both-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("a.txt"), "0123456789").unwrap();
    let large: Vec<u8> = (0..500_000_u32).map(|at| (at / 7 % 251) as u8).collect();
    std::fs::write(directory.join("large"), &large).unwrap();
    let files = Files::below(&directory).unwrap();
    by_both(|version| {
        let (one, other) = (files.clone(), files.clone());
        let stage = Site::of(version, move || {
            pipeline().add(ReplyCompression::new().threshold(1).stage()).app(one.server())
        });
        let service = Site::of(version, move || {
            let files = other.clone();
            let answer = move |request: Request<Body>| {
                let files = files.clone();
                async move { files.respond(request.into_parts().0).await }
            };
            pipeline().add(ReplyCompression::new().threshold(1).stage()).app(serve(answer))
        });
        for mut site in [stage, service] {
            let mut ask = |method: &str, path: &str, more: &[(&str, &str)]| {
                site.ask(method, path, &[&[("accept-encoding", "gzip")], more].concat(), &[])
            };
            let reply = ask("GET", "/a.txt", &[]);
            assert_eq!(
                (reply.status, reply.header("content-length"), reply.text()),
                (200, "10", "0123456789".into())
            );
            assert_eq!(reply.header("content-encoding"), "");
            let reply = ask("HEAD", "/a.txt", &[]);
            assert_eq!((reply.header("content-length"), &reply.body[..]), ("10", &b""[..]));
            let reply = ask("GET", "/a.txt", &[("range", "bytes=3-4")]);
            assert_eq!(
                (reply.status, reply.header("content-range"), reply.text()),
                (206, "bytes 3-4/10", "34".into())
            );
            let reply = ask("GET", "/a.txt", &[("range", "bytes=0-0,9-9")]);
            assert!(reply.header("content-type").starts_with("multipart/byteranges"));
            assert!(reply.text().contains("bytes 0-0/10\r\n\r\n0\r\n") && reply.text().ends_with("--\r\n"));
            assert_eq!(ask("GET", "/none", &[]).status, 404);
            let reply = ask("GET", "/a.txt", &[("if-none-match", "*")]);
            assert_eq!((reply.status, &reply.body[..]), (304, &b""[..]));
            assert_eq!(ask("HEAD", "/none", &[]).status, 404);
            assert!(ask("GET", "/large", &[]).body == large);
        }
    });
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn uploads_are_read_as_they_come_and_refused_as_soon_as_they_are_wrong() {
    async fn upload(request: Request<Body>) -> Response<Bytes> {
        let content_type = request.headers().get("content-type").and_then(|value| value.to_str().ok());
        let form = match Multipart::of(content_type.unwrap_or_default()) {
            Ok(form) => form,
            Err(error) => return with(error.status(), error.to_string()),
        };
        let (mut form, mut seen) = (form.reader(request.into_body()), String::new());
        loop {
            match form.next().await {
                Ok(Some(MultipartEvent::Part(head))) => seen.push_str(&format!("{}:", head.name())),
                Ok(Some(MultipartEvent::Data(data))) => seen.push_str(&String::from_utf8_lossy(&data)),
                Ok(Some(MultipartEvent::End)) => seen.push(';'),
                Ok(None) => return Reply::text(seen),
                Err(error) => return with(error.status(), error.to_string()),
            }
        }
    }
    fn with(status: StatusCode, text: String) -> Response<Bytes> {
        let mut reply = Reply::text(text);
        *reply.status_mut() = status;
        reply
    }
    let body = "--x\r\nContent-Disposition: form-data; name=a\r\n\r\none\r\n--x\r\nContent-Disposition: form-data; name=b; filename=f\r\n\r\ntwo\r\n--x--\r\n";
    by_both(|version| {
        let mut site = Site::of(version, || pipeline().app(serve(upload)));
        let form = ("content-type", "multipart/form-data; boundary=x");
        for size in [1, 13, body.len()] {
            let pieces: Vec<_> = body.as_bytes().chunks(size).collect();
            assert_eq!(site.ask("POST", "/", &[form], &pieces).text(), "a:one;b:two;", "by {size}");
        }
        let wrong = site.start("POST", "/", &[form, ("content-length", "1000000")], false);
        site.send(wrong, b"no boundary at all", false);
        assert_eq!(site.answer(wrong).status, 400, "without waiting for the rest");
        let mut site = Site::of(version, || pipeline().app(serve(upload)));
        assert_eq!(site.ask("POST", "/", &[("content-length", "0")], &[]).status, 415);
    });
}

/// Parts as an application writes them, by the path that is asked for.
struct Parts;

impl Application for Parts {
    type Read = RequestPart;
    type Write = ReplyPart;
    fn read(&mut self, cx: &mut AppContext<'_, Self>, part: RequestPart) {
        let (HttpPart::Head(head) | HttpPart::Whole(head, _)) = part else { return };
        let status = |status| ReplyHead::from(StatusCode::from_u16(status).unwrap());
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", HeaderValue::from_static("42"));
        let parts = match head.uri.path() {
            "/trailers" => vec![
                HttpPart::Head(status(200)),
                HttpPart::Data("ab".into()),
                HttpPart::Data("cd".into()),
                HttpPart::End(Some(Box::new(trailers))),
            ],
            "/hints" => vec![
                HttpPart::Interim(status(103)),
                HttpPart::Interim(status(103)),
                HttpPart::Whole(status(200), "late".into()),
            ],
            "/nothing" => vec![HttpPart::Whole(status(204), Bytes::new())],
            "/same" => vec![HttpPart::Head(status(304)), HttpPart::End(None)],
            "/long" => vec![HttpPart::Whole(status(200), vec![b'x'; 1_000_000].into())],
            "/breaks" => {
                cx.write(HttpPart::Head(status(200)));
                cx.write_and_flush(HttpPart::Data("half".into()));
                return cx.close_when_flushed();
            }
            "/body-first" => vec![HttpPart::Data("x".into())],
            _ => panic!("nobody asks for that"),
        };
        parts.into_iter().for_each(|part| cx.write(part));
        cx.flush();
    }
}

#[test]
fn parts_of_replies_come_as_they_are_written() {
    by_both(|version| {
        let mut site = Site::of(version, || pipeline().app(Parts));
        let reply = site.get("/trailers");
        assert_eq!((reply.text(), reply.trailers["x-sum"].as_bytes()), ("abcd".to_owned(), &b"42"[..]));
        let reply = site.ask("HEAD", "/trailers", &[], &[]);
        assert!(reply.whole && reply.body.is_empty() && reply.trailers.is_empty(), "{reply:?}");
        let reply = site.get("/hints");
        assert_eq!((reply.interim.clone(), reply.text()), (vec![103, 103], "late".to_owned()));
        for (path, status) in [("/nothing", 204), ("/same", 304)] {
            let reply = site.get(path);
            assert_eq!((reply.status, reply.body.len(), reply.header("content-length")), (status, 0, ""));
        }
        assert_eq!(site.get("/long").body, vec![b'x'; 1_000_000]);
        let reply = site.ask("HEAD", "/long", &[], &[]);
        assert_eq!((reply.header("content-length"), reply.body.len()), ("1000000", 0));
    });
}

#[test]
fn what_cannot_be_sent_is_a_500_and_what_breaks_off_is_no_whole_reply() {
    by_both(|version| {
        let broken = |path: &str| -> Answer { Site::of(version, || pipeline().app(Parts)).get(path) };
        assert_eq!(broken("/body-first").status, 500);
        assert_eq!(broken("/panics").status, 500);
        let reply = broken("/breaks");
        assert!(reply.broken && !reply.whole, "{reply:?}");
        assert_eq!((reply.status, reply.text()), (200, "half".to_owned()));
    });
}

#[test]
fn a_peer_that_waits_is_told_to_go_on_when_its_body_is_asked_for() {
    by_both(|version| {
        let mut site = Site::of(version, || {
            pipeline().app(serve(async |request: Request<Body>| {
                time::sleep(Duration::from_secs(1)).await;
                if request.uri().path() == "/unread" {
                    return Response::new(Bytes::from("no"));
                }
                Response::new(request.into_body().collect(100).await.unwrap())
            }))
        });
        let expects = [("expect", "100-continue"), ("content-length", "5")];
        let request = site.start("POST", "/", &expects, false);
        assert_eq!(site.heard(request).interim, [0; 0]);
        site.channel.advance(Duration::from_secs(2));
        assert_eq!(site.heard(request).interim, [100]);
        site.send(request, b"12345", true);
        assert_eq!(site.answer(request).text(), "12345");
        let request = site.start("POST", "/unread", &expects, false);
        site.channel.advance(Duration::from_secs(2));
        let reply = site.answer(request);
        assert_eq!((reply.interim.len(), reply.text()), (0, "no".to_owned()));
    });
}

#[test]
fn limits_of_what_is_asked_are_told_by_the_same_statuses() {
    by_both(|version| {
        let site = || {
            let mut limits = HttpLimits::default();
            limits.body = 1000;
            Site::with(version, limits, || {
                pipeline().app(respond(|request: &Received| Response::new(request.body().len().to_string())))
            })
        };
        assert_eq!(site().get(&format!("/{}", "x".repeat(9000))).status, 414);
        let long = "x".repeat(15_000);
        assert_eq!(site().ask("GET", "/", &[("a", &long), ("b", &long)], &[]).status, 431);
        let many: Vec<_> = (0..110).map(|_| ("a", "b")).collect();
        assert_eq!(site().ask("GET", "/", &many, &[]).status, 431);
        let mut announced = site();
        let request = announced.start("POST", "/", &[("content-length", "1001")], false);
        assert_eq!(announced.answer(request).status, 413);
        let mut not_announced = site();
        let request = not_announced.start("POST", "/", &[], false);
        not_announced.send(request, &[b'x'; 600], false);
        not_announced.send(request, &[b'x'; 600], false);
        assert_eq!(not_announced.answer(request).status, 413);
        assert_eq!(site().ask("POST", "/", &[("expect", "wonders")], &[b"x"]).status, 417);
        assert_eq!(site().ask("POST", "/", &[], &[&[b'x'; 1000]]).text(), "1000");
        let mut slow = site();
        let request = slow.start("POST", "/", &[("content-length", "500")], false);
        slow.channel.advance(Duration::from_secs(20));
        assert_eq!(slow.answer(request).status, 408);
    });
}
