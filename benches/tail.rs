//! Question: what does it cost to write the echo as an async function instead of a handler?
//!
//! ```text
//!   core 1                                        core 0
//!   load: one thread that never sleeps ─ loopback ─ one of three servers, a process each:
//!         64 connections, 64 bytes                  a handler, an async tail, plain tokio on one thread
//! ```
//! Answer in microseconds of the server's CPU time per message, measured as by `echo`. Targets: at most 1.10 of the handler,
//! and below tokio.

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
    #[cfg(not(target_os = "linux"))]
    println!("tail: the load needs epoll, which only Linux has");
}

#[cfg(target_os = "linux")]
mod linux {
    use netwright_benches::{
        Scale, Table, Target,
        load::Load,
        server::{Kind, load_on_second_core, machine_load, measure, serve_if_asked},
    };

    pub(super) fn main() {
        serve_if_asked();
        let Some(scale) = Scale::from_args() else { return };
        let core = load_on_second_core("tail");
        println!("tail: load of the machine before: {}", machine_load());
        let figures =
            measure::<3>([Kind::Netwright, Kind::Tokio, Kind::NetwrightTail], core, scale, |server| {
                Load::connect(server.address(), 64, 64, 1)
            });
        let [handler, tokio, tail] = &figures;
        let mut table = Table::new(
            "tail: microseconds of the server's CPU time per message, 64 connections of 64 bytes",
            ["reference", "reference", "async tail"],
        );
        table.row("handler", handler, tail, Target::AtMost(1.1));
        table.row("tokio", tokio, tail, Target::AtMost(1.0));
        println!("{table}");
        println!("tail: load of the machine after: {}", machine_load());
    }
}
