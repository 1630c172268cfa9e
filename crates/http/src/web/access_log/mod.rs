//! One line for each request: who asked what, what came of it, and how long it took.
//!
//! ```text
//!   codec ── request ──▶ [ AccessLog ] ── request ──▶ …        notes method, target, time
//!   codec ◀── reply ──── [ AccessLog ] ◀── reply ──── …        counts bytes; at the end: one entry to the sink
//! ```
//! Always true:
//! 1. Each request that passes gives one entry, also if its connection ends first; and so does a head that the codec refuses,
//!    behind those of the requests before it.
//! 2. What a peer sent cannot break out of its place in a line: quotes, backslashes, control characters and everything beyond
//!    ASCII are escaped.
//!
//! Not here: files and their rotation. A sink is a function; it runs on the loop, so it hands on what takes long.

use super::turns::{Turns, ends};
use crate::{HttpError, Part, Refused, ReplyPart, RequestPart};
use http::{HeaderValue, Method, StatusCode, Uri, Version, header};
use netwright_core::{CloseCause, Context, Event, Handler, WritePromise};
use std::{
    fmt,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

/// What stands for the method of a head that was refused.
const NO_METHOD: &[u8] = b"-";

/// What is known of a request when its reply is over.
///
/// ```
/// use netwright_http::web::{AccessEntry, AccessLog};
///
/// let log = AccessLog::new(|entry: &AccessEntry| println!("{} in {:?}", entry.common(), entry.latency));
/// # drop(log);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AccessEntry {
    /// Who asked, if the connection is on the network.
    pub peer: Option<IpAddr>,
    /// When the head had come, by the wall.
    pub time: SystemTime,
    /// The method; `-` if the head was refused.
    pub method: Method,
    /// The target; `-` if the head was refused.
    pub target: Uri,
    /// The request's version; HTTP/1.1 if the head was refused.
    pub version: Version,
    /// The reply's status; `None` if there was none before the connection ended.
    pub status: Option<StatusCode>,
    /// Why the codec refused the head, or the body. It tells the peer itself, with this status.
    pub refused: Option<HttpError>,
    /// Bytes of the request's body that had come.
    pub request_bytes: u64,
    /// Bytes of the reply's body that were written; what the codec says itself is not counted.
    pub reply_bytes: u64,
    /// From the request's head to the last part of the reply.
    pub latency: Duration,
    /// Whether the reply came to its end.
    pub complete: bool,
    /// Where the client says it came from.
    pub referer: Option<HeaderValue>,
    /// What the client says it is.
    pub user_agent: Option<HeaderValue>,
}

impl AccessEntry {
    fn new(peer: Option<IpAddr>, method: Method, target: Uri, version: Version) -> Self {
        Self {
            peer,
            time: SystemTime::now(),
            method,
            target,
            version,
            status: None,
            refused: None,
            request_bytes: 0,
            reply_bytes: 0,
            latency: Duration::ZERO,
            complete: false,
            referer: None,
            user_agent: None,
        }
    }

    /// Of a head that was refused: nothing is known of it.
    fn without_head(peer: Option<IpAddr>) -> Self {
        let method = Method::from_bytes(NO_METHOD).unwrap_or_default();
        Self::new(peer, method, Uri::from_static("-"), Version::HTTP_11)
    }

    fn is_without_head(&self) -> bool {
        self.refused.is_some() && self.method.as_str().as_bytes() == NO_METHOD
    }

    /// The codec refuses it. A peer that has gone is not told.
    fn refuse(&mut self, error: &HttpError) {
        if !matches!(error, HttpError::Premature { .. }) {
            self.status.get_or_insert(error.status());
        }
        self.refused = Some(error.clone());
    }

    /// Common Log Format: `127.0.0.1 - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.1" 200 2326`.
    pub fn common(&self) -> impl fmt::Display {
        Line { entry: self, combined: false }
    }

    /// Combined Log Format: the same, and who the client says it is and where it came from.
    pub fn combined(&self) -> impl fmt::Display {
        Line { entry: self, combined: true }
    }
}

