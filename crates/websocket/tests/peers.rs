//! Other people's WebSockets at both ends: the package `websockets` of Python and the package `ws` of Node.
//!
//! They are installed below the target folder, once. What cannot be had skips its tests with a line that says so;
//! `NETWRIGHT_PEERS=required` makes that a failure.

#![cfg(feature = "client")]

use netwright_core::{CloseCause, Peer, pipeline};
use netwright_http::HttpServer;
use netwright_transport::{Server, event_loops};
use netwright_websocket::{
    Accept, ClosedByPeer, Config, Deflate, Message, Request, Upgrade, WebSocketClient,
};
use std::{
    fs,
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, mpsc},
};

// ---- the peers ----

/// A program of a peer, ready to run with its arguments.
fn program(name: &str) -> Option<Command> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers").join(name);
    let made = if name.ends_with(".py") { python() } else { node() };
    match made {
        Ok(mut command) => {
            command.arg(file).stderr(Stdio::inherit());
            Some(command)
        }
        Err(reason) if std::env::var("NETWRIGHT_PEERS").is_ok_and(|peers| peers == "required") => {
            panic!("no peer for {name}: {reason}")
        }
        Err(reason) => {
            // Past the test harness, which would keep what a passing test prints to itself.
            let _ = io::stderr().write_all(format!("SKIPPED {name}: {reason}\n").as_bytes());
            None
        }
    }
}

fn python() -> Result<Command, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("peers/websockets");
    let python = folder.join("bin/python");
    once(&folder, |folder| {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder))?;
        let pip = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--retries",
            "1",
            "websockets>=14",
        ];
        run(Command::new(&python).args(pip))
    })?;
    Ok(Command::new(python))
}

fn node() -> Result<Command, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("peers/ws");
    once(&folder, |folder| {
        fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        let npm = ["install", "--silent", "--no-audit", "--no-fund", "--prefix"];
        run(Command::new("npm").args(npm).arg(folder).arg("ws@8"))
    })?;
    let mut node = Command::new("node");
    node.env("NODE_PATH", folder.join("node_modules"));
    Ok(node)
}

/// Installs something, unless that was done before. Tests run at the same time: one of them does it.
fn once(folder: &PathBuf, install: impl FnOnce(&PathBuf) -> Result<(), String>) -> Result<(), String> {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONE.lock();
    let complete = folder.join("complete");
    if complete.exists() {
        return Ok(());
    }
    install(folder)?;
    fs::write(complete, "").map_err(|error| error.to_string())
}

fn run(command: &mut Command) -> Result<(), String> {
    let what = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{what}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{what}: {}", said.lines().last().unwrap_or("failed without a word")))
}

// ---- our server ----

async fn echo(mut peer: Peer<Message, Message>) -> Result<(), CloseCause> {
    while let Some(message) = peer.read().await? {
        peer.write(message).await?;
    }
    Ok(())
}

fn served(client: &str) {
    for takeover in [false, true] {
        let Some(mut command) = program(client) else { return };
        let config = Config::default().deflate(Deflate::default().takeover(takeover).min(10));
        let accept = Arc::new(Accept::new(config).protocols(["echo"]));
        let server = Server::builder()
            .group(event_loops(1).unwrap())
            .pipeline(move |_| {
                let accept = accept.clone();
                pipeline().joint(|switch| {
                    let upgrade =
                        Upgrade::new(switch, accept, |socket, _, _| pipeline().add(socket).serve(echo));
                    pipeline().add(HttpServer::new()).add(upgrade).handle(|cx, _| cx.close()).sealed()
                })
            })
            .bind("127.0.0.1:0")
            .wait()
            .unwrap();
        let ended = command.arg(format!("ws://{}/", server.local_addr().unwrap())).status().unwrap();
        assert!(ended.success(), "{client} ended with {ended}");
    }
}

#[test]
fn websockets_of_python_talks_to_our_server() {
    served("websockets_client.py");
}

#[test]
fn ws_of_node_talks_to_our_server() {
    served("ws_client.cjs");
}

// ---- our client ----

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.stdin.take()); // the program ends with its input
        let _ = self.0.wait();
    }
}

/// Talks with an echo server; then the server closes with a code of its own.
async fn talk(mut peer: Peer<Message, Message>, tell: mpsc::Sender<String>) -> Result<(), CloseCause> {
    let long = "event loops own channels; ".repeat(10_000);
    let noise: Vec<u8> = (0..200_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 21) as u8).collect();
    for message in [Message::from(""), Message::from("κόσμε"), Message::from(long), Message::from(noise)]
    {
        for _ in 0..3 {
            peer.write(message.clone()).await?;
            assert_eq!(peer.read().await?.as_ref(), Some(&message));
        }
    }
    peer.write(Message::from("fragments")).await?;
    assert_eq!(peer.read().await?, Some(Message::from("fragments")));
    assert_eq!(peer.read().await?, Some(Message::from("in three fragments")));
    let _ = tell.send("talked".to_owned());
    peer.write(Message::from("close")).await?;
    assert_eq!(peer.read().await?, Some(Message::from("close")));
    match peer.read().await {
        Err(CloseCause::Fault(fault)) => {
            let close = fault.downcast_ref::<ClosedByPeer>().map(|ClosedByPeer(close)| close.to_string());
            let _ = tell.send(close.unwrap_or_else(|| fault.to_string()));
        }
        other => drop(tell.send(format!("{other:?}"))),
    }
    Ok(())
}

fn connected(server: &str) {
    let Some(mut command) = program(server) else { return };
    let mut running = Running(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut url = String::new();
    BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let client = WebSocketClient::new(event_loops(1).unwrap());
    let small = Deflate::default().takeover(true).window_bits(12).min(0);
    for deflate in
        [None, Some(Deflate::default().min(0)), Some(Deflate::default().takeover(true)), Some(small)]
    {
        let mut config = Config::default();
        if let Some(deflate) = deflate {
            config = config.deflate(deflate);
        }
        let (tell, told) = mpsc::channel();
        let request = Request::new(url.trim()).unwrap().config(config).protocols(["echo"]);
        let channel = client.connect(request, |peer, _| talk(peer, tell)).wait().unwrap();
        let cause = channel.closed().wait().unwrap();
        assert_eq!(told.iter().collect::<Vec<_>>(), ["talked", "4321 as you wish"], "ended by {cause}");
    }
}

#[test]
fn our_client_talks_to_websockets_of_python() {
    connected("websockets_server.py");
}

#[test]
fn our_client_talks_to_ws_of_node() {
    connected("ws_server.cjs");
}
