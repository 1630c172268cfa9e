//! Question: what does an idle connection hold in memory?
//!
//! ```text
//!   start, one echo          RSS before ─┐
//!   10,000 connections, an echo on each  ├─ the difference through 10,000
//!   a moment's rest          RSS after ──┘
//! ```
//! Answer in bytes of the server process's resident memory per connection; what the kernel holds for a socket comes on
//! top and is the same for everybody. A ring that grew because all came at once shows as well: by at most 4 MiB, 420 bytes
//! for each here, to which further connections do not add. Target: at most 983 bytes, what the first release took. The hand-written loop and tokio stand beside it for
//! information: the first holds next to nothing, the second a buffer for each connection, of which the pages that were
//! touched count.

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
    #[cfg(not(target_os = "linux"))]
    println!("idle: resident memory is read from /proc, which only Linux has");
}

#[cfg(target_os = "linux")]
mod linux {
    use netwright::server::{descriptor_limit, raise_descriptor_limit};
    use netwright_benches::{
        Scale,
        load::Load,
        server::{Kind, ServerProcess, serve_if_asked},
    };
    use std::time::Duration;

    const CONNECTIONS: usize = 10_000;
    const MESSAGE: usize = 64;
    const BYTES_MAX: f64 = 983.0;
    /// Descriptors that are not connections.
    const SPARE: u64 = 64;

    pub(super) fn main() {
        serve_if_asked();
        let Some(scale) = Scale::from_args() else { return };
        let _ = raise_descriptor_limit(); // the limit that counts is looked at next
        let wanted = scale.amount(CONNECTIONS);
        let possible = descriptor_limit().map_or(u64::MAX, |limit| limit.soft).saturating_sub(SPARE);
        let connections = wanted.min(usize::try_from(possible).unwrap_or(usize::MAX));
        if connections < wanted {
            println!("idle: only {connections} connections, as the system allows no more descriptors");
        }
        println!(
            "\nidle: resident memory of {connections} connections that have echoed {MESSAGE} bytes each\n"
        );
        println!("server            before, KiB  after, KiB  per connection, bytes  target");
        for kind in [Kind::Epoll, Kind::Tokio, Kind::Netwright, Kind::Uring, Kind::NetwrightUring] {
            let server = ServerProcess::start(kind, None);
            // One connection stays from before: its echo brings in all code that an echo needs.
            let mut first = Load::connect(server.address(), 1, MESSAGE, 1);
            first.run(Duration::from_millis(200)); // and touches the buffers that a ring has
            let before = server.resident();
            let mut load = Load::connect(server.address(), connections, MESSAGE, 1);
            load.run(Duration::ZERO);
            let after = server.resident_at_rest();
            let each = after.saturating_sub(before) as f64 / connections as f64;
            let verdict = match (kind, each <= BYTES_MAX) {
                (Kind::Netwright | Kind::NetwrightUring, true) => format!("<= {BYTES_MAX} met"),
                (Kind::Netwright | Kind::NetwrightUring, false) => format!("<= {BYTES_MAX} MISSED"),
                _ => "for information".to_owned(),
            };
            let (before, after) = (before / 1024, after / 1024);
            println!("{:<16}  {before:>11}  {after:>10}  {each:>21.0}  {verdict}", kind.name());
        }
    }
}
