//! The options of `netwright serve` that every server has: who may come in and by whom they are announced, how long a
//! connection may be silent, how fast it is, and what is kept of it.

use crate::{failure::Failure, terminal::say};
use clap::{Args, ValueEnum};
use netwright::{
    handler::{
        AddressFilter, Capture, Idle, Log, PerAddress, ProxyProtocol, Shape, TrustedNetworks, shape::Rate,
        told,
    },
    pipeline,
    pipeline::IntoPipeline,
    server::{AccessList, Admission, LiveAccessList, Network, ServerBuilder},
};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tracing::Level;

/// What they are listed under.
const HEADING: &str = "Limits and logs of any server over connections";

#[derive(Debug, Args)]
#[command(next_help_heading = HEADING)]
pub(crate) struct GuardArguments {
    /// Close connections on which nothing moves in either direction for so long, as 500ms, 30s, 5m or 1h
    #[arg(long, value_name = "TIME", value_parser = time)]
    idle: Option<Duration>,

    /// How many connections may be open; further ones are reset [default: as many as there are descriptors, but for a reserve]
    #[arg(long, value_name = "N", value_parser = count())]
    max_connections: Option<usize>,

    /// How many connections one client address may have open (of IPv6: one /64)
    #[arg(long, value_name = "N", value_parser = count())]
    per_address: Option<usize>,

    /// Serve only clients of this network, as 10.0.0.0/8 or ::1. May be repeated
    #[arg(long, value_name = "NETWORK")]
    allow: Vec<Network>,

    /// Serve no client of this network, whatever is allowed. May be repeated
    #[arg(long, value_name = "NETWORK")]
    deny: Vec<Network>,

    /// How many bytes a second each connection may take in, and send, as 100k or 2mi
    #[arg(long, value_name = "BYTES")]
    rate: Option<Rate>,

    /// Tell on standard error when connections come and go and why, or also what passes, as lengths, hexadecimal numbers or text. What passes
    /// is not covered: passwords show
    #[arg(long, value_name = "WHAT", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "connections")]
    log: Option<Logged>,

    /// Expect the PROXY protocol (versions 1 and 2) from proxies in these networks, as 10.0.0.0/8,192.0.2.7, and believe nobody else; who comes by a
    /// Unix socket is believed. The client's address is what logs show and --allow, --deny and --per-address judge
    #[arg(long, value_name = "TRUSTED")]
    proxy_protocol: Option<TrustedNetworks>,

    /// Write what passes on all connections to this file, which Wireshark and tshark read (pcapng), up to 256 MiB. With --tls the secrets that
    /// decrypt it are in the file as well
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
}

/// Of a capture's file: what Wireshark still opens with ease.
const CAPTURE_MAX: u64 = 256 << 20;
/// For what is still to be written of a capture when the server has ended.
const LAST_PACKETS: Duration = Duration::from_secs(5);

/// What the log tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Logged {
    /// When they come and go, and why
    Connections,
    /// And how long each piece is that passes
    Lengths,
    /// And each piece as hexadecimal numbers
    Hex,
    /// And each piece as text on one line
    Text,
}

/// At least one: a server for nobody is a mistake.
fn count() -> impl clap::builder::TypedValueParser<Value = usize> {
    use clap::builder::TypedValueParser;
    clap::value_parser!(u32).range(1..).map(|count| count as usize)
}

/// A time with its unit.
fn time(text: &str) -> Result<Duration, String> {
    let expected = || format!("{text:?} is no time: expected a number and ms, s, m or h, such as 30s");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| expected())?;
    let millis = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(expected()),
    };
    match number.checked_mul(millis) {
        Some(millis @ 1..=TIME_MAX_MS) => Ok(Duration::from_millis(millis)),
        _ => Err(format!("{text} is not between 1ms and {}h", TIME_MAX_MS / 3_600_000)),
    }
}

/// A month.
const TIME_MAX_MS: u64 = 720 * 3_600_000;

impl GuardArguments {
    /// Refuses what would have no effect: datagrams have no connections, and nobody judges who sends them.
    pub(crate) fn check(
        &self,
        listen: &[String],
        is_datagrams: impl Fn(&str) -> bool,
    ) -> Result<(), Failure> {
        let Some(datagrams) = listen.iter().find(|address| is_datagrams(address)) else { return Ok(()) };
        if let Some((option, _)) =
            [("--deny", &self.deny), ("--allow", &self.allow)].into_iter().find(|(_, list)| !list.is_empty())
        {
            let text =
                format!("{option} judges connections, not who sends datagrams to --listen {datagrams}");
            return Err(Failure::usage(text));
        }
        let options = [
            ("--idle", self.idle.is_some()),
            ("--max-connections", self.max_connections.is_some()),
            ("--per-address", self.per_address.is_some()),
            ("--rate", self.rate.is_some()),
            ("--log", self.log.is_some()),
            ("--proxy-protocol", self.proxy_protocol.is_some()),
            ("--capture", self.capture.is_some()),
        ];
        match options.into_iter().find(|(_, given)| *given) {
            Some((option, _)) if listen.iter().all(|address| is_datagrams(address)) => {
                let text =
                    "is for connections, and datagrams have none: listen on HOST:PORT or unix:PATH as well";
                Err(Failure::usage(format!("{option} {text}")))
            }
            _ => Ok(()),
        }
    }

