//! Proxies that are spoken to in TLS: ours, which are a server with TLS in front of the one by hand.
//!
//! ```text
//!   client ── TLS to the proxy ──▶ Tls ─ Relay ──▶ toy: CONNECT ──▶ target, in clear or in TLS of its own
//! ```

use crate::{
    servers::{NAME, Secret, backends, echo, get, round_trip, round_trip_by, trusting, web, websocket},
    toy::{PATIENCE, Toy},
};
use bytes::BytesMut;
use netwright::{
    Client, CloseCause, Outgoing, Peer, Server, WritePromise,
    client::{ConnectError, Proxies, Proxy, ProxyError, ProxyWhy},
    event_loops,
    handler::Relay,
    http::client::WebClient,
    pipeline,
    pipeline::{Filter, FilterContext},
    tls::{Acceptor, Certificate, Connector, Tls, TlsError, rustls},
    websocket::{Message, OpenError, Opened, WebSocketClient},
};
use std::sync::mpsc;

/// By which name the proxies here show themselves.
const PROXY: &str = "proxy.test";

/// Lets so many bytes pass in each direction, and ends the connection then.
#[derive(Clone, Copy)]
struct Cut {
    incoming: usize,
    outgoing: usize,
}

impl Cut {
    const NEVER: Self = Self { incoming: usize::MAX, outgoing: usize::MAX };
}

impl Filter<BytesMut, Outgoing> for Cut {
    fn read(&mut self, cx: &mut FilterContext<'_, Self, BytesMut, Outgoing>, mut bytes: BytesMut) {
        bytes.truncate(self.incoming);
        self.incoming -= bytes.len();
        if !bytes.is_empty() {
            cx.fire_read(bytes);
        }
        if self.incoming == 0 {
            cx.close();
        }
    }

    fn write(
        &mut self,
        cx: &mut FilterContext<'_, Self, BytesMut, Outgoing>,
        mut message: Outgoing,
        done: WritePromise,
    ) {
        let pass = message.len().min(self.outgoing as u64);
        let part = if pass < message.len() { message.split_to(pass) } else { message };
        self.outgoing -= pass as usize;
        cx.write_with(part, done);
        if self.outgoing == 0 {
            cx.close_when_flushed();
        }
    }
}

struct Gate {
    toy: Toy,
    server: Server,
}

impl Gate {
    fn start(certificate: &Certificate, wants_credentials: bool, cut: Cut) -> Self {
        let (toy, acceptor) = (Toy::start(wants_credentials), Acceptor::new(certificate).unwrap());
        let (target, group) = (toy.address, event_loops(1).unwrap());
        let loops = group.clone();
        let server = Server::builder()
            .group(group)
            .pipeline(move |_| {
                let relay = Relay::to(Client::builder().group(loops.clone()), target);
                pipeline().filter(cut).add(Tls::server(&acceptor)).app(relay)
            })
            .bind("127.0.0.1:0")
            .wait()
            .unwrap();
        Self { toy, server }
    }

    fn proxy(&self) -> Proxy {
        Proxy::https(self.server.address()).server_name(PROXY)
    }

    /// As others behind a proxy know it.
    fn named(&self) -> Proxy {
        Proxy::https(format!("{PROXY}:{}", self.server.local_addr().unwrap().port()))
    }
}

fn certificate() -> Certificate {
    Certificate::self_signed([PROXY]).unwrap()
}

/// `hello` there and back.
fn hello(
    connector: &Connector,
    proxies: impl Into<Proxies>,
    target: &str,
) -> Result<netwright::Channel, ConnectError> {
    let connector = connector.clone();
    let builder = Client::builder().through(proxies).proxy_tls(move |name| Tls::client(&connector, name));
    round_trip_by(builder, target)
}

fn refused(result: Result<netwright::Channel, ConnectError>) -> ProxyError {
    match result {
        Err(ConnectError::Proxy(error)) => *error,
        other => panic!("{other:?}"),
    }
}

fn fault(error: &ProxyError) -> &TlsError {
    match &error.why {
        ProxyWhy::Tls(fault) => fault.downcast_ref().unwrap(),
        why => panic!("{why:?}"),
    }
}

