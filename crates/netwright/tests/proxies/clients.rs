//! Every client through proxies by hand.

use crate::{
    servers::{NAME, Secret, backends, echo, get, round_trip, text, web, websocket},
    toy::{PATIENCE, Toy},
};
use netwright::{
    Client, CloseCause, Peer,
    client::{ConnectError, Proxies, Proxy, ProxyWhy},
    event_loops,
    http::client::{WebClient, WebClientError},
    websocket::{Message, OpenError, Opened, WebSocketClient},
};
use std::sync::mpsc;

#[test]
fn every_protocol_reaches_names_that_only_the_proxy_knows_on_every_backend() {
    let ((_server, port), toy) = (echo(), Toy::start(true));
    let target = format!("echo.test:{port}");
    for backend in backends() {
        for (proxy, said) in [
            (Proxy::http(toy.address).credentials("ada", "secret"), "connect"),
            (Proxy::socks4a(toy.address).credentials("ada", ""), "socks4"),
            (Proxy::socks5(toy.address).credentials("ada", "secret"), "socks5"),
        ] {
            let channel = round_trip(Client::builder().backend(backend), proxy, &target).unwrap();
            assert_eq!(toy.asked(), [format!("{said} {target}")], "{backend}");
            channel.close();
        }
    }
}

#[test]
fn names_that_are_looked_up_here_are_asked_for_by_their_address() {
    let ((_server, port), toy) = (echo(), Toy::start(false));
    let known = |name: &str| {
        if let Ok(literal) = name.parse() {
            return netwright::Promised::ready(Ok(vec![literal])); // that of the proxy
        }
        assert!(name.starts_with("only-here:"), "{name}");
        let port = name.rsplit_once(':').unwrap().1.parse().unwrap();
        let (v6, v4) = (([0, 0, 0, 0, 0, 0, 0, 1], port).into(), ([127, 0, 0, 1], port).into());
        netwright::Promised::ready(Ok(vec![v6, v4]))
    };
    for (proxy, said) in [
        (Proxy::socks4(toy.address), "socks4 127.0.0.1"),
        (Proxy::socks5(toy.address).local_names(), "socks5 [::1]"),
        (Proxy::http(toy.address).local_names(), "connect [::1]"),
    ] {
        let v4 = said.contains("127");
        let reached = round_trip(Client::builder().resolver(known), proxy, &format!("only-here:{port}"));
        assert_eq!(toy.asked(), [format!("{said}:{port}")]);
        match reached {
            Ok(_) => assert!(v4, "nobody listens at [::1]"),
            Err(error) => assert!(!v4 && matches!(error, ConnectError::Proxy(_)), "{error}"),
        }
    }
}

#[test]
fn a_chain_is_gone_through_one_by_one() {
    let (_server, port) = echo();
    let toys = [Toy::start(true), Toy::start(false), Toy::start(true), Toy::start(false)];
    let [a, b, c, d] = toys.each_ref().map(|toy| toy.address.port());
    let chain = Proxy::socks5(toys[0].address)
        .credentials("ada", "secret")
        .then(Proxy::http(format!("b.test:{b}")))
        .then(Proxy::socks4a(format!("c.test:{c}")).credentials("ada", ""))
        .then(Proxy::socks5(format!("d.test:{d}")));
    let channel = round_trip(Client::builder(), chain.clone(), &format!("echo.test:{port}")).unwrap();
    assert_eq!(channel.peer().unwrap().to_string(), format!("127.0.0.1:{a}"));
    let asked = toys.each_ref().map(|toy| toy.asked().concat());
    let expected = [
        format!("socks5 b.test:{b}"),
        format!("connect c.test:{c}"),
        format!("socks4 d.test:{d}"),
        format!("socks5 echo.test:{port}"),
    ];
    assert_eq!(asked, expected);

    let error =
        round_trip(Client::builder(), chain.then(Proxy::http("127.0.0.1:1")), "x.test:1").unwrap_err();
    let ConnectError::Proxy(error) = error else { panic!("{error}") };
    assert_eq!((error.hop, error.target.as_str()), (4, "127.0.0.1:1"), "{error}");
    assert!(matches!(error.why, ProxyWhy::Socks { code: 5 }), "{error}");
}

#[test]
fn a_proxy_that_is_not_there_is_an_error_like_that_of_any_peer() {
    let error = round_trip(Client::builder(), Proxy::socks5("127.0.0.1:1"), "x.test:1").unwrap_err();
    assert!(matches!(error, ConnectError::Refused(_)), "{error:?}");
}

