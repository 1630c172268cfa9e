//! Whatever a stage of TLS, HTTP or WebSocket waits for, its channel ends when its connection does: the table of
//! `netwright_testkit::contract::ends`, with ways to wait that protocols add. A further way is a function and a line.

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("ignored: the contract is written for Linux");
}

#[cfg(target_os = "linux")]
fn main() {
    use libtest_mimic::{Arguments, Completion, Trial, run};
    use netwright_testkit::contract::{
        Need, Transport,
        ends::{End, check},
    };

    let mut trials = Vec::new();
    for &transport in Transport::ALL {
        for way in ways::ALL {
            for &end in End::ALL {
                if end.needs_reset() && transport.lacks(Need::Reset).is_some() {
                    continue;
                }
                let sentence = format!("whoever_waits_for_{}_is_gone_when_{}", way.name, end.name());
                trials.push(Trial::ignorable_test(format!("{}::{sentence}", transport.name()), move || {
                    Ok(match transport.missing() {
                        Some(why) => Completion::ignored_with(why),
                        None => {
                            check(transport, way, end);
                            Completion::Completed
                        }
                    })
                }));
            }
        }
    }
    let mut arguments = Arguments::from_args();
    // Some wait for a peer's last words until these are overdue, and not for the processor.
    arguments.test_threads.get_or_insert(16);
    run(&arguments, trials).exit();
}

#[cfg(target_os = "linux")]
mod ways {
    use bytes::{Bytes, BytesMut};
    use http::{Request, Response};
    use netwright::{
        AppContext, Application, CloseCause, Observer, Peer, Promised, Server,
        http::{
            Body, HttpPart, HttpServer, ReplyPart, RequestPart, http2::http2_server, respond, serve,
            web::Files,
        },
        pipeline,
        pipeline::{StageTimer, observe},
        server::BindError,
        time,
        tls::{Acceptor, Certificate, Tls, rustls},
        websocket::{Close, Config, Message, WebSocket},
    };
    use netwright_testkit::contract::ends::{Guard, SOON, ServerAt, Stream, Waiting, Watch};
    use std::{
        cell::Cell,
        io::{Read, Write},
        rc::Rc,
        sync::{Arc, LazyLock, OnceLock},
    };

    macro_rules! ways {
        ($($name:ident by $approach:ident)+) => {
            pub(crate) const ALL: &[Waiting] =
                &[$(Waiting { name: stringify!($name), serve: $name, approach: $approach }),+];
        };
    }

    ways! {
        a_handshake_of_tls by half_a_hello
        room_behind_tls by a_word_by_tls
        a_timer_behind_tls by words_by_tls
        a_file_to_be_taken_behind_tls by requests_by_tls
        room_behind_a_websocket by frames
        a_timer_behind_a_websocket by frames
        a_message_by_websocket by frames
        the_peers_close_of_a_websocket by frames
        the_rest_of_a_head by half_a_head
        the_rest_of_a_body by half_a_body
        somebody_to_read_a_body by half_a_body
        a_slow_service by requests
        a_body_that_is_made_slowly by requests
        room_for_a_body by requests
        room_for_replies by requests
        the_rest_of_a_greeting_by_http2 by half_a_greeting
        the_rest_of_a_frame_by_http2 by half_a_frame
        the_rest_of_a_body_by_http2 by a_stream_and_half_a_body
        somebody_to_read_a_body_by_http2 by a_stream_and_half_a_body
        a_slow_service_by_http2 by three_streams
        a_body_that_is_made_slowly_by_http2 by three_streams
        room_for_bodies_by_http2 by three_streams
        room_for_replies_by_http2 by three_streams
    }

    type Bound = Promised<Server, BindError>;

    /// More than is taken of anybody who does not read.
    fn much() -> Bytes {
        Bytes::from(vec![b'!'; 8 << 20])
    }

    /// Tells once that its channel waits.
    struct Waits {
        watch: Watch,
        said: bool,
        _guard: Guard,
    }

    impl Waits {
        fn new(watch: &Watch) -> Self {
            Self { watch: watch.clone(), said: false, _guard: watch.guard() }
        }
        fn here(&mut self) {
            if !std::mem::replace(&mut self.said, true) {
                self.watch.waits();
            }
        }
    }

    // ---- TLS ----

