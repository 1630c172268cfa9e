//! Async tails over real connections: what they may do wrong, and what becomes of it.
//!
//! | a tail that | its outcome |
//! | --- | --- |
//! | never reads | the system stops its peer; it ends with the server's deadline, or when an idle peer goes |
//! | never waits for its writes | all of it is sent, in order; what waits is what it wrote, and others are not held up |
//! | panics | its channel closes with the message |
//! | blocks its thread | the loop's longest task is at least that long, of kind I/O |
//! | leaks its halves | the channel ends with the tail; the halves say why |
//! | has a stage on workers that have gone | its channel closes with the reason |

use super::{
    Behaviour, Need, ON_PURPOSE, Setup, behaviour,
    support::{Echo, PATIENCE, Running, Soon, expect, expect_end, pattern, reset, round_trip, wait_until},
};
use bytes::{Bytes, BytesMut};
use netwright_core::{
    AppContext, Application, Channel, CloseCause, Context, Event, Handler, LocalLoop, Observer, OnWorker,
    Outgoing, Peer, PromiseError, TaskKind, Workers, WriteError, WritePromise, Written, observe, pipeline,
    promise,
};
use netwright_transport::StreamOptions;
use std::{
    cell::OnceCell,
    future::pending,
    io::{ErrorKind, Write},
    mem,
    rc::Rc,
    sync::{
        Mutex,
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::{Duration, Instant},
};

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    behaviour!(an_async_tail_echoes_byte_for_byte_at_the_peers_pace),
    behaviour!(a_client_may_have_an_async_tail).in_one_model(),
    behaviour!(a_half_closed_peer_gets_the_answer_of_a_tail_that_was_not_reading).needs(&[Need::HalfClosure]),
    behaviour!(a_tail_that_never_reads_stops_its_peer_by_the_system_and_not_by_our_memory),
    behaviour!(a_tail_that_never_reads_ends_with_an_idle_peer),
    behaviour!(a_tail_that_never_waits_for_its_writes_has_them_all_sent_in_order),
    behaviour!(what_a_handle_wrote_before_it_woke_a_tail_is_sent_before_the_end_of_that_closes_the_channel),
    behaviour!(a_tail_that_gives_up_waiting_for_its_write_has_written_it_or_not_at_all),
    behaviour!(a_tail_that_panics_costs_its_own_channel_and_nothing_else),
    behaviour!(a_tail_that_blocks_its_thread_is_the_loops_longest_task),
    behaviour!(a_tail_that_leaks_its_halves_ends_its_channel_all_the_same),
    behaviour!(a_tail_that_forgets_its_peer_ends_its_channel_all_the_same),
    behaviour!(workers_that_die_under_a_stage_close_its_channel_with_the_reason),
    behaviour!(a_reset_drops_the_tail_with_that_cause).needs(&[Need::Reset]),
    behaviour!(a_graceful_shutdown_waits_for_tails_that_finish_early),
    behaviour!(a_graceful_shutdown_cuts_the_tails_that_do_not_end_and_counts_them),
];

type Bare = Peer;

async fn echo(mut peer: Bare) -> Result<(), CloseCause> {
    while let Some(bytes) = peer.read().await? {
        peer.write(bytes.freeze()).await?;
    }
    Ok(())
}

/// What tails tell: each one as it begins, and what else there is to say.
struct Told<T> {
    tell: Sender<T>,
    told: Mutex<Receiver<T>>,
}

fn telling<T>() -> Told<T> {
    let (tell, told) = mpsc::channel();
    Told { tell, told: Mutex::new(told) }
}

impl<T> Told<T> {
    #[track_caller]
    fn next(&self) -> T {
        self.told.lock().unwrap().recv_timeout(PATIENCE).expect("the tail says something in time")
    }
}

/// Tells when it is dropped.
struct OnDrop(Sender<&'static str>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        let _ = self.0.send("dropped");
    }
}

