//! By loops and clocks that are moved by hand: the client has one, each connection another.

use super::*;
use crate::{Backoff, ReconnectError, Requests};
use netwright_codec::{LineFrames, Utf8};
use netwright_core::{Channel, CloseCause, EmbeddedChannel, ManualLoop, Promise, PromiseError, pipeline};
use std::{io, sync::Mutex};

type Asks = Ask<String, String>;
type Connection = EmbeddedChannel<(), Asks>;
type Reply = Promised<String, RequestError>;
type Attempts = Arc<Mutex<Vec<Promise<Channel<Asks>, ConnectError>>>>;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

struct Scene {
    manual: ManualLoop,
    attempts: Attempts,
}

impl Scene {
    fn new(
        set: impl FnOnce(RpcClientBuilder<String, String>) -> RpcClientBuilder<String, String>,
    ) -> (Self, RpcClient<String, String>) {
        Self::over(|connection| connection, set)
    }

    fn over(
        connect: impl FnOnce(ReconnectBuilder<Asks>) -> ReconnectBuilder<Asks>,
        set: impl FnOnce(RpcClientBuilder<String, String>) -> RpcClientBuilder<String, String>,
    ) -> (Self, RpcClient<String, String>) {
        let (manual, attempts) = (ManualLoop::new(), Attempts::default());
        let asked = attempts.clone();
        let way = move |_: &str| {
            let (promise, promised) = promise();
            asked.lock().unwrap().push(promise);
            promised
        };
        let connection = crate::Reconnect::with(manual.handle().clone(), "a", way)
            .backoff(Backoff::new(secs(1), secs(1)).jitter(0.0));
        let client = set(RpcClient::over(connect(connection))).start().unwrap();
        let mut scene = Self { manual, attempts };
        scene.run();
        (scene, client)
    }

    fn run(&mut self) {
        self.manual.run_until_idle();
    }

    fn advance(&mut self, time: Duration) {
        self.manual.advance(time);
        self.run();
    }

    fn connect(&mut self) -> Connection {
        self.connect_with(Requests::in_order())
    }

    fn connect_with(&mut self, requests: Requests<String, String>) -> Connection {
        let lines = pipeline().add(LineFrames::max(100)).add(Utf8::strict());
        let mut connection = Connection::of(lines.last(requests));
        self.attempts.lock().unwrap().pop().expect("an attempt").succeed(connection.channel().clone());
        self.run();
        connection.run();
        connection
    }

    /// The connection ends, and a new one is made after the pause.
    fn reconnect(&mut self, connection: &mut Connection) -> Connection {
        reset(connection);
        self.run();
        self.advance(secs(1));
        self.connect()
    }
}

fn reset(connection: &mut Connection) {
    connection.end_because(CloseCause::io(io::ErrorKind::ConnectionReset.into()));
}

fn sent(connection: &mut Connection) -> String {
    String::from_utf8(connection.outbound_bytes()).unwrap()
}

fn failure(reply: &mut Reply) -> RequestError {
    reply.try_take().expect("it is answered").expect_err("by an error")
}

fn ask(client: &RpcClient<String, String>, request: &str) -> Reply {
    client.ask(request.to_owned())
}

fn ask_again(client: &RpcClient<String, String>, request: &str) -> Reply {
    client.request(request.to_owned()).idempotent().send()
}

#[test]
fn requests_wait_for_a_connection_and_go_out_in_order() {
    let (mut scene, client) = Scene::new(|builder| builder);
    let (mut a, mut b) = (ask(&client, "a"), ask(&client, "b"));
    assert_eq!(client.figures().waiting, 2);
    let mut connection = scene.connect();
    assert_eq!((sent(&mut connection), client.figures().waiting), ("a\nb\n".into(), 0));
    connection.write_inbound("A\nB\n");
    assert_eq!((a.wait().unwrap(), b.wait().unwrap()), ("A".into(), "B".into()));
}

