//! Work that takes long, on the loop and off it: `cargo run --release --example passwords` prints what it does to everybody
//! else on the same loop.
//!
//! ```text
//!   4 clients: login ──┐
//!                      ├──▶ [ one loop ] ── in the handler, or cx.offload ──▶ [ workers ]
//!   1 client:  ping  ──┘
//! ```

use netwright::{
    AppContext, Application, Server,
    codec::{LineFrames, Utf8},
    event_loops, pipeline,
};
use std::{
    error::Error,
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Stands for a real password hash, such as Argon2, which takes some milliseconds on purpose.
fn hash(password: &str) -> u64 {
    (0..1_000_000_u64).fold(0, |hash, round| {
        let mut hasher = DefaultHasher::new();
        (password, hash, round).hash(&mut hasher);
        hasher.finish()
    })
}

#[derive(Clone, Copy)]
enum Place {
    Loop,
    Workers,
}

struct Door {
    place: Place,
    logins: usize,
}

impl Door {
    fn answer(&mut self, cx: &mut AppContext<'_, Self>, hash: u64) {
        self.logins += 1;
        cx.write_and_flush(format!("login {}: {hash:016x}", self.logins));
    }
}

impl Application for Door {
    type Read = String;
    type Write = String;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, line: String) {
        match (line.strip_prefix("login "), self.place) {
            (None, _) => cx.write_and_flush("pong".to_owned()),
            (Some(password), Place::Loop) => self.answer(cx, hash(password)),
            (Some(password), Place::Workers) => {
                let password = password.to_owned();
                // The closure runs on a worker; its result comes back here, on the loop, with the handler in hand.
                cx.offload(move || hash(&password), |door, cx, hash| door.answer(cx, hash));
            }
        }
    }
}

/// One client: sends a line, waits for the answer, again and again; tells how long each answer took.
fn ask(address: SocketAddr, line: &str, until: impl Fn(usize) -> bool) -> io::Result<Vec<Duration>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let (mut answers, mut times, mut answer) =
        (BufReader::new(stream.try_clone()?), Vec::new(), String::new());
    while !until(times.len()) {
        let begun = Instant::now();
        stream.write_all(line.as_bytes())?;
        answer.clear();
        if answers.read_line(&mut answer)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        times.push(begun.elapsed());
    }
    Ok(times)
}

fn measure(name: &str, place: Place, logins: usize) -> Result<(), Box<dyn Error>> {
    let server = Server::builder()
        .group(event_loops(1)?)
        .pipeline(move |_| {
            pipeline().add(LineFrames::max(1024)).add(Utf8::strict()).app(Door { place, logins: 0 })
        })
        .bind("127.0.0.1:0")
        .wait()?;
    let address = server.local_addr().ok_or("a port")?;
    let over = Arc::new(AtomicBool::new(false));
    let pings_until = over.clone();
    let pings = thread::spawn(move || ask(address, "ping\n", |_| pings_until.load(Ordering::Relaxed)));
    let clients: Vec<_> = (0..4)
        .map(|_| thread::spawn(move || ask(address, "login secret\n", |done| done == logins)))
        .collect();
    let mut login_times = Vec::new();
    for client in clients {
        login_times.extend(client.join().map_err(|_| "a client panicked")??);
    }
    over.store(true, Ordering::Relaxed);
    let mut pings = pings.join().map_err(|_| "the pinging client panicked")??;
    pings.sort_unstable();
    login_times.sort_unstable();
    let part = |times: &[Duration], share: usize| times[(times.len() - 1) * share / 100];
    let longest = server.group().next().figures().longest_task.map_or(Duration::ZERO, |task| task.time);
    println!(
        "{name:<12}  {:>10.1?}  {:>10.1?}  {:>10.1?}  {:>8}  {:>14.1?}  {longest:>12.1?}",
        part(&pings, 50),
        part(&pings, 99),
        part(&pings, 100),
        pings.len(),
        part(&login_times, 50),
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let logins = std::env::args().nth(1).map_or(Ok(20), |logins| logins.parse())?;
    println!("4 clients log in {logins} times each, and one says ping, all on one loop\n");
    println!(
        "{:<12}  {:>10}  {:>10}  {:>10}  {:>8}  {:>14}  {:>12}",
        "hashing on", "ping 50 %", "ping 99 %", "ping max", "pings", "login 50 %", "loop's stall"
    );
    measure("the loop", Place::Loop, logins)?;
    measure("workers", Place::Workers, logins)
}
