//! Question: what does an HTTP request cost, beside a loop written by hand for one answer, and beside hyper on tokio?
//!
//! ```text
//!   core 1                                        core 0
//!   load: one thread that never sleeps ─ loopback ─ one of four servers, a process each:
//!         64 connections, plaintext                 epoll with httparse, hyper on tokio, a closure, an async function
//! ```
//! Answer in microseconds of the server's CPU time per request, measured as by `echo`. Targets for the closure: one request
//! under way at most 1.06 of the loop by hand, sixteen at most 1.25; both below hyper.
//!
//! A request whose headers are those of the request before is not parsed again, so there are rows for headers that differ from one
//! request to the next, as well.
//!
//! With 16 requests under way hyper sends each answer by itself unless `pipeline_flush` is set, which is off by default: so there is
//! a row with it as well. JSON is serialised anew for each request, on both sides by serde_json.

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
    #[cfg(not(target_os = "linux"))]
    println!("http: the load needs epoll, which only Linux has");
}

#[cfg(target_os = "linux")]
mod linux {
    use netwright_benches::{
        Scale, Table, Target,
        load::Load,
        reference::hyper_tokio::{ANSWER, ANSWER_JSON, REQUEST, REQUEST_JSON},
        server::{Kind, load_on_second_core, machine_load, measure, serve_if_asked},
    };

    pub(super) fn main() {
        serve_if_asked();
        let Some(scale) = Scale::from_args() else { return };
        let core = load_on_second_core("http");
        println!("http: load of the machine before: {}", machine_load());
        let mut table = Table::new(
            "http: microseconds of the server's CPU time per request, 64 connections, plaintext and JSON",
            ["requests under way on each, against", "reference", "netwright"],
        );
        let kinds = [Kind::EpollHttp, Kind::HyperTokio, Kind::NetwrightHttp, Kind::NetwrightHttpAsync];
        let same = vec![String::from_utf8_lossy(REQUEST).into_owned()];
        let differ: Vec<String> =
            (10..42).map(|number| same[0].replace("localhost", &format!("host-{number}"))).collect();
        for (depth, target) in [(1, 1.06), (16, 1.25)] {
            for (headers, requests) in [("", &same), (", headers differ", &differ)] {
                let [epoll, hyper, closure, function] = measure::<4>(kinds, core, scale, |server| {
                    Load::ask_in_turn(server.address(), 64, depth, requests, ANSWER)
                });
                let row = |against: &str| format!("{depth}{headers}, {against}");
                table.row(row("epoll with httparse"), &epoll, &closure, Target::AtMost(target));
                table.row(row("hyper on tokio"), &hyper, &closure, Target::AtMost(1.0));
                table.row(row("the closure: async"), &closure, &function, Target::None);
            }
        }
        let [flushed, closure] =
            measure::<2>([Kind::HyperTokioFlush, Kind::NetwrightHttp], core, scale, |server| {
                Load::ask(server.address(), 64, 16, REQUEST, ANSWER)
            });
        table.row("16, hyper on tokio, pipeline_flush", &flushed, &closure, Target::AtMost(1.0));
        for depth in [1, 16] {
            let [hyper, closure] =
                measure::<2>([Kind::HyperTokioJson, Kind::NetwrightHttpJson], core, scale, |server| {
                    Load::ask(server.address(), 64, depth, REQUEST_JSON, ANSWER_JSON)
                });
            table.row(format!("{depth}, JSON, hyper on tokio"), &hyper, &closure, Target::AtMost(1.0));
        }
        println!("{table}");
        println!("http: load of the machine after: {}", machine_load());
    }
}
