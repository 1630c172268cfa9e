//! Sources of messages and of bytes: in handlers, tails and from outside, with every end at every point.

use bytes::{Bytes, BytesMut};
use netwright_core::{
    AppContext, Application, CloseCause, Context as StageContext, EmbeddedChannel, Fault, Handler,
    HostSettings, Outgoing, Peer, Promised, RefusedWhy, WaterMarks, Workers, WriteError, WritePromise,
    pipeline,
    source::{self, ItemSource, SourceError},
};
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    io::{self, Read},
    pin::pin,
    rc::Rc,
    sync::mpsc,
    task::{Context, Poll, Waker},
    time::Duration,
};

#[derive(Clone, Debug)]
enum Give {
    Item(&'static str),
    Wait,
    Fail,
    Panic,
}

/// Gives what it was told to. Says when it was dropped.
struct Scripted {
    script: VecDeque<Give>,
    state: Rc<State>,
}

#[derive(Default)]
struct State {
    asked: Cell<usize>,
    dropped: Cell<bool>,
    /// So many waits are over.
    may_go_on: Cell<usize>,
    waker: RefCell<Option<Waker>>,
}

impl State {
    fn go_on(&self) {
        self.may_go_on.set(self.may_go_on.get() + 1);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.state.dropped.set(true);
    }
}

fn scripted(script: impl IntoIterator<Item = Give>) -> (Scripted, Rc<State>) {
    let state = Rc::<State>::default();
    (Scripted { script: script.into_iter().collect(), state: state.clone() }, state)
}

impl ItemSource for Scripted {
    type Item = &'static str;

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<&'static str>, Fault>> {
        self.state.asked.set(self.state.asked.get() + 1);
        if matches!(self.script.front(), Some(Give::Wait)) {
            if self.state.may_go_on.get() == 0 {
                self.state.waker.replace(Some(cx.waker().clone()));
                return Poll::Pending;
            }
            self.state.may_go_on.set(self.state.may_go_on.get() - 1);
            self.script.pop_front();
        }
        Poll::Ready(match self.script.pop_front() {
            None => Ok(None),
            Some(Give::Item(text)) => Ok(Some(text)),
            Some(Give::Fail) => Err(Fault::new("no more paper")),
            Some(Give::Panic) => panic!("jammed"),
            Some(Give::Wait) => return Poll::Pending, // two in a row: nobody calls
        })
    }
}

type Sent = Rc<RefCell<Option<Result<u64, WriteError>>>>;

/// Writes from a source as soon as it is active, and keeps what came of it.
struct Pours<S> {
    source: Option<S>,
    sent: Sent,
}

impl<S: ItemSource + 'static> Application for Pours<S>
where
    Outgoing: netwright_core::Carries<S::Item>,
{
    type Read = BytesMut;
    type Write = Outgoing;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        if let Some(source) = self.source.take() {
            let (written, sent) = (cx.write_from(source), self.sent.clone());
            let mut written = Box::pin(written);
            cx.spawn(std::future::poll_fn(move |cx| written.as_mut().poll(cx)), move |_, _, result| {
                drop(sent.replace(Some(result)))
            });
        }
    }
    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        cx.write_and_flush::<Outgoing>(Outgoing::from(bytes.freeze()));
    }
}

fn pouring<S>(
    source: S,
    settings: HostSettings,
) -> (EmbeddedChannel<std::convert::Infallible, Outgoing>, Sent)
where
    S: ItemSource + 'static,
    Outgoing: netwright_core::Carries<S::Item>,
{
    let sent = Sent::default();
    let stages = pipeline().app(Pours { source: Some(source), sent: sent.clone() });
    (EmbeddedChannel::with_settings(stages, settings), sent)
}

fn narrow() -> HostSettings {
    let mut settings = HostSettings::default();
    settings.water_marks = WaterMarks::new(10, 200).unwrap();
    settings
}

#[test]
fn a_handler_goes_on_while_its_source_is_written_from() {
    let (source, state) = scripted([Give::Item("one "), Give::Wait, Give::Item("two ")]);
    let (mut channel, sent) = pouring(source, HostSettings::default());
    assert_eq!(channel.outbound_bytes(), b"one ");
    channel.write_inbound("echo ");
    assert_eq!(channel.outbound_bytes(), b"echo ");
    state.go_on();
    assert_eq!(channel.run().outbound_bytes(), b"two ");
    assert!(matches!(*sent.borrow(), Some(Ok(2))), "{:?}", sent.borrow());
    assert!(state.dropped.get() && channel.is_open());
}

