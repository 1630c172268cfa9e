//! Question: what does a WebSocket message cost here and with tokio-tungstenite, and what does an idle WebSocket hold?
//!
//! ```text
//!   core 1                                           core 0
//!   load: one thread that never sleeps ─ loopback ─  one of three servers, a process each:
//!         masked binary frames                       tokio-tungstenite on tokio's current-thread runtime; Netwright with a
//!                                                    handler, and with an async tail
//! ```
//! Answer in microseconds of the server's CPU time per message, measured as by `echo`, and in bytes of resident memory per connection,
//! measured as by `idle`. Targets: below tokio-tungstenite at 64 connections of 64 bytes; at most 2 KiB for an idle connection.
//!
//! With 16 messages under way on a connection the figures are not of the same work: all answers to one read leave at once here,
//! and each by itself with `send` of tokio-tungstenite, which is how it is used.

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
    #[cfg(not(target_os = "linux"))]
    println!("websocket: the load needs epoll, which only Linux has");
}

#[cfg(target_os = "linux")]
mod linux {
    use futures_util::{SinkExt, StreamExt};
    use netwright::{
        AppContext, Application, Backend, CloseCause, Peer, Server,
        http::HttpServer,
        pipeline,
        server::{descriptor_limit, raise_descriptor_limit},
        websocket::{
            Accept, Config, Message, Upgrade,
            frame::{FrameHead, Opcode, mask},
        },
    };
    use netwright_benches::{
        Rounds, Scale, Table, Target, interleave_all,
        load::Load,
        server::{ServerProcess, asked_for, load_on_second_core, machine_load},
    };
    use std::{error::Error, net::TcpListener, process, sync::Arc, time::Duration};

    const KINDS: [&str; 3] = ["tungstenite", "netwright", "netwright, async tail"];
    const SERVE: &str = "--serve-websocket";
    const GENERATIONS: usize = 3;
    const TURN: Duration = Duration::from_millis(200);
    const IDLE: usize = 10_000;
    const BATCH: usize = 50;
    const IDLE_BYTES_MAX: f64 = 2048.0;
    const HELLO: &[u8] =
        b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

    pub(super) fn main() {
        if let Some(kind) = asked_for(SERVE) {
            let _ = raise_descriptor_limit();
            if let Err(error) = serve(&kind) {
                eprintln!("the {kind} server failed: {error}");
                process::exit(1);
            }
            return;
        }
        let mut idle_only = false;
        let known = ", --idle, for the memory alone";
        let scale = Scale::from_args_with(known, |arg, _| {
            idle_only |= arg == "--idle";
            arg == "--idle"
        });
        let Some(scale) = scale else { return };
        if idle_only {
            return idle(scale);
        }
        let core = load_on_second_core("websocket");
        println!("websocket: load of the machine before: {}", machine_load());
        for own in [1, 2] {
            let title = "websocket: microseconds of the server's CPU time per message";
            let mut table = Table::new(title, ["connections, bytes, under way", KINDS[0], KINDS[own]]);
            for (connections, bytes, depth, target) in [
                (64, 64, 1, Target::AtMost(1.0)),
                (64, 64, 16, Target::None),
                (16, 4096, 1, Target::AtMost(1.0)),
                (4, 65_536, 1, Target::None),
            ] {
                let [theirs, ours] = measure([KINDS[0], KINDS[own]], core, scale, connections, bytes, depth);
                table.row(format!("{connections}, {bytes}, {depth}"), &theirs, &ours, target);
            }
            println!("{table}");
        }
        idle(scale);
        println!("websocket: load of the machine after: {}", machine_load());
    }

    fn connect(server: &ServerProcess, connections: usize, bytes: usize, depth: usize) -> Load {
        let payload: Vec<u8> = (0..bytes).map(|at| ((at * 31) >> 2) as u8).collect();
        let key = [0x12, 0x34, 0x56, 0x78];
        let mut head =
            FrameHead { fin: true, compressed: false, opcode: Opcode::Binary, len: bytes as u64, mask: None };
        let mut answer = Vec::new();
        head.write(&mut answer);
        answer.extend_from_slice(&payload);
        head.mask = Some(key);
        let mut request = Vec::new();
        head.write(&mut request);
        let at = request.len();
        request.extend_from_slice(&payload);
        mask(&mut request[at..], key);
        let mut load = Load::ask(server.address(), connections, depth, &request, &answer);
        load.greet(HELLO, b"\r\n\r\n");
        load
    }

