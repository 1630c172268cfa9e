use super::{entry::Stamp, *};
use crate::{
    HttpError, HttpPart, RequestRefused,
    web::{
        Reply,
        testing::{HttpEmbedded, reply_head, request},
    },
};
use http::{HeaderValue, Method, StatusCode, Version};
use netwright_core::Event;
use std::{
    sync::Mutex,
    time::{Duration, SystemTime},
};

fn logged() -> (HttpEmbedded, Arc<Mutex<Vec<AccessEntry>>>) {
    let entries: Arc<Mutex<Vec<AccessEntry>>> = Arc::default();
    let sink = entries.clone();
    let log = AccessLog::new(move |entry| sink.lock().unwrap().push(entry.clone()));
    (HttpEmbedded::new(|_| log.stage()), entries)
}

#[test]
fn each_request_gives_one_entry_when_its_reply_is_over() {
    let (mut channel, entries) = logged();
    channel.ask(request("POST", "/a?b", &[("user-agent", "curl")]));
    channel.ask(HttpPart::Data("12345".into())).ask(HttpPart::End(None));
    channel.ask(request("GET", "/second", &[])).ask(HttpPart::End(None));
    channel.advance(Duration::from_millis(20));
    channel.reply(HttpPart::Interim(reply_head(103, &[])));
    channel.reply(HttpPart::Head(reply_head(201, &[]))).reply(HttpPart::Data("123".into()));
    assert!(entries.lock().unwrap().is_empty());
    channel.advance(Duration::from_millis(5)).reply(HttpPart::End(None));
    channel.reply(Reply::whole(Reply::not_found()));
    let entries = entries.lock().unwrap();
    let seen: Vec<_> = entries
        .iter()
        .map(|entry| {
            (
                entry.status.unwrap().as_u16(),
                entry.request_bytes,
                entry.reply_bytes,
                entry.latency.as_millis(),
                entry.complete,
            )
        })
        .collect();
    assert_eq!(seen, [(201, 5, 3, 25, true), (404, 0, 14, 25, true)]);
    assert_eq!(channel.requests().len(), 5);
}

#[test]
fn requests_without_an_answer_are_told_when_the_connection_ends() {
    let (mut channel, entries) = logged();
    channel.ask(request("GET", "/slow", &[])).ask(request("GET", "/never", &[]));
    channel.reply(HttpPart::Head(reply_head(200, &[]))).reply(HttpPart::Data("12".into()));
    channel.channel.close_by_peer();
    let entries = entries.lock().unwrap();
    let seen: Vec<_> = entries
        .iter()
        .map(|entry| (entry.status.map(|status| status.as_u16()), entry.reply_bytes, entry.complete))
        .collect();
    assert_eq!(seen, [(Some(200), 2, false), (None, 0, false)]);
}

#[test]
fn lines_are_what_tools_expect_and_nothing_breaks_out() {
    let entry = AccessEntry {
        peer: Some([192, 0, 2, 1].into()),
        time: SystemTime::UNIX_EPOCH + Duration::from_secs(971_186_136),
        method: Method::GET,
        target: "/a%22?q=1".parse().unwrap(),
        version: Version::HTTP_11,
        status: Some(StatusCode::OK),
        request_bytes: 0,
        reply_bytes: 2326,
        latency: Duration::ZERO,
        complete: true,
        referer: None,
        user_agent: Some(HeaderValue::from_bytes(b"a\" \\ \xff\t200").unwrap()),
        refused: None,
    };
    let common = "192.0.2.1 - - [10/Oct/2000:13:55:36 +0000] \"GET /a%22?q=1 HTTP/1.1\" 200 2326";
    assert_eq!(entry.common().to_string(), common);
    assert_eq!(entry.combined().to_string(), format!("{common} \"-\" \"a\\\" \\\\ \\xff\\x09200\""));
    let lost = AccessEntry { peer: None, status: None, reply_bytes: 0, ..entry };
    assert!(
        lost.common().to_string().starts_with("- - - [") && lost.common().to_string().ends_with("\" - -")
    );
}

/// Statuses and whole lines without their dates, behind the codec.
fn told_of(reads: &[&str]) -> Vec<String> {
    let entries: Arc<Mutex<Vec<String>>> = Arc::default();
    let sink = entries.clone();
    let log = AccessLog::new(move |entry| {
        let line = entry.common().to_string();
        let (_, line) = line.split_once("] ").unwrap();
        let why = entry.refused.as_ref().map_or(String::new(), |why| format!(": {why}"));
        sink.lock().unwrap().push(format!("{line}{why}"));
    });
    let hello = crate::respond(|_| http::Response::new("hello"));
    let mut channel = netwright_core::EmbeddedChannel::new(
        netwright_core::pipeline().add(crate::HttpServer::new()).add(log.stage()).app(hello),
    );
    reads.iter().for_each(|read| _ = channel.write_inbound(read));
    channel.close_by_peer();
    std::mem::take(&mut entries.lock().unwrap())
}

#[test]
fn what_the_codec_refuses_is_told_as_well() {
    const GET: &str = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
    const POST: &str = "POST /b HTTP/1.1\r\nHost: a\r\n";
    let told = told_of(&[GET, "GET / HTTP/1.1\r\nno header\r\n\r\n"]);
    assert_eq!(told[0], "\"GET /a HTTP/1.1\" 200 5");
    assert!(told[1].starts_with("\"-\" 400 -: "), "{}", told[1]);
    assert_eq!(told.len(), 2);

    let long = format!("{POST}x: {}\r\n\r\n", "y".repeat(20_000));
    let told = told_of(&[&long]);
    assert!(told[0].starts_with("\"-\" 431 -: ") && told.len() == 1, "{told:?}");

    // A body is refused: that request is known.
    let chunked = format!("{POST}Transfer-Encoding: chunked\r\n\r\n");
    let told = told_of(&[GET, &chunked, "2\r\nabcde\r\n"]);
    assert!(told[1].starts_with("\"POST /b HTTP/1.1\" 400 -: ") && told.len() == 2, "{told:?}");

    // A peer that goes in the middle of a head hears nothing.
    let told = told_of(&["GET / HT"]);
    assert!(told[0].starts_with("\"-\" - -: ") && told.len() == 1, "{told:?}");
    assert_eq!(told_of(&[GET]).len(), 1);
}

#[test]
fn a_refused_head_is_told_behind_the_requests_before_it() {
    let (mut channel, entries) = logged();
    channel.ask(request("GET", "/slow", &[])).ask(HttpPart::End(None));
    channel.channel.channel().fire_event(Event::new(RequestRefused(HttpError::Version(*b"HTTP/3.0"))));
    channel.channel.run();
    assert!(entries.lock().unwrap().is_empty());
    channel.reply(Reply::whole(Reply::not_found()));
    let statuses: Vec<_> =
        entries.lock().unwrap().iter().map(|entry| entry.status.unwrap().as_u16()).collect();
    assert_eq!(statuses, [404, 505]);
}

#[test]
fn dates_are_those_of_the_calendar() {
    for (seconds, shown) in [
        (0, "01/Jan/1970:00:00:00 +0000"),
        (951_782_399, "28/Feb/2000:23:59:59 +0000"),
        (951_782_400, "29/Feb/2000:00:00:00 +0000"),
        (1_709_164_800, "29/Feb/2024:00:00:00 +0000"),
        (1_735_689_599, "31/Dec/2024:23:59:59 +0000"),
        (4_107_542_400, "01/Mar/2100:00:00:00 +0000"),
    ] {
        assert_eq!(Stamp(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).to_string(), shown);
    }
}