fn an_async_tail_echoes_byte_for_byte_at_the_peers_pace(setup: Setup) {
    const LEN: usize = 4 << 20;
    let begun = telling();
    let tell = begun.tell.clone();
    let tail = move |peer: Bare| {
        tell.send(peer.channel()).unwrap();
        echo(peer)
    };
    let options = StreamOptions::new().send_buffer_size(16 * 1024);
    let running = setup.serve_tail_with(tail, |builder| builder.options(options));
    let mut stream = running.dial_narrow();
    let channel: Channel = begun.next();
    let mut writer = stream.try_clone().unwrap();
    let sender = thread::spawn(move || writer.write_all(&pattern(LEN)).unwrap());
    wait_until(|| !channel.is_writable(), || "the channel to be full".to_owned());
    running.settle();
    expect(&mut stream, &pattern(LEN));
    sender.join().unwrap();
    drop(stream);
    let cause = channel.closed().soon();
    assert!(matches!(cause, CloseCause::PeerClosed), "{cause}");
    running.wait_for_open(0);
    running.assert_quiet();
}

fn a_client_may_have_an_async_tail(setup: Setup) {
    let running = setup.echo();
    let answers = telling();
    let tell = answers.tell.clone();
    let client = setup
        .client_builder()
        .pipeline(move || {
            let tell = tell.clone();
            pipeline().serve(move |mut peer: Bare| async move {
                for question in ["one", "two"] {
                    peer.send(question).await?;
                    tell.send(peer.read().await?).unwrap();
                }
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
            })
        })
        .unwrap();
    let channel = client.connect(running.address()).soon().unwrap();
    assert_eq!(answers.next().unwrap(), "one");
    assert_eq!(answers.next().unwrap(), "two");
    assert!(matches!(channel.closed().soon(), CloseCause::Requested), "its tail has ended");
    running.wait_for_open(0);
}

fn a_half_closed_peer_gets_the_answer_of_a_tail_that_was_not_reading(setup: Setup) {
    let said = telling();
    let tell = said.tell.clone();
    let tail = move |mut peer: Bare| {
        let tell = tell.clone();
        async move {
            let question = peer.read().await?.unwrap_or_default();
            let (answer, answered) = promise::<Bytes, PromiseError>();
            tell.send(answer).unwrap();
            let answer = answered.await?;
            peer.write(question.freeze()).await?;
            peer.write(answer).await?;
            assert!(peer.read().await?.is_none());
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
        }
    };
    let running = setup.serve_tail(tail);
    let mut stream = running.dial();
    stream.write_all(b"question, ").unwrap();
    stream.shut_down().unwrap();
    let answer = said.next();
    running.settle();
    assert_eq!(running.server.figures().open, 1);
    running.assert_quiet();
    answer.succeed("answer".into());
    expect(&mut stream, b"question, answer");
    expect_end(&mut stream);
}

fn a_tail_that_never_reads_stops_its_peer_by_the_system_and_not_by_our_memory(setup: Setup) {
    let said = telling();
    let tell = said.tell.clone();
    let running = setup.serve_tail(move |peer: Bare| {
        let guard = OnDrop(tell.clone());
        async move {
            let _guard = (guard, peer);
            pending::<()>().await;
        }
    });
    let mut stream = running.dial();
    stream.set_nonblocking(true);
    let (piece, mut sent) = (vec![7; 64 * 1024], 0);
    let full = loop {
        match stream.write(&piece) {
            Ok(len) => sent += len,
            Err(error) => break error,
        }
        assert!(sent < 1 << 30, "a gigabyte was taken by a tail that does not read");
    };
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    running.assert_quiet();
    running.wait_for_open(1);
    let cut = running.server.drain(Duration::ZERO).soon().unwrap().cut;
    assert_eq!((cut, said.next()), (1, "dropped"));
    running.wait_for_open(0);
}

fn a_tail_that_never_reads_ends_with_an_idle_peer(setup: Setup) {
    let said = telling();
    let tell = said.tell.clone();
    let running = setup.serve_tail(move |peer: Bare| {
        tell.send("begun").unwrap();
        let guard = OnDrop(tell.clone());
        async move {
            let _guard = (guard, peer);
            pending::<()>().await;
        }
    });
    let stream = running.dial();
    assert_eq!(said.next(), "begun");
    drop(stream);
    assert_eq!(said.next(), "dropped");
    running.wait_for_open(0);
    running.assert_quiet();
}

