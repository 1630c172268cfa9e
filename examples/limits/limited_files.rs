//! Files at a rate: `cargo run --release --example limited_files -- 127.0.0.1:7016 DIR 200k`, then
//!
//! ```text
//! curl -o /dev/null 127.0.0.1:7016/large.bin
//! ```
//!
//! Each client address has that rate for all of its connections, and all clients together ten times as much. A rate that is typed while it runs
//! (`2m`, `64ki`) takes effect at once, also for those who are waiting. Files still go out by `sendfile`, in pieces.

use netwright::{
    Server, event_loops,
    handler::{
        Shape,
        shape::{Bucket, Buckets, Rate},
    },
    http::{HttpServer, web::Files},
    pipeline,
};
use std::{error::Error, io::BufRead, time::Duration};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:7016".to_owned());
    let directory = arguments.next().unwrap_or_else(|| ".".to_owned());
    let rate: Rate = arguments.next().as_deref().unwrap_or("200k").parse()?;

    let files = Files::below(&directory)?.listing(true);
    let (each, all) = (Buckets::new(rate), Bucket::new(tenfold(rate)?));
    let (per_address, together) = (each.clone(), all.clone());
    let server = Server::builder()
        .group(event_loops(2)?)
        .pipeline(move |_| {
            let shape = Shape::bytes().write_per_address(&per_address).write(&together);
            pipeline().filter(shape).add(HttpServer::new()).app(files.server())
        })
        .bind(address)
        .wait()?;
    println!("files on {}; {rate} bytes a second for each client", server.address());
    println!("a rate sets it, an empty line ends it");

    for line in std::io::stdin().lock().lines() {
        match line?.trim() {
            "" => break,
            text => match text.parse().and_then(|rate| Ok((rate, tenfold(rate)?))) {
                Ok((rate, tenfold)) => {
                    each.set(rate);
                    all.set(tenfold);
                    println!("{rate} from now on; {} bytes wait for their turn", all.figures().waiting);
                }
                Err(error) => println!("{error}"),
            },
        }
    }
    let cut = server.drain(Duration::from_secs(1)).wait()?.cut;
    println!("ended; {cut} connections did not finish in time");
    Ok(())
}

fn tenfold(rate: Rate) -> Result<Rate, netwright::handler::shape::RateError> {
    Rate::try_from(rate.limit().map_or(u64::MAX, |rate| rate.get().saturating_mul(10)))
}
