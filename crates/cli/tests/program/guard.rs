//! Limits that every server has.

use super::{PATIENCE, Peer, Running, netwright, numbered, run, text};
use ::netwright::{
    Client, Server, event_loops,
    handler::Relay,
    pipeline,
    tls::{Acceptor, Certificate, Tls},
};
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    process::Stdio,
    thread,
};

fn echo(options: &[&str]) -> (Running, SocketAddr) {
    let arguments = [&["serve", "echo", "--listen", "127.0.0.1:0"], options].concat();
    let (running, addresses) = Running::serve(&arguments, 1);
    (running, addresses[0])
}

/// Whether a peer is let in.
fn is_served(address: SocketAddr) -> bool {
    let mut stream = match TcpStream::connect_timeout(&address, PATIENCE) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return false, // the reset was faster
        stream => stream.expect("somebody listens"),
    };
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let _ = stream.write_all(b"x"); // fails if the reset was faster
    matches!(stream.read(&mut [0]), Ok(1))
}

#[test]
fn as_many_connections_as_are_allowed_are_served_and_one_more_is_not() {
    for option in ["--max-connections", "--per-address"] {
        let (_server, address) = echo(&[option, "2"]);
        let mut served = [Peer::connect(address), Peer::connect(address)];
        served.iter_mut().for_each(|peer| assert_eq!(peer.send("here\n").line(), "here"));
        assert!(!is_served(address), "{option}");
        served.iter_mut().for_each(|peer| assert_eq!(peer.send("still\n").line(), "still"));
    }
}

#[test]
fn networks_are_allowed_and_denied() {
    for (options, served) in [
        (&["--deny", "127.0.0.0/8"][..], false),
        (&["--deny", "10.0.0.0/8"], true),
        (&["--allow", "10.0.0.0/8"], false),
        (&["--allow", "10.0.0.0/8", "--allow", "127.0.0.1"], true),
        (&["--allow", "127.0.0.0/8", "--deny", "127.0.0.1"], false),
    ] {
        let (_server, address) = echo(options);
        assert_eq!(is_served(address), served, "{options:?}");
    }
}

#[test]
fn a_silent_connection_ends_and_that_of_a_web_server_as_well() {
    for protocol in ["echo", "hello"] {
        let arguments = ["serve", protocol, "--listen", "127.0.0.1:0", "--idle", "200ms"];
        let (_server, addresses) = Running::serve(&arguments, 1);
        let mut silent = Peer::connect(addresses[0]);
        assert_eq!(silent.rest(), b"", "{protocol}");
    }
}

#[test]
fn what_is_slowed_down_comes_back_whole() {
    let (_server, address) = echo(&["--rate", "400k"]);
    let bytes = numbered(200_000);
    assert!(Peer::connect(address).exchange(&bytes) == bytes);
}

#[test]
fn values_that_are_none_are_refused_with_what_is_expected() {
    for (options, expected) in [
        (["--idle", "30"], "is no time"),
        (["--idle", "0s"], "is not between"),
        (["--rate", "0"], "would let nothing pass"),
        (["--rate", "fast"], "is no rate"),
        (["--max-connections", "0"], "0 is not in"),
        (["--per-address", "-1"], "-1"),
        (["--allow", "10.0.0.0/33"], "33"),
        (["--deny", "nobody"], "nobody"),
    ] {
        let output = run(&[&["serve", "echo", "--listen", "127.0.0.1:0"], &options[..]].concat());
        let error = text(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains(expected), "{options:?}: {error}");
    }
}

