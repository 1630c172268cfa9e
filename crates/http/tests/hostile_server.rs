//! The pooled client against a server that answers rightly, wrongly, early, late, in part or not at all.
//!
//! `NETWRIGHT_HOSTILE_SEEDS=200` meets so many servers instead of the usual few, `NETWRIGHT_SEED=17` that one alone. The seed of
//! a failure is printed. What is drawn is the same for a seed, but threads come in any order: a failure may need some tries.
#![cfg(feature = "client")]

use bytes::Bytes;
use http::{Method, Request, Response};
use netwright_core::{EventLoopGroup, ManualClock};
use netwright_http::{
    Body,
    client::{WebClient, WebClientError},
};
use netwright_testkit::{
    hostile::server::{Account, HostileServer, LARGE, Outcome, content},
    verify::Numbers,
};
use netwright_transport::{Backend, event_loops};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Nothing takes as long but what hangs.
const PATIENCE: Duration = Duration::from_secs(60);
const THREADS: usize = 8;
const REQUESTS: usize = 40;
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

fn seeds(usual: u64) -> Vec<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("NETWRIGHT_SEED") {
        Some(seed) => vec![seed],
        None => (1..=number("NETWRIGHT_HOSTILE_SEEDS").unwrap_or(usual)).collect(),
    }
}

/// Says which seed it was, if the test fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the test failed with NETWRIGHT_SEED={}", self.0);
        }
    }
}

/// What came of a request.
#[derive(Debug)]
enum Told {
    /// The reply that belongs to it, to its end.
    Reply,
    /// The beginning of it, then an error.
    #[allow(dead_code, reason = "shown if a test fails")]
    Half(String),
    /// Nobody read it to its end.
    Left,
    Error(WebClientError),
}

struct Asked {
    number: u64,
    method: Method,
    told: Told,
}

/// What all threads of one run share.
struct Run {
    client: WebClient,
    server: HostileServer,
    /// Reads the bodies of replies.
    readers: EventLoopGroup,
    seed: u64,
    /// The request that each thread is busy with; 0: it is done.
    busy: [AtomicUsize; THREADS],
}

impl Run {
    fn new(client: WebClient, server: HostileServer, seed: u64) -> Arc<Self> {
        let busy = std::array::from_fn(|_| AtomicUsize::new(usize::MAX));
        Arc::new(Self { client, server, readers: event_loops(1).unwrap(), seed, busy })
    }

    fn start(self: &Arc<Self>) -> Vec<thread::JoinHandle<Vec<Asked>>> {
        let thread = |index: usize| {
            let run = self.clone();
            thread::spawn(move || {
                let _done = Done(&run.busy[index]);
                let numbers = (1..=REQUESTS).map(|n| (index * 1000 + n) as u64);
                numbers.map(|number| run.ask(index, number)).collect()
            })
        };
        (0..THREADS).map(thread).collect()
    }

    /// Asks once, of a kind that is drawn.
    fn ask(&self, thread: usize, number: u64) -> Asked {
        self.busy[thread].store(number as usize, Ordering::Release);
        let mut numbers = Numbers::new(self.seed ^ number << 20);
        let len = 1 + numbers.below(5000);
        let full = |len| Body::from(content(number, len));
        let (method, body) = match numbers.below(64) {
            0..=29 => (Method::GET, Body::empty()),
            30..=34 => (Method::HEAD, Body::empty()),
            35..=44 => (Method::PUT, full(len)),
            45..=53 => (Method::POST, full(len)),
            54..=62 => (Method::POST, streamed(number, len)),
            _ => (Method::PUT, full(LARGE)),
        };
        let mut request = Request::builder()
            .method(method.clone())
            .uri(format!("http://{}/{number}", self.server.address()))
            .header("x-number", number);
        if numbers.below(20) == 0 {
            request = request.header("connection", "close");
        } else if numbers.below(20) == 0 && method == Method::GET {
            request = request.header("connection", "upgrade").header("upgrade", "other");
        }
        let told = match self.client.request(request.body(body).unwrap()).wait() {
            Ok(reply) => self.read(number, &method, reply, numbers.below(16) == 0),
            Err(error) => {
                assert!(!matches!(error, WebClientError::LoopEnded | WebClientError::Panicked(_)), "{error}");
                Told::Error(error)
            }
        };
        Asked { number, method, told }
    }