fn a_tail_that_never_waits_for_its_writes_has_them_all_sent_in_order(setup: Setup) {
    const PIECES: usize = 2000;
    const PIECE: usize = 4096;
    let begun = telling();
    let tell = begun.tell.clone();
    let running = setup.serve_tail(move |peer: Bare| {
        let tell = tell.clone();
        async move {
            let (mut reader, mut writer) = peer.split();
            let data = Bytes::from(pattern(PIECES * PIECE));
            for at in 0..PIECES {
                writer.write_now(data.slice(at * PIECE..(at + 1) * PIECE));
            }
            tell.send(writer.channel()).unwrap();
            reader.read().await.map(drop)
        }
    });
    // The one does not read yet, and its neighbours are served meanwhile.
    let mut late = running.dial_narrow();
    let channel: Channel = begun.next();
    wait_until(|| !channel.is_writable(), || "the channel to be full".to_owned());
    let mut other = running.dial();
    expect(&mut other, &pattern(PIECES * PIECE));
    running.assert_quiet();
    expect(&mut late, &pattern(PIECES * PIECE));
    wait_until(|| channel.is_writable(), || "room".to_owned());
}

/// Uses handles while the loop carries out what handles asked for, which is when another thread may be as well.
struct Meanwhile<F>(Option<F>);

impl<F: FnOnce() + 'static> Handler for Meanwhile<F> {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    type WriteOut = Outgoing;
    fn read(&mut self, cx: &mut Context<'_, Self>, msg: BytesMut) {
        cx.fire_read(msg);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, msg: Outgoing, done: WritePromise) {
        cx.write_with(msg, done);
    }
    fn event(&mut self, cx: &mut Context<'_, Self>, event: Event) {
        match self.0.take() {
            Some(call) => call(),
            None => cx.fire_event(event),
        }
    }
}

fn what_a_handle_wrote_before_it_woke_a_tail_is_sent_before_the_end_of_that_closes_the_channel(setup: Setup) {
    let begun = telling();
    let tell = begun.tell.clone();
    let (builder, _loops) = setup.server();
    let mut bound = builder
        .pipeline(move |_| {
            let (tell, own) = (tell.clone(), Rc::new(OnceCell::<Channel>::new()));
            let (done, told) = promise::<(), PromiseError>();
            let handle = own.clone();
            let meanwhile = Meanwhile(Some(move || {
                handle.get().unwrap().write_and_flush("written before");
                done.succeed(());
            }));
            pipeline().add(meanwhile).serve(move |peer: Bare| async move {
                own.set(peer.channel()).unwrap();
                tell.send(peer.channel()).unwrap();
                told.await
            })
        })
        .bind(setup.listen_at());
    let server = bound.soon().unwrap();
    let mut stream = setup.dial(server.address());
    begun.next().fire_event(Event::new("go on"));
    expect(&mut stream, b"written before");
    expect_end(&mut stream);
}

fn a_tail_that_gives_up_waiting_for_its_write_has_written_it_or_not_at_all(setup: Setup) {
    let running = setup.serve_tail(|mut peer: Bare| async move {
        drop(peer.write("never begun, "));
        let mut sending = Box::pin(peer.send("begun, "));
        let first =
            std::future::poll_fn(|cx| std::task::Poll::Ready(sending.as_mut().poll(cx).is_ready())).await;
        assert!(!first, "the stage has not seen it yet");
        drop(sending);
        peer.write("waited for").await?;
        peer.read().await.map(drop)
    });
    let mut stream = running.dial();
    expect(&mut stream, b"begun, waited for");
}