/// A proxy that carries out one CONNECT, and tells for whom.
fn proxy() -> (SocketAddr, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let served = thread::spawn(move || {
        let (mut front, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(front.try_clone().unwrap()).lines().map_while(Result::ok);
        let order = lines.next().unwrap();
        lines.find(String::is_empty).expect("the end of the head");
        let mut back = TcpStream::connect(order.split(' ').nth(1).unwrap()).unwrap();
        front.write_all(b"HTTP/1.1 200 go on\r\n\r\n").unwrap();
        let (mut from, mut to) = (front.try_clone().unwrap(), back.try_clone().unwrap());
        let forth = thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
        let _ = io::copy(&mut back, &mut front);
        let _ = front.shutdown(Shutdown::Write);
        forth.join().unwrap();
        order
    });
    (address, served)
}

#[test]
fn connect_and_load_go_through_a_proxy() {
    let (_server, address) = echo(&[]);
    let (through, served) = proxy();
    let arguments = ["connect", &address.to_string(), "--proxy", &format!("http://{through}")];
    let mut client = netwright(&arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    client.stdin.take().unwrap().write_all(b"hello through there").unwrap();
    assert_eq!(text(&client.wait_with_output().unwrap().stdout), "hello through there");
    assert_eq!(served.join().unwrap(), format!("CONNECT {address} HTTP/1.1"));

    let (through, served) = proxy();
    let address = address.to_string();
    let through = format!("http://{through}");
    let output = run(&["load", "echo", &address, "-c", "1", "-t", "0.2", "--proxy", &through]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(served.join().unwrap(), format!("CONNECT {address} HTTP/1.1"));
}

/// TLS in front of a proxy.
fn in_tls(proxy: SocketAddr) -> Server {
    let acceptor = Acceptor::new(Certificate::self_signed(["127.0.0.1"]).unwrap()).unwrap();
    let group = event_loops(1).unwrap();
    let loops = group.clone();
    let builder = Server::builder().group(group).pipeline(move |_| {
        let relay = Relay::to(Client::builder().group(loops.clone()), proxy);
        pipeline().add(Tls::server(&acceptor)).app(relay)
    });
    builder.bind("127.0.0.1:0").wait().unwrap()
}

#[test]
fn connect_and_load_go_through_a_proxy_in_tls_if_they_may_trust_it() {
    let (_server, address) = echo(&[]);
    let unknown = in_tls(address); // nobody vouches for it, so what is behind it does not matter
    let address = address.to_string();
    let through = format!("https://{}", unknown.address());
    let untrusted = run(&["connect", &address, "--proxy", &through]);
    assert_eq!(untrusted.status.code(), Some(1), "{}", text(&untrusted.stderr));

    let (plain, served) = proxy();
    let front = in_tls(plain);
    let through = format!("https://{}", front.address());
    let arguments = ["connect", &address, "--proxy", &through, "--proxy-insecure"];
    let mut client = netwright(&arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    client.stdin.take().unwrap().write_all(b"hello in there").unwrap();
    assert_eq!(text(&client.wait_with_output().unwrap().stdout), "hello in there");
    assert_eq!(served.join().unwrap(), format!("CONNECT {address} HTTP/1.1"));

    let (plain, served) = proxy();
    let front = in_tls(plain);
    let through = format!("https://{}", front.address());
    let load = ["load", "echo", &address, "-c", "1", "-t", "0.2", "--proxy", &through, "--proxy-insecure"];
    let output = run(&load);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(served.join().unwrap(), format!("CONNECT {address} HTTP/1.1"));

    let output = run(&["connect", &address, "--proxy", &format!("http://{plain}"), "--proxy-insecure"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}

#[test]
fn load_through_a_proxy_elsewhere_is_refused_unless_it_is_allowed() {
    let output = run(&["load", "echo", "127.0.0.1:7", "--proxy", "socks5://192.0.2.1:1080"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--allow-remote"), "{}", text(&output.stderr));
}

#[test]
fn behind_a_proxy_the_client_is_whom_the_proxy_names_and_nobody_else_may_name_one() {
    let trusting = ["--proxy-protocol", "127.0.0.0/8", "--deny", "192.0.2.0/24"];
    let (_server, address) = echo(&trusting);
    let header = |client: &str| format!("PROXY TCP4 {client} 198.51.100.7 40000 7007\r\nhello\n");
    assert_eq!(Peer::connect(address).send(header("203.0.113.9")).line(), "hello");
    let answer = |address, bytes: String| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(bytes.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer); // a reset is as good as an end
        answer
    };
    assert_eq!(answer(address, header("192.0.2.9")), b"", "denied by the address that the proxy names");
    assert_eq!(answer(address, "hello without a header\n".to_owned()), b"");

    let (_server, address) = echo(&["--proxy-protocol", "10.0.0.0/8"]);
    assert_eq!(answer(address, header("203.0.113.9")), b"", "not from us");

    let (_server, address) = echo(&["--proxy-protocol", "127.0.0.1", "--per-address", "1"]);
    let mut first = Peer::connect(address);
    assert_eq!(first.send(header("203.0.113.9")).line(), "hello");
    assert_eq!(
        answer(address, header("203.0.113.9")),
        b"",
        "one too many of the address that the proxy names"
    );
    assert_eq!(
        Peer::connect(address).send(header("203.0.113.8")).line(),
        "hello",
        "another client, the same proxy"
    );
}

#[test]
fn a_log_tells_of_each_connection_once_and_of_one_that_is_refused_behind_a_proxy() {
    for log in ["--log", "--log=text"] {
        let arguments = ["serve", "echo", "--listen", "127.0.0.1:0", "--proxy-protocol", "127.0.0.0/8", log];
        let mut server = netwright(&[&arguments[..], &["--deny", "192.0.2.0/24"]].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(server.stdout.take().unwrap()).lines().map_while(Result::ok);
        let listens = lines.find(|line| line.contains(" listens on ")).unwrap();
        let address: SocketAddr = listens.rsplit(' ').next().unwrap().parse().unwrap();
        let header = |client: &str| format!("PROXY TCP4 {client} 198.51.100.7 40000 7007\r\nhello\n");
        assert_eq!(Peer::connect(address).send(header("203.0.113.9")).line(), "hello");
        let mut refused = TcpStream::connect(address).unwrap();
        refused.set_read_timeout(Some(PATIENCE)).unwrap();
        refused.write_all(header("192.0.2.9").as_bytes()).unwrap();
        assert!(!matches!(refused.read(&mut [0]), Ok(1..)));
        server.kill().unwrap();
        let told = text(&server.wait_with_output().unwrap().stderr);
        assert!(told.contains("192.0.2.9:40000 is refused: its network is denied"), "{told}");
        assert_eq!(told.matches(" active channel=").count(), 2, "{told}");
    }
}

#[test]
fn a_capture_has_what_passed_and_is_whole_when_the_server_has_ended() {
    let path = std::env::temp_dir().join(format!("netwright-serve-{}.pcapng", std::process::id()));
    let file = path.to_str().unwrap();
    let (mut server, address) = echo(&["--capture", file]);
    assert_eq!(Peer::connect(address).send("hello in a capture\n").line(), "hello in a capture");
    server.child.kill().unwrap();
    let _ = server.child.wait();
    // Also of a server that was killed something can be read: what it had written. So only what one that ends by itself says is looked at below.
    #[cfg(unix)]
    {
        let (mut server, address) = echo(&["--capture", file]);
        assert_eq!(Peer::connect(address).send("hello in a capture\n").line(), "hello in a capture");
        server.signal(rustix::process::Signal::TERM);
        let said = std::iter::from_fn(|| server.lines.recv_timeout(PATIENCE).ok()).collect::<Vec<_>>();
        assert!(said.iter().any(|line| line.contains("packets captured to")), "{said:?}");
        assert!(server.ended().success());
        let bytes = std::fs::read(&path).unwrap();
        let hellos = bytes.windows(18).filter(|bytes| bytes == b"hello in a capture").count();
        assert_eq!((&bytes[..4], hellos), (&[0x0a, 0x0d, 0x0d, 0x0a][..], 2), "there and back");
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_proxy_that_plays_a_bad_network_keeps_every_byte_and_cuts_where_it_is_told_to() {
    let (_echo, target) = echo(&[]);
    let target = target.to_string();
    let serve = |chaos: &str| {
        let arguments = ["serve", "proxy", "--listen", "127.0.0.1:0", "--to", &target, "--chaos", chaos];
        let (proxy, addresses) = Running::serve(&arguments, 1);
        (proxy, addresses[0])
    };
    let (_proxy, address) = serve("latency=5ms,jitter=5ms,rate=5m,seed=7");
    let bytes = numbered(100_000);
    assert!(Peer::connect(address).exchange(&bytes) == bytes);

    let (_proxy, address) = serve("cut=100%,seed=7");
    assert!(!is_served(address));

    for (options, expected) in [
        (["serve", "proxy", "--to", &target, "--chaos", "cut=200%"], "cut"),
        (["serve", "echo", "--listen", "127.0.0.1:0", "--chaos", "seed=1"], "proxy only"),
    ] {
        let output = run(&options);
        let error = text(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains(expected), "{options:?}: {error}");
    }
}