#[test]
fn wrong_credentials_and_none_are_told_apart_by_every_protocol_and_shown_by_none() {
    let toy = Toy::start(true);
    for proxy in [Proxy::http(toy.address), Proxy::socks4a(toy.address), Proxy::socks5(toy.address)] {
        let wrong = proxy
            .clone()
            .credentials("eve", if proxy.to_string().starts_with("socks4") { "" } else { "hunter2" });
        for (proxy, expected) in [(proxy, false), (wrong, true)] {
            let error = round_trip(Client::builder(), proxy, "x.test:1").unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("hunter2") && !shown.contains("eve"), "{shown}");
            let ConnectError::Proxy(error) = error else { panic!("{shown}") };
            assert!(matches!(error.why, ProxyWhy::Unauthorized { given } if given == expected), "{shown}");
        }
    }
    assert!(toy.asked().is_empty());
}

#[test]
fn what_goes_without_a_proxy_does_and_so_do_addresses_that_are_no_hosts() {
    let ((_server, port), toy) = (echo(), Toy::start(false));
    let proxies = || Proxies::from(Proxy::http(toy.address)).bypass("127.0.0.0/8").unwrap();
    round_trip(Client::builder(), proxies(), &format!("127.0.0.1:{port}")).unwrap();
    assert!(toy.asked().is_empty());
    round_trip(Client::builder(), proxies(), &format!("echo.test:{port}")).unwrap();
    assert_eq!(toy.asked().len(), 1);
    let _local = netwright::Server::builder()
        .pipeline(|_| netwright::pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())))
        .bind("local:behind-no-proxy")
        .wait()
        .unwrap();
    round_trip(Client::builder(), proxies(), "local:behind-no-proxy").unwrap();
    assert!(toy.asked().is_empty());
}

#[test]
fn settings_that_cannot_work_are_refused_before_anybody_connects() {
    let pipelines = || netwright::pipeline().handle(|_, _: bytes::BytesMut| ());
    let of = |proxies: Proxies| Client::builder().through(proxies).pipeline(pipelines).unwrap_err();
    let nine = (1..9).fold(netwright::client::ProxyChain::from(Proxy::http("a:1")), |chain, _| {
        chain.then(Proxy::http("a:1"))
    });
    let error = of(nine.into()).to_string();
    assert!(error.contains("9 proxies") && error.contains("limit is 8"), "{error}");
    let error = of(Proxy::socks5("a:1").credentials("x".repeat(300), "hunter2").into()).to_string();
    assert!(error.contains("limit is 255") && !error.contains("hunter2"), "{error}");
    let error = of(Proxy::socks5("a:1").then(Proxy::http("local:name")).into()).to_string();
    assert!(error.contains("local:name"), "{error}");
    let chain = Proxy::socks5("a:1").then(Proxy::socks4("[::1]:1"));
    assert!(Client::builder().through(chain).pipeline(pipelines).is_ok());
    let client = Client::builder()
        .through(Proxy::socks4("127.0.0.1:1").then(Proxy::http("[::1]:1")))
        .pipeline(pipelines);
    let error = client.unwrap().connect("x:1").wait().unwrap_err().to_string();
    assert!(error.contains("SOCKS 4 knows no IPv6"), "{error}");
}

#[test]
fn plain_urls_are_put_to_a_proxy_of_http_as_they_are_and_its_connections_are_kept() {
    let ((_server, port), toy) = (web(), Toy::start(true));
    let proxy = format!("http://ada:secret@{}", toy.address);
    let client = WebClient::builder().proxy(&proxy).unwrap().build().unwrap();
    for path in ["/one", "/two"] {
        // The toy passes everything on, so that the server sees what the proxy is told.
        assert_eq!(
            get(&client, &format!("http://web.test:{port}{path}")),
            format!("hello, {path} (authorized)")
        );
    }
    assert_eq!(toy.asked(), [format!("plain web.test:{port}")]);

    let client = WebClient::builder().through(Proxy::http(toy.address)).build().unwrap();
    let reply = client.get(format!("http://web.test:{port}/")).wait().unwrap();
    assert_eq!(reply.status(), 407, "what a proxy says to a plain request is its reply");
}