#[test]
fn an_empty_source_is_done_at_once_and_writes_nothing() {
    let (mut channel, sent) = pouring(scripted([]).0, HostSettings::default());
    assert_eq!(channel.run().outbound_bytes(), b"");
    assert!(matches!(*sent.borrow(), Some(Ok(0))));
    assert!(channel.is_open());
}

#[test]
fn an_endless_source_of_a_handler_is_asked_only_while_there_is_room_and_ends_with_the_channel() {
    /// Gives the same for ever, once it has been told to go on.
    struct Endless(Rc<State>);
    impl ItemSource for Endless {
        type Item = &'static str;
        fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<&'static str>, Fault>> {
            let asked = self.0.asked.replace(self.0.asked.get() + 1);
            if asked == 0 {
                self.0.waker.replace(Some(cx.waker().clone()));
                return Poll::Pending;
            }
            Poll::Ready(Ok(Some("0123456789")))
        }
    }
    let state = Rc::<State>::default();
    let (mut channel, _) = pouring(Endless(state.clone()), narrow());
    channel.block_output(true);
    state.go_on();
    channel.run();
    let before = state.asked.get();
    assert!((2..100).contains(&before), "{before}");
    channel.run().run();
    assert_eq!(state.asked.get(), before, "a peer that reads nothing is not written for");
    channel.channel().close();
    channel.run();
    assert!(!channel.is_open());
    assert_eq!(Rc::strong_count(&state), 1, "the source has gone with its channel");
}

#[test]
fn a_source_in_a_handler_that_fails_or_panics_ends_its_channel_with_a_typed_cause() {
    for (end, begun) in [(Give::Fail, false), (Give::Fail, true), (Give::Panic, false), (Give::Panic, true)] {
        let (source, state) = scripted(begun.then_some(Give::Item("part")).into_iter().chain([end.clone()]));
        let (mut channel, _) = pouring(source, HostSettings::default());
        assert_eq!(channel.run().outbound_bytes(), if begun { &b"part"[..] } else { b"" });
        assert!(!channel.is_open() && state.dropped.get());
        let Some(CloseCause::Fault(fault)) = channel.channel().close_cause() else { panic!("{end:?}") };
        match end {
            Give::Panic => assert!(
                matches!(fault.downcast_ref(), Some(SourceError::Panicked(message)) if message == "jammed")
            ),
            _ => assert_eq!(fault.to_string(), "no more paper"),
        }
    }
}

#[test]
fn separate_items_that_fail_or_panic_leave_the_channel_open_and_tell_why() {
    for end in [Give::Fail, Give::Panic] {
        let (source, state) = scripted([Give::Item("part"), end.clone()]);
        let (mut channel, sent) = pouring(source.separate(), HostSettings::default());
        assert_eq!(channel.run().outbound_bytes(), b"part");
        assert!(channel.is_open() && state.dropped.get());
        assert!(matches!(*sent.borrow(), Some(Err(WriteError::Fault(_)))), "{:?}", sent.borrow());

        let (source, _) = scripted([Give::Item("part"), end]);
        let told = Sent::default();
        let tell = told.clone();
        let mut tail = EmbeddedChannel::new(pipeline().serve(move |mut peer: Peer| async move {
            let result = peer.write_from(source.separate()).await;
            tell.replace(Some(result.map_err(WriteError::Closed)));
            peer.write(", and on").await?;
            peer.read().await.map(drop)
        }));
        assert_eq!(tail.run().outbound_bytes(), b"part, and on");
        assert!(tail.is_open());
        assert!(matches!(*told.borrow(), Some(Err(WriteError::Closed(CloseCause::Fault(_))))));
    }
}

#[test]
fn the_promise_of_a_handlers_source_fails_with_the_cause_of_the_channels_end() {
    for script in [vec![Give::Wait], vec![Give::Item("part"), Give::Wait]] {
        for blocked in [false, true] {
            let (source, state) = scripted(script.clone());
            let told = Told::default();
            let stages = pipeline().app(Begins { before: 0, source: Some(source), told: told.clone() });
            let mut channel = EmbeddedChannel::new(stages);
            channel.block_output(blocked).run();
            channel.close_by_peer().run();
            assert!(state.dropped.get());
            let result = told.borrow_mut().as_mut().unwrap().try_take();
            assert!(
                matches!(result, Some(Err(WriteError::Closed(CloseCause::PeerClosed)))),
                "{script:?} {blocked} {result:?}"
            );
        }
    }
}

type Told = Rc<RefCell<Option<Promised<u64, WriteError>>>>;

/// Writes so many bytes without a flush, then from a source. Whoever made it has the promise.
struct Begins {
    before: usize,
    source: Option<Scripted>,
    told: Told,
}

