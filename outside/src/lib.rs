//! What the tests share: a limit for how long each may take, loops, bytes to compare.
//!
//! Nothing here sleeps. A test that waits for a loop to have come to rest sends it a task and waits for that.

use netwright::{
    Backend, EventLoopGroup, Promised,
    promise::{Promise, PromiseError, promise},
};
use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::mpsc,
    thread,
    time::Duration,
};

/// Far longer than anything here takes: only what stalls waits for it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// What goes through pipes here: more than all buffers on the way hold.
pub const MANY: usize = 10 << 20;

/// Runs a test on a thread of its own. One that stalls fails, and does not hold up the others.
///
/// # Panics
/// The test panics, or does not end within [`PATIENCE`].
pub fn in_time(test: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let running = thread::spawn(move || {
        test();
        let _ = done.send(());
    });
    match ended.recv_timeout(PATIENCE) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("nothing has happened for {PATIENCE:?}"),
        // It ended, well or by a panic, which has told what was wrong.
        _ => assert!(running.join().is_ok(), "it panicked"),
    }
}

/// Loops of the kind that this machine offers.
///
/// # Panics
/// There are none.
pub fn loops(count: usize) -> EventLoopGroup {
    Backend::Auto.event_loops(count).expect("loops")
}

/// Waits until each of these loops has come around: what ran on it when this was called has returned.
///
/// # Panics
/// A loop has ended.
pub fn settle(group: &EventLoopGroup) {
    for event_loop in group {
        let (around, told) = mpsc::channel::<()>();
        assert!(event_loop.execute(move || drop(around)).is_ok(), "the loop runs");
        let _ = told.recv_timeout(PATIENCE); // it is dropped, not sent
    }
}

/// A question that is answered by whoever is at the other end, on another thread.
pub type Asked = (String, Promise<String, PromiseError>);

/// Asks another thread, which answers when it likes to.
///
/// # Panics
/// The other thread has gone.
pub fn ask(other: &mpsc::Sender<Asked>, question: impl Into<String>) -> Promised<String, PromiseError> {
    let (answer, answered) = promise();
    other.send((question.into(), answer)).expect("the other thread is there");
    answered
}

/// A thread that answers in capitals, and only when whoever asked waits for it: the loops have come around since.
pub fn slow_thread(group: &EventLoopGroup) -> mpsc::Sender<Asked> {
    let (sender, asked) = mpsc::channel::<Asked>();
    let group = group.clone();
    thread::spawn(move || {
        for (question, answer) in asked {
            settle(&group);
            answer.succeed(question.to_uppercase());
        }
    });
    sender
}

/// Bytes that are different everywhere, so that what is lost, doubled or out of place shows.
pub fn pattern(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// The same bytes, or where they differ: a dump of ten megabytes helps nobody.
///
/// # Panics
/// They are not the same.
#[track_caller]
pub fn assert_same(got: &[u8], expected: &[u8]) {
    let place = got.iter().zip(expected).position(|(got, expected)| got != expected);
    assert!(place.is_none(), "the bytes differ at {place:?}");
    assert_eq!(got.len(), expected.len(), "too few or too many bytes");
}

/// A plain socket, as any program has one.
///
/// # Panics
/// Nobody listens.
pub fn dial(address: Option<SocketAddr>) -> TcpStream {
    let stream = TcpStream::connect(address.expect("a port")).expect("somebody listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time that is not zero");
    stream.set_write_timeout(Some(PATIENCE)).expect("a time that is not zero");
    stream
}

/// Sends all of it from a thread and reads at the same time, until the other side sends no more.
///
/// # Panics
/// The connection breaks, or nothing moves.
pub fn exchange(mut stream: TcpStream, send: Vec<u8>) -> Vec<u8> {
    let mut writer = stream.try_clone().expect("a second handle");
    let sending = thread::spawn(move || {
        writer.write_all(&send).expect("it is taken");
        writer.shutdown(Shutdown::Write).expect("it is open");
    });
    let mut all = Vec::new();
    stream.read_to_end(&mut all).expect("it comes");
    sending.join().expect("all of it was sent");
    all
}