#[test]
fn plain_urls_go_through_other_proxies_by_a_tunnel_and_to_one_of_http_behind_them() {
    let ((_server, port), [socks, http]) = (web(), [Toy::start(false), Toy::start(true)]);
    let url = format!("http://web.test:{port}/x");
    let client = WebClient::builder().through(Proxy::socks5(socks.address)).build().unwrap();
    assert_eq!(get(&client, &url), "hello, /x");
    assert_eq!(socks.asked(), [format!("socks5 web.test:{port}")]);
    let second = Proxy::http(format!("http.test:{}", http.address.port())).credentials("ada", "secret");
    let client = WebClient::builder().through(Proxy::socks5(socks.address).then(second)).build().unwrap();
    assert_eq!(get(&client, &url), "hello, /x (authorized)");
    assert_eq!(socks.asked(), [format!("socks5 http.test:{}", http.address.port())]);
    assert_eq!(http.asked(), [format!("plain web.test:{port}")]);
}

#[test]
fn https_is_between_the_client_and_the_server_whatever_lies_between_them() {
    let (secret, [one, two]) = (Secret::web(), [Toy::start(true), Toy::start(false)]);
    let url = format!("https://{NAME}:{}/x", secret.port);
    let first = || Proxy::http(one.address).credentials("ada", "secret");
    let second = Proxy::socks5(format!("two.test:{}", two.address.port()));
    for proxies in [Proxies::from(first()), Proxy::socks5(two.address).into(), first().then(second).into()] {
        let client =
            WebClient::builder().connector(secret.connector.clone()).through(proxies).build().unwrap();
        assert_eq!(get(&client, &url), "hello, /x");
        assert_eq!(get(&client, &url), "hello, /x");
    }
    assert_eq!(two.asked().len(), 2, "a tunnel is kept");

    let client = WebClient::builder()
        .connector(secret.connector.clone())
        .through(Proxy::http(one.address))
        .build()
        .unwrap();
    match client.get(&url).wait() {
        Err(WebClientError::Proxy(error)) => {
            assert!(matches!(error.why, ProxyWhy::Unauthorized { given: false }), "{error}");
        }
        other => panic!("{:?}", other.map(text)),
    }
}

#[test]
fn the_environment_chooses_by_scheme_and_host() {
    let ((_server, port), [http, all]) = (web(), [Toy::start(false), Toy::start(false)]);
    let vars = |name: &str| match name {
        "http_proxy" => Some(http.address.to_string()),
        "ALL_PROXY" => Some(format!("socks5h://{}", all.address)),
        "no_proxy" => Some("localhost,127.0.0.1".to_owned()),
        _ => None,
    };
    let client = WebClient::builder().through(Proxies::from_vars(vars).unwrap()).build().unwrap();
    assert_eq!(get(&client, &format!("http://web.test:{port}/x")), "hello, /x");
    assert_eq!(http.asked(), [format!("plain web.test:{port}")]);
    assert_eq!(get(&client, &format!("http://127.0.0.1:{port}/x")), "hello, /x");
    assert!(client.get(format!("https://nobody.test:{port}/x")).wait().is_err(), "no TLS is spoken there");
    assert_eq!((http.asked(), all.asked()), (vec![], vec![format!("socks5 nobody.test:{port}")]));
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
fn websockets_go_through_tunnels_in_clear_and_in_tls() {
    let ((_server, port), secret) = (websocket(), Secret::websocket());
    let [http, socks] = [Toy::start(true), Toy::start(false)];
    for proxies in [
        Proxies::from(Proxy::http(http.address).credentials("ada", "secret")),
        Proxies::from(Proxy::socks5(socks.address)),
    ] {
        let client =
            WebSocketClient::new(event_loops(1).unwrap()).tls(secret.connector.clone()).through(proxies);
        for url in [format!("ws://chat.test:{port}/"), format!("wss://{NAME}:{}/", secret.port)] {
            let (tell, told) = mpsc::channel();
            let socket =
                client.connect(url.as_str(), move |peer, opened| say(peer, opened, tell)).wait().unwrap();
            assert_eq!(told.recv_timeout(PATIENCE).unwrap(), "hello");
            drop(socket);
        }
    }
    assert_eq!(
        http.asked(),
        [format!("connect chat.test:{port}"), format!("connect {NAME}:{}", secret.port)]
    );
    assert_eq!(socks.asked(), [format!("socks5 chat.test:{port}"), format!("socks5 {NAME}:{}", secret.port)]);

    let client = WebSocketClient::new(event_loops(1).unwrap()).through(Proxy::http(http.address));
    let (tell, _) = mpsc::channel();
    let mut refused = client
        .connect(format!("ws://chat.test:{port}/").as_str(), move |peer, opened| say(peer, opened, tell));
    match refused.wait() {
        Err(OpenError::Connect(ConnectError::Proxy(error))) => {
            assert!(matches!(error.why, ProxyWhy::Unauthorized { given: false }), "{error}");
        }
        other => panic!("{other:?}"),
    }
}