impl Application for Begins {
    type Read = BytesMut;
    type Write = Outgoing;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        if self.before > 0 {
            cx.write(vec![b'.'; self.before]);
        }
        if let Some(source) = self.source.take() {
            self.told.replace(Some(cx.write_from(source)));
        }
    }
    fn read(&mut self, _: &mut AppContext<'_, Self>, _: BytesMut) {}
}

#[test]
fn a_source_that_was_given_up_in_the_middle_is_dropped_and_only_separate_items_leave_the_channel_open() {
    for separate in [false, true] {
        let (source, state) = scripted([Give::Item("part"), Give::Wait, Give::Wait]);
        let mut embedded = EmbeddedChannel::new(pipeline().handle(|_, _: BytesMut| {}));
        let channel = embedded.channel().clone();
        {
            let mut cx = Context::from_waker(Waker::noop());
            match separate {
                true => {
                    let mut sending = pin!(channel.write_from(source.separate()));
                    assert!(sending.as_mut().poll(&mut cx).is_pending());
                }
                false => {
                    let mut sending = pin!(channel.write_from(source));
                    assert!(sending.as_mut().poll(&mut cx).is_pending());
                }
            }
        }
        assert!(state.dropped.get());
        assert_eq!(embedded.run().is_open(), separate);
    }
}

#[test]
fn typed_messages_are_written_as_they_are_and_a_codec_sees_each_of_them() {
    /// Numbers become lines.
    struct Lines;
    impl Handler for Lines {
        type Read = BytesMut;
        type ReadOut = BytesMut;
        type Write = u32;
        type WriteOut = Outgoing;
        fn read(&mut self, cx: &mut StageContext<'_, Self>, bytes: BytesMut) {
            cx.fire_read(bytes);
        }
        fn write(&mut self, cx: &mut StageContext<'_, Self>, number: u32, done: WritePromise) {
            cx.write_with(format!("{number}\n"), done);
        }
    }
    let stages = pipeline().add(Lines).serve(|mut peer: Peer<BytesMut, u32>| async move {
        assert_eq!(peer.write_from(source::iter([1, 2])).await?, 2);
        peer.write_from(source::try_iter([Ok::<u32, io::Error>(3)])).await.map(drop)
    });
    assert_eq!(EmbeddedChannel::new(stages).run().outbound_bytes(), b"1\n2\n3\n");
}

#[test]
fn a_source_goes_on_although_others_have_filled_the_channel_without_a_flush() {
    let (source, _) = scripted([Give::Item("a"), Give::Item("b")]);
    let told = Told::default();
    let stages = pipeline().app(Begins { before: 1000, source: Some(source), told: told.clone() });
    let mut channel = EmbeddedChannel::with_settings(stages, narrow());
    assert_eq!(channel.run().outbound_bytes().len(), 1002);
    assert!(matches!(told.borrow_mut().as_mut().unwrap().try_take(), Some(Ok(2))));
}

/// Polls until it is done, with workers at work beside it.
fn finished<F: Future>(
    future: F,
    embedded: &mut EmbeddedChannel<std::convert::Infallible, Bytes>,
) -> F::Output {
    let (tell, told) = mpsc::channel();
    struct Tell(mpsc::Sender<()>);
    impl std::task::Wake for Tell {
        fn wake(self: std::sync::Arc<Self>) {
            let _ = self.0.send(());
        }
    }
    let waker = Waker::from(std::sync::Arc::new(Tell(tell)));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        embedded.run();
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        told.recv_timeout(Duration::from_secs(60)).expect("somebody calls");
    }
}

fn sink() -> EmbeddedChannel<std::convert::Infallible, Bytes> {
    EmbeddedChannel::new(pipeline().app(Takes))
}

struct Takes;

impl Application for Takes {
    type Read = BytesMut;
    type Write = Bytes;
    fn read(&mut self, _: &mut AppContext<'_, Self>, _: BytesMut) {}
}

#[test]
fn a_reader_is_read_to_its_end_in_pieces_of_whatever_size_it_gives() {
    /// One byte, then many, then one again, with an interruption that means nothing.
    struct Uneven(usize);
    impl Read for Uneven {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0 += 1;
            match self.0 {
                1 | 4 => {
                    buffer[0] = 7;
                    Ok(1)
                }
                2 => Err(io::ErrorKind::Interrupted.into()),
                3 => {
                    buffer.fill(7);
                    Ok(buffer.len())
                }
                5 => Ok(0),
                _ => panic!("asked behind its end"),
            }
        }
    }
    let workers = Workers::new(1).unwrap();
    let mut embedded = sink();
    let channel = embedded.channel().clone();
    let sent = finished(channel.write_from(source::reader(Uneven(0), &workers)), &mut embedded);
    assert!(matches!(sent, Ok(65538)), "{sent:?}");
    assert_eq!(embedded.outbound_bytes(), vec![7; 65538]);
}