struct Line<'a> {
    entry: &'a AccessEntry,
    combined: bool,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = self.entry;
        match entry.peer {
            Some(peer) => write!(f, "{peer} - - ")?,
            None => f.write_str("- - - ")?,
        }
        write!(f, "[{}] \"", Stamp(entry.time))?;
        if entry.is_without_head() {
            f.write_str("-\" ")?;
        } else {
            write!(f, "{} ", entry.method)?;
            match entry.target.path_and_query() {
                // What a client sends to an origin has no more than this; a proxy's targets are shown whole.
                Some(path) if entry.target.authority().is_none() => {
                    write!(f, "{}", Escaped(path.as_str().as_bytes()))?
                }
                _ => write!(f, "{}", Escaped(entry.target.to_string().as_bytes()))?,
            }
            write!(f, " {:?}\" ", entry.version)?;
        }
        match entry.status {
            Some(status) => write!(f, "{} ", status.as_u16())?,
            None => f.write_str("- ")?,
        }
        match entry.reply_bytes {
            0 => f.write_str("-")?,
            bytes => write!(f, "{bytes}")?,
        }
        if self.combined {
            let shown = |value: &Option<HeaderValue>, f: &mut fmt::Formatter<'_>| match value {
                Some(value) => write!(f, " \"{}\"", Escaped(value.as_bytes())),
                None => f.write_str(" \"-\""),
            };
            shown(&entry.referer, f)?;
            shown(&entry.user_agent, f)?;
        }
        Ok(())
    }
}

struct Escaped<'a>(&'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &byte in self.0 {
            match byte {
                b'"' | b'\\' => write!(f, "\\{}", byte as char)?,
                b' '..=b'~' => write!(f, "{}", byte as char)?,
                other => write!(f, "\\x{other:02x}")?,
            }
        }
        Ok(())
    }
}

/// `10/Oct/2000:13:55:36 +0000`
struct Stamp(SystemTime);

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MONTHS: [&str; 12] =
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let seconds = self.0.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let (year, month, day) = civil(seconds / 86_400);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        let month = MONTHS[month as usize % 12];
        write!(f, "{day:02}/{month}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000")
    }
}

/// Year, month from 0 on and day from 1 on, of a day since 1970. Years begin in March, so that the leap day is a year's last.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // since the first of March of the year 0
    let era = days / 146_097; // 400 years
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12;
    let year = era * 400 + year_of_era + u64::from(month < 2);
    (year, month, day)
}

/// A stage that tells a sink of every request when its reply is over. Everything passes untouched.
///
/// Right behind the codec it sees also what stages answer themselves, and counts bytes as they are sent.
///
/// ```
/// use netwright_http::web::AccessLog;
///
/// // One for all connections, a stage for each: pipeline().add(HttpServer::new()).add(log.stage()).…
/// let log = AccessLog::new(|entry| println!("{}", entry.combined()));
/// let stage = log.stage();
/// # let _ = stage;
/// ```
#[derive(Clone)]
pub struct AccessLog {
    sink: Arc<dyn Fn(&AccessEntry) + Send + Sync>,
}

impl AccessLog {
    /// Tells a function.
    pub fn new(sink: impl Fn(&AccessEntry) + Send + Sync + 'static) -> Self {
        Self { sink: Arc::new(sink) }
    }

    /// Tells `tracing`: an event at level info with the target `netwright::access`, and a field for each thing that is known.
    pub fn tracing() -> Self {
        Self::new(|entry| {
            tracing::info!(
                target: "netwright::access",
                peer = entry.peer.map(tracing::field::display),
                method = %entry.method,
                target = %entry.target,
                status = entry.status.map(|status| status.as_u16()),
                request_bytes = entry.request_bytes,
                reply_bytes = entry.reply_bytes,
                latency_us = u64::try_from(entry.latency.as_micros()).unwrap_or(u64::MAX),
                complete = entry.complete,
                refused = entry.refused.as_ref().map(tracing::field::display),
            );
        })
    }

    /// A stage for one connection.
    pub fn stage(&self) -> AccessLogStage {
        AccessLogStage {
            log: self.clone(),
            turns: Turns::default(),
            reading: 0,
            in_body: false,
            waiting: 0,
            refused: None,
        }
    }
}

impl fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessLog")
    }
}

/// Made by [`AccessLog::stage`].
///
/// ```
/// use netwright_core::pipeline;
/// use netwright_http::{HttpServer, web::AccessLog};
///
/// let log = AccessLog::new(|entry| println!("{}", entry.common())); // one for all connections
/// let _stages = pipeline().add(HttpServer::new()).add(log.stage()); // a stage for each
/// ```
#[derive(Debug)]
pub struct AccessLogStage {
    log: AccessLog,
    turns: Turns<Box<(AccessEntry, Instant)>>,
    /// Bytes of the request that is being read: it is not always the one that is being answered.
    reading: u64,
    /// The body of the request that came last is not over.
    in_body: bool,
    /// Requests whose replies are not over.
    waiting: usize,
    /// A head that was refused, and waits for the replies before it.
    refused: Option<Box<(AccessEntry, Instant)>>,
}