#[test]
fn a_proxy_in_tls_is_gone_through_on_every_backend_and_hears_the_credentials() {
    let (certificate, (_server, port)) = (certificate(), echo());
    let gate = Gate::start(&certificate, true, Cut::NEVER);
    let target = format!("echo.test:{port}");
    for backend in backends() {
        let connector = trusting(&certificate);
        let builder = Client::builder().backend(backend);
        let builder = builder.through(gate.proxy().credentials("ada", "secret"));
        let builder = builder.proxy_tls(move |name| Tls::client(&connector, name));
        round_trip_by(builder, &target).unwrap().close();
        assert_eq!(gate.toy.asked(), [format!("connect {target}")], "{backend}");
    }
    let error = refused(hello(&trusting(&certificate), gate.proxy(), &target));
    assert!(matches!(error.why, ProxyWhy::Unauthorized { given: false }), "{error}");
}

#[test]
fn proxies_in_tls_stand_anywhere_in_a_chain() {
    let (certificate, (_server, port)) = (certificate(), echo());
    let (target, connector) = (format!("echo.test:{port}"), trusting(&certificate));
    let [one, two] = [(); 2].map(|()| Gate::start(&certificate, false, Cut::NEVER));
    let toy = Toy::start(false);
    let toys = || Proxy::socks5(format!("toy.test:{}", toy.address.port()));
    for chain in [
        one.proxy().then(two.named()),
        one.proxy().then(toys()).then(two.named()),
        Proxy::http(toy.address).then(one.named()).then(two.named()),
        one.proxy().then(two.named()).then(toys()),
    ] {
        hello(&connector, chain.clone(), &target).unwrap_or_else(|error| panic!("{chain}: {error}")).close();
        let last = [&one.toy, &two.toy, &toy].map(Toy::asked).concat();
        assert_eq!(last.len(), chain.hops().len(), "{chain}: {last:?}");
        assert!(last.iter().any(|asked| asked.ends_with(&target)), "{chain}: {last:?}");
    }
}

#[test]
fn https_goes_through_a_proxy_in_tls_by_tls_in_tls_and_plain_urls_are_put_to_it_in_tls() {
    // One connector for both by default, so one certificate for both.
    let both = Certificate::self_signed([PROXY, NAME]).unwrap();
    let ((_server, port), secret) = (web(), Secret::web_by(&both));
    let gate = Gate::start(&both, true, Cut::NEVER);
    let client = WebClient::builder()
        .connector(secret.connector.clone())
        .through(gate.proxy().credentials("ada", "secret"))
        .build()
        .unwrap();
    for path in ["/one", "/two"] {
        assert_eq!(get(&client, &format!("https://{NAME}:{}{path}", secret.port)), format!("hello, {path}"));
        let plain = get(&client, &format!("http://web.test:{port}{path}"));
        assert_eq!(plain, format!("hello, {path} (authorized)"));
    }
    let asked = gate.toy.asked();
    assert_eq!(asked, [format!("connect {NAME}:{}", secret.port), format!("plain web.test:{port}")]);

    // Behind another proxy; and by a connector of its own, which offers what nobody speaks to a proxy.
    let (own, toy) = (certificate(), Toy::start(false));
    let gate = Gate::start(&own, false, Cut::NEVER);
    for chain in [gate.proxy().into(), Proxy::socks5(toy.address).then(gate.named())] {
        let client = WebClient::builder()
            .connector(secret.connector.clone())
            .proxy_connector(trusting(&own).offering(["h2"]))
            .through(chain)
            .build()
            .unwrap();
        assert_eq!(get(&client, &format!("https://{NAME}:{}/x", secret.port)), "hello, /x");
        assert_eq!(get(&client, &format!("http://web.test:{port}/x")), "hello, /x");
    }
}

async fn say(
    mut peer: Peer<Message, Message>,
    _: Opened,
    tell: mpsc::Sender<String>,
) -> Result<(), CloseCause> {
    peer.write(Message::from("hello")).await?;
    if let Some(message) = peer.read().await? {
        let _ = tell.send(String::from_utf8_lossy(message.payload()).into_owned());
    }
    Ok(())
}

