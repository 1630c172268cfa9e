//! What the pooled client sends again over HTTP/2, and what it does not: against servers that say each frame themselves.
#![cfg(feature = "client")]

use bytes::Bytes;
use http::{Method, Request, Response};
use netwright_core::CloseCause;
use netwright_http::{
    Body,
    client::{WebClient, WebClientError},
};
use netwright_transport::event_loops;
use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::mpsc::{Receiver, channel},
    thread,
};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;

const REFUSED: u32 = 7;
const CANCEL: u32 = 8;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// One connection, as the server sees it.
struct Connection {
    stream: TcpStream,
    /// Its number, from 0 on.
    number: usize,
}

impl Connection {
    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let _ = self.stream.write_all(&frame(kind, flags, stream, payload)); // it may be gone
    }

    /// The next frame: type, flags, stream.
    fn frame(&mut self) -> Option<(u8, u8, u32, Vec<u8>)> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).ok()?;
        let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        self.stream.read_exact(&mut payload).ok()?;
        Some((head[3], head[4], u32::from_be_bytes(head[5..].try_into().unwrap()), payload))
    }

    /// Waits for the end of the next request, and says which stream it is.
    fn request(&mut self) -> Option<u32> {
        loop {
            let (kind, flags, stream, _) = self.frame()?;
            if (kind == HEADERS || kind == DATA) && flags & END_STREAM != 0 {
                return Some(stream);
            }
        }
    }

    /// 200, and nothing else.
    fn reply(&mut self, stream: u32) {
        self.send(HEADERS, 5, stream, &[0x88]);
    }

    fn reset(&mut self, stream: u32, code: u32) {
        self.send(RESET, 0, stream, &code.to_be_bytes());
    }

    /// Says no more, and reads what still comes: otherwise what was said last could be lost.
    fn end(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
        while self.frame().is_some() {}
    }

    fn goes_away(&mut self, last: u32, code: u32) {
        self.send(GOAWAY, 0, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat());
    }
}

/// A server that does with each of its connections what is said, and tells which of them got a request.
fn server(
    settings: &'static [u8],
    serve: impl Fn(&mut Connection, &dyn Fn(&str)) + Send + Sync + Copy + 'static,
) -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (told, hear) = channel();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut connection = Connection { stream: stream.unwrap(), number };
            let told = told.clone();
            thread::spawn(move || {
                let mut preface = [0; 24];
                connection.stream.read_exact(&mut preface).unwrap();
                assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
                let first = [frame(SETTINGS, 0, 0, settings), frame(SETTINGS, 1, 0, &[])].concat();
                connection.stream.write_all(&first).unwrap();
                serve(&mut connection, &|what| told.send(format!("{number}: {what}")).unwrap());
            });
        }
    });
    (address, hear)
}

fn client() -> WebClient {
    let builder = WebClient::builder().group(event_loops(1).unwrap());
    builder.http2_prior_knowledge().build().unwrap()
}

fn ask(
    client: &WebClient,
    address: SocketAddr,
    method: Method,
    body: impl Into<Body>,
) -> Result<Response<Body>, WebClientError> {
    let request = Request::builder().method(method).uri(format!("http://{address}/")).body(body.into());
    client.request(request.unwrap()).wait()
}

fn told(hear: &Receiver<String>) -> Vec<String> {
    hear.try_iter().collect()
}

#[test]
fn what_a_server_refuses_is_sent_again_whatever_its_method() {
    let (address, hear) = server(&[], |connection, tell| {
        while let Some(stream) = connection.request() {
            tell(&stream.to_string());
            if stream == 1 { connection.reset(stream, REFUSED) } else { connection.reply(stream) }
        }
    });
    assert_eq!(ask(&client(), address, Method::POST, "body").unwrap().status(), 200);
    assert_eq!(told(&hear), ["0: 1", "0: 3"]);
}

#[test]
fn what_is_refused_again_and_again_or_has_a_body_that_is_gone_is_an_error_that_says_so() {
    let (address, hear) = server(&[], |connection, tell| {
        while let Some(stream) = connection.request() {
            tell(&stream.to_string());
            connection.reset(stream, REFUSED);
        }
    });
    let error = ask(&client(), address, Method::GET, ()).unwrap_err();
    assert!(matches!(error, WebClientError::Refused), "{error}");
    assert_eq!(told(&hear).len(), 4);
    let (mut sender, body) = Body::channel();
    sender.try_send(Bytes::from_static(b"once")).unwrap();
    sender.end();
    let error = ask(&client(), address, Method::PUT, body).unwrap_err();
    assert!(matches!(error, WebClientError::Refused), "{error}");
    assert_eq!(told(&hear).len(), 1);
}

#[test]
fn what_a_server_that_goes_away_has_not_looked_at_goes_to_another_connection_and_the_rest_is_answered() {
    let (address, hear) = server(&[], |connection, tell| {
        while let Some(stream) = connection.request() {
            tell(&stream.to_string());
            match (connection.number, stream) {
                (0, 3) => {
                    connection.goes_away(1, 0);
                    connection.reply(1);
                }
                (0, _) => {}
                _ => connection.reply(stream),
            }
        }
    });
    let client = client();
    let one = client.post(format!("http://{address}/"), "one");
    assert_eq!(hear.recv().unwrap(), "0: 1");
    let two = client.post(format!("http://{address}/"), "two");
    assert_eq!(one.wait().unwrap().status(), 200);
    assert_eq!(two.wait().unwrap().status(), 200);
    assert_eq!(told(&hear), ["0: 3", "1: 1"]);
}

