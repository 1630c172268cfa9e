//! Question: what does TLS cost here, and with tokio-rustls?
//!
//! ```text
//!   core 1                                      core 0
//!   load: rustls, one thread that blocks ─ loopback ─ one of two servers, a process each:
//!         one request under way on each connection    tokio-rustls on tokio's current-thread runtime, Netwright
//! ```
//! Answer in microseconds of the server's CPU time per request. Both servers use rustls with ring, TLS 1.3 and
//! AES-128-GCM. Echo: what came goes back; bodies: 64 bytes ask for 64 KiB; hello: plaintext over HTTP on connections that are kept
//! alive, by hyper there and our own HTTP here; handshakes: a new connection for each message, nothing is resumed. Target: not
//! above tokio-rustls.
//!
//! Bodies are where the two come closest: rustls encrypts each record into a buffer of its own. tokio-rustls sends from there;
//! here records are copied into one piece, so that no connection keeps them, and that copy is all there is between them.

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
    #[cfg(not(target_os = "linux"))]
    println!("tls: CPU times of other processes are read where only Linux has them");
}

#[cfg(target_os = "linux")]
mod linux {
    use bytes::{Bytes, BytesMut};
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use netwright::{
        AppContext, Application, Backend, Server,
        http::{HttpServer, respond},
        pipeline,
        tls::{
            Acceptor, Certificate, Connector, Tls,
            rustls::{self, ClientConnection, ServerConfig, StreamOwned},
        },
    };
    use netwright_benches::{
        Rounds, Scale, Table, Target, interleave_all,
        reference::hyper_tokio::{self, ANSWER, REQUEST},
        server::{ServerProcess, asked_for, hello as plaintext, load_on_second_core, machine_load},
    };
    use std::{
        error::Error,
        io::{Read, Write},
        net::{SocketAddr, TcpListener, TcpStream},
        process,
        sync::Arc,
        time::{Duration, Instant},
    };
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    struct Scenario {
        name: &'static str,
        connections: usize,
        request: usize,
    }

    const SCENARIOS: [Scenario; 6] = [
        Scenario { name: "echo", connections: 64, request: 64 },
        Scenario { name: "echo", connections: 16, request: 4096 },
        Scenario { name: "echo", connections: 4, request: 65_536 },
        Scenario { name: "bodies", connections: 4, request: 64 },
        Scenario { name: "hello", connections: 64, request: REQUEST.len() },
        Scenario { name: "handshakes", connections: 1, request: 64 },
    ];

    impl Scenario {
        /// What is asked, and what has to come.
        fn messages(&self) -> (Vec<u8>, Vec<u8>) {
            let request = vec![7; self.request];
            match self.name {
                "hello" => (REQUEST.to_vec(), ANSWER.to_vec()),
                "bodies" => (request, vec![9; BODY]),
                _ => (request.clone(), request),
            }
        }
    }

    const KINDS: [&str; 2] = ["tokio-rustls", "netwright"];
    const SERVE: &str = "--serve-tls";
    const GENERATIONS: usize = 3;
    const TURN: Duration = Duration::from_millis(200);
    const BODY: usize = 65_536;

    pub(super) fn main() {
        if let Some(kind) = asked_for(SERVE) {
            if let Err(error) = serve(&kind) {
                eprintln!("the {kind} server failed: {error}");
                process::exit(1);
            }
            return;
        }
        let Some(scale) = Scale::from_args() else { return };
        let core = load_on_second_core("tls");
        println!("tls: load of the machine before: {}", machine_load());
        let mut table = Table::new(
            "tls: microseconds of the server's CPU time per request",
            ["connections, request, answer", KINDS[0], KINDS[1]],
        );
        for scenario in SCENARIOS {
            let Scenario { name, connections, .. } = scenario;
            let (request, answer) = scenario.messages();
            let mut figures = KINDS.map(|_| Rounds::default());
            for _ in 0..GENERATIONS {
                let mut pairs = KINDS.map(|kind| {
                    let server = ServerProcess::start_with(SERVE, &format!("{kind} {name}"), core);
                    let load = Load::new(server.address(), &scenario);
                    (server, load)
                });
                let rounds = interleave_all::<2>(scale.rounds(), |side| {
                    let (server, load) = &mut pairs[side];
                    let before = server.cpu_time();
                    let requests = load.run(TURN);
                    (server.cpu_time() - before).as_secs_f64() * 1e6 / requests as f64
                });
                for (all, new) in figures.iter_mut().zip(rounds) {
                    all.append(new);
                }
            }
            let [theirs, ours] = &figures;
            table.row(
                format!("{connections} {name}, {} B, {} B", request.len(), answer.len()),
                theirs,
                ours,
                // A handshake is nearly all cryptography, the same on both sides; what is left is opening a connection.
                if name == "handshakes" { Target::None } else { Target::AtMost(1.0) },
            );
        }
        println!("{table}");
        println!("tls: load of the machine after: {}", machine_load());
    }

    // ---- the load ----

