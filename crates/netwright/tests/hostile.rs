//! Servers of every kind under attack by hostile clients: honest ones are served meanwhile, every connection ends by itself, and
//! nothing panics. What the attackers do is drawn from a seed (`netwright_testkit::hostile::client`).
//!
//! `NETWRIGHT_HOSTILE_SEEDS=200` attacks with so many seeds instead of the usual few; `NETWRIGHT_SEED=17` with that one alone.

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("ignored: what sockets keep is the system's affair, and this is written for Linux");
}

#[cfg(target_os = "linux")]
fn main() {
    use libtest_mimic::{Arguments, Completion, Trial, run};

    panics::listen();
    let mut arguments = Arguments::from_args();
    // They wait for deadlines, and not for the processor.
    arguments.test_threads.get_or_insert(16);
    let mut trials = Vec::new();
    for (backend, loops) in siege::BACKENDS {
        for (application, serve) in siege::APPLICATIONS {
            for secure in [false, true] {
                let over = if secure { "tls" } else { "plain" };
                let name = format!("{loops}::{application}::{over}");
                trials.push(Trial::ignorable_test(name.clone(), move || {
                    Ok(match siege::missing(*backend) {
                        Some(why) => Completion::ignored_with(why),
                        None => {
                            for seed in seeds() {
                                siege::withstand(*backend, *serve, secure, seed).map_err(|what| {
                                    format!(
                                        "{what}\nagain: NETWRIGHT_SEED={seed} cargo test -p netwright \
                                         --all-features --test hostile -- --exact {name}"
                                    )
                                })?;
                            }
                            Completion::Completed
                        }
                    })
                }));
            }
        }
    }
    run(&arguments, trials).exit();
}

#[cfg(target_os = "linux")]
fn seeds() -> Vec<u64> {
    let number = |name| std::env::var(name).ok().and_then(|value: String| value.parse().ok());
    match number("NETWRIGHT_SEED") {
        Some(seed) => vec![seed],
        None => (1..=number("NETWRIGHT_HOSTILE_SEEDS").unwrap_or(1)).collect(),
    }
}

/// What has panicked, wherever that was.
#[cfg(target_os = "linux")]
mod panics {
    use std::{
        panic,
        sync::{Mutex, PoisonError},
    };

    static HEARD: Mutex<Vec<String>> = Mutex::new(Vec::new());

    pub(crate) fn listen() {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            HEARD.lock().unwrap_or_else(PoisonError::into_inner).push(info.to_string());
            before(info);
        }));
    }

    pub(crate) fn heard() -> Option<String> {
        HEARD.lock().unwrap_or_else(PoisonError::into_inner).first().cloned()
    }
}

#[cfg(target_os = "linux")]
mod siege {
    use super::panics;
    use bytes::Bytes;
    use http::{Request, Response};
    use netwright::{
        Backend, CloseCause, Peer, Server,
        channel::LeastRate,
        http::{Body, HttpLimits, HttpServer, HttpVersions, Received, respond, serve, tower, web::Files},
        options::StreamOptions,
        pipeline,
        pipeline::IntoPipeline,
        server::{BoundPipeline, ServerBuilder},
        tls::{Acceptor, Certificate, Tls, rustls},
        websocket::{Accept, Config, Message, Upgrade},
    };
    use netwright_testkit::hostile::client::{Link, Site, Target, Wrap, attack};
    use std::{
        convert::Infallible,
        io::{self, Read, Write},
        net::TcpStream,
        path::{Path, PathBuf},
        pin::Pin,
        sync::{Arc, LazyLock, OnceLock},
        task::{Context, Poll},
        time::{Duration, Instant},
    };
    use tower_service::Service;

    pub(crate) const BACKENDS: &[(Backend, &str)] =
        &[(Backend::Readiness, "readiness"), (Backend::Uring, "uring"), (Backend::Blocking, "blocking")];

    type Serve = fn(ServerBuilder, Option<Acceptor>) -> (BoundPipeline, Site);

    pub(crate) const APPLICATIONS: &[(&str, Serve)] = &[
        ("respond", responding),
        ("serve", serving),
        ("tower", towering),
        ("files", files),
        ("websocket", websocket),
        ("both_versions", both_versions),
        ("both_versions_by_closures", both_versions_by_closures),
    ];

    pub(crate) fn missing(backend: Backend) -> Option<String> {
        backend.event_loops(1).err().map(|error| error.to_string())
    }

