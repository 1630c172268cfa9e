//! Proxies that people run, if they are there (Debian: tinyproxy-bin, dante-server, microsocks).

use crate::{
    servers::{NAME, Secret, echo, get, round_trip, round_trip_by, web},
    toy::{PATIENCE, Toy},
};
use netwright::{
    Client,
    client::{ConnectError, Proxies, Proxy, ProxyWhy},
    http::client::WebClient,
    tls::{Connector, Roots, Tls},
};
use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// A program with a folder of its own; both go when it is dropped.
struct Program {
    process: Child,
    folder: PathBuf,
    port: u16,
}

impl Program {
    /// One that listens on the port that it is told. None, and a line that says so, if it is not installed.
    fn start(name: &str, command: impl FnOnce(&mut Command, &PathBuf, u16)) -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = format!("netwright-proxies-{name}-{}-{port}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir_all(&folder).unwrap();
        let mut spawning = Command::new(name);
        command(&mut spawning, &folder, port);
        let spawned = spawning.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let process = match spawned {
            Ok(process) => process,
            Err(error) => {
                println!("skipped: {name} cannot be run: {error}");
                let _ = fs::remove_dir_all(&folder);
                return None;
            }
        };
        let mut program = Self { process, folder, port };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if let Some(status) = program.process.try_wait().unwrap() {
                println!("skipped: {name} has ended with {status}");
                return None;
            }
            assert!(begun.elapsed() < PATIENCE, "{name} runs and does not listen");
            thread::sleep(Duration::from_millis(10));
        }
        Some(program)
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Politely first: some have children, which they end.
        let _ = Command::new("kill").arg(self.process.id().to_string()).status();
        let begun = Instant::now();
        while matches!(self.process.try_wait(), Ok(None)) && begun.elapsed() < Duration::from_secs(5) {
            thread::sleep(Duration::from_millis(10));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Everything that is to work through a proxy.
fn reaches_everything(proxies: impl Fn() -> Proxies) {
    let ((_echo, echo_port), (_web, web_port), secret) = (echo(), web(), Secret::web());
    round_trip(Client::builder(), proxies(), &format!("127.0.0.1:{echo_port}")).unwrap();
    let client = WebClient::builder().through(proxies()).build().unwrap();
    for path in ["/one", "/two"] {
        assert_eq!(get(&client, &format!("http://127.0.0.1:{web_port}{path}")), format!("hello, {path}"));
    }
    // Nobody knows the name: that it is asked for shows in what is said of it.
    let client = WebClient::builder().connector(secret.connector.clone()).through(proxies()).build().unwrap();
    let error = client.get(format!("https://{NAME}:{}/x", secret.port)).wait().unwrap_err().to_string();
    assert!(error.contains("through the proxy"), "{error}");
}

fn refused(proxy: Proxy) -> ProxyWhy {
    match round_trip(Client::builder(), proxy, "127.0.0.1:1") {
        Err(ConnectError::Proxy(error)) => error.why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn tinyproxy_lets_us_through_with_credentials_and_not_without() {
    let started = Program::start("tinyproxy", |command, folder, port| {
        let conf = folder.join("conf");
        let settings = format!(
            "Port {port}\nListen 127.0.0.1\nTimeout 60\nMaxClients 20\nAllow 127.0.0.1\nBasicAuth ada secret\n"
        );
        fs::write(&conf, settings).unwrap();
        command.arg("-d").arg("-c").arg(conf);
    });
    let Some(tinyproxy) = started else { return };
    let proxy = || Proxy::http(tinyproxy.address());
    reaches_everything(|| proxy().credentials("ada", "secret").into());
    assert!(matches!(refused(proxy()), ProxyWhy::Unauthorized { given: false }));
    let wrong = refused(proxy().credentials("ada", "wrong"));
    assert!(matches!(wrong, ProxyWhy::Unauthorized { given: true } | ProxyWhy::Status(401)), "{wrong:?}");
    let nobody = refused(proxy().credentials("ada", "secret"));
    assert!(matches!(nobody, ProxyWhy::Status(500..=599)), "{nobody:?}");
}

#[test]
fn microsocks_lets_us_through_with_credentials_and_not_without() {
    let started = Program::start("microsocks", |command, _, port| {
        command.args(["-i", "127.0.0.1", "-p", &port.to_string(), "-u", "ada", "-P", "secret"]);
    });
    let Some(microsocks) = started else { return };
    let proxy = || Proxy::socks5(microsocks.address());
    reaches_everything(|| proxy().credentials("ada", "secret").into());
    assert!(matches!(refused(proxy()), ProxyWhy::Unauthorized { given: false }));
    assert!(matches!(refused(proxy().credentials("ada", "wrong")), ProxyWhy::Unauthorized { given: true }));
    assert!(matches!(refused(proxy().credentials("ada", "secret")), ProxyWhy::Socks { code: 5 }));
}

#[test]
fn dante_lets_us_through_by_versions_4_and_5() {
    let started = Program::start("danted", |command, folder, port| {
        let conf = folder.join("conf");
        let rule = "from: 127.0.0.0/8 to: 0.0.0.0/0";
        let settings = format!(
            "logoutput: stderr\ninternal: 127.0.0.1 port = {port}\nexternal: 127.0.0.1\nclientmethod: none\nsocksmethod: none\n\
             user.privileged: root\nuser.unprivileged: nobody\nclient pass {{ {rule} }}\nsocks pass {{ {rule} }}\n"
        );
        fs::write(&conf, settings).unwrap();
        command.arg("-f").arg(conf).arg("-p").arg(folder.join("pid"));
    });
    let Some(dante) = started else { return };
    for proxy in [Proxy::socks5(dante.address()), Proxy::socks4a(dante.address())] {
        reaches_everything(|| proxy.clone().into());
    }
    assert!(matches!(refused(Proxy::socks5(dante.address())), ProxyWhy::Socks { code: 5 }));
    assert!(matches!(refused(Proxy::socks4(dante.address())), ProxyWhy::Socks { code: 91 }));
    // Not to itself, which it does not do.
    let toy = Toy::start(false);
    for chain in [
        Proxy::http(toy.address).then(Proxy::socks4(dante.address())),
        Proxy::socks5(dante.address()).then(Proxy::http(toy.address)),
    ] {
        let (_server, port) = echo();
        round_trip(Client::builder(), chain, &format!("127.0.0.1:{port}")).unwrap();
    }
}

/// A self-signed certificate for 127.0.0.1 with its key, in one file. None, and a line that says so, if openssl is not there.
fn certificate(folder: &Path) -> Option<PathBuf> {
    let (key, chain, both) = (folder.join("key"), folder.join("chain"), folder.join("both"));
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
    command.args(["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]);
    command.args(["-addext", "basicConstraints=critical,CA:FALSE"]); // no server shows itself by an authority
    command.arg("-keyout").arg(&key).arg("-out").arg(&chain);
    match command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(status) if status.success() => {}
        other => {
            println!("skipped: openssl makes no certificate: {other:?}");
            return None;
        }
    }
    fs::write(&both, [fs::read(&chain).unwrap(), fs::read(&key).unwrap()].concat()).unwrap();
    Some(chain)
}

#[test]
fn haproxy_with_tls_in_front_of_tinyproxy_is_a_proxy_in_tls() {
    let started = Program::start("tinyproxy", |command, folder, port| {
        let conf = folder.join("conf");
        let settings = format!(
            "Port {port}\nListen 127.0.0.1\nTimeout 60\nMaxClients 20\nAllow 127.0.0.1\nBasicAuth ada secret\n"
        );
        fs::write(&conf, settings).unwrap();
        command.arg("-d").arg("-c").arg(conf);
    });
    let Some(tinyproxy) = started else { return };
    let mut chain = None;
    let started = Program::start("haproxy", |command, folder, port| {
        chain = certificate(folder);
        let conf = folder.join("conf");
        let settings = format!(
            "defaults\n  mode tcp\n  timeout connect 10s\n  timeout client 60s\n  timeout server 60s\n\
             listen front\n  bind 127.0.0.1:{port} ssl crt {} alpn h2,http/1.1\n  server back {}\n",
            folder.join("both").display(),
            tinyproxy.address()
        );
        fs::write(&conf, settings).unwrap();
        command.arg("-db").arg("-f").arg(conf);
    });
    let (Some(haproxy), Some(chain)) = (started, chain) else { return };
    let proxy = || Proxy::https(haproxy.address()).credentials("ada", "secret");
    let trusted = Connector::builder().roots(Roots::from_pem_file(chain).unwrap()).alpn(["h2", "http/1.1"]);
    let trusted = trusted.build().unwrap();

    let ((_echo, echo_port), (_web, web_port), secret) = (echo(), web(), Secret::web());
    let connector = trusted.offering(["http/1.1"]);
    let builder = Client::builder().through(proxy()).proxy_tls(move |name| Tls::client(&connector, name));
    round_trip_by(builder, &format!("127.0.0.1:{echo_port}")).unwrap();
    let client = WebClient::builder().connector(secret.connector.clone()).proxy_connector(trusted);
    let client = client.through(proxy()).build().unwrap();
    for path in ["/one", "/two"] {
        assert_eq!(get(&client, &format!("http://127.0.0.1:{web_port}{path}")), format!("hello, {path}"));
    }
    // Nobody knows the name: that it is asked for shows in what is said of it.
    let error = client.get(format!("https://{NAME}:{}/x", secret.port)).wait().unwrap_err().to_string();
    assert!(error.contains("through the proxy https://"), "{error}");
}