    struct Load {
        connector: Connector,
        server: SocketAddr,
        /// Each request has a connection of its own.
        anew: bool,
        connections: Vec<StreamOwned<ClientConnection, TcpStream>>,
        request: Vec<u8>,
        answer: Vec<u8>,
        /// What has come.
        got: Vec<u8>,
    }

    impl Load {
        fn new(server: SocketAddr, scenario: &Scenario) -> Self {
            let connector =
                Connector::builder().dangerously_accept_any_certificate().resumption(false).build();
            let connector = connector.expect("good settings");
            let (request, answer) = scenario.messages();
            let got = vec![0; answer.len()];
            let anew = scenario.name == "handshakes";
            let mut load = Self { connector, server, anew, connections: Vec::new(), request, answer, got };
            load.connections = (0..scenario.connections).map(|_| load.connect()).collect();
            load.round();
            load
        }

        fn connect(&self) -> StreamOwned<ClientConnection, TcpStream> {
            let socket = TcpStream::connect(self.server).expect("it listens");
            socket.set_nodelay(true).expect("TCP");
            let name = "localhost".try_into().expect("a name");
            let tls = ClientConnection::new(self.connector.config().clone(), name).expect("good settings");
            StreamOwned::new(tls, socket)
        }

        fn round(&mut self) {
            for connection in &mut self.connections {
                connection.write_all(&self.request).expect("the server reads");
            }
            for connection in &mut self.connections {
                connection.read_exact(&mut self.got).expect("the server answers");
                assert!(self.got == self.answer, "what came is not what should come");
            }
        }

        fn run(&mut self, time: Duration) -> usize {
            let start = Instant::now();
            let mut requests = 0;
            while start.elapsed() < time {
                if self.anew {
                    self.connections = vec![self.connect()];
                }
                self.round();
                requests += self.connections.len();
            }
            requests
        }
    }

    // ---- the servers ----

    fn config() -> Result<Arc<ServerConfig>, Box<dyn Error>> {
        let certificate = Acceptor::new(Certificate::self_signed(["localhost"])?)?;
        let mut provider = rustls::crypto::ring::default_provider();
        provider.cipher_suites.retain(|suite| suite.suite() == rustls::CipherSuite::TLS13_AES_128_GCM_SHA256);
        let config = ServerConfig::builder_with_provider(provider.into())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_cert_resolver(certificate.config().cert_resolver.clone());
        Ok(Arc::new(config))
    }

    fn serve(kind: &str) -> Result<(), Box<dyn Error>> {
        let (bodies, hello) = (kind.ends_with("bodies"), kind.ends_with("hello"));
        let body = bodies.then(|| Bytes::from(vec![9; BODY]));
        if kind.starts_with(KINDS[0]) {
            return serve_tokio(body, hello);
        }
        let acceptor = Acceptor::from_config(config()?);
        let builder = Server::builder().group(Backend::Readiness.event_loops(1)?);
        let mut bound = if hello {
            let http = move |_: &_| {
                let codec = pipeline().add(Tls::server(&acceptor)).add(HttpServer::new().date(false));
                codec.app(respond(|_| plaintext()))
            };
            builder.pipeline(http).bind("127.0.0.1:0")
        } else {
            let answer =
                move |_: &_| pipeline().add(Tls::server(&acceptor)).app(Answer { body: body.clone() });
            builder.pipeline(answer).bind("127.0.0.1:0")
        };
        let server = bound.wait()?;
        println!("{}", server.address());
        Ok(server.group().termination().wait()?)
    }

    struct Answer {
        body: Option<Bytes>,
    }

    impl Application for Answer {
        type Read = BytesMut;
        type Write = Bytes;

        fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
            cx.write(match &self.body {
                Some(body) => body.clone(),
                None => bytes.freeze(),
            });
        }

        fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
            cx.flush();
        }
    }

    fn serve_tokio(body: Option<Bytes>, hello: bool) -> Result<(), Box<dyn Error>> {
        let acceptor = tokio_rustls::TlsAcceptor::from(config()?);
        let listener = TcpListener::bind("127.0.0.1:0")?;
        println!("{}", listener.local_addr()?);
        listener.set_nonblocking(true)?;
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().event_interval(1024).build()?;
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            loop {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                let (acceptor, body) = (acceptor.clone(), body.clone());
                tokio::spawn(async move {
                    let Ok(mut stream) = acceptor.accept(stream).await else { return };
                    if hello {
                        let service = service_fn(hyper_tokio::plaintext);
                        let _ = hyper_tokio::settings().serve_connection(TokioIo::new(stream), service).await;
                        return;
                    }
                    let mut buffer = Vec::with_capacity(64 * 1024);
                    while let Ok(1..) = stream.read_buf(&mut buffer).await {
                        let answer = body.as_deref().unwrap_or(&buffer);
                        if stream.write_all(answer).await.is_err() || stream.flush().await.is_err() {
                            break;
                        }
                        buffer.clear();
                    }
                });
            }
        })
    }
}