#[test]
fn websockets_go_through_a_proxy_in_tls() {
    let ((_server, port), secret, own) = (websocket(), Secret::websocket(), certificate());
    let gate = Gate::start(&own, false, Cut::NEVER);
    let client = WebSocketClient::new(event_loops(1).unwrap()).through(gate.proxy());
    let trusting_both = client.clone().tls(secret.connector.clone()).proxy_tls(trusting(&own));
    for url in [format!("ws://chat.test:{port}/"), format!("wss://{NAME}:{}/", secret.port)] {
        let (tell, told) = mpsc::channel();
        let opening = trusting_both.connect(url.as_str(), move |peer, opened| say(peer, opened, tell));
        let _socket = { opening }.wait().unwrap();
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), "hello");
    }
    let (tell, _told) = mpsc::channel();
    let url = format!("ws://chat.test:{port}/");
    match client.connect(url.as_str(), move |peer, opened| say(peer, opened, tell)).wait() {
        Err(OpenError::Connect(ConnectError::Setup(why))) => assert!(why.contains("proxy_tls"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_proxy_that_shows_another_name_or_that_nobody_vouches_for_is_refused() {
    let own = certificate();
    let gate = Gate::start(&own, false, Cut::NEVER);
    let stranger = trusting(&Certificate::self_signed([PROXY]).unwrap());
    let nameless = Proxy::https(gate.server.address());
    for (connector, proxy) in [
        (trusting(&own), gate.proxy().server_name("another.test")),
        (trusting(&own), nameless),
        (stranger, gate.proxy()),
    ] {
        let error = refused(hello(&connector, proxy, "echo.test:1"));
        let cause = fault(&error);
        let wrong = matches!(cause, TlsError::Protocol(rustls::Error::InvalidCertificate(_)));
        assert!(wrong && error.hop == 1, "{error}");
    }
    assert!(gate.toy.asked().is_empty(), "nothing was said to it");
}

#[test]
fn a_proxy_that_speaks_no_tls_is_refused_by_its_first_bytes() {
    let (_server, port) = web();
    let proxy = Proxy::https(format!("127.0.0.1:{port}"));
    let error = refused(hello(&trusting(&certificate()), proxy, "echo.test:1"));
    assert!(matches!(fault(&error), TlsError::NotTls { .. }), "{error}");
}

#[test]
fn a_proxy_in_tls_that_nobody_speaks_tls_to_is_refused_before_anybody_connects() {
    let setup = |result: Result<netwright::Channel, ConnectError>| match result {
        Err(ConnectError::Setup(why)) => why,
        other => panic!("{other:?}"),
    };
    let why = setup(round_trip(Client::builder(), Proxy::https("a:1"), "b:2"));
    assert!(why.contains("https://a:1") && why.contains("proxy_tls"), "{why}");
    let why = setup(round_trip(Client::builder(), Proxy::http("a:1").then(Proxy::https("b:1")), "b:2"));
    assert!(why.contains("https://b:1"), "{why}");
    let connector = trusting(&certificate());
    let why = setup(hello(&connector, Proxy::https("local:nameless"), "b:2"));
    assert!(why.contains("server_name"), "{why}");
    let why = setup(hello(&connector, Proxy::https("a:1").server_name("127.1"), "b:2"));
    assert!(why.contains("127.1"), "{why}");
}

#[test]
fn a_connection_that_is_cut_at_any_byte_of_the_tls_with_the_proxy_is_an_error_that_says_so() {
    let (own, (_server, port)) = (certificate(), echo());
    let (connector, target) = (trusting(&own).offering(["http/1.1"]), format!("echo.test:{port}"));
    let acceptor = Acceptor::new(&own).unwrap();
    let (toy, group) = (Toy::start(false), event_loops(1).unwrap());
    let cut = std::sync::Arc::new(std::sync::Mutex::new(Cut::NEVER));
    let (loops, next) = (group.clone(), cut.clone());
    let server = Server::builder().group(group.clone()).pipeline(move |_| {
        let relay = Relay::to(Client::builder().group(loops.clone()), toy.address);
        pipeline().filter(*next.lock().unwrap()).add(Tls::server(&acceptor)).app(relay)
    });
    let server = server.bind("127.0.0.1:0").wait().unwrap();
    let client = Client::builder()
        .group(group)
        .through(Proxy::https(server.address()).server_name(PROXY))
        .proxy_tls(move |name| Tls::client(&connector, name))
        .pipeline(|| pipeline().handle(|_, _: BytesMut| ()))
        .unwrap();
    for incoming in [true, false] {
        let mut passed = 0;
        let (mut in_tls, mut behind) = (0, 0);
        loop {
            *cut.lock().unwrap() = match incoming {
                true => Cut { incoming: passed + 1, ..Cut::NEVER },
                false => Cut { outgoing: passed + 1, ..Cut::NEVER },
            };
            match client.connect(&target).wait_timeout(PATIENCE).expect("an end within the time") {
                Ok(channel) => {
                    channel.close();
                    break;
                }
                Err(ConnectError::Proxy(error)) => match error.why {
                    ProxyWhy::Tls(_) => in_tls += 1,
                    ProxyWhy::Ended(_) => behind += 1,
                    why => panic!("{passed}: {why}"),
                },
                Err(error) => panic!("{passed}: {error:?}"),
            }
            passed += 1;
        }
        assert!(passed > 200 && in_tls > 0, "{passed} bytes, {in_tls} in TLS, {behind} behind it");
    }
}
