//! Clients through proxies in a simulated network: the proxies are cut off at every byte of their answers, in every way.
//!
//! ```text
//!   client ──▶ proxy: SOCKS 5, and through it HTTP ──▶ echo       answers: [5 0][5 0 0 1 …][HTTP/1.1 200 …] hello
//!                                                                            └ cut at a byte: end, reset, end of output, silence
//! ```

use bytes::BytesMut;
use netwright::{
    AppContext, Application, Client, Outgoing, Server,
    client::{ConnectError, Proxy, ProxyWhy},
    options::StreamOptions,
    pipeline,
    server::BindError,
};
use netwright_testkit::sim::{Link, Sim, for_seeds};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

/// How long the proxies may take together.
const LIMIT: Duration = Duration::from_secs(5);
/// For connecting, and for turns of loops.
const SLACK: Duration = Duration::from_secs(2);

/// What the client says, and what it is answered.
const WORDS: [(&[u8], &[u8]); 3] = [
    (&[5, 1, 0], &[5, 0]),
    (b"\x05\x01\0\x03\x0esecond.example\x0c\x38", &[5, 0, 0, 1, 10, 0, 0, 9, 12, 56]),
    (
        b"CONNECT target.example:80 HTTP/1.1\r\nHost: target.example:80\r\n\r\n",
        b"HTTP/1.1 200 Go on\r\nVia: second\r\n\r\nwelcome",
    ),
];
const GREETING: &[u8] = b"welcome";

fn answers() -> Vec<u8> {
    WORDS.iter().flat_map(|(_, answer)| *answer).copied().collect()
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Close,
    Reset,
    EndOfOutput,
    Silence,
}

/// Both proxies in one, and what they lead to. After so many bytes it ends.
struct Proxies {
    heard: usize,
    said: usize,
    most: usize,
    way: Way,
    over: bool,
}

impl Application for Proxies {
    type Read = BytesMut;
    type Write = Outgoing;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        if self.over {
            return;
        }
        self.heard += bytes.len();
        // What is an answer to what has been heard, as far as it is to be said.
        let mut due = (0, 0);
        for (asked, answer) in WORDS {
            due.0 += asked.len();
            if self.heard >= due.0 {
                due.1 += answer.len();
            }
        }
        let until = due.1.min(self.most);
        let part = answers()[self.said..until].to_vec();
        self.said = until;
        cx.write_and_flush(part);
        if self.said == self.most {
            self.over = true;
            match self.way {
                Way::Close => cx.close_when_flushed(),
                Way::Reset => cx.close(),
                Way::EndOfOutput => cx.shut_down_output(),
                Way::Silence => {}
            }
        }
    }
}

fn serve(most: usize, way: Way) -> Result<Server, BindError> {
    let resets = (way == Way::Reset).then_some(Duration::ZERO);
    let options = resets.map_or(StreamOptions::new(), |zero| StreamOptions::new().linger(zero));
    Server::builder()
        .options(options)
        .half_closure(true)
        .pipeline(move |_| pipeline().app(Proxies { heard: 0, said: 0, most, way, over: false }))
        .bind("0.0.0.0:1080")
        .wait()
}

