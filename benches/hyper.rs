//! Question: what does a request cost hyper on one of our loops, and on tokio's current-thread runtime?
//!
//! ```text
//!   core 1                                        core 0
//!   load: one thread that never sleeps ─ loopback ─ one of two servers, a process each:
//!         64 connections, plaintext                 hyper on tokio, hyper on Netwright: same version, settings, service
//! ```
//! Answer in microseconds of the server's CPU time per request, measured as by `echo`. Target: not above tokio.
//!
//! With 16 requests under way on a connection the figures are not of the same work: a tail sends all answers to one read at
//! once, and hyper on tokio each by itself unless `pipeline_flush` is set. So that line is for information.

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
    #[cfg(not(target_os = "linux"))]
    println!("hyper: the load needs epoll, which only Linux has");
}

#[cfg(target_os = "linux")]
mod linux {
    use netwright_benches::{
        Scale, Table, Target,
        load::Load,
        reference::hyper_tokio::{ANSWER, REQUEST},
        server::{Kind, load_on_second_core, machine_load, measure, serve_if_asked},
    };

    pub(super) fn main() {
        serve_if_asked();
        let Some(scale) = Scale::from_args() else { return };
        let core = load_on_second_core("hyper");
        println!("hyper: load of the machine before: {}", machine_load());
        let mut table = Table::new(
            "hyper: microseconds of the server's CPU time per request, 64 connections, plaintext",
            ["requests under way on each", "tokio", "netwright"],
        );
        for (depth, target) in [(1, Target::AtMost(1.0)), (16, Target::None)] {
            let [tokio, own] =
                measure::<2>([Kind::HyperTokio, Kind::HyperNetwright], core, scale, |server| {
                    Load::ask(server.address(), 64, depth, REQUEST, ANSWER)
                });
            table.row(depth.to_string(), &tokio, &own, target);
        }
        println!("{table}");
        println!("hyper: load of the machine after: {}", machine_load());
    }
}