    fn certificate() -> &'static Certificate {
        static CERTIFICATE: OnceLock<Certificate> = OnceLock::new();
        CERTIFICATE.get_or_init(|| Certificate::self_signed(["localhost"]).unwrap())
    }

    fn half_a_hello(peer: &mut dyn Stream) {
        peer.write_all(&[0x16, 3, 1, 2, 0, 1, 0]).unwrap();
    }

    fn a_handshake_of_tls(place: ServerAt) -> Bound {
        let (watch, acceptor) = (place.watch, Acceptor::new(certificate()).unwrap());
        place
            .builder
            .pipeline(move |_| {
                let (tls, guard) = (Tls::server(&acceptor), watch.guard());
                watch.waits(); // there is nothing else to come before the handshake
                pipeline().add(watch.stage()).add(tls).handle(move |_, _| _ = &guard)
            })
            .bind(place.at)
    }

    /// A handshake by a blocking client, then these words, each a record of its own.
    fn speak_tls(peer: &mut dyn Stream, words: &[&[u8]]) {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate().chain()[0].clone()).unwrap();
        let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let name = "localhost".try_into().unwrap();
        let mut session = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
        while session.is_handshaking() {
            session.complete_io(&mut Both(peer)).unwrap();
        }
        for word in words {
            session.writer().write_all(word).unwrap();
            while session.wants_write() {
                session.write_tls(&mut Both(peer)).unwrap();
            }
        }
    }

    /// What a trait object cannot be passed for by itself.
    struct Both<'a>(&'a mut dyn Stream);

    impl Read for Both<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.0.read(buffer)
        }
    }

    impl Write for Both<'_> {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            self.0.flush()
        }
    }

    fn a_word_by_tls(peer: &mut dyn Stream) {
        speak_tls(peer, &[b"hello"]);
    }

    fn words_by_tls(peer: &mut dyn Stream) {
        speak_tls(peer, &[b"1", b"2", b"3"]);
    }

    fn room_behind_tls(place: ServerAt) -> Bound {
        async fn answers(mut peer: Peer, mut waits: Waits) -> Result<(), CloseCause> {
            while peer.read().await?.is_some() {
                peer.write(much()).await?;
                waits.here();
                peer.write(much()).await?;
            }
            Ok(())
        }
        let (watch, acceptor) = (place.watch, Acceptor::new(certificate()).unwrap());
        place
            .builder
            .pipeline(move |_| {
                let (tls, waits) = (Tls::server(&acceptor), Waits::new(&watch));
                pipeline().add(watch.stage()).add(tls).serve(move |peer| answers(peer, waits))
            })
            .bind(place.at)
    }

    /// Pauses with each message for a while.
    struct Slow<M, W>(Waits, std::marker::PhantomData<fn(M, W)>);

    impl<M: 'static, W: 'static> Slow<M, W> {
        fn new(watch: &Watch) -> Self {
            Self(Waits::new(watch), std::marker::PhantomData)
        }
    }

    impl<M: 'static, W: 'static> Application for Slow<M, W> {
        type Read = M;
        type Write = W;
        fn read(&mut self, cx: &mut AppContext<'_, Self>, _: M) {
            cx.pause();
            cx.arm(SOON);
            self.0.here();
        }
        fn timer(&mut self, cx: &mut AppContext<'_, Self>, _: StageTimer) {
            cx.resume();
        }
    }

    fn a_timer_behind_tls(place: ServerAt) -> Bound {
        let (watch, acceptor) = (place.watch, Acceptor::new(certificate()).unwrap());
        place
            .builder
            .pipeline(move |_| {
                let tls = Tls::server(&acceptor);
                pipeline().add(watch.stage()).add(tls).app(Slow::<BytesMut, Bytes>::new(&watch))
            })
            .bind(place.at)
    }

    fn requests_by_tls(peer: &mut dyn Stream) {
        speak_tls(peer, &[b"GET /much HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3).as_slice()]);
    }

    /// Tells when a file is on its way, behind which nothing is read before it is sent.
    struct SeesFiles(Waits);

    impl Observer for SeesFiles {
        type Read = RequestPart;
        type Write = ReplyPart;
        fn sees_write(&mut self, part: &ReplyPart) {
            if matches!(part, HttpPart::File(_)) {
                self.0.here();
            }
        }
    }

    fn a_file_to_be_taken_behind_tls(place: ServerAt) -> Bound {
        static FILES: LazyLock<Files> = LazyLock::new(|| {
            let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("ends");
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join("much"), much()).unwrap();
            Files::below(&directory).unwrap()
        });
        let (watch, acceptor) = (place.watch, Acceptor::new(certificate()).unwrap());
        place
            .builder
            .pipeline(move |_| {
                let front = pipeline().add(watch.stage()).add(Tls::server(&acceptor));
                let sees = observe(SeesFiles(Waits::new(&watch)));
                front.add(HttpServer::new()).add(sees).app(FILES.server())
            })
            .bind(place.at)
    }

    // ---- WebSocket ----

    /// Three messages of one letter, with a mask of zeros.
    fn frames(peer: &mut dyn Stream) {
        for letter in *b"123" {
            peer.write_all(&[0x81, 0x81, 0, 0, 0, 0, letter]).unwrap();
        }
    }

    fn socket() -> WebSocket {
        WebSocket::server(Config::default())
    }

    fn room_behind_a_websocket(place: ServerAt) -> Bound {
        async fn answers(mut peer: Peer<Message, Message>, mut waits: Waits) -> Result<(), CloseCause> {
            while peer.read().await?.is_some() {
                peer.write(Message::Binary(much())).await?;
                waits.here();
            }
            Ok(())
        }
        let watch = place.watch;
        place
            .builder
            .pipeline(move |_| {
                let waits = Waits::new(&watch);
                let stages = pipeline().add(watch.stage()).add(socket());
                stages.serve(move |peer| answers(peer, waits))
            })
            .bind(place.at)
    }

    fn a_timer_behind_a_websocket(place: ServerAt) -> Bound {
        let watch = place.watch;
        place
            .builder
            .pipeline(move |_| pipeline().add(watch.stage()).add(socket()).app(Slow::new(&watch)))
            .bind(place.at)
    }

    fn a_message_by_websocket(place: ServerAt) -> Bound {
        async fn reads(mut peer: Peer<Message, Message>, mut waits: Waits) -> Result<(), CloseCause> {
            for _ in 0..3 {
                peer.read().await?;
            }
            waits.here();
            while peer.read().await?.is_some() {}
            Ok(())
        }
        let watch = place.watch;
        place
            .builder
            .pipeline(move |_| {
                let waits = Waits::new(&watch);
                let stages = pipeline().add(watch.stage()).add(socket());
                stages.serve(move |peer| reads(peer, waits))
            })
            .bind(place.at)
    }

    fn the_peers_close_of_a_websocket(place: ServerAt) -> Bound {
        let watch = place.watch;
        place
            .builder
            .pipeline(move |_| {
                let mut waits = Waits::new(&watch);
                let stages = pipeline().add(watch.stage()).add(socket());
                stages.handle(move |cx, _| {
                    cx.write_and_flush(Message::Close(Close::default()));
                    waits.here();
                })
            })
            .bind(place.at)
    }

    // ---- HTTP ----

    fn half_a_head(peer: &mut dyn Stream) {
        peer.write_all(b"GET / HTTP/1.1\r\nHost: exa").unwrap();
    }

    fn half_a_body(peer: &mut dyn Stream) {
        peer.write_all(b"POST / HTTP/1.1\r\nHost: example\r\nContent-Length: 10\r\n\r\nhalf").unwrap();
    }

    fn requests(peer: &mut dyn Stream) {
        for _ in 0..3 {
            peer.write_all(b"GET / HTTP/1.1\r\nHost: example\r\n\r\n").unwrap();
        }
    }

    fn the_rest_of_a_head(place: ServerAt) -> Bound {
        let watch = place.watch;
        place
            .builder
            .pipeline(move |_| {
                let guard = watch.guard();
                watch.waits();
                let stages = pipeline().add(watch.stage()).add(HttpServer::new());
                stages.app(respond(move |_| {
                    let _ = &guard;
                    Response::new("")
                }))
            })
            .bind(place.at)
    }

    fn serves<T>(place: ServerAt, answer: fn(Request<Body>, Guard) -> T) -> Bound
    where
        T: Future<Output = Response<Body>> + 'static,
    {
        let watch = place.watch;
        place
            .builder
            .pipeline(move |_| {
                let (watch, mut said) = (watch.clone(), false);
                let stages = pipeline().add(watch.stage()).add(HttpServer::new());
                stages.app(serve(move |request| {
                    if !std::mem::replace(&mut said, true) {
                        watch.waits();
                    }
                    answer(request, watch.guard())
                }))
            })
            .bind(place.at)
    }

    // ---- what both versions answer with ----

    async fn reads(request: Request<Body>, guard: Guard) -> Response<Body> {
        let _guard = guard;
        let _ = request.into_body().collect(100).await;
        Response::new(Body::empty())
    }

    /// The body that was begun is read by nobody for a while.
    async fn reads_later(request: Request<Body>, guard: Guard) -> Response<Body> {
        time::sleep(SOON).await;
        reads(request, guard).await
    }

    async fn takes_its_time(_: Request<Body>, guard: Guard) -> Response<Body> {
        let _guard = guard;
        time::sleep(SOON).await;
        Response::new(Body::from("late"))
    }

    /// Its maker never comes to an end.
    async fn makes_slowly(_: Request<Body>, guard: Guard) -> Response<Body> {
        let (mut sender, body) = Body::channel();
        let making = async move {
            let _guard = guard;
            while sender.send("again ").await.is_ok() {
                time::sleep(SOON).await;
            }
        };
        drop(netwright::EventLoop::current().unwrap().spawn_local(making));
        Response::new(body)
    }

    async fn makes_much(_: Request<Body>, guard: Guard) -> Response<Body> {
        let (mut sender, body) = Body::channel();
        let making = async move {
            let _guard = guard;
            while sender.send(much()).await.is_ok() {}
        };
        drop(netwright::EventLoop::current().unwrap().spawn_local(making));
        Response::new(body)
    }

    async fn says_much(_: Request<Body>, guard: Guard) -> Response<Body> {
        let _guard = guard;
        Response::new(Body::from(much()))
    }

    fn the_rest_of_a_body(place: ServerAt) -> Bound {
        serves(place, reads)
    }

    fn somebody_to_read_a_body(place: ServerAt) -> Bound {
        serves(place, reads_later)
    }

    fn a_slow_service(place: ServerAt) -> Bound {
        serves(place, takes_its_time)
    }

    fn a_body_that_is_made_slowly(place: ServerAt) -> Bound {
        serves(place, makes_slowly)
    }

    fn room_for_a_body(place: ServerAt) -> Bound {
        serves(place, makes_much)
    }

    fn room_for_replies(place: ServerAt) -> Bound {
        serves(place, says_much)
    }

    // ---- HTTP/2 ----

    /// What clients say first: windows of a gibibyte, and that our settings are known.
    const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\
        \0\0\x06\x04\0\0\0\0\0\0\x04\x40\0\0\0\0\0\0\x04\x01\0\0\0\0\0\0\x04\x08\0\0\0\0\0\x40\0\0\0";

    fn half_a_greeting(peer: &mut dyn Stream) {
        peer.write_all(&GREETING[..30]).unwrap();
    }

    fn half_a_frame(peer: &mut dyn Stream) {
        peer.write_all(&[GREETING, b"\0\0\x06\x01\x05\0\0\0\x01\x82"].concat()).unwrap();
    }

    fn a_stream_and_half_a_body(peer: &mut dyn Stream) {
        let head = b"\0\0\x06\x01\x04\0\0\0\x01\x83\x86\x84\x01\x01a";
        peer.write_all(&[GREETING, head, b"\0\0\x05\0\0\0\0\0\x01hello"].concat()).unwrap();
    }

    fn three_streams(peer: &mut dyn Stream) {
        peer.write_all(GREETING).unwrap();
        for stream in [1, 3, 5] {
            let head = [0, 0, 6, 1, 5, 0, 0, 0, stream, 0x82, 0x86, 0x84, 0x01, 0x01, b'a'];
            peer.write_all(&head).unwrap();
        }
    }

    fn serves_streams<T>(place: ServerAt, at_once: bool, answer: fn(Request<Body>, Guard) -> T) -> Bound
    where
        T: Future<Output = Response<Body>> + 'static,
    {
        let watch = place.watch;
        place
            .builder
            .pipeline(move |_| {
                let (watch, said, stage) = (watch.clone(), Rc::new(Cell::new(at_once)), watch.stage());
                if at_once {
                    watch.waits();
                }
                let guard = watch.guard();
                let build = move || {
                    let (watch, said, _) = (watch.clone(), said.clone(), &guard);
                    pipeline().app(serve(move |request| {
                        if !said.replace(true) {
                            watch.waits();
                        }
                        answer(request, watch.guard())
                    }))
                };
                pipeline().add(stage).last(http2_server(build))
            })
            .bind(place.at)
    }

    fn the_rest_of_a_greeting_by_http2(place: ServerAt) -> Bound {
        serves_streams(place, true, reads)
    }

    fn the_rest_of_a_frame_by_http2(place: ServerAt) -> Bound {
        serves_streams(place, true, reads)
    }

    fn the_rest_of_a_body_by_http2(place: ServerAt) -> Bound {
        serves_streams(place, false, reads)
    }

    fn somebody_to_read_a_body_by_http2(place: ServerAt) -> Bound {
        serves_streams(place, false, reads_later)
    }

    fn a_slow_service_by_http2(place: ServerAt) -> Bound {
        serves_streams(place, false, takes_its_time)
    }

    fn a_body_that_is_made_slowly_by_http2(place: ServerAt) -> Bound {
        serves_streams(place, false, makes_slowly)
    }

    fn room_for_bodies_by_http2(place: ServerAt) -> Bound {
        serves_streams(place, false, makes_much)
    }

    fn room_for_replies_by_http2(place: ServerAt) -> Bound {
        serves_streams(place, false, says_much)
    }
}
