//! By a loop and a clock that are moved by hand, with connects that the test carries out.

use super::*;
use netwright_core::{
    CloseCause, EmbeddedChannel, Fault, ManualLoop, Outgoing, Promise, WriteError, pipeline,
};
use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{Mutex, mpsc},
    time::Duration,
};

type Connection = EmbeddedChannel<Infallible, Outgoing>;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn connection() -> Connection {
    EmbeddedChannel::new(pipeline().handle(|_, _| ()))
}

type Attempt = (String, Promise<Channel, ConnectError>);

/// A client whose connects are carried out by hand, and what it told.
struct Scene {
    manual: ManualLoop,
    attempts: Arc<Mutex<Vec<Attempt>>>,
    told: mpsc::Receiver<String>,
}

/// Pauses of 1, 2, 4 s …
fn exactly() -> Backoff {
    Backoff::new(secs(1), secs(60)).jitter(0.0)
}

impl Scene {
    fn new(
        set: impl FnOnce(ReconnectBuilder<Outgoing>) -> ReconnectBuilder<Outgoing>,
    ) -> (Self, Reconnect<Outgoing>) {
        let (manual, attempts) = (ManualLoop::new(), Arc::<Mutex<Vec<_>>>::default());
        let (tell, told) = mpsc::channel();
        let asked = attempts.clone();
        let connect = move |address: &str| {
            let (promise, promised) = promise();
            asked.lock().unwrap().push((address.to_owned(), promise));
            promised
        };
        let builder = Reconnect::with(manual.handle().clone(), "a", connect).backoff(exactly());
        let observer = move |event: &ReconnectEvent<'_>| {
            let text = match event {
                ReconnectEvent::Connecting { address } => format!("to {address}"),
                ReconnectEvent::Failed { failures, .. } => format!("failed {failures}"),
                ReconnectEvent::Connected { address } => format!("at {address}"),
                ReconnectEvent::Lost { cause, stood, .. } => format!("lost after {stood:?}: {cause}"),
                ReconnectEvent::Waiting { pause } => format!("{pause:?}"),
                ReconnectEvent::Over { error } => format!("over: {error}"),
            };
            let _ = tell.send(text);
        };
        let reconnect = set(builder.observe(observer)).start().unwrap();
        let mut scene = Self { manual, attempts, told };
        scene.run();
        (scene, reconnect)
    }

    fn run(&mut self) {
        self.manual.run_until_idle();
    }

    fn advance(&mut self, time: Duration) {
        self.manual.advance(time);
        self.run();
    }

    /// What was told since this was last asked.
    fn told(&self) -> Vec<String> {
        self.told.try_iter().collect()
    }

    fn take(&self) -> Attempt {
        self.attempts.lock().unwrap().pop().expect("an attempt is under way")
    }

    fn is_trying(&self) -> bool {
        !self.attempts.lock().unwrap().is_empty()
    }

    fn succeed(&mut self) -> Connection {
        let connection = connection();
        self.take().1.succeed(connection.channel().clone());
        self.run();
        connection
    }

    fn fail(&mut self) {
        self.take().1.fail(ConnectError::Refused(SocketAddr::from(([127, 0, 0, 1], 9)).into()));
        self.run();
    }

    fn lose(&mut self, connection: &mut Connection) {
        connection.close_by_peer();
        self.run();
    }
}