fn a_tail_that_panics_costs_its_own_channel_and_nothing_else(setup: Setup) {
    /// Panics when it is dropped.
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped {ON_PURPOSE}");
        }
    }
    for at in ["making", "first poll", "read", "local task's wake-up", "drop"] {
        let begun = telling();
        let tell = begun.tell.clone();
        let running = setup.serve_tail(move |mut peer: Bare| {
            tell.send(peer.channel()).unwrap();
            assert_ne!(at, "making", "made {ON_PURPOSE}");
            async move {
                assert_ne!(at, "first poll", "polled {ON_PURPOSE}");
                let _bomb = (at == "drop").then_some(Bomb);
                let read = peer.read().await;
                assert_ne!(at, "read", "{ON_PURPOSE}");
                if at == "local task's wake-up" {
                    netwright_core::time::sleep(Duration::from_millis(1)).await;
                    panic!("woken {ON_PURPOSE}");
                }
                read.map(drop)
            }
        });
        let neighbours = running.loops.hosts.host(setup.bare_server());
        let neighbours =
            neighbours.pipeline(|_| pipeline().app(Echo)).bind(setup.listen_at()).soon().unwrap();
        let mut live: Vec<_> = (0..4).map(|_| setup.dial(neighbours.address())).collect();
        live.iter_mut().for_each(|stream| round_trip(stream, b"before"));

        let mut stream = running.dial();
        let channel: Channel = begun.next();
        let _ = stream.write_all(b"go"); // it may be over already
        let cause = channel.closed().soon();
        assert!(
            matches!(&cause, CloseCause::Panicked(message) if message.contains(ON_PURPOSE)),
            "{at}: {cause}"
        );
        let late = channel.send("late").soon();
        assert!(matches!(late, Err(WriteError::Closed(_))), "{at}: {late:?}");
        live.iter_mut().for_each(|stream| round_trip(stream, b"after"));
        running.wait_for_open(0);
        running.assert_quiet();
        for event_loop in running.loops.all() {
            assert_eq!(event_loop.figures().panics, 0, "{at}: the panic stayed in its channel");
        }
    }
}

fn a_tail_that_blocks_its_thread_is_the_loops_longest_task(setup: Setup) {
    const BLOCKED: Duration = Duration::from_millis(20);
    let running = setup.serve_tail(move |mut peer: Bare| async move {
        while let Some(bytes) = peer.read().await? {
            let begun = Instant::now();
            while bytes.starts_with(b"block") && begun.elapsed() < BLOCKED {
                std::hint::spin_loop(); // what nobody should do on a loop
            }
            peer.write(bytes.freeze()).await?;
        }
        Ok::<_, CloseCause>(())
    });
    let mut stream = running.dial();
    round_trip(&mut stream, b"hello");
    round_trip(&mut stream, b"block");
    let longest = || {
        let tasks = running.loops.hosts.loops().into_iter().filter_map(|l| l.figures().longest_task);
        tasks.max_by_key(|task| task.time)
    };
    wait_until(
        || longest().is_some_and(|task| task.time >= BLOCKED),
        || format!("a task of {BLOCKED:?}; the longest is {:?}", longest()),
    );
    assert_eq!(longest().unwrap().kind, TaskKind::Io);
}

fn a_tail_that_leaks_its_halves_ends_its_channel_all_the_same(setup: Setup) {
    let said = telling();
    let tell = said.tell.clone();
    let running = setup.serve_tail(move |peer: Bare| {
        let tell = tell.clone();
        async move {
            let channel = peer.channel();
            let (mut reader, mut writer) = peer.split();
            writer.write_now("from the tail, ");
            let local = LocalLoop::current().expect("a tail runs on a loop");
            let elsewhere = local.spawn(async move {
                // Reading through a leaked half ends with the channel, and so does writing.
                let cause = writer.closed().await;
                let read = reader.read().await;
                let ready = writer.write("too late").await;
                let mut late: Written = writer.write_now_tracked("too late");
                writer.flush();
                let late = late.try_take();
                tell.send((channel, cause, read, ready, late)).unwrap();
            });
            drop(elsewhere); // it goes on
        }
    });
    let mut stream = running.dial();
    expect(&mut stream, b"from the tail, ");
    expect_end(&mut stream);
    let (channel, cause, read, ready, late) = said.next();
    assert!(matches!(cause, CloseCause::Requested), "{cause}");
    assert!(matches!(channel.closed().soon(), CloseCause::Requested));
    assert!(matches!(read, Err(CloseCause::Requested)), "{read:?}");
    assert!(matches!(ready, Err(CloseCause::Requested)), "{ready:?}");
    assert!(matches!(late, Some(Err(WriteError::Abandoned | WriteError::Closed(_)))), "{late:?}");
    drop(stream);
    running.wait_for_open(0);
    running.assert_quiet();
}

fn a_tail_that_forgets_its_peer_ends_its_channel_all_the_same(setup: Setup) {
    let running = setup.serve_tail(|peer: Bare| async move { mem::forget(peer) });
    let mut stream = running.dial();
    expect_end(&mut stream);
    drop(stream);
    running.wait_for_open(0);
    running.assert_quiet();
}

/// Tells why its channel ended.
struct TellsEnd(Sender<String>);

