//! `netwright serve`: one of the classic servers, in a chosen reactor model.

use crate::{
    address::refuse_local,
    failure::Failure,
    guard::GuardArguments,
    record::{RecordArguments, Tape},
    running,
    servers::{
        chat,
        datagrams::{self, Service},
        discard, echo, files,
        front::Front,
        hello, proxy,
        room::Room,
        time, ws_echo,
    },
    stop::Stop,
    terminal::say,
    web::WebArguments,
};
use clap::{Args, ValueEnum};
use netwright::{
    Address, Channel, EventLoopGroup, Server,
    channel::Envelope,
    client::ClientBuilder,
    event_loop::{BuildError, ThreadPerChannel},
    handler::{Capture, Chaos},
    server::{ServerBuilder, raise_descriptor_limit},
};
use std::thread::available_parallelism;

/// Run a server until Ctrl-C or SIGTERM
///
/// The limit on open descriptors is raised to the hard limit first, because every connection is one.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// What the server does
    #[arg(value_enum)]
    protocol: Protocol,

    /// Where to listen, as HOST:PORT or unix:PATH, or as udp:HOST:PORT for datagrams (echo, time, discard); port 0 takes a
    /// free one and prints it. May be repeated
    #[arg(short, long, value_name = "ADDR", default_value = "127.0.0.1:7007")]
    listen: Vec<String>,

    /// Where a proxy passes bytes on to, as HOST:PORT or unix:PATH
    #[arg(long, value_name = "ADDR", required_if_eq("protocol", "proxy"))]
    to: Option<String>,

    /// Have the proxy play a bad network, to see what programs make of one: latency=50ms,jitter=20ms,rate=1m,cut=0.1%,seed=7, each for both
    /// directions, or for one with read. or write. in front (read is what comes from clients). More words: `netwright serve --help`
    #[arg(long, value_name = "FAULTS")]
    chaos: Option<Chaos>,

    /// How many event loops serve connections [default: one for each core; 1 for the model single]
    #[arg(long, value_name = "N", value_parser = loop_count())]
    loops: Option<usize>,

    /// How many event loops only accept, for the model acceptors [default: 2]
    #[arg(long, value_name = "N", value_parser = loop_count())]
    acceptors: Option<usize>,

    /// Which loop accepts and which serves [default: workers; blocking for the backend blocking]
    #[arg(long, value_enum)]
    model: Option<Model>,

    /// How the system is asked for input and output
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    backend: Backend,

    #[command(flatten)]
    web: WebArguments,

    #[command(flatten)]
    guard: GuardArguments,

    #[command(flatten)]
    record: RecordArguments,
}

const EXAMPLES: &str = "\
Examples:
  netwright serve echo --listen 127.0.0.1:0               a free port, printed
  netwright serve echo --model shared-port --loops 4      all loops accept
  netwright serve echo --model blocking                   a thread for each connection
  netwright serve time --listen 127.0.0.1:7001 --listen [::1]:7001
  netwright serve echo --listen unix:/tmp/echo.sock       a Unix socket
  netwright serve echo --listen udp:127.0.0.1:7007        each datagram goes back to its sender
  netwright serve proxy --listen 127.0.0.1:8080 --to 127.0.0.1:7007
  netwright serve proxy --to 127.0.0.1:7007 --chaos latency=50ms,jitter=20ms,rate=1m,cut=0.1%,seed=7
  netwright serve echo --idle 30s --per-address 16 --deny 192.0.2.0/24 --rate 100k --log
  netwright serve hello --proxy-protocol 10.0.0.0/8 --capture hello.pcapng
  netwright serve http --dir public --listing             files, for browsers
  netwright serve hello --tls                             small answers over HTTPS, for load and for tests
  netwright serve ws-echo --tls --cert cert.pem --key key.pem
  netwright serve hello --record recordings               keep what passed on connections that end in trouble";