#[test]
fn what_may_have_been_written_is_sent_again_only_if_that_does_no_harm() {
    let (mut scene, client) = Scene::new(|builder| builder);
    let mut first = scene.connect();
    let (mut once, mut again) = (ask(&client, "once"), ask_again(&client, "again"));
    assert_eq!(sent(first.run()), "once\nagain\n");
    let mut second = scene.reconnect(&mut first);
    assert!(matches!(failure(&mut once), RequestError::Closed { cause: CloseCause::Io(_), written: true }));
    assert_eq!(sent(&mut second), "again\n");
    second.write_inbound("AGAIN\n");
    assert_eq!((again.wait().unwrap(), client.figures().retried), ("AGAIN".into(), 1));
}

#[test]
fn what_was_never_written_goes_to_the_next_connection_without_a_budget() {
    let (mut scene, client) = Scene::new(|builder| builder.retries(RetryBudget::none()));
    let mut first = scene.connect_with(Requests::in_order().max_in_flight(1));
    let (mut written, mut unwritten) = (ask(&client, "a"), ask(&client, "b"));
    assert_eq!(sent(first.run()), "a\n");
    let mut second = scene.reconnect(&mut first);
    assert!(failure(&mut written).may_have_been_written());
    assert_eq!(sent(&mut second), "b\n");
    second.write_inbound("B\n");
    assert_eq!((unwritten.wait().unwrap(), client.figures().retried), ("B".into(), 0));
}

#[test]
fn a_request_on_its_way_to_a_connection_that_has_ended_goes_to_the_next_one() {
    let (mut scene, client) = Scene::new(|builder| builder);
    let mut first = scene.connect();
    let mut reply = ask(&client, "a"); // its loop has not come to it
    let mut second = scene.reconnect(&mut first);
    assert_eq!(sent(&mut second), "a\n");
    second.write_inbound("A\n");
    assert_eq!(reply.wait().unwrap(), "A");
}

#[test]
fn a_connection_that_refuses_is_not_asked_again_and_again() {
    let (mut scene, client) = Scene::new(|builder| builder);
    let mut first = scene.connect();
    first.channel().shut_down_output(); // open, but takes nothing
    first.run();
    let mut reply = ask(&client, "a");
    first.run();
    assert!(!reply.is_done() && client.figures().waiting == 1);
    let mut second = scene.reconnect(&mut first);
    second.write_inbound("A\n");
    assert_eq!(reply.wait().unwrap(), "A");
}

#[test]
fn retries_end_with_their_budget() {
    let budget = RetryBudget::default().reserve(2).ratio(0.0).per_request(5);
    let (mut scene, client) = Scene::new(|builder| builder.retries(budget));
    let mut connection = scene.connect();
    let mut reply = ask_again(&client, "a");
    connection.run();
    for _ in 0..2 {
        connection = scene.reconnect(&mut connection);
        assert!(!reply.is_done());
    }
    reset(&mut connection);
    assert!(matches!(failure(&mut reply), RequestError::Closed { written: true, .. }));
    assert_eq!(client.figures().retried, 2);
}

#[test]
fn one_deadline_covers_waiting_and_all_attempts() {
    let (mut scene, client) = Scene::new(|builder| builder.deadline(secs(10)));
    let mut waits = client.request("a".into()).within(secs(3)).send();
    scene.advance(secs(3) - Duration::from_millis(1));
    assert!(!waits.is_done());
    scene.advance(Duration::from_millis(1));
    assert!(
        matches!(failure(&mut waits), RequestError::TimedOut { limit, written: false } if limit == secs(3))
    );

    let mut connection = scene.connect();
    let mut reply = ask_again(&client, "b");
    connection.run();
    scene.advance(secs(4));
    let mut second = scene.reconnect(&mut connection); // a second more
    second.advance(secs(5) - Duration::from_millis(1));
    assert!(!reply.is_done());
    second.advance(Duration::from_millis(1));
    // The limit is that of the whole, not what was left of it.
    assert!(
        matches!(failure(&mut reply), RequestError::TimedOut { limit, written: true } if limit == secs(10))
    );

    // Once it may have been written, that is said whatever happens later.
    let mut reply = ask_again(&client, "c");
    reset(second.run());
    scene.run();
    scene.advance(secs(10));
    assert!(
        matches!(failure(&mut reply), RequestError::TimedOut { limit, written: true } if limit == secs(10))
    );
}

