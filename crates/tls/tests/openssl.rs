//! A peer that is not ours: `openssl s_client` and `s_server`. Skipped, with a line that says why, where there is none.

use bytes::{Bytes, BytesMut};
use netwright_core::{AppContext, Application, CloseCause, Event, Outgoing, Peer, pipeline};
use netwright_tls::{Acceptor, Certificate, Connector, Handshake, Roots, Tls};
use netwright_transport::{Backend, Client, Server};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::mpsc,
    time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(60);

/// Whether there is an openssl, with its version.
fn openssl() -> bool {
    match Command::new("openssl").arg("version").output() {
        Ok(output) if output.status.success() => true,
        Ok(output) => {
            println!("ignored: openssl version says {}", output.status);
            false
        }
        Err(error) => {
            println!("ignored: no openssl: {error}");
            false
        }
    }
}

/// A directory that goes with the test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("netwright-openssl-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

struct Pair {
    chain: String,
    key: String,
}

impl Pair {
    fn new(name: &str) -> Self {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        Self { chain: made.cert.pem(), key: made.signing_key.serialize_pem() }
    }

    fn certificate(&self) -> Certificate {
        Certificate::from_pem(&self.chain, &self.key).unwrap()
    }
}

/// Sends lines back, and tells what the handshake agreed on and how it ended.
struct Echo(mpsc::Sender<News>);

enum News {
    Shaken(Handshake),
    Ended(CloseCause),
}

impl Application for Echo {
    type Read = BytesMut;
    type Write = Outgoing;
    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        cx.write_and_flush([b"echo: ", &bytes[..]].concat());
    }
    fn event(&mut self, _: &mut AppContext<'_, Self>, event: Event) {
        if let Ok(handshake) = event.take() {
            let _ = self.0.send(News::Shaken(handshake));
        }
    }
    fn inactive(&mut self, _: &mut AppContext<'_, Self>, cause: CloseCause) {
        let _ = self.0.send(News::Ended(cause));
    }
}

struct Ours {
    server: Server,
    news: mpsc::Receiver<News>,
}

impl Ours {
    fn new(acceptor: Acceptor) -> Self {
        let (tell, news) = mpsc::channel();
        let server = Server::builder()
            .group(Backend::Readiness.event_loops(1).unwrap())
            .pipeline(move |_| pipeline().add(Tls::server(&acceptor)).app(Echo(tell.clone())))
            .bind("127.0.0.1:0")
            .wait()
            .unwrap();
        Self { server, news }
    }

    fn shaken(&self) -> Handshake {
        match self.news.recv_timeout(PATIENCE).unwrap() {
            News::Shaken(handshake) => handshake,
            News::Ended(cause) => panic!("no handshake: {cause}"),
        }
    }

    fn ended(&self) -> CloseCause {
        match self.news.recv_timeout(PATIENCE).unwrap() {
            News::Shaken(_) => panic!("a handshake"),
            News::Ended(cause) => cause,
        }
    }
}

/// A running s_client.
struct Theirs {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Theirs {
    fn connect(ours: &Ours, arguments: &[&str]) -> Self {
        let mut child = Command::new("openssl")
            .args(["s_client", "-connect", &ours.server.local_addr().unwrap().to_string()])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    fn says(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line.as_bytes()).unwrap();
        input.flush().unwrap();
    }

    /// Reads until a line has this in it.
    fn hears(&mut self, expected: &str) -> bool {
        let mut line = String::new();
        while self.output.read_line(&mut line).is_ok_and(|read| read > 0) {
            if line.contains(expected) {
                return true;
            }
            line.clear();
        }
        false
    }