    fn measure(
        kinds: [&str; 2],
        core: Option<usize>,
        scale: Scale,
        connections: usize,
        bytes: usize,
        depth: usize,
    ) -> [Rounds; 2] {
        let mut figures = kinds.map(|_| Rounds::default());
        for _ in 0..GENERATIONS {
            let mut pairs = kinds.map(|kind| {
                let server = ServerProcess::start_with(SERVE, kind, core);
                let load = connect(&server, connections, bytes, depth);
                (server, load)
            });
            let rounds = interleave_all::<2>(scale.rounds(), |side| {
                let (server, load) = &mut pairs[side];
                let before = server.cpu_time();
                let run = load.run(TURN);
                (server.cpu_time() - before).as_secs_f64() * 1e6 / run.requests as f64
            });
            for (all, new) in figures.iter_mut().zip(rounds) {
                all.append(new);
            }
        }
        figures
    }

    fn idle(scale: Scale) {
        let _ = raise_descriptor_limit();
        let possible = descriptor_limit().map_or(u64::MAX, |limit| limit.soft).saturating_sub(64);
        let connections = scale.amount(IDLE).min(usize::try_from(possible).unwrap_or(usize::MAX));
        println!(
            "\nwebsocket: resident memory of {connections} connections that have echoed 64 bytes each\n"
        );
        println!("server                 before, KiB  after, KiB  per connection, bytes  target");
        for kind in KINDS {
            let server = ServerProcess::start_with(SERVE, kind, None);
            // One connection stays from before: its echo brings in all code that an echo needs.
            let mut first = connect(&server, 1, 64, 1);
            first.run(Duration::from_millis(200));
            let before = server.resident();
            // They come one batch after the other, as they do in life: otherwise what HTTP holds for all of them at once would count.
            let batches: Vec<Load> = (0..connections.div_ceil(BATCH))
                .map(|batch| {
                    let mut load = connect(&server, BATCH.min(connections - batch * BATCH), 64, 1);
                    load.run(Duration::ZERO);
                    load
                })
                .collect();
            let after = server.resident_at_rest();
            drop(batches);
            let each = after.saturating_sub(before) as f64 / connections as f64;
            let verdict = match (kind == KINDS[0], each <= IDLE_BYTES_MAX) {
                (true, _) => "for information".to_owned(),
                (_, true) => format!("<= {IDLE_BYTES_MAX} met"),
                (_, false) => format!("<= {IDLE_BYTES_MAX} MISSED"),
            };
            let (before, after) = (before / 1024, after / 1024);
            println!("{kind:<21}  {before:>11}  {after:>10}  {each:>21.0}  {verdict}");
        }
    }

    // ---- the servers ----

    fn serve(kind: &str) -> Result<(), Box<dyn Error>> {
        if kind == KINDS[0] {
            return tungstenite();
        }
        let tail = kind == KINDS[2];
        let accept = Arc::new(Accept::new(Config::default()));
        let server = Server::builder()
            .group(Backend::Readiness.event_loops(1)?)
            .pipeline(move |_| {
                let accept = accept.clone();
                pipeline().joint(|switch| {
                    let upgrade = if tail {
                        Upgrade::new(switch, accept, |socket, _, _| pipeline().add(socket).serve(echo))
                    } else {
                        Upgrade::new(switch, accept, |socket, _, _| pipeline().add(socket).app(Echo))
                    };
                    pipeline().add(HttpServer::new()).add(upgrade).handle(|cx, _| cx.close()).sealed()
                })
            })
            .bind("127.0.0.1:0")
            .wait()?;
        println!("{}", server.address());
        Ok(server.group().termination().wait()?)
    }

    struct Echo;

    impl Application for Echo {
        type Read = Message;
        type Write = Message;
        fn read(&mut self, cx: &mut AppContext<'_, Self>, message: Message) {
            cx.write(message);
        }
        fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
            cx.flush();
        }
    }

    async fn echo(mut peer: Peer<Message, Message>) -> Result<(), CloseCause> {
        while let Some(message) = peer.read().await? {
            peer.write(message).await?;
        }
        Ok(())
    }

    /// More tasks than there are connections, as for the echo server on tokio.
    const EVENT_INTERVAL: u32 = 1024;

    fn tungstenite() -> Result<(), Box<dyn Error>> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        println!("{}", listener.local_addr()?);
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .event_interval(EVENT_INTERVAL)
            .build()?;
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            loop {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                tokio::spawn(async move {
                    let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else { return };
                    while let Some(Ok(message)) = socket.next().await {
                        if socket.send(message).await.is_err() {
                            break;
                        }
                    }
                });
            }
        })
    }
}