    fn read(&self, number: u64, method: &Method, reply: Response<Body>, leave: bool) -> Told {
        let field =
            |name: &str| reply.headers().get(name).and_then(|value| value.to_str().ok()?.parse().ok());
        assert_eq!(field("x-number"), Some(number), "the reply to another request: {reply:?}");
        let (status, length) = (reply.status().as_u16(), field("x-length"));
        if leave {
            return Told::Left;
        }
        let mut body = reply.into_body();
        let all = async move {
            let mut all = Vec::new();
            loop {
                match body.read().await {
                    Ok(Some(piece)) => all.extend_from_slice(&piece),
                    Ok(None) => return (all, None),
                    Err(error) => return (all, Some(error.to_string())),
                }
            }
        };
        let (all, error) = self.readers.next().spawn(all).ok().unwrap().wait().unwrap();
        assert_eq!(all, content(number, all.len()), "the body of another reply to {number}");
        if let Some(error) = error {
            return Told::Half(error);
        }
        if method != Method::HEAD && status == 200 {
            assert_eq!(length, Some(all.len() as u64), "the end of the reply to {number} is not its end");
        }
        Told::Reply
    }

    /// Whether no thread can go on before its client gives up; how many are not done.
    fn all_wait(&self, account: &Account) -> (bool, usize) {
        let busy: Vec<usize> = self.busy.iter().map(|busy| busy.load(Ordering::Acquire)).collect();
        let left = busy.iter().filter(|&&number| number != 0);
        let waits = |number: &usize| *number == 0 || account.silent.contains(&(*number as u64));
        (busy.iter().all(waits), left.count())
    }

    #[track_caller]
    fn until(&self, what: &str, mut done: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !done() {
            let (figures, account) = (self.client.figures(), self.server.account());
            let busy = self.busy.iter().map(|busy| busy.load(Ordering::Acquire) as u64);
            let busy: Vec<_> = busy.map(|number| (number, account.requests.get(&number))).collect();
            let (silent, open) = (account.silent, account.open);
            assert!(
                begun.elapsed() < PATIENCE,
                "never came: {what}; {figures:?}, busy with {busy:?}, silent: {silent:?}, open: {open}"
            );
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A thread is done, be it by a panic.
struct Done<'a>(&'a AtomicUsize);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

/// A body that is written piece by piece.
fn streamed(number: u64, len: usize) -> Body {
    let (mut sender, body) = Body::channel();
    for piece in content(number, len).chunks(777) {
        sender.try_send(Bytes::copy_from_slice(piece)).unwrap();
    }
    sender.end();
    body
}

/// Everything that a client has to answer for, when all is over.
fn settle(asked: &[Asked], account: &Account) {
    assert!(account.violations.is_empty(), "{:?}", account.violations);
    let (mut unseen_safe, mut unseen) = (0, 0);
    for Asked { number, method, told } in asked {
        let outcomes = account.requests.get(number).map(Vec::as_slice).unwrap_or_default();
        if *method == Method::POST {
            assert!(outcomes.len() <= 1, "request {number} cannot be repeated, and came {outcomes:?}");
        }
        match told {
            Told::Reply | Told::Left | Told::Half(_) => {
                assert!(!outcomes.is_empty(), "who answered {number}?")
            }
            Told::Error(_) => {}
        }
        if let Told::Half(_) | Told::Error(_) = told {
            assert_ne!(
                outcomes.last(),
                Some(&Outcome::Answered),
                "{method} {number}: {told:?}, {outcomes:?}"
            );
        }
        if matches!(told, Told::Error(_)) && outcomes.is_empty() {
            unseen += 1;
            unseen_safe += usize::from(method.is_idempotent());
        }
    }
    // A connection that is cut under its first request may cost it; one that had waited costs only what cannot be repeated.
    assert!(
        unseen_safe <= account.cut_before,
        "{unseen_safe} requests could have been sent, with {} connections cut",
        account.cut_before
    );
    let excuses = account.cut_before + account.ended_idle;
    assert!(unseen <= excuses, "{unseen} requests were not sent, with {excuses} connections cut");
}

/// How many there were of a kind.
fn summary(asked: &[Asked]) -> HashMap<&'static str, usize> {
    let mut counted = HashMap::new();
    for Asked { told, .. } in asked {
        let kind = match told {
            Told::Reply => "reply",
            Told::Half(_) => "half",
            Told::Left => "left",
            Told::Error(WebClientError::TimedOut { .. }) => "timed out",
            Told::Error(_) => "error",
        };
        *counted.entry(kind).or_default() += 1;
    }
    counted
}

/// The clock of the client is moved when all that is left waits for it, and not before: what times out without that hangs.
fn meet_silent(seed: u64) -> HashMap<&'static str, usize> {
    let _seed = Seed(seed);
    let clock = ManualClock::new();
    let backend = if seed.is_multiple_of(2) { Backend::Readiness } else { Backend::Auto };
    let group = backend.group().loops(1).clock(clock.clone()).build().unwrap();
    // As many as there are threads and stalls: nobody waits for a connection that waits for the clock.
    let client = WebClient::builder().group(group.clone()).connections(THREADS * REQUESTS).redirects(0);
    let client = client.head_timeout(HEAD_TIMEOUT).build().unwrap();
    let run = Run::new(client, HostileServer::start(seed).unwrap(), seed);
    let threads = run.start();
    let move_on = || {
        clock.advance(HEAD_TIMEOUT / 2);
        for event_loop in &group {
            let _ = event_loop.execute(|| {}); // looks at the clock
        }
    };
    run.until("the end of all requests", || {
        let (waits, left) = run.all_wait(&run.server.account());
        if waits && left > 0 {
            move_on();
        }
        left == 0
    });
    let asked: Vec<Asked> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    // Those that stall are given up, and all others are idle or gone.
    run.until("the end of all loans", || {
        let figures = run.client.figures();
        let over = (figures.in_use, figures.connecting, figures.waiting) == (0, 0, 0);
        if !over {
            move_on();
        }
        over
    });
    over(run, &asked);
    summary(&asked)
}