    /// How long the server may take to get rid of those that do nothing any more, all deadlines together, on a machine that
    /// is busy.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// The server is as it was before.
    pub(crate) fn withstand(backend: Backend, make: Serve, secure: bool, seed: u64) -> Result<(), String> {
        let builder = Server::builder()
            .forsaken_after(SHORT)
            .least_rate(LeastRate::new(1, SHORT).unwrap())
            .options(StreamOptions::new().send_buffer_size(64 * 1024));
        let builder = match backend {
            Backend::Blocking => builder.backend(backend), // a thread for each connection
            _ => builder.group(backend.event_loops(2).map_err(|error| error.to_string())?),
        };
        let (server, site) = make(builder, secure.then(acceptor));
        let server = server.bind("127.0.0.1:0").wait().map_err(|error| error.to_string())?;
        let address = server.local_addr().ok_or("it listens nowhere")?;
        let target = Target { address, site: Arc::new(site), wrap: secure.then(tls) };
        let siege = attack(&target, seed)?;
        // Those that are silent to the end are still there on their side.
        let begun = Instant::now();
        while server.figures().open > 0 {
            if begun.elapsed() > PATIENCE {
                return Err(format!("connections that do not end: {:?}, {siege:?}", server.figures()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(siege);
        panics::heard().map_or(Ok(()), |panic| Err(format!("a panic: {panic}")))
    }

    // ---- deadlines, all of them short ----

    const SHORT: Duration = Duration::from_millis(700);

    fn limits() -> Arc<HttpLimits> {
        static LIMITS: LazyLock<Arc<HttpLimits>> = LazyLock::new(|| {
            let mut limits = HttpLimits::default();
            (limits.head_time, limits.body_time, limits.linger_time) = (SHORT, SHORT, SHORT);
            limits.idle_time = 2 * SHORT;
            (limits.http2.setup_time, limits.http2.take_time, limits.http2.grace) = (SHORT, SHORT, SHORT);
            Arc::new(limits)
        });
        LIMITS.clone()
    }

    fn config() -> Config {
        let config = Config::default().ping_after(Some(SHORT)).pong_deadline(SHORT);
        config.close_deadline(SHORT).linger(SHORT)
    }

    // ---- what is served ----

    /// More than is kept for somebody who does not read.
    fn large() -> Bytes {
        static LARGE: LazyLock<Bytes> =
            LazyLock::new(|| (0..1_u32 << 20).map(|at| (at / 7 % 251) as u8).collect::<Vec<_>>().into());
        LARGE.clone()
    }

    fn site() -> Site {
        let pages =
            [("/", Bytes::from("hello")), ("/other", Bytes::from(vec![b'o'; 5000])), ("/large", large())];
        let pages = pages.map(|(path, body)| (path.to_owned(), body.to_vec().into()));
        Site { pages: pages.into(), echo: Some("/echo".to_owned()), socket: None, http2: false }
    }

    fn page(path: &str) -> Option<Bytes> {
        match path {
            "/" => Some(Bytes::from("hello")),
            "/other" => Some(Bytes::from(vec![b'o'; 5000])),
            "/large" => Some(large()),
            _ => None,
        }
    }

    fn reply<B>(body: Option<B>, none: B) -> Response<B> {
        let status = if body.is_some() { 200 } else { 404 };
        Response::builder().status(status).body(body.unwrap_or(none)).expect("that is a reply")
    }

    async fn answer(request: Request<Body>) -> Response<Body> {
        if request.uri().path() == "/echo" {
            let (sender, body) = Body::channel();
            if let Some(here) = netwright::EventLoop::current() {
                drop(here.spawn_local(echo(request.into_body(), sender)));
            }
            return Response::new(body);
        }
        reply(page(request.uri().path()).map(Body::from), Body::empty())
    }

    /// Piece by piece, as it comes.
    async fn echo(mut body: Body, mut sender: netwright::http::BodySender) {
        loop {
            match body.read().await {
                Ok(Some(bytes)) => {
                    if sender.send(bytes).await.is_err() {
                        return;
                    }
                }
                Ok(None) => return sender.end(),
                Err(error) => return sender.abort(error.to_string()),
            }
        }
    }

    // ---- servers ----

    /// With TLS in front, or without.
    fn behind<P: IntoPipeline<Infallible>>(
        builder: ServerBuilder,
        acceptor: Option<Acceptor>,
        make: impl Fn() -> P + Send + Sync + 'static,
    ) -> BoundPipeline {
        builder.pipeline(move |_| pipeline().add(acceptor.as_ref().map(Tls::server)).joint(|_| make()))
    }

    fn responding(builder: ServerBuilder, acceptor: Option<Acceptor>) -> (BoundPipeline, Site) {
        let bound = behind(builder, acceptor, || {
            let answer = respond(|request| match request.uri().path() {
                "/echo" => Response::new(request.body().clone()),
                path => reply(page(path), Bytes::new()),
            });
            pipeline().add(HttpServer::with(limits())).app(answer).sealed()
        });
        (bound, site())
    }

    fn serving(builder: ServerBuilder, acceptor: Option<Acceptor>) -> (BoundPipeline, Site) {
        let bound = behind(builder, acceptor, || {
            pipeline().add(HttpServer::with(limits())).app(serve(answer)).sealed()
        });
        (bound, site())
    }

    #[derive(Clone)]
    struct Answers;

    impl Service<Request<Body>> for Answers {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>>>>;
        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, request: Request<Body>) -> Self::Future {
            Box::pin(async { Ok(answer(request).await) })
        }
    }

    fn towering(builder: ServerBuilder, acceptor: Option<Acceptor>) -> (BoundPipeline, Site) {
        let bound = behind(builder, acceptor, || {
            pipeline().add(HttpServer::with(limits())).app(tower(Answers)).sealed()
        });
        (bound, site())
    }

    fn files(builder: ServerBuilder, acceptor: Option<Acceptor>) -> (BoundPipeline, Site) {
        let files = Files::below(directory()).unwrap();
        let bound = behind(builder, acceptor, move || {
            pipeline().add(HttpServer::with(limits())).app(files.server()).sealed()
        });
        let mut site = site();
        site.echo = None;
        site.pages[0].0 = "/index.html".to_owned();
        (bound, site)
    }

    /// The pages of the site as files.
    fn directory() -> &'static PathBuf {
        static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
        DIRECTORY.get_or_init(|| {
            let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile");
            std::fs::create_dir_all(&directory).unwrap();
            for (name, path) in [("index.html", "/"), ("other", "/other"), ("large", "/large")] {
                // Another run may be reading it: a file that is there as a whole takes its place.
                let whole = directory.join(format!("{name}.{}", std::process::id()));
                std::fs::write(&whole, page(path).unwrap()).unwrap();
                std::fs::rename(whole, directory.join(name)).unwrap();
            }
            directory
        })
    }

    fn websocket(builder: ServerBuilder, acceptor: Option<Acceptor>) -> (BoundPipeline, Site) {
        async fn echo(mut peer: Peer<Message, Message>) -> Result<(), CloseCause> {
            while let Some(message) = peer.read().await? {
                peer.write(message).await?;
            }
            Ok(())
        }
        let bound = builder.pipeline(move |_| {
            pipeline().add(acceptor.as_ref().map(Tls::server)).joint(|switch| {
                let upgrade = Upgrade::new(switch, Accept::new(config()), |socket, _, _| {
                    pipeline().add(socket).serve(echo)
                });
                let answer = serve(answer);
                pipeline().add(HttpServer::with(limits())).add(upgrade).app(answer).sealed()
            })
        });
        (bound, Site { socket: Some("/socket".to_owned()), ..site() })
    }

    fn both_versions(builder: ServerBuilder, acceptor: Option<Acceptor>) -> (BoundPipeline, Site) {
        let bound = behind(builder, acceptor, || {
            HttpVersions::new(|| pipeline().app(serve(answer))).limits(limits()).pipeline()
        });
        (bound, Site { http2: true, ..site() })
    }

    fn both_versions_by_closures(
        builder: ServerBuilder,
        acceptor: Option<Acceptor>,
    ) -> (BoundPipeline, Site) {
        let bound = behind(builder, acceptor, || {
            let answer = |request: &Received| match request.uri().path() {
                "/echo" => Response::new(request.body().clone()),
                path => reply(page(path), Bytes::new()),
            };
            HttpVersions::new(move || pipeline().app(respond(answer))).limits(limits()).pipeline()
        });
        (bound, Site { http2: true, ..site() })
    }

    // ---- TLS ----

    fn certificate() -> &'static Certificate {
        static CERTIFICATE: OnceLock<Certificate> = OnceLock::new();
        CERTIFICATE.get_or_init(|| Certificate::self_signed(["localhost"]).unwrap())
    }

    fn acceptor() -> Acceptor {
        Acceptor::builder().certificate(certificate()).handshake_deadline(2 * SHORT).build().unwrap()
    }

    struct Secure(rustls::StreamOwned<rustls::ClientConnection, TcpStream>);

    impl Read for Secure {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(buffer)
        }
    }

    impl Write for Secure {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            self.0.flush()
        }
    }

    impl Link for Secure {
        fn socket(&self) -> &TcpStream {
            &self.0.sock
        }
    }

    /// A client of rustls.
    fn tls() -> Wrap {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate().chain()[0].clone()).unwrap();
        let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let config = Arc::new(config);
        Arc::new(move |socket| {
            let name = "localhost".try_into().expect("that is a name");
            let session = rustls::ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
            let mut link = rustls::StreamOwned::new(session, socket);
            while link.conn.is_handshaking() {
                link.conn.complete_io(&mut link.sock)?;
            }
            Ok(Box::new(Secure(link)) as Box<dyn Link>)
        })
    }
}