#[test]
fn what_a_server_may_have_looked_at_is_sent_again_only_if_it_can_be_repeated() {
    for (method, again) in
        [(Method::GET, true), (Method::PUT, true), (Method::POST, false), (Method::PATCH, false)]
    {
        let (address, hear) = server(&[], |connection, tell| {
            while let Some(stream) = connection.request() {
                tell(&stream.to_string());
                if connection.number == 0 && stream == 3 {
                    return connection.stream.shutdown(Shutdown::Both).unwrap();
                }
                connection.reply(stream);
            }
        });
        let client = client();
        assert_eq!(ask(&client, address, Method::GET, ()).unwrap().status(), 200);
        assert_eq!(ask(&client, address, method.clone(), "body").is_ok(), again, "{method}");
        let all = if again { &["0: 1", "0: 3", "1: 1"][..] } else { &["0: 1", "0: 3"] };
        assert_eq!(told(&hear), all, "{method}");
    }
}

#[test]
fn what_was_answered_in_part_or_reset_for_its_own_sake_or_met_a_new_connection_is_not_sent_again() {
    let (address, hear) = server(&[], |connection, tell| {
        while let Some(stream) = connection.request() {
            tell(&stream.to_string());
            match stream {
                1 => connection.reply(stream),
                3 => connection.reset(stream, CANCEL),
                _ => {
                    connection.send(HEADERS, 4, stream, &[0x88]);
                    connection.send(DATA, 0, stream, b"half");
                    return connection.end();
                }
            }
        }
    });
    let client_of_two = client();
    assert!(ask(&client_of_two, address, Method::GET, ()).is_ok());
    let error = ask(&client_of_two, address, Method::GET, ()).unwrap_err();
    assert!(matches!(error, WebClientError::Closed(CloseCause::Reset(8))), "{error}");
    let half = ask(&client_of_two, address, Method::GET, ()).unwrap().into_body();
    let read = event_loops(1).unwrap().next().spawn(half.collect(100)).ok().unwrap().wait().unwrap();
    assert!(read.is_err(), "{read:?}");
    assert_eq!(told(&hear), ["0: 1", "0: 3", "0: 5"]);
    // A server that ends each connection with the first request on it is not asked again and again.
    let (address, hear) = server(&[], |connection, tell| {
        let stream = connection.request().unwrap();
        tell(&stream.to_string());
    });
    assert!(ask(&client(), address, Method::GET, ()).is_err());
    assert_eq!(told(&hear), ["0: 1"]);
}

#[test]
fn what_a_server_has_against_us_is_told_to_those_who_waited() {
    let (address, _hear) = server(&[], |connection, _| {
        let stream = connection.request().unwrap();
        connection.goes_away(stream, 11);
        connection.end();
    });
    let error = ask(&client(), address, Method::GET, ()).unwrap_err();
    assert!(error.to_string().contains("ENHANCE_YOUR_CALM"), "{error}");
}

#[test]
fn a_request_that_is_given_up_resets_its_stream_and_no_other() {
    let (address, hear) = server(&[], |connection, tell| {
        while let Some((kind, flags, stream, payload)) = connection.frame() {
            match kind {
                HEADERS if flags & END_STREAM != 0 => tell(&stream.to_string()),
                RESET => {
                    tell(&format!("reset {stream} {}", u32::from_be_bytes(payload[..].try_into().unwrap())));
                    connection.reply(3);
                }
                _ => {}
            }
        }
    });
    let client = client();
    let given_up = client.get(format!("http://{address}/"));
    assert_eq!(hear.recv().unwrap(), "0: 1");
    let other = client.get(format!("http://{address}/"));
    assert_eq!(hear.recv().unwrap(), "0: 3");
    given_up.cancel();
    assert_eq!(hear.recv().unwrap(), "0: reset 1 8");
    assert_eq!(other.wait().unwrap().status(), 200);
}

#[test]
fn a_server_that_takes_no_stream_at_all_is_waited_for_only_so_long() {
    // SETTINGS_MAX_CONCURRENT_STREAMS is 0.
    let (address, hear) = server(&[0, 3, 0, 0, 0, 0], |connection, tell| {
        while let Some((kind, flags, ..)) = connection.frame() {
            if (kind, flags) == (SETTINGS, 1) {
                tell("it knows");
            }
        }
    });
    let clock = netwright_core::ManualClock::new();
    let group =
        netwright_transport::Backend::Readiness.group().loops(1).clock(clock.clone()).build().unwrap();
    let client = WebClient::builder().group(group.clone()).http2_prior_knowledge().build().unwrap();
    let (done, over) = channel();
    let asking = client.clone();
    thread::spawn(move || done.send(ask(&asking, address, Method::GET, ())).unwrap());
    assert_eq!(hear.recv().unwrap(), "0: it knows");
    let error = loop {
        clock.advance(std::time::Duration::from_millis(500));
        group.next().execute(|| {}).unwrap(); // it sleeps until it is told
        group.next().schedule(std::time::Duration::ZERO, || {}).unwrap().wait().unwrap();
        if let Ok(reply) = over.try_recv() {
            break reply.unwrap_err();
        }
    };
    // It may have been sent before the server said that.
    assert!(matches!(error, WebClientError::TimedOut { .. }), "{error}");
}
