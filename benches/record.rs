//! Question: what does a flight recorder cost while it is on, and what a place for one?
//!
//! ```text
//!   core 1                                        core 0
//!   load: one thread that never sleeps ─ loopback ─ one of several servers, a process each:
//!         64 connections                            without a recorder, with one on each connection, with an empty slot
//! ```
//! Answer in microseconds of the server's CPU time per message, measured as by `echo`, as a ratio to the same server without it. Target: at most
//! 1.02 while it is on, and nothing that can be measured while it is off.

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
    #[cfg(not(target_os = "linux"))]
    println!("record: the load needs epoll, which only Linux has");
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
        let core = load_on_second_core("record");
        println!("record: load of the machine before: {}", machine_load());
        let mut table = Table::new(
            "record: microseconds of the server's CPU time per message, 64 connections",
            ["", "without", "with"],
        );
        for (name, size) in [("echo, 64 bytes, recorder on", 64), ("echo, 1 KiB, recorder on", 1024)] {
            let kinds = [Kind::Netwright, Kind::NetwrightRecorded];
            let [without, with] =
                measure::<2>(kinds, core, scale, |server| Load::connect(server.address(), 64, size, 1));
            table.row(name, &without, &with, Target::AtMost(1.02));
        }
        let kinds = [Kind::NetwrightHttp, Kind::NetwrightHttpRecorded, Kind::NetwrightHttpSlot];
        for depth in [1, 16] {
            let [without, with, slot] = measure::<3>(kinds, core, scale, |server| {
                Load::ask(server.address(), 64, depth, REQUEST, ANSWER)
            });
            let under_way = if depth == 1 { "" } else { ", 16 under way" };
            table.row(format!("HTTP{under_way}, recorder on"), &without, &with, Target::AtMost(1.02));
            table.row(format!("HTTP{under_way}, an empty slot"), &without, &slot, Target::AtMost(1.01));
        }
        println!("{table}");
        println!("record: load of the machine after: {}", machine_load());
    }
}