    /// Ends its input, and gives what it still says.
    fn ends(mut self) -> String {
        drop(self.input.take());
        let mut rest = String::new();
        let _ = self.output.read_to_string(&mut rest);
        if let Some(mut errors) = self.child.stderr.take() {
            let _ = errors.read_to_string(&mut rest);
        }
        let _ = self.child.wait();
        rest
    }
}

#[test]
fn openssl_shakes_hands_talks_and_says_goodbye_in_either_version() {
    if !openssl() {
        return;
    }
    let pair = Pair::new("localhost");
    let directory = Directory::new("talk");
    let roots = directory.file("root.pem", &pair.chain);
    let acceptor = Acceptor::builder().certificate(pair.certificate()).alpn(["echo"]).build().unwrap();
    let ours = Ours::new(acceptor);
    for version in ["-tls1_2", "-tls1_3"] {
        let mut theirs = Theirs::connect(
            &ours,
            &[
                version,
                "-quiet",
                "-no_ign_eof",
                "-servername",
                "localhost",
                "-alpn",
                "other,echo",
                "-verify_return_error",
                "-CAfile",
                roots.to_str().unwrap(),
            ],
        );
        theirs.says("hello\n");
        assert!(theirs.hears("echo: hello"), "{version}");
        let handshake = ours.shaken();
        assert_eq!(handshake.server_name.as_deref(), Some("localhost"));
        assert_eq!(handshake.alpn.as_deref(), Some(&b"echo"[..]));
        theirs.ends();
        assert!(matches!(ours.ended(), CloseCause::PeerClosed), "a close_notify came");
    }
}

#[test]
fn openssl_resumes_its_session() {
    if !openssl() {
        return;
    }
    let ours = Ours::new(Acceptor::new(Pair::new("localhost").certificate()).unwrap());
    let directory = Directory::new("resume");
    for version in ["-tls1_2", "-tls1_3"] {
        let session = directory.0.join(format!("session{version}"));
        let session = session.to_str().unwrap();
        for (option, resumed) in [("-sess_out", false), ("-sess_in", true)] {
            let mut theirs = Theirs::connect(&ours, &[version, option, session, "-quiet", "-no_ign_eof"]);
            theirs.says("hello\n");
            assert!(theirs.hears("echo: hello"), "{version} {option}");
            assert_eq!(ours.shaken().resumed, resumed, "{version} {option}");
            theirs.ends();
            ours.ended();
        }
    }
}

#[test]
fn openssl_shows_a_client_certificate_and_is_refused_without_one() {
    if !openssl() {
        return;
    }
    let (pair, client) = (Pair::new("localhost"), Pair::new("client"));
    let directory = Directory::new("client");
    let chain = directory.file("client.pem", &client.chain);
    let key = directory.file("client.key", &client.key);
    let acceptor = Acceptor::builder()
        .certificate(pair.certificate())
        .require_client_certificates(Roots::from_pem(&client.chain).unwrap())
        .build()
        .unwrap();
    let ours = Ours::new(acceptor);
    for version in ["-tls1_2", "-tls1_3"] {
        let with = [
            version,
            "-quiet",
            "-no_ign_eof",
            "-cert",
            chain.to_str().unwrap(),
            "-key",
            key.to_str().unwrap(),
        ];
        let mut theirs = Theirs::connect(&ours, &with);
        theirs.says("hello\n");
        assert!(theirs.hears("echo: hello"), "{version}");
        assert_eq!(ours.shaken().peer_certificates, client.certificate().chain());
        theirs.ends();
        ours.ended();
        let without = Theirs::connect(&ours, &[version, "-quiet", "-no_ign_eof"]);
        assert!(matches!(ours.ended(), CloseCause::Fault(_)));
        without.ends();
    }
}

#[test]
fn openssl_of_a_version_or_protocol_that_we_do_not_speak_is_refused_with_an_alert() {
    if !openssl() {
        return;
    }
    let acceptor = Acceptor::builder()
        .certificate(Pair::new("localhost").certificate())
        .alpn(["echo"])
        .versions(&[&netwright_tls::rustls::version::TLS13])
        .build()
        .unwrap();
    let ours = Ours::new(acceptor);
    for (arguments, alert) in
        [(&["-tls1_2"][..], "alert protocol version"), (&["-alpn", "other"], "alert no application protocol")]
    {
        let theirs = Theirs::connect(&ours, arguments);
        let cause = ours.ended();
        assert!(matches!(cause, CloseCause::Fault(_)), "{cause}");
        let said = theirs.ends();
        assert!(said.contains(alert), "{said}");
    }
}

#[test]
fn a_reload_shows_in_the_next_handshake_of_openssl() {
    if !openssl() {
        return;
    }
    let (first, second) = (Pair::new("first.example"), Pair::new("second.example"));
    let directory = Directory::new("reload");
    let chain = directory.file("chain.pem", &first.chain);
    let key = directory.file("key.pem", &first.key);
    let reloadable = netwright_tls::Reloadable::from_pem_files(&chain, &key).unwrap();
    let ours = Ours::new(Acceptor::new(&reloadable).unwrap());
    let mut shown = Vec::new();
    for pair in [&first, &second] {
        fs::write(&chain, &pair.chain).unwrap();
        fs::write(&key, &pair.key).unwrap();
        reloadable.reload().unwrap();
        let said = Theirs::connect(&ours, &["-showcerts"]).ends();
        let begin = said.find("-----BEGIN CERTIFICATE-----").expect("a certificate");
        let end = said.find("-----END CERTIFICATE-----").expect("its end");
        shown.push(said[begin..end].split_whitespace().collect::<String>());
        assert!(pair.chain.split_whitespace().collect::<String>().contains(shown.last().unwrap()));
    }
    assert_ne!(shown[0], shown[1]);
}

#[test]
fn our_client_talks_to_openssl_and_resumes_its_session() {
    if !openssl() {
        return;
    }
    let pair = Pair::new("localhost");
    let directory = Directory::new("server");
    let chain = directory.file("chain.pem", &pair.chain);
    let key = directory.file("key.pem", &pair.key);
    for version in ["-tls1_2", "-tls1_3"] {
        let mut child = Command::new("openssl")
            .args(["s_server", "-accept", "127.0.0.1:0", "-rev", version])
            .args(["-cert", chain.to_str().unwrap(), "-key", key.to_str().unwrap()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("ACCEPT") {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "s_server says where it listens");
        }
        let address = line.trim().strip_prefix("ACCEPT ").expect("an address").to_owned();
        let connector = Connector::builder().roots(Roots::from_pem(&pair.chain).unwrap()).build().unwrap();
        for resumed in [false, true] {
            let (tell, told) = mpsc::channel();
            let connector = connector.clone();
            let client = Client::builder()
                .group(Backend::Readiness.event_loops(1).unwrap())
                .pipeline(move || {
                    let mut tls = Tls::client(&connector, "localhost").unwrap();
                    let (tell, handshake) = (tell.clone(), tls.handshake());
                    pipeline().add(tls).serve(move |mut peer: Peer| async move {
                        let handshake = handshake.await.map_err(|error| error.to_string())?;
                        let ended = |cause: CloseCause| cause.to_string();
                        peer.write(Bytes::from("stressed\n")).await.map_err(ended)?;
                        let mut answer = BytesMut::new();
                        while !answer.ends_with(b"\n") {
                            answer.unsplit(peer.read().await.map_err(ended)?.expect("an answer"));
                        }
                        tell.send((handshake, answer)).unwrap();
                        Ok::<(), String>(())
                    })
                })
                .unwrap();
            let channel = client.connect(&address).wait().unwrap();
            let (handshake, answer) = told.recv_timeout(PATIENCE).unwrap();
            assert_eq!(answer, "desserts\n");
            assert_eq!(handshake.resumed, resumed, "{version}");
            channel.closed().wait().unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn openssl_that_speaks_only_old_versions_hears_that_it_is_the_version() {
    if !openssl() {
        return;
    }
    let ours = Ours::new(Acceptor::new(Pair::new("localhost").certificate()).unwrap());
    for version in ["-tls1", "-tls1_1"] {
        let theirs = Theirs::connect(&ours, &[version, "-cipher", "DEFAULT@SECLEVEL=0"]);
        let said = theirs.ends();
        if said.contains("no protocols available") || said.contains("nknown option") {
            println!("ignored: this openssl does not speak {version}");
            continue;
        }
        assert!(said.contains("alert protocol version"), "{version}: {said}");
    }
}