/// More than any machine has cores for.
fn loop_count() -> impl clap::builder::TypedValueParser<Value = usize> {
    use clap::builder::TypedValueParser;
    clap::value_parser!(u16).range(1..=1024).map(usize::from)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    /// Sends every byte back
    Echo,
    /// Answers the line QUERY TIME ORDER, in any case, with the time, and everything else with BAD ORDER
    Time,
    /// Reads everything and answers nothing
    Discard,
    /// Tells every line to all others who are connected
    Chat,
    /// Passes bytes on to another address and back; reads each side only as fast as the other takes it
    Proxy,
    /// The files of a directory over HTTP: ranges, conditional requests, sendfile
    Http,
    /// Small answers over HTTP: / plaintext, /json, /echo (any method, streamed), /bytes/N
    Hello,
    /// Sends every WebSocket message back
    WsEcho,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Model {
    /// One loop accepts and serves
    Single,
    /// One loop accepts, the others serve
    Workers,
    /// Several loops accept, each with a listening socket of its own; the others serve
    Acceptors,
    /// Every loop accepts for itself and serves; the system spreads the connections
    SharedPort,
    /// One loop accepts, a thread for each connection serves
    Blocking,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Backend {
    /// The best that works here: see `netwright doctor`
    Auto,
    /// epoll, kqueue or IOCP
    Readiness,
    /// io_uring
    Uring,
    /// Threads that block in poll(2)
    Blocking,
}

impl Backend {
    /// What the library calls it.
    fn known(self) -> netwright::Backend {
        match self {
            Self::Auto => netwright::Backend::Auto,
            Self::Readiness => netwright::Backend::Readiness,
            Self::Uring => netwright::Backend::Uring,
            Self::Blocking => netwright::Backend::Blocking,
        }
    }
}

impl Arguments {
    /// Whether it is asked to tell what happens, so that it is to be seen.
    pub(crate) fn tells(&self) -> bool {
        self.guard.logs()
    }
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let plan = Plan::new(&arguments)?;
    raise_limit();
    match plan.backend {
        Backend::Auto => {
            let choice = netwright::Backend::choose();
            say!("backend: {}, which is what auto takes: {}", choice.backend, choice.why);
        }
        chosen => say!("backend: {}", name(chosen)),
    }
    say!("model: {plan}");

    let stop = Stop::listen()?;
    let hosts = plan.hosts()?;
    let acceptors = plan.acceptors()?;
    let tape = arguments.record.tape(&name(arguments.protocol))?;
    let capture = arguments.guard.capture()?;
    let server = start(&arguments, &plan, &hosts, acceptors.as_ref(), &tape, capture.as_ref())?;
    for address in server.iter().flat_map(Server::addresses) {
        say!("{} listens on {address}", name(arguments.protocol));
        let scheme = arguments.web.scheme(&name(arguments.protocol));
        if let (Some(scheme), Address::Ip(address)) = (scheme, address) {
            say!("{scheme}://{address}/");
        }
    }
    if let Some(text) = arguments.web.certificate() {
        say!("{text}");
    }
    for channel in start_datagrams(&arguments, &plan, &hosts)? {
        let address =
            channel.local().ok_or_else(|| Failure::Failed("the socket closed at once".to_owned()))?;
        say!("{} listens on udp:{address}", name(arguments.protocol));
    }
    if let Some(target) = &arguments.to {
        say!("passing on to {target}");
    }
    if let Some(text) = arguments.record.text() {
        say!("{text}");
    }
    say!("Ctrl-C ends it");
    let workers = match hosts {
        Homes::Group(group) => Some(group),
        Homes::Threads(_) => None, // the server knows them
    };
    let groups: Vec<_> = acceptors.into_iter().chain(workers).collect();
    let ended = running::until_stopped(&stop, server.as_slice(), &groups, plan.backend.known());
    tape.finish();
    arguments.guard.finish(capture.as_ref());
    ended
}

fn start(
    arguments: &Arguments,
    plan: &Plan,
    hosts: &Homes,
    acceptors: Option<&EventLoopGroup>,
    tape: &Tape,
    capture: Option<&Capture>,
) -> Result<Option<Server>, Failure> {
    let versions = arguments.web.versions();
    let front = Front {
        guard: arguments.guard.guard(capture.cloned())?,
        tls: arguments.web.acceptor(versions, capture)?,
        tape: tape.clone(),
    };
    let server = hosts.of_server(Server::builder()).shared_port(plan.model == Model::SharedPort);
    let mut server = arguments.guard.admit(server)?;
    if let Some(acceptors) = acceptors {
        server = server.acceptors(acceptors.clone());
    }
    let mut addresses = arguments.listen.iter().filter(|address| !address.starts_with(UDP));
    let Some(first) = addresses.next() else { return Ok(None) };
    for address in addresses {
        server = server.listen(address);
    }
    let mut bound = match (arguments.protocol, &arguments.to) {
        (Protocol::Proxy, Some(target)) => {
            proxy::bind(server, first, target.clone(), hosts.clone(), arguments.chaos, front)
        }
        (Protocol::Proxy, None) => return Err(Failure::usage("serve proxy needs --to ADDR")),
        (Protocol::Echo, _) => echo::bind(server, first, front),
        (Protocol::Time, _) => time::bind(server, first, front),
        (Protocol::Discard, _) => discard::bind(server, first, front),
        (Protocol::Chat, _) => chat::bind(Room::default(), server, first, front),
        (Protocol::Http, _) => files::bind(server, first, front, arguments.web.files()?, versions),
        (Protocol::Hello, _) => hello::bind(server, first, front, versions),
        (Protocol::WsEcho, _) => ws_echo::bind(server, first, front, versions),
    };
    Ok(Some(bound.wait()?))
}

/// What an address for datagrams begins with.
const UDP: &str = "udp:";

/// One channel for each address; those that share a port with it on other loops live on by themselves.
fn start_datagrams(
    arguments: &Arguments,
    plan: &Plan,
    hosts: &Homes,
) -> Result<Vec<Channel<Envelope>>, Failure> {
    let mut channels = Vec::new();
    for address in arguments.listen.iter().filter_map(|address| address.strip_prefix(UDP)) {
        let service = datagram_service(arguments.protocol, plan.model, address)?;
        let Homes::Group(group) = hosts else { continue };
        let opened = datagrams::bind(service, group, plan.model == Model::SharedPort, address)?;
        channels.extend(opened.into_iter().take(1));
    }
    Ok(channels)
}

/// Refuses what there are no datagrams for.
fn datagram_service(protocol: Protocol, model: Model, address: &str) -> Result<Service, Failure> {
    if model == Model::Blocking {
        let text = "does not go with --model blocking: datagrams have no connections to give a thread to";
        return Err(Failure::usage(format!("--listen {UDP}{address} {text}")));
    }
    match protocol {
        Protocol::Echo => Ok(Service::Echo),
        Protocol::Discard => Ok(Service::Discard),
        Protocol::Time => Ok(Service::Time),
        Protocol::Chat | Protocol::Proxy | Protocol::Http | Protocol::Hello | Protocol::WsEcho => {
            let text = "has no datagrams; echo, time and discard have";
            Err(Failure::usage(format!("--listen {UDP}{address}: serve {} {text}", name(protocol))))
        }
    }
}

pub(crate) fn name(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Every connection needs a descriptor, and many systems start programs with few.
pub(crate) fn raise_limit() {
    let text = |limit| if limit == u64::MAX { "no limit".to_owned() } else { format!("{limit}") };
    match raise_descriptor_limit() {
        Ok(raised) if raised.from < raised.to => {
            say!("descriptor limit: raised from {} to {}, the hard limit", raised.from, text(raised.to));
        }
        Ok(raised) => say!("descriptor limit: {}, the hard limit already", text(raised.to)),
        Err(error) if error.kind() == std::io::ErrorKind::Unsupported => {}
        Err(error) => tracing::warn!(%error, "the descriptor limit could not be raised"),
    }
}

/// Where connections live.
#[derive(Clone)]
pub(crate) enum Homes {
    Group(EventLoopGroup),
    Threads(ThreadPerChannel),
}

impl Homes {
    fn of_server(&self, server: ServerBuilder) -> ServerBuilder {
        match self {
            Self::Group(group) => server.group(group.clone()),
            Self::Threads(threads) => server.thread_per_channel(threads.clone()),
        }
    }

    pub(crate) fn of_client(&self, client: ClientBuilder) -> ClientBuilder {
        match self {
            Self::Group(group) => client.group(group.clone()),
            Self::Threads(threads) => client.thread_per_channel(threads.clone()),
        }
    }
}

/// A reactor model with its numbers.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    model: Model,
    backend: Backend,
    loops: usize,
    acceptors: usize,
}

impl Plan {
    /// Refuses what does not exist and what does not go together.
    fn new(arguments: &Arguments) -> Result<Self, Failure> {
        let Arguments { model, backend, loops, acceptors, .. } = *arguments;
        arguments.listen.iter().chain(&arguments.to).try_for_each(|address| refuse_local(address))?;
        let (model, backend) = match (model, backend) {
            (Some(Model::Blocking), Backend::Auto) | (None, Backend::Blocking) => {
                (Model::Blocking, Backend::Blocking)
            }
            (Some(Model::Blocking), Backend::Readiness | Backend::Uring) => {
                let text = "does not go with --model blocking, whose threads block";
                return Err(Failure::usage(format!("--backend {} {text}", name(backend))));
            }
            (model, backend) => (model.unwrap_or(Model::Workers), backend),
        };
        if let (Model::Blocking, Some(loops)) = (model, loops) {
            let text = "does not go with --model blocking, which has a thread for each connection";
            return Err(Failure::usage(format!("--loops {loops} {text}")));
        }
        if let (Model::Single, Some(loops @ 2..)) = (model, loops) {
            return Err(Failure::usage(format!(
                "--loops {loops} does not go with --model single, which has one"
            )));
        }
        if let (true, Some(acceptors)) = (model != Model::Acceptors, acceptors) {
            let text = "is for --model acceptors only";
            return Err(Failure::usage(format!("--acceptors {acceptors} {text}, not for {}", name(model))));
        }
        if let (Some(target), true) = (&arguments.to, arguments.protocol != Protocol::Proxy) {
            let text = format!("--to {target} is for serve proxy only, not for {}", name(arguments.protocol));
            return Err(Failure::usage(text));
        }
        if arguments.chaos.is_some() && arguments.protocol != Protocol::Proxy {
            let text = format!("--chaos is for serve proxy only, not for {}", name(arguments.protocol));
            return Err(Failure::usage(text));
        }
        arguments.web.check(&name(arguments.protocol))?;
        if arguments.record.is_on() && arguments.listen.iter().all(|address| address.starts_with(UDP)) {
            let text =
                "records connections, and datagrams have none: listen on HOST:PORT or unix:PATH as well";
            return Err(Failure::usage(format!("--record {text}")));
        }
        arguments.guard.check(&arguments.listen, |address| address.starts_with(UDP))?;
        for address in arguments.listen.iter().filter_map(|address| address.strip_prefix(UDP)) {
            datagram_service(arguments.protocol, model, address)?;
        }
        let cores = available_parallelism().map_or(1, usize::from);
        Ok(Self {
            model,
            backend,
            loops: if model == Model::Single { 1 } else { loops.unwrap_or(cores) },
            acceptors: match model {
                Model::Workers | Model::Blocking => 1,
                Model::Acceptors => acceptors.unwrap_or(2),
                Model::Single | Model::SharedPort => 0,
            },
        })
    }

    fn hosts(&self) -> Result<Homes, BuildError> {
        if self.model == Model::Blocking {
            return Ok(Homes::Threads(ThreadPerChannel::builder().name("channel").build()?));
        }
        Ok(Homes::Group(self.event_loops("loop", self.loops)?))
    }

    fn acceptors(&self) -> Result<Option<EventLoopGroup>, BuildError> {
        (self.acceptors > 0).then(|| self.event_loops("acceptor", self.acceptors)).transpose()
    }

    fn event_loops(&self, name: &str, loops: usize) -> Result<EventLoopGroup, BuildError> {
        self.backend.known().group().name(name).loops(loops).build()
    }
}

impl std::fmt::Display for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { loops, acceptors, .. } = self;
        match self.model {
            Model::Single => write!(f, "single, one loop accepts and serves"),
            Model::SharedPort => write!(f, "shared-port, loops that accept and serve: {loops}"),
            Model::Blocking => write!(f, "blocking, one loop accepts, a thread for each connection serves"),
            model => write!(f, "{}, loops that accept: {acceptors}, loops that serve: {loops}", name(model)),
        }
    }
}

/// Loops for sockets, with a name that figures show.
pub(crate) fn event_loops(name: &str, loops: usize) -> Result<EventLoopGroup, BuildError> {
    netwright::Backend::Auto.group().name(name).loops(loops).build()
}
