//! Who is measured: what to build, how to start it, what it speaks.

/// What a server speaks; the word is what it is started with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    Echo,
    Http,
    Https,
    WebSocket,
    /// In the clear, by prior knowledge.
    Http2,
}

impl Mode {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Http => "http",
            Self::Https => "https",
            Self::WebSocket => "ws",
            Self::Http2 => "h2",
        }
    }
}

/// Whose server it is: ours and the floor are shown in colours of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Ours,
    ByHand,
    Other,
}

/// How a server is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Make {
    /// A package of this workspace, maybe with a feature.
    Cargo { package: &'static str, feature: Option<&'static str> },
    /// `javac`, with Netty's jars.
    Netty,
    /// A program of the system, by its name.
    System(&'static str),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) side: Side,
    pub(crate) make: Make,
    pub(crate) driver: &'static str,
    pub(crate) speaks: &'static [Mode],
    /// Whose versions to tell.
    pub(crate) crates: &'static [&'static str],
    pub(crate) about: &'static str,
}

impl Peer {
    pub(crate) fn speaks(&self, mode: Mode) -> bool {
        self.speaks.contains(&mode)
    }

    /// A virtual machine has to find out first what is worth compiling.
    pub(crate) fn warms_up_slowly(&self) -> bool {
        self.make == Make::Netty
    }
}

const ALL: &[Mode] = &[Mode::Echo, Mode::Http, Mode::Https, Mode::WebSocket, Mode::Http2];
const HTTP2: &[Mode] = &[Mode::Http2];
const PLAIN: &[Mode] = &[Mode::Echo, Mode::Http];
const HTTP: &[Mode] = &[Mode::Http];

const fn cargo(package: &'static str) -> Make {
    Make::Cargo { package, feature: None }
}

const fn system(name: &'static str, about: &'static str) -> Peer {
    let make = Make::System(name);
    Peer { name, side: Side::Other, make, driver: "", speaks: HTTP2, crates: &[], about }
}

pub(crate) const PEERS: [Peer; 16] = [
    Peer {
        name: "netwright",
        side: Side::Ours,
        make: cargo("peer-netwright"),
        driver: "readiness",
        speaks: ALL,
        crates: &["netwright"],
        about: "Netwright, readiness driver (epoll)",
    },
    Peer {
        name: "netwright-uring",
        side: Side::Ours,
        make: cargo("peer-netwright"),
        driver: "uring",
        speaks: ALL,
        crates: &[],
        about: "Netwright, io_uring driver",
    },
    Peer {
        name: "epoll-by-hand",
        side: Side::ByHand,
        make: cargo("peer-by-hand"),
        driver: "epoll",
        speaks: PLAIN,
        crates: &["httparse", "rustix"],
        about: "no framework: an edge-triggered epoll loop; HTTP by httparse",
    },
    Peer {
        name: "uring-by-hand",
        side: Side::ByHand,
        make: cargo("peer-by-hand"),
        driver: "uring",
        speaks: PLAIN,
        crates: &["io-uring"],
        about: "no framework: an io_uring loop (multishot, provided buffers); HTTP by httparse",
    },
    Peer {
        name: "tokio",
        side: Side::Other,
        make: cargo("peer-tokio"),
        driver: "current",
        speaks: ALL,
        crates: &["tokio", "hyper", "tokio-rustls", "tokio-tungstenite"],
        about: "tokio, current-thread runtime; hyper, tokio-rustls, tokio-tungstenite",
    },
    Peer {
        name: "tokio-mt",
        side: Side::Other,
        make: cargo("peer-tokio"),
        driver: "multi",
        speaks: ALL,
        crates: &[],
        about: "the same on tokio's multi-thread runtime",
    },
    Peer {
        name: "monoio",
        side: Side::Other,
        make: cargo("peer-monoio"),
        driver: "uring",
        speaks: PLAIN,
        crates: &["monoio"],
        about: "monoio on io_uring; HTTP by httparse",
    },
    Peer {
        name: "compio",
        side: Side::Other,
        make: cargo("peer-compio"),
        driver: "uring",
        speaks: PLAIN,
        crates: &["compio"],
        about: "compio on io_uring; HTTP by httparse",
    },
    Peer {
        name: "ntex",
        side: Side::Other,
        make: Make::Cargo { package: "peer-ntex", feature: Some("polling") },
        driver: "polling",
        speaks: PLAIN,
        crates: &["ntex"],
        about: "ntex on its epoll reactor; ntex::web",
    },
    Peer {
        name: "ntex-uring",
        side: Side::Other,
        make: Make::Cargo { package: "peer-ntex", feature: Some("uring") },
        driver: "uring",
        speaks: PLAIN,
        crates: &[],
        about: "ntex on its io_uring reactor; ntex::web",
    },
    Peer {
        name: "may_minihttp",
        side: Side::Other,
        make: cargo("peer-may-minihttp"),
        driver: "epoll",
        speaks: HTTP,
        crates: &["may_minihttp", "may"],
        about: "may_minihttp: coroutines with stacks; HTTP only",
    },
    Peer {
        name: "actix-web",
        side: Side::Other,
        make: cargo("peer-actix"),
        driver: "tokio",
        speaks: &[Mode::Http, Mode::Https],
        crates: &["actix-web"],
        about: "actix-web; HTTP and HTTPS only",
    },
    Peer {
        name: "netty",
        side: Side::Other,
        make: Make::Netty,
        driver: "",
        speaks: ALL,
        crates: &[],
        about: "Netty on the JVM, native epoll if its library is there",
    },
    system("nghttpd", "nghttp2's server of files, one thread"),
    system("nginx", "nginx, one process; answers that stand in its configuration"),
    system("h2o", "h2o, one thread; files"),
];

/// The side of a server by its name.
pub(crate) fn side(name: &str) -> Side {
    PEERS.iter().find(|peer| peer.name == name).map_or(Side::Other, |peer| peer.side)
}