fn through(sim: &Sim, most: usize, way: Way) {
    let latency = Duration::from_micros(50 + sim.below(20_000));
    sim.link(Link::default().latency(latency).jitter(Duration::from_micros(sim.below(5_000))));
    let proxy = sim.host("proxy");
    let host = sim.host("client");
    let [short_there, short_here] = [sim.below(60), sim.below(60)].map(|many| many as f64 / 100.0);
    proxy.limit(|limits| limits.short_sends = short_there);
    host.limit(|limits| limits.short_receives = short_here);
    proxy.start(move || serve(most, way)).unwrap();
    host.enter(|| {
        let got = Arc::<Mutex<Vec<u8>>>::default();
        let heard = got.clone();
        let client = Client::builder()
            .through(Proxy::socks5("proxy:1080").then(Proxy::http("second.example:3128")))
            .proxy_timeout(LIMIT)
            .pipeline(move || {
                let heard = heard.clone();
                pipeline().handle(move |_, bytes: BytesMut| heard.lock().unwrap().extend_from_slice(&bytes))
            })
            .unwrap();
        let begun = sim.now();
        let mut connecting = client.connect("target.example:80");
        assert!(sim.run_until(LIMIT + SLACK, || connecting.is_done()), "it takes longer than it may");
        let took = sim.now() - begun;
        let needed = answers().len() - GREETING.len();
        match connecting.try_take().expect("it is done") {
            Ok(channel) => {
                assert!(most >= needed, "a channel though {most} of {needed} bytes were said");
                let lost = way == Way::Reset; // what has not been read is, then
                let all = || got.lock().unwrap().len() == most - needed;
                assert!(sim.run_until(SLACK, all) || lost, "{:?} of {most}", got.lock().unwrap());
                assert!(answers()[needed..].starts_with(&got.lock().unwrap()));
                drop(channel.close());
            }
            Err(ConnectError::Proxy(error)) => {
                assert!(most < needed || way == Way::Reset, "{error}");
                match error.why {
                    ProxyWhy::TimedOut(LIMIT) => assert!(way == Way::Silence && took >= LIMIT, "{took:?}"),
                    ProxyWhy::Ended(_) => assert!(way != Way::Silence && took < LIMIT, "{took:?}"),
                    _ => panic!("{error}"),
                }
            }
            Err(error) => panic!("{error:?}"),
        }
        assert!(sim.run_until(SLACK, || client.group().next().figures().sources == 0), "a source is left");
        assert_eq!(client.group().next().figures().timers_pending, 0);
    });
}

#[test]
fn proxies_that_end_at_any_byte_in_any_way_cost_an_error_in_time_and_nothing_is_left() {
    let ways = [Way::Close, Way::Reset, Way::EndOfOutput, Way::Silence];
    for_seeds(0..400, |sim| {
        let most = sim.below(answers().len() as u64) as usize + 1;
        through(sim, most, ways[sim.below(4) as usize]);
    });
}

#[cfg(all(feature = "https", feature = "self-signed"))]
mod in_tls {
    //! The same in TLS: cut off at every byte of the records that the proxy sends, within the handshake and behind it.
    //!
    //! ```text
    //!   client ──▶ Cut ─ Tls ─ Agrees: twice 200, and a greeting
    //! ```

    use super::{GREETING, LIMIT, SLACK, Way};
    use bytes::BytesMut;
    use netwright::{
        AppContext, Application, Client, Outgoing, Server, WritePromise,
        client::{ConnectError, Proxy, ProxyWhy},
        options::StreamOptions,
        pipeline,
        pipeline::{Filter, FilterContext},
        tls::{Acceptor, Certificate, Connector, Roots, Tls},
    };
    use netwright_testkit::sim::{Link, Sim, for_seeds};
    use std::{
        sync::{Arc, LazyLock, Mutex},
        time::Duration,
    };

    static CERTIFICATE: LazyLock<Certificate> =
        LazyLock::new(|| Certificate::self_signed(["proxy", "second.example"]).unwrap());

    /// Sends so many bytes, and none behind them.
    #[derive(Clone, Copy)]
    struct Cut {
        left: u64,
        way: Way,
        over: bool,
    }

    impl Filter<BytesMut, Outgoing> for Cut {
        fn read(&mut self, cx: &mut FilterContext<'_, Self, BytesMut, Outgoing>, bytes: BytesMut) {
            if !self.over {
                cx.fire_read(bytes);
            }
        }

        fn write(
            &mut self,
            cx: &mut FilterContext<'_, Self, BytesMut, Outgoing>,
            mut message: Outgoing,
            done: WritePromise,
        ) {
            if self.over {
                return;
            }
            let pass = message.len().min(self.left);
            self.left -= pass;
            self.over = self.left == 0;
            let part = if pass < message.len() { message.split_to(pass) } else { message };
            cx.write_with(part, done);
            match (self.over, self.way) {
                (false, _) | (_, Way::Silence) => {}
                (_, Way::Close) => cx.close_when_flushed(),
                (_, Way::Reset) => cx.close(),
                (_, Way::EndOfOutput) => cx.shut_down_output(),
            }
        }
    }

    /// Agrees to whatever it is asked by CONNECT, and greets behind the second answer.
    struct Agrees {
        asked: Vec<u8>,
        answers: usize,
    }

    impl Application for Agrees {
        type Read = BytesMut;
        type Write = Outgoing;

        fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
            self.asked.extend_from_slice(&bytes);
            if self.asked.ends_with(b"\r\n\r\n") {
                self.asked.clear();
                self.answers += 1;
                cx.write("HTTP/1.1 200 Go on\r\n\r\n");
                if self.answers == 2 {
                    cx.write(GREETING);
                }
                cx.flush();
            }
        }
    }

    /// Whether there was a channel, and what it read.
    fn through(sim: &Sim, most: u64, way: Way) -> Option<Vec<u8>> {
        let latency = Duration::from_micros(50 + sim.below(20_000));
        sim.link(Link::default().latency(latency).jitter(Duration::from_micros(sim.below(5_000))));
        let (proxy, host) = (sim.host("proxy"), sim.host("client"));
        let [short_there, short_here] = [sim.below(60), sim.below(60)].map(|many| many as f64 / 100.0);
        proxy.limit(|limits| limits.short_sends = short_there);
        host.limit(|limits| limits.short_receives = short_here);
        let serve = move || {
            let acceptor = Acceptor::new(&*CERTIFICATE).unwrap();
            let resets = (way == Way::Reset).then_some(Duration::ZERO);
            Server::builder()
                .options(resets.map_or(StreamOptions::new(), |zero| StreamOptions::new().linger(zero)))
                .half_closure(true)
                .pipeline(move |_| {
                    let cut = Cut { left: most, way, over: false };
                    pipeline()
                        .filter(cut)
                        .add(Tls::server(&acceptor))
                        .app(Agrees { asked: Vec::new(), answers: 0 })
                })
                .bind("0.0.0.0:443")
                .wait()
        };
        proxy.start(serve).unwrap();
        host.enter(|| {
            let got = Arc::<Mutex<Vec<u8>>>::default();
            let heard = got.clone();
            let connector = Connector::builder().roots(Roots::of(&CERTIFICATE).unwrap()).build().unwrap();
            let client = Client::builder()
                .through(Proxy::https("proxy:443").then(Proxy::http("second.example:3128")))
                .proxy_timeout(LIMIT)
                .proxy_tls(move |name| Tls::client(&connector, name))
                .pipeline(move || {
                    let heard = heard.clone();
                    pipeline()
                        .handle(move |_, bytes: BytesMut| heard.lock().unwrap().extend_from_slice(&bytes))
                })
                .unwrap();
            let begun = sim.now();
            let mut connecting = client.connect("target.example:80");
            assert!(sim.run_until(LIMIT + SLACK, || connecting.is_done()), "it takes longer than it may");
            let took = sim.now() - begun;
            let channel = match connecting.try_take().expect("it is done") {
                Ok(channel) => Some(channel),
                Err(ConnectError::Proxy(error)) => {
                    match error.why {
                        ProxyWhy::TimedOut(LIMIT) => {
                            assert!(way == Way::Silence && took >= LIMIT, "{took:?}")
                        }
                        ProxyWhy::Ended(_) | ProxyWhy::Tls(_) => {
                            assert!(way != Way::Silence && took < LIMIT, "{took:?}: {error}");
                        }
                        _ => panic!("{error}"),
                    }
                    None
                }
                Err(error) => panic!("{error:?}"),
            };
            let is_there = channel.is_some();
            if let Some(channel) = channel {
                sim.run_until(SLACK, || got.lock().unwrap().len() == GREETING.len());
                drop(channel.close());
            }
            let gone = || client.group().next().figures().sources == 0;
            assert!(sim.run_until(LIMIT + SLACK, gone), "a source is left");
            assert_eq!(client.group().next().figures().timers_pending, 0);
            is_there.then(|| std::mem::take(&mut *got.lock().unwrap()))
        })
    }

    #[test]
    fn proxies_in_tls_that_end_at_any_byte_in_any_way_cost_an_error_in_time_and_nothing_is_left() {
        let ways = [Way::Close, Way::Reset, Way::EndOfOutput, Way::Silence];
        for_seeds(0..300, |sim| {
            let (most, way) = (sim.below(1_600) + 1, ways[sim.below(4) as usize]);
            if let Some(got) = through(sim, most, way) {
                assert!(GREETING.starts_with(&got), "{got:?}");
            }
        });
        for_seeds(0..20, |sim| {
            assert_eq!(through(sim, u64::MAX, Way::Silence).as_deref(), Some(GREETING));
        });
    }
}

#[test]
fn the_same_seed_goes_through_proxies_in_the_same_way() {
    let run = || {
        for_seeds(0..20, |sim| {
            let most = sim.below(answers().len() as u64) as usize + 1;
            through(sim, most, Way::Close);
        })
    };
    assert_eq!(run(), run());
}
