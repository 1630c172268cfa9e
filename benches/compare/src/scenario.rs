//! What is measured.

use crate::{load::Talk, roster::Mode};

/// What is done to a server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// As fast as answers come.
    Steady { talk: Talk, connections: usize, depth: usize },
    /// Half of what the best server did in another scenario, at a fixed rate.
    HalfOf { scenario: &'static str },
    /// Connections that do nothing: memory.
    Idle { talk: Talk, connections: usize },
    /// HTTP/2, asked by h2load: so many requests on so many connections, with streams under way on each.
    Http2 { connections: usize, streams: usize, requests: usize, path: &'static str, post: bool },
    /// Connections that live for one request.
    Churn { talk: Talk, connections: usize },
}

/// What decides who is best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    /// The server's CPU time for a request.
    Cpu,
    /// The latency that one in a hundred exceeds.
    P99,
    /// Resident memory of a connection.
    Memory,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// Plots show the scenarios of a group together.
    pub(crate) group: &'static str,
    pub(crate) title: &'static str,
    pub(crate) mode: Mode,
    pub(crate) threads: usize,
    pub(crate) kind: Kind,
}

impl Scenario {
    pub(crate) fn key(&self) -> Key {
        match self.kind {
            Kind::Steady { .. } | Kind::Churn { .. } | Kind::Http2 { .. } => Key::Cpu,
            Kind::HalfOf { .. } => Key::P99,
            Kind::Idle { .. } => Key::Memory,
        }
    }
}

const fn echo(bytes: usize) -> Talk {
    Talk::Echo { bytes }
}

const TEXT: Talk = Talk::Http { json: false, varied: false };
const VARIED: Talk = Talk::Http { json: false, varied: true };
const JSON: Talk = Talk::Http { json: true, varied: false };

const fn steady(
    name: &'static str,
    group: &'static str,
    title: &'static str,
    mode: Mode,
    talk: Talk,
    connections: usize,
    depth: usize,
) -> Scenario {
    Scenario { name, group, title, mode, threads: 1, kind: Kind::Steady { talk, connections, depth } }
}

const fn on_two_loops(scenario: Scenario) -> Scenario {
    Scenario { threads: 2, ..scenario }
}

const fn http2(
    name: &'static str,
    title: &'static str,
    connections: usize,
    streams: usize,
    requests: usize,
    path: &'static str,
) -> Scenario {
    let kind = Kind::Http2 { connections, streams, requests, path, post: false };
    Scenario { name, group: "http2", title, mode: Mode::Http2, threads: 1, kind }
}

pub(crate) const SCENARIOS: [Scenario; 22] = [
    steady("echo-1x64", "echo", "echo, 1 connection, 64 B", Mode::Echo, echo(64), 1, 1),
    steady("echo-64x64", "echo", "echo, 64 connections, 64 B", Mode::Echo, echo(64), 64, 1),
    steady("echo-256x1k", "echo", "echo, 256 connections, 1 KiB", Mode::Echo, echo(1024), 256, 1),
    steady(
        "echo-16x16k-d4",
        "echo",
        "echo, 16 connections, 16 KiB, 4 under way",
        Mode::Echo,
        echo(16 * 1024),
        16,
        4,
    ),
    steady("http-d1", "http", "HTTP plaintext, 64 connections", Mode::Http, TEXT, 64, 1),
    steady("http-d16", "http", "HTTP plaintext, 64 connections, 16 pipelined", Mode::Http, TEXT, 64, 16),
    steady(
        "http-varied",
        "http",
        "HTTP plaintext, 64 connections, headers differ",
        Mode::Http,
        VARIED,
        64,
        1,
    ),
    steady("json", "http", "HTTP JSON, 64 connections", Mode::Http, JSON, 64, 1),
    steady("tls", "http", "HTTPS plaintext, 64 connections", Mode::Https, TEXT, 64, 1),
    steady(
        "websocket",
        "more",
        "WebSocket echo, 64 connections, 64 B",
        Mode::WebSocket,
        Talk::WebSocket { bytes: 64 },
        64,
        1,
    ),
    http2("h2-8x32", "HTTP/2 plaintext, 8 connections, 32 streams each", 8, 32, 100_000, "/"),
    http2("h2-8x1", "HTTP/2 plaintext, 8 connections, 1 stream at a time", 8, 1, 40_000, "/"),
    http2("h2-64k", "HTTP/2, replies of 64 KiB, 8 connections, 8 streams each", 8, 8, 20_000, "/64k"),
    Scenario {
        name: "h2-post",
        group: "http2",
        title: "HTTP/2, requests of 1 MiB, 8 connections, 1 stream at a time",
        mode: Mode::Http2,
        threads: 1,
        kind: Kind::Http2 { connections: 8, streams: 1, requests: 1_000, path: "/", post: true },
    },
    Scenario {
        name: "churn",
        group: "more",
        title: "HTTP, a connection for each request, 32 at a time",
        mode: Mode::Http,
        threads: 1,
        kind: Kind::Churn { talk: TEXT, connections: 32 },
    },
    on_two_loops(steady(
        "echo-2loops",
        "more",
        "echo, 64 connections, two loops",
        Mode::Echo,
        echo(64),
        64,
        1,
    )),
    on_two_loops(steady(
        "http-2loops",
        "more",
        "HTTP plaintext, 64 connections, 16 pipelined, two loops",
        Mode::Http,
        TEXT,
        64,
        16,
    )),
    Scenario {
        name: "echo-half",
        group: "latency",
        title: "echo, 64 connections, half of saturation",
        mode: Mode::Echo,
        threads: 1,
        kind: Kind::HalfOf { scenario: "echo-64x64" },
    },
    Scenario {
        name: "http-half",
        group: "latency",
        title: "HTTP plaintext, 64 connections, half of saturation",
        mode: Mode::Http,
        threads: 1,
        kind: Kind::HalfOf { scenario: "http-d1" },
    },
    Scenario {
        name: "idle-10k",
        group: "idle",
        title: "10,000 idle connections, an echo each",
        mode: Mode::Echo,
        threads: 1,
        kind: Kind::Idle { talk: echo(64), connections: 10_000 },
    },
    Scenario {
        name: "idle-http-10k",
        group: "idle",
        title: "10,000 idle connections, a request each",
        mode: Mode::Http,
        threads: 1,
        kind: Kind::Idle { talk: TEXT, connections: 10_000 },
    },
    Scenario {
        name: "idle-ws-1k",
        group: "idle",
        title: "1,000 idle WebSockets, a message each",
        mode: Mode::WebSocket,
        threads: 1,
        kind: Kind::Idle { talk: Talk::WebSocket { bytes: 64 }, connections: 1_000 },
    },
];

pub(crate) fn find(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|scenario| scenario.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_saturation_is_half_of_a_steady_scenario_of_the_same_mode() {
        for scenario in SCENARIOS {
            if let Kind::HalfOf { scenario: base } = scenario.kind {
                let base = find(base).expect("a scenario");
                assert!(matches!(base.kind, Kind::Steady { depth: 1, .. }));
                assert_eq!(base.mode, scenario.mode);
            }
        }
    }

    #[test]
    fn names_are_there_once() {
        let mut names: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SCENARIOS.len());
    }
}