impl Observer for TellsEnd {
    type Read = BytesMut;
    type Write = Outgoing;

    fn sees_inactive(&mut self, cause: &CloseCause) {
        self.0.send(cause.to_string()).unwrap();
    }
}

/// Sends everything back, from a worker.
struct Elsewhere;

impl Application<OnWorker> for Elsewhere {
    type Read = BytesMut;
    type Write = Outgoing;

    fn read(&mut self, cx: &mut AppContext<'_, Self, OnWorker>, bytes: BytesMut) {
        cx.write_and_flush(bytes.freeze());
    }
}

fn workers_that_die_under_a_stage_close_its_channel_with_the_reason(setup: Setup) {
    let workers = Workers::new(1).unwrap();
    let (builder, loops) = setup.server();
    let stage_on = workers.clone();
    let ends = telling();
    let tell = ends.tell.clone();
    let mut bound = builder
        .pipeline(move |_| pipeline().add(observe(TellsEnd(tell.clone()))).app_on(&stage_on, Elsewhere))
        .bind(setup.listen_at());
    let running = Running { setup, server: bound.soon().unwrap(), loops };
    let mut stream = running.dial();
    round_trip(&mut stream, b"alive");
    workers.shutdown_gracefully(Duration::MAX).soon().unwrap();
    let _ = stream.write_all(b"dead"); // it may be closed already
    let cause = ends.next();
    assert!(cause.contains("the workers refused"), "{cause}");
    running.wait_for_open(0);
    running.assert_quiet();
}

fn a_reset_drops_the_tail_with_that_cause(setup: Setup) {
    let said = telling();
    let tell = said.tell.clone();
    let running = setup.serve_tail(move |mut peer: Bare| {
        let tell = tell.clone();
        async move {
            tell.send(None).unwrap();
            let error = peer.read().await.unwrap_err();
            tell.send(Some(error)).unwrap();
        }
    });
    let stream = running.dial();
    assert!(said.next().is_none());
    reset(stream);
    let cause = said.next().unwrap();
    assert!(matches!(&cause, CloseCause::Io(error) if error.kind() == ErrorKind::ConnectionReset), "{cause}");
    running.wait_for_open(0);
}

fn a_graceful_shutdown_waits_for_tails_that_finish_early(setup: Setup) {
    let begun = telling();
    let tell = begun.tell.clone();
    let running = setup.serve_tail(move |mut peer: Bare| {
        let tell = tell.clone();
        async move {
            tell.send(()).unwrap();
            peer.shutting_down().await;
            peer.write("one more question? ").await?;
            peer.flush();
            let answer = peer.read().await?.unwrap_or_default();
            peer.write(answer.freeze()).await
        }
    });
    let mut streams: Vec<_> = (0..3).map(|_| running.dial()).collect();
    streams.iter().for_each(|_| begun.next());
    let mut shutdown = running.server.drain(PATIENCE);
    for stream in &mut streams {
        expect(stream, b"one more question? ");
    }
    assert!(!shutdown.is_done(), "three tails have not finished");
    for stream in &mut streams {
        round_trip(stream, b"no");
        expect_end(stream);
    }
    assert_eq!(shutdown.soon().unwrap().cut, 0);
}

fn a_graceful_shutdown_cuts_the_tails_that_do_not_end_and_counts_them(setup: Setup) {
    let said = telling();
    let tell = said.tell.clone();
    let running = setup.serve_tail(move |peer: Bare| {
        tell.send("begun").unwrap();
        let (tell, guard) = (tell.clone(), OnDrop(tell.clone()));
        async move {
            let _guard = guard;
            peer.shutting_down().await;
            tell.send("deaf").unwrap();
            pending::<()>().await;
        }
    });
    let mut streams: Vec<_> = (0..3).map(|_| running.dial()).collect();
    streams.iter().for_each(|_| assert_eq!(said.next(), "begun"));
    let cut = running.server.drain(Duration::from_millis(30)).soon().unwrap().cut;
    assert_eq!(cut, 3);
    let mut words: Vec<_> = (0..6).map(|_| said.next()).collect();
    words.sort_unstable();
    assert_eq!(words, ["deaf", "deaf", "deaf", "dropped", "dropped", "dropped"]);
    for stream in &mut streams {
        expect_end(stream);
    }
    running.wait_for_open(0);
}
