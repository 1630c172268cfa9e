//! Every state in which a decoder or a writer waits for its peer, with the deadline that covers it.
//!
//! One line of a table for each state: how to get there, which setting ends it and after how long by default, how it
//! ends, and what a peer can drip meanwhile. Each is tried with silence, and with one byte now and then, by a clock that is
//! moved by hand: it ends as the line says, at that moment and not before. A state that lasts as long as the application
//! likes has a line that says so.
//!
//! ```text
//!   row       what a line is, and what is tried with it
//!   embedded  a channel without a socket          wire    channels over sockets, on loops with a clock moved by hand
//!   states    every variant of the states' enums in the sources has a line
//!   http_server, http2_server, http_client, websocket, tls, streams, proxy_protocol     the lines
//! ```
//! A further state is a function and a line.

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("ignored: what sockets keep is the system's affair, and this says how Linux has it");
}

#[cfg(target_os = "linux")]
mod embedded;
#[cfg(target_os = "linux")]
mod http2_server;
#[cfg(target_os = "linux")]
mod http_client;
#[cfg(target_os = "linux")]
mod http_server;
#[cfg(target_os = "linux")]
mod proxy_protocol;
#[cfg(target_os = "linux")]
mod row;
#[cfg(target_os = "linux")]
mod states;
#[cfg(target_os = "linux")]
mod streams;
#[cfg(target_os = "linux")]
mod tls;
#[cfg(target_os = "linux")]
mod websocket;
#[cfg(target_os = "linux")]
mod wire;

#[cfg(target_os = "linux")]
fn main() {
    use libtest_mimic::{Arguments, Trial, run};
    use row::{Drip, Limit};

    let tables = [
        http_server::TABLE,
        http2_server::TABLE,
        http_client::TABLE,
        websocket::TABLE,
        tls::TABLE,
        streams::TABLE,
        proxy_protocol::TABLE,
    ];
    let mut trials = Vec::new();
    for (group, rows) in tables {
        for row in rows {
            let ends = match row.limit {
                Limit::Ours(_) => "lasts_as_long_as_the_application_likes",
                Limit::Within { .. } => "ends_at_its_deadline",
            };
            let name = |by: &str| format!("{group}::{}::{ends}_by_{by}", row.state);
            trials.push(Trial::test(name("silence"), || {
                row.silence();
                Ok(())
            }));
            if !matches!(row.drip, Drip::Nothing(_)) {
                trials.push(Trial::test(name("drips"), || {
                    row.drips();
                    Ok(())
                }));
            }
        }
    }
    trials.push(Trial::test("every_state_in_the_sources_has_a_line", move || {
        states::check(tables.iter().flat_map(|(_, rows)| rows.iter()));
        Ok(())
    }));
    run(&Arguments::from_args(), trials).exit();
}