#[test]
fn without_a_deadline_a_request_waits_for_ever() {
    let (mut scene, client) = Scene::new(|builder| builder.deadline(Duration::ZERO));
    let mut reply = ask(&client, "a");
    scene.advance(secs(1_000_000));
    let mut connection = scene.connect();
    connection.advance(secs(1_000_000)).write_inbound("A\n");
    assert_eq!(reply.wait().unwrap(), "A");
}

#[test]
fn the_queue_is_bounded_and_those_who_cancelled_make_room() {
    let (mut scene, client) = Scene::new(|builder| builder.max_waiting(2));
    let (first, cancelled) = (ask(&client, "a"), ask(&client, "b"));
    assert!(matches!(failure(&mut ask(&client, "c")), RequestError::TooManyWaiting { max_waiting: 2 }));
    assert!(cancelled.cancel());
    let _fourth = ask(&client, "d");
    assert_eq!(sent(&mut scene.connect()), "a\nd\n");
    drop(first);

    let (_scene, client) = Scene::new(|builder| builder.max_waiting(0));
    assert!(matches!(failure(&mut ask(&client, "a")), RequestError::NotConnected));
}

#[test]
fn a_retry_that_finds_no_place_tells_of_the_attempt_that_may_have_been_written() {
    let (mut scene, client) = Scene::new(|builder| builder.max_waiting(0));
    let mut connection = scene.connect();
    let mut reply = ask_again(&client, "a");
    reset(connection.run());
    assert!(matches!(failure(&mut reply), RequestError::Closed { cause: CloseCause::Io(_), written: true }));
}

#[test]
fn a_reply_that_nobody_wants_any_more_is_dropped_and_the_next_one_is_not_taken_for_it() {
    let (mut scene, client) = Scene::new(|builder| builder);
    let mut connection = scene.connect();
    let cancelled = ask(&client, "a");
    let mut next = ask(&client, "b");
    connection.run();
    assert!(cancelled.cancel());
    connection.write_inbound("A\nB\n");
    assert_eq!(next.wait().unwrap(), "B");
}

#[test]
fn giving_up_tells_whoever_waits_why() {
    let (mut scene, client) = Scene::over(|connection| connection.give_up_after(1), |builder| builder);
    let mut waits = ask(&client, "a");
    scene.attempts.lock().unwrap().pop().unwrap().fail(ConnectError::Cancelled);
    scene.run();
    for mut reply in [waits.try_take().unwrap(), ask(&client, "b").wait()] {
        let Err(RequestError::Closed { cause: CloseCause::Fault(fault), written: false }) = &mut reply else {
            panic!("{reply:?}")
        };
        assert!(matches!(fault.downcast_ref(), Some(ReconnectError::GaveUp { failures: 1, .. })));
    }
}

#[test]
fn stopping_waits_for_replies_and_fails_those_without_a_connection() {
    let (mut scene, client) = Scene::new(|builder| builder);
    let mut connection = scene.connect();
    let mut reply = ask(&client, "a");
    connection.run();
    let mut stopped = client.stop();
    assert!(matches!(failure(&mut ask(&client, "b")), RequestError::Closed { written: false, .. }));
    scene.run();
    connection.run();
    assert!(connection.is_open() && !stopped.is_done());
    connection.write_inbound("A\n");
    assert_eq!((reply.wait().unwrap(), stopped.wait()), ("A".into(), Ok::<(), PromiseError>(())));
    scene.advance(secs(100));
    assert!(scene.attempts.lock().unwrap().is_empty());

    let (_scene, client) = Scene::new(|builder| builder);
    let mut waits = ask(&client, "a");
    drop(client); // the last handle
    assert!(matches!(
        failure(&mut waits),
        RequestError::Closed { cause: CloseCause::Requested, written: false }
    ));
}