    /// Has the server judge who comes in.
    pub(crate) fn admit(&self, mut server: ServerBuilder) -> Result<ServerBuilder, Failure> {
        if let Some(connections) = self.max_connections {
            server = server.connections_max(connections);
        }
        let mut admission = Admission::new();
        if self.proxy_protocol.is_none() {
            if let Some(connections) = self.per_address {
                admission = admission.per_address(connections);
            }
            admission = admission.access(self.access()?);
        }
        Ok(server.admission(admission))
    }

    /// Who is allowed and denied.
    fn access(&self) -> Result<AccessList, Failure> {
        let mut list = AccessList::new();
        for network in &self.allow {
            list = list.allow(*network)?;
        }
        for network in &self.deny {
            list = list.deny(*network)?;
        }
        Ok(list)
    }

    /// The capture, if there is to be one.
    pub(crate) fn capture(&self) -> Result<Option<Capture>, Failure> {
        let Some(path) = &self.capture else { return Ok(None) };
        let capture = Capture::to_file(path, CAPTURE_MAX)
            .map_err(|error| Failure::Failed(format!("cannot capture to {}: {error}", path.display())))?;
        Ok(Some(capture))
    }

    /// Ends a capture, and says what it has.
    pub(crate) fn finish(&self, capture: Option<&Capture>) {
        let (Some(path), Some(capture)) = (&self.capture, capture) else { return };
        if !capture.finish(LAST_PACKETS) {
            tracing::warn!("the capture was not written in time");
        }
        let figures = capture.figures();
        let lost = match figures.lost_packets {
            0 => String::new(),
            lost => format!(", {lost} were lost: the file is full, or the disk is full or too slow"),
        };
        say!("{} packets captured to {}{lost}", figures.packets, path.display());
    }

    /// Whether the log has to be seen.
    pub(crate) fn logs(&self) -> bool {
        self.log.is_some()
    }

    /// What is told of what passes.
    fn contents(&self) -> Option<Log> {
        let log = match self.log? {
            Logged::Connections => return None,
            Logged::Lengths => Log::lengths(),
            Logged::Hex => Log::hex(),
            Logged::Text => Log::text(),
        };
        Some(log.level(Level::INFO))
    }

    /// What connections pass before their protocol, if anything.
    pub(crate) fn guard(&self, capture: Option<Capture>) -> Result<Option<Guard>, Failure> {
        let (proxy, access, seats) = match &self.proxy_protocol {
            Some(trusted) => {
                let list = LiveAccessList::new(self.access()?);
                let seats = self.per_address.map(PerAddress::new);
                (Some(Arc::new(trusted.clone().and_unix_sockets())), Some(list), seats)
            }
            None => (None, None, None),
        };
        let guard = Guard {
            proxy,
            access,
            seats,
            capture,
            idle: self.idle,
            rate: self.rate,
            log: matches!(self.log, Some(Logged::Connections)).then(|| Log::lifecycle().level(Level::INFO)),
            contents: self.contents(),
        };
        Ok(guard.is_needed().then_some(guard))
    }
}

/// What every connection passes before its protocol and its TLS.
pub(crate) struct Guard {
    /// Who is believed to speak for others.
    proxy: Option<Arc<TrustedNetworks>>,
    /// Who may come in, where that is known only behind a proxy's header.
    access: Option<LiveAccessList>,
    /// How many connections each client may have, likewise.
    seats: Option<PerAddress>,
    capture: Option<Capture>,
    idle: Option<Duration>,
    rate: Option<Rate>,
    /// One of the two, as the second tells what the first does.
    log: Option<Log<told::Lifecycle>>,
    contents: Option<Log>,
}

impl Guard {
    fn is_needed(&self) -> bool {
        self.idle.is_some()
            || self.rate.is_some()
            || self.log.is_some()
            || self.contents.is_some()
            || self.proxy.is_some()
            || self.capture.is_some()
    }

    /// A protocol behind it.
    pub(crate) fn before<P, T>(&self, protocol: P) -> impl IntoPipeline<T> + use<P, T>
    where
        P: IntoPipeline<T>,
        T: Send + 'static,
    {
        pipeline()
            .filter_if(self.proxy.clone().map(ProxyProtocol::from))
            .filter_if(self.contents.clone()) // in front of the filter: who is refused is told as well, and why
            .filter_if(self.log.clone())
            .filter_if(self.access.clone().map(AddressFilter::new))
            .filter_if(self.seats.as_ref().map(PerAddress::stage))
            .add(self.capture.as_ref().map(Capture::stage))
            .filter_if(self.idle.map(|limit| Idle::all(limit).closing()))
            .filter_if(self.rate.map(|rate| Shape::bytes().read(rate).write(rate)))
            .joint(|_| protocol)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit_and_is_neither_nothing_nor_for_ever() {
        for (text, millis) in [("500ms", 500), ("30s", 30_000), ("5m", 300_000), ("720h", TIME_MAX_MS)] {
            assert_eq!(time(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in
            ["", "s", "30", "30 s", "30S", "-1s", "1.5s", "0s", "721h", "99999999999999999999s", "3d", "1é"]
        {
            let error = time(text).unwrap_err();
            assert!(error.contains(text), "{error}");
        }
    }
}