fn why(error: WriteError) -> ReconnectError {
    match error {
        WriteError::Fault(fault) => Fault::downcast_ref::<ReconnectError>(&fault).unwrap().clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn pauses_grow_with_failures_and_begin_anew_after_a_connection_that_stood() {
    let (mut scene, reconnect) = Scene::new(|builder| builder.stable_after(secs(10)));
    for pause in [1, 2, 4] {
        scene.fail();
        assert!(!scene.is_trying());
        scene.advance(secs(pause) - Duration::from_millis(1));
        assert!(!scene.is_trying());
        scene.advance(Duration::from_millis(1));
        assert!(scene.is_trying());
    }
    let mut short = scene.succeed();
    assert!(reconnect.channel().is_some());
    scene.told();
    scene.advance(secs(9));
    scene.lose(&mut short);
    assert!(reconnect.channel().is_none());
    assert_eq!(scene.told(), ["lost after 9s: closed by the peer", "8s"]); // as if it had failed
    scene.advance(secs(8));
    let mut stable = scene.succeed();
    scene.advance(secs(10));
    scene.lose(&mut stable);
    assert_eq!(scene.told(), ["to a", "at a", "lost after 10s: closed by the peer", "1s"]);
}

#[test]
fn addresses_are_tried_in_turn_and_the_pause_comes_behind_the_last() {
    let (mut scene, _reconnect) = Scene::new(|builder| builder.or_to("b").or_to("c"));
    scene.fail();
    scene.fail();
    assert_eq!(scene.told(), ["to a", "failed 1", "to b", "failed 2", "to c"]);
    scene.fail();
    assert_eq!(scene.told(), ["failed 3", "1s"]);
    scene.advance(secs(1));
    scene.fail();
    let mut connection = scene.succeed();
    assert_eq!(scene.told(), ["to a", "failed 4", "to b", "at b"]);
    scene.advance(secs(60));
    scene.lose(&mut connection);
    scene.advance(secs(1));
    assert_eq!(scene.told().last().unwrap(), "to b"); // where it was good
}

#[test]
fn connections_that_do_not_stand_are_failures_and_no_reason_to_hurry() {
    let (mut scene, _reconnect) = Scene::new(|builder| builder.or_to("b"));
    for pause in ["1s", "2s", "4s"] {
        for _ in 0..2 {
            let mut connection = scene.succeed();
            scene.lose(&mut connection);
        }
        assert_eq!(scene.told().last().unwrap(), pause);
        scene.advance(secs(4));
    }
}

#[test]
fn it_gives_up_after_so_many_failures_and_tells_everybody() {
    let (mut scene, reconnect) = Scene::new(|builder| builder.give_up_after(2).max_waiting(5));
    let (mut waits, mut message) = (reconnect.connected(), reconnect.send("hello"));
    scene.fail();
    scene.advance(secs(1));
    assert!(!waits.is_done());
    scene.fail();
    let Some(Err(ReconnectError::GaveUp { failures: 2, last: Some(ConnectError::Refused(_)) })) =
        waits.try_take()
    else {
        panic!("it has not given up")
    };
    assert!(matches!(why(message.wait().unwrap_err()), ReconnectError::GaveUp { .. }));
    assert!(matches!(reconnect.connected().wait(), Err(ReconnectError::GaveUp { .. })));
    assert!(matches!(why(reconnect.send("late").wait().unwrap_err()), ReconnectError::GaveUp { .. }));
    assert!(
        scene
            .told()
            .last()
            .unwrap()
            .starts_with("over: gave up after 2 failures in a row: connection refused")
    );
    scene.advance(secs(1_000));
    assert!(!scene.is_trying());
}

#[test]
fn a_setting_that_cannot_work_is_not_tried_again() {
    let (mut scene, reconnect) = Scene::new(|builder| builder);
    scene.take().1.fail(ConnectError::Setup("no".into()));
    scene.run();
    assert!(matches!(reconnect.connected().wait(), Err(ReconnectError::GaveUp { failures: 1, .. })));
}

#[test]
fn without_a_connection_a_message_fails_at_once_unless_it_may_wait() {
    let (mut scene, reconnect) = Scene::new(|builder| builder);
    assert!(matches!(why(reconnect.send("hello").wait().unwrap_err()), ReconnectError::NotConnected));
    let mut connection = scene.succeed();
    let mut sent = reconnect.send("hello");
    assert_eq!(connection.outbound_bytes(), b"hello");
    assert!(sent.wait().is_ok());
}

#[test]
fn messages_wait_in_order_up_to_the_limit_and_those_cancelled_make_room() {
    let (mut scene, reconnect) = Scene::new(|builder| builder.max_waiting(2));
    let (mut one, two) = (reconnect.send("one "), reconnect.send("two "));
    let error = why(reconnect.send("three ").wait().unwrap_err());
    assert!(matches!(error, ReconnectError::TooManyWaiting { max_waiting: 2 }), "{error}");
    assert!(two.cancel());
    let _four = reconnect.send("four ");
    let mut connection = scene.succeed();
    let _five = reconnect.send("five");
    assert_eq!(connection.outbound_bytes(), b"one four five");
    assert!(one.wait().is_ok());
}

#[test]
fn whoever_waits_for_a_connection_gets_it_and_those_who_gave_up_do_not_pile_up() {
    let (mut scene, reconnect) = Scene::new(|builder| builder);
    for _ in 0..1_000 {
        reconnect.connected().cancel();
    }
    let mut waits = reconnect.connected();
    let connection = scene.succeed();
    assert_eq!(waits.wait().unwrap().id(), connection.channel().id());
    assert_eq!(reconnect.connected().wait().unwrap().id(), connection.channel().id());
}

#[test]
fn a_connection_whose_end_was_asked_for_is_used_no_more() {
    let (mut scene, reconnect) = Scene::new(|builder| builder);
    let mut connection = scene.succeed();
    drop(connection.channel().close());
    assert!(reconnect.channel().is_none());
    let mut waits = reconnect.connected();
    connection.run();
    scene.advance(secs(1));
    let next = scene.succeed();
    assert_eq!(waits.wait().unwrap().id(), next.channel().id());
}

#[test]
fn stopping_sends_what_was_flushed_closes_and_connects_no_more() {
    let (mut scene, reconnect) = Scene::new(|builder| builder);
    let mut connection = scene.succeed();
    connection.block_output(true);
    let _sent = reconnect.send("last words");
    let mut stopped = reconnect.stop();
    scene.run();
    connection.run();
    assert!(!stopped.is_done());
    connection.block_output(false).run();
    assert_eq!(connection.outbound_bytes(), b"last words");
    assert_eq!(stopped.wait(), Ok(()));
    scene.advance(secs(1_000));
    assert!(!scene.is_trying());
    assert!(matches!(reconnect.connected().wait(), Err(ReconnectError::Stopped)));
    assert_eq!(reconnect.stop().wait(), Ok(())); // again, and nothing is there
    assert_eq!(scene.told().last().unwrap(), "over: the client was stopped");
}

#[test]
fn the_drop_of_the_last_handle_stops_whatever_is_under_way() {
    // An attempt.
    let (mut scene, reconnect) = Scene::new(|builder| builder);
    let other = reconnect.clone();
    drop(reconnect);
    scene.run();
    assert!(scene.is_trying());
    drop(other);
    scene.run();
    let (_, attempt) = scene.take();
    assert!(attempt.is_cancelled());
    // One that succeeds in the last moment.
    let (mut scene, reconnect) = Scene::new(|builder| builder);
    let (_, mut attempt) = scene.take();
    assert!(attempt.claim());
    drop(reconnect);
    scene.run();
    let mut late = connection();
    attempt.succeed(late.channel().clone());
    late.run();
    assert!(!late.is_open());
    // A pause.
    let (mut scene, reconnect) = Scene::new(|builder| builder);
    scene.fail();
    drop(reconnect);
    scene.advance(secs(1_000));
    assert!(!scene.is_trying());
    // A connection.
    let (mut scene, reconnect) = Scene::new(|builder| builder);
    let mut connection = scene.succeed();
    drop(reconnect);
    scene.run();
    connection.run();
    assert!(matches!(connection.channel().close_cause(), Some(CloseCause::Requested)));
}

#[test]
fn the_end_of_the_loop_tells_whoever_waits() {
    let (scene, reconnect) = Scene::new(|builder| builder.max_waiting(1));
    let (mut waits, mut message) = (reconnect.connected(), reconnect.send("hello"));
    drop(scene);
    assert!(matches!(waits.try_take(), Some(Err(ReconnectError::LoopEnded))));
    assert!(matches!(
        message.try_take().map(|result| why(result.unwrap_err())),
        Some(ReconnectError::LoopEnded)
    ));
    assert!(matches!(reconnect.connected().wait(), Err(ReconnectError::LoopEnded)));
}

#[test]
fn an_observer_or_a_connect_that_panics_stops_nothing() {
    let mut manual = ManualLoop::new();
    let (tell, told) = mpsc::channel();
    let connect = move |_: &str| -> Promised<Channel, ConnectError> {
        tell.send(()).unwrap();
        panic!("no way")
    };
    let reconnect = Reconnect::with(manual.handle().clone(), "a", connect)
        .backoff(exactly())
        .observe(|_| panic!("no eyes"))
        .start()
        .unwrap();
    manual.run_until_idle();
    manual.advance(secs(1));
    manual.run_until_idle();
    assert_eq!(told.try_iter().count(), 2);
    assert!(!reconnect.connected().is_done());
}