impl Handler for AccessLogStage {
    type Read = RequestPart;
    type ReadOut = RequestPart;
    type Write = ReplyPart;
    type WriteOut = ReplyPart;

    fn read(&mut self, cx: &mut Context<'_, Self>, part: RequestPart) {
        match &part {
            Part::Head(head) | Part::Whole(head, _) => {
                self.reading = if let Part::Whole(_, body) = &part { body.len() as u64 } else { 0 };
                self.in_body = matches!(part, Part::Head(_));
                self.waiting += 1;
                let peer = cx.peer_addr().map(|peer| peer.ip());
                let mut entry = AccessEntry::new(peer, head.method.clone(), head.uri.clone(), head.version);
                entry.request_bytes = self.reading;
                entry.referer = head.headers.get(header::REFERER).cloned();
                entry.user_agent = head.headers.get(header::USER_AGENT).cloned();
                self.turns.expect(Box::new((entry, cx.event_loop().now())));
            }
            Part::Data(data) => {
                self.reading += data.len() as u64;
                // Only the last request can have a body that is not over.
                if let Some(last) = self.turns.last() {
                    last.0.request_bytes = self.reading;
                }
            }
            Part::End(_) => self.in_body = false,
            _ => {}
        }
        cx.fire_read(part);
    }

    fn write(&mut self, cx: &mut Context<'_, Self>, part: ReplyPart, done: WritePromise) {
        if let Some(note) = self.turns.current() {
            let entry = &mut note.0;
            match &part {
                Part::Head(head) => entry.status = Some(head.status),
                Part::Whole(head, body) => {
                    entry.status = Some(head.status);
                    entry.reply_bytes += body.len() as u64;
                }
                Part::Data(data) => entry.reply_bytes += data.len() as u64,
                Part::File(region) => entry.reply_bytes += region.remaining(),
                Part::End(_) | Part::Interim(_) => {}
            }
        }
        let over = ends(&part);
        cx.write_with(part, done);
        if over && let Some(mut note) = self.turns.done(cx) {
            note.0.complete = true;
            self.tell(cx, *note);
            self.waiting -= 1;
            self.tell_refused(cx);
        }
    }

    fn event(&mut self, cx: &mut Context<'_, Self>, event: Event) {
        if let Some(Refused(error)) = event.get::<Refused>() {
            if !std::mem::take(&mut self.in_body) {
                let mut entry = AccessEntry::without_head(cx.peer_addr().map(|peer| peer.ip()));
                entry.refuse(error);
                self.refused = Some(Box::new((entry, cx.event_loop().now())));
                self.tell_refused(cx);
            } else if let Some(last) = self.turns.last() {
                last.0.refuse(error); // unless its reply was over before its body
            }
        }
        cx.fire_event(event);
    }

    fn inactive(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause) {
        for note in self.turns.abandon() {
            self.tell(cx, *note);
        }
        self.waiting = 0;
        self.tell_refused(cx);
        cx.fire_inactive(cause);
    }
}

impl AccessLogStage {
    fn tell(&self, cx: &Context<'_, Self>, (mut entry, began): (AccessEntry, Instant)) {
        entry.latency = cx.event_loop().now().saturating_duration_since(began);
        (self.log.sink)(&entry);
    }

    /// Tells of a head that was refused, if it is its turn.
    fn tell_refused(&mut self, cx: &Context<'_, Self>) {
        if self.waiting == 0
            && let Some(note) = self.refused.take()
        {
            self.tell(cx, *note);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::{
        Reply,
        testing::{HttpEmbedded, reply_head, request},
    };
    use std::sync::Mutex;

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
        channel.ask(Part::Data("12345".into())).ask(Part::End(None));
        channel.ask(request("GET", "/second", &[])).ask(Part::End(None));
        channel.advance(Duration::from_millis(20));
        channel.reply(Part::Interim(reply_head(103, &[])));
        channel.reply(Part::Head(reply_head(201, &[]))).reply(Part::Data("123".into()));
        assert!(entries.lock().unwrap().is_empty());
        channel.advance(Duration::from_millis(5)).reply(Part::End(None));
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
        channel.reply(Part::Head(reply_head(200, &[]))).reply(Part::Data("12".into()));
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
        channel.ask(request("GET", "/slow", &[])).ask(Part::End(None));
        channel.channel.channel().fire_event(Event::new(Refused(HttpError::Version(*b"HTTP/3.0"))));
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
}
