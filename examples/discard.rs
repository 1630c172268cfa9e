//! Reads everything and answers nothing, but counts: `cargo run --release --example discard`. Its client:
//! `cargo run --release --example discard_client`.

use netwright::{Server, event_loops, pipeline};
use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7009".to_owned());
    let total = Arc::new(AtomicU64::new(0));
    let counted = total.clone();
    let server = Server::builder()
        .group(event_loops(1)?)
        .pipeline(move |_| {
            let total = counted.clone();
            pipeline().handle(move |_, bytes| _ = total.fetch_add(bytes.len() as u64, Ordering::Relaxed))
        })
        .bind(address)
        .wait()?;
    println!("discard on {}", server.address());
    let mut before = 0;
    let report = move || {
        let now = total.load(Ordering::Relaxed);
        if now != before {
            println!("{} MiB in the last second, {} MiB in all", (now - before) >> 20, now >> 20);
            before = now;
        }
    };
    let second = Duration::from_secs(1);
    let _ticking = server.group().next().schedule_at_fixed_rate(second, second, report)?;
    Ok(server.group().termination().wait()?)
}