/// Few connections, so that requests wait for each other's; nothing takes long enough to time out.
fn meet_talking(seed: u64) -> HashMap<&'static str, usize> {
    let _seed = Seed(seed);
    let backend = if seed.is_multiple_of(2) { Backend::Auto } else { Backend::Readiness };
    let group = backend.group().loops(2).build().unwrap();
    let client = WebClient::builder().group(group).connections(3).redirects(0).head_timeout(PATIENCE);
    let run = Run::new(client.build().unwrap(), HostileServer::talking(seed).unwrap(), seed);
    let threads = run.start();
    run.until("the end of all requests", || run.all_wait(&Account::default()).0);
    let asked: Vec<Asked> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    run.until("the end of all loans", || {
        let figures = run.client.figures();
        (figures.in_use, figures.connecting, figures.waiting) == (0, 0, 0)
    });
    over(run, &asked);
    let counted = summary(&asked);
    assert_eq!(counted.get("timed out"), None, "{counted:?}");
    counted
}

/// Lets the client go: nothing of it is left. Then it has to answer.
fn over(run: Arc<Run>, asked: &[Asked]) {
    let run = Arc::into_inner(run).expect("all threads are done");
    let Run { client, server, .. } = run;
    drop(client);
    server.end_stalls();
    let begun = Instant::now();
    while server.account().open > 0 {
        assert!(begun.elapsed() < PATIENCE, "connections are left: {}", server.account().open);
        thread::sleep(Duration::from_millis(1));
    }
    settle(asked, &server.account());
}

fn all(seeds: Vec<u64>, meet: fn(u64) -> HashMap<&'static str, usize>) {
    let total = Mutex::new(HashMap::<_, usize>::new());
    for pair in seeds.chunks(2) {
        thread::scope(|scope| {
            for &seed in pair {
                let total = &total;
                scope.spawn(move || {
                    let counted = meet(seed);
                    let mut total = total.lock().unwrap();
                    counted.into_iter().for_each(|(kind, count)| *total.entry(kind).or_default() += count);
                });
            }
        });
    }
    eprintln!("{:?}", total.into_inner().unwrap());
}

#[test]
fn no_reply_is_mixed_up_and_no_request_hangs_whatever_a_server_does() {
    all(seeds(4), meet_silent);
}

#[test]
fn no_reply_is_mixed_up_and_no_request_is_lost_while_requests_wait_for_connections() {
    all(seeds(4), meet_talking);
}