#[test]
fn a_reader_that_fails_or_panics_is_a_typed_end_behind_what_it_gave() {
    struct Bad(usize, fn(&mut [u8]) -> io::Result<usize>);
    impl Read for Bad {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0 += 1;
            if self.0 == 1 { Ok(3) } else { (self.1)(buffer) }
        }
    }
    let workers = Workers::new(1).unwrap();
    let end = |how: fn(&mut [u8]) -> io::Result<usize>| {
        let mut embedded = sink();
        let channel = embedded.channel().clone();
        let sent = finished(
            async {
                let mut sending = pin!(channel.write_from(source::reader(Bad(0, how), &workers)));
                // The channel's end is told by its loop, which `finished` runs.
                std::future::poll_fn(|cx| sending.as_mut().poll(cx)).await
            },
            &mut embedded,
        );
        (sent, embedded.outbound_bytes().len())
    };
    let (sent, len) = end(|_| Err(io::Error::other("torn")));
    let Err(CloseCause::Fault(fault)) = sent else { panic!("{sent:?}") };
    assert!(matches!(fault.downcast_ref(), Some(SourceError::Read(error)) if error.to_string() == "torn"));
    assert_eq!(len, 3);
    let (sent, _) = end(|_| panic!("eaten"));
    let Err(CloseCause::Fault(fault)) = sent else { panic!("{sent:?}") };
    assert!(matches!(fault.downcast_ref(), Some(SourceError::Panicked(message)) if message == "eaten"));
}

#[test]
fn a_reader_that_says_more_than_it_was_given_room_for_is_refused_behind_what_it_gave() {
    struct Liar(usize);
    impl Read for Liar {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0 += 1;
            buffer.fill(1);
            Ok(if self.0 == 1 { buffer.len() } else { buffer.len() + 1 })
        }
    }
    let workers = Workers::new(1).unwrap();
    let mut embedded = sink();
    let channel = embedded.channel().clone();
    let sent = finished(channel.write_from(source::reader(Liar(0), &workers)), &mut embedded);
    let Err(CloseCause::Fault(fault)) = sent else { panic!("{sent:?}") };
    assert!(
        matches!(fault.downcast_ref(), Some(SourceError::Overrun { said: 65537, room: 65536 })),
        "{fault:?}"
    );
    assert_eq!(embedded.outbound_bytes(), vec![1; 65536]);
    assert!(!embedded.is_open());
}

#[test]
fn workers_that_take_nothing_more_are_a_typed_error_behind_what_was_read() {
    let workers = Workers::new(1).unwrap();
    workers.shutdown_gracefully(Duration::MAX);
    let mut embedded = sink();
    let channel = embedded.channel().clone();
    let sent = finished(channel.write_from(source::reader(io::repeat(1), &workers)), &mut embedded);
    let Err(CloseCause::Fault(fault)) = sent else { panic!("{sent:?}") };
    assert!(matches!(fault.downcast_ref(), Some(SourceError::Refused(RefusedWhy::ShutDown))), "{fault:?}");
}

#[test]
fn a_reader_reads_one_piece_ahead_and_no_more_and_is_dropped_with_its_channel() {
    struct Counting(mpsc::Sender<()>, mpsc::Sender<()>);
    impl Read for Counting {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.send(()).unwrap();
            Ok(buffer.len())
        }
    }
    impl Drop for Counting {
        fn drop(&mut self) {
            let _ = self.1.send(());
        }
    }
    let workers = Workers::new(1).unwrap();
    let ((read, reads), (drops, dropped)) = (mpsc::channel(), mpsc::channel());
    let mut embedded = sink();
    embedded.block_output(true);
    let channel = embedded.channel().clone();
    {
        let mut sending = Box::pin(channel.write_from(source::reader(Counting(read, drops), &workers)));
        let mut cx = Context::from_waker(Waker::noop());
        for expected in 1..=2 {
            assert!(sending.as_mut().poll(&mut cx).is_pending());
            embedded.run();
            reads.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| panic!("read {expected}"));
            // Whatever the worker does is over when its next task is.
            workers.submit(|| ()).unwrap().wait().unwrap();
        }
        for _ in 0..5 {
            assert!(sending.as_mut().poll(&mut cx).is_pending());
            embedded.run();
            workers.submit(|| ()).unwrap().wait().unwrap();
        }
        // One waits in the channel, one for room, one was read ahead.
        assert!(reads.try_iter().count() <= 1);
    }
    dropped.recv_timeout(Duration::from_secs(60)).expect("nobody wants it any more");
    assert!(!embedded.run().is_open(), "a part was written");
}
