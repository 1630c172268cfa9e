//! Files of the machine as replies: by the system where it can, and piece by piece.

use super::common::{
    ACQUIRE_MAX, Ledger, Network, TURNS_MAX, assert_determined, content, draw_faults, draw_network,
    longest_of, millis, one_in, secs,
};
use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use netwright::{
    Server,
    client::PoolError,
    files::File,
    http::{
        Body, HttpServer,
        client::{WebClient, WebClientError},
        serve,
        web::Files,
    },
    pipeline,
    server::BindError,
    time,
};
use netwright_testkit::sim::{Host, Sim, for_seeds};
use std::{
    fs, io,
    ops::Range,
    path::PathBuf,
    process,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Lengths of the files that all runs share, by their numbers.
const LENGTHS: [usize; 5] = [0, 1, 1_000, 70_000, 700_000];

/// A directory that is removed in the end.
struct Directory(PathBuf);

impl Directory {
    fn new() -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("netwright-sim-{}-{number}", process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

static SHARED: LazyLock<Directory> = LazyLock::new(|| {
    let directory = Directory::new().unwrap();
    for (number, len) in LENGTHS.into_iter().enumerate() {
        fs::write(directory.0.join(format!("{number}.bin")), content(number as u64, len)).unwrap();
    }
    directory
});

/// What is fetched.
#[derive(Clone, Debug)]
struct Errand {
    file: usize,
    range: Option<Range<usize>>,
    /// Piece by piece, not by the system.
    pieces: bool,
    /// Between two pieces that are read.
    pause: Duration,
}

fn draw_errand(sim: &Sim) -> Errand {
    let file = sim.below(LENGTHS.len() as u64) as usize;
    let len = LENGTHS[file] as u64;
    let range = || {
        let start = sim.below(len);
        start as usize..(start + 1 + sim.below(len - start)) as usize
    };
    Errand {
        file,
        range: (len > 0 && one_in(sim, 3)).then(range),
        pieces: one_in(sim, 2),
        pause: if one_in(sim, 3) { millis(sim.below(20)) } else { Duration::ZERO },
    }
}

/// Connections of a client.
const CONNECTIONS: usize = 2;

/// What an errand needs at most: the way of its bytes, and the pauses between as many pieces as they may come in.
fn errand_max(network: &Network, errand: &Errand) -> Duration {
    /// A full segment may be read in so many pieces.
    const SPLIT_MAX: usize = 4;
    const SEGMENT: usize = 1_400;
    let len = errand.range.as_ref().map_or(LENGTHS[errand.file], Range::len);
    let pieces = SPLIT_MAX * (1 + len.div_ceil(SEGMENT.min(network.window(0, 1))));
    let (up, down) = (network.transfer_max(1, 0, 1_000), network.transfer_max(0, 1, 1_000 + len));
    network.connect_max() + up + down + (errand.pause * pieces as u32) + TURNS_MAX
}

/// Below `/files` what the directory has, on port 80; all of it piece by piece, on port 81.
fn servers() -> Result<(Server, Server), BindError> {
    let files = Files::below(&SHARED.0).unwrap();
    let by_system =
        Server::builder().pipeline(move |_| pipeline().add(HttpServer::new()).app(files.server()));
    let by_pieces = Server::builder().pipeline(|_| {
        let answer = |request: Request<Body>| {
            let path = SHARED.0.join(request.uri().path().trim_start_matches('/'));
            let range = request.headers().get("x-range").map(|range| {
                let (start, end) = range.to_str().unwrap().split_once('-').unwrap();
                start.parse::<u64>().unwrap()..end.parse::<u64>().unwrap()
            });
            async move {
                let file = File::open(path).await.unwrap();
                let pieces = match range {
                    Some(range) => file.pieces(range),
                    None => file.pieces(..),
                };
                Response::new(Body::from_source(pieces))
            }
        };
        pipeline().add(HttpServer::new()).app(serve(answer))
    });
    Ok((by_system.bind("0.0.0.0:80").wait()?, by_pieces.bind("0.0.0.0:81").wait()?))
}

/// `work`: what an errand and all that are before it need at most, in a network that loses nothing.
async fn run(
    client: &WebClient,
    errand: &Errand,
    ledger: &Ledger<Errand>,
    work: Option<Duration>,
) -> Result<(), String> {
    let told = |error: &dyn std::fmt::Display| format!("{errand:?}: {error}");
    let port = if errand.pieces { 81 } else { 80 };
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = format!("http://server:{port}/{}.bin", errand.file).parse().unwrap();
    if let Some(Range { start, end }) = errand.range {
        let (header, value) = match errand.pieces {
            true => ("x-range", format!("{start}-{end}")),
            false => ("range", format!("bytes={start}-{}", end - 1)),
        };
        request.headers_mut().insert(header, HeaderValue::try_from(value).unwrap());
    }
    let reply = match client.request(request).await {
        // The others take their time.
        Err(WebClientError::Pool(PoolError::TimedOut { .. }))
            if work.is_none_or(|work| work >= ACQUIRE_MAX) =>
        {
            return Ok(());
        }
        reply => reply.map_err(|error| told(&error))?,
    };
    let whole = content(errand.file as u64, LENGTHS[errand.file]);
    let (expected, status) = match &errand.range {
        Some(range) if errand.pieces => (whole.slice(range.clone()), StatusCode::OK),
        Some(range) => (whole.slice(range.clone()), StatusCode::PARTIAL_CONTENT),
        None => (whole, StatusCode::OK),
    };
    let announced = reply.headers().get(header::CONTENT_LENGTH).cloned();
    if reply.status() != status || announced != Some(HeaderValue::from(expected.len())) {
        ledger.wrong(format!("{errand:?}: {} with {:?}", reply.status(), reply.headers()));
    }
    let mut body = reply.into_body();
    let mut got = Vec::new();
    while let Some(piece) = body.read().await.map_err(|error| told(&error))? {
        got.extend_from_slice(&piece);
        time::sleep(errand.pause).await;
    }
    if got != expected {
        ledger.wrong(format!("{errand:?}: {} bytes, and not those", got.len()));
    }
    Ok(())
}

fn client(
    host: &Host,
    tasks: u64,
    ledger: &Ledger<Errand>,
    work: Option<Duration>,
) -> Result<WebClient, String> {
    let client = WebClient::builder().connections(CONNECTIONS).build().map_err(|error| error.to_string())?;
    for _ in 0..tasks {
        let (client, ledger) = (client.clone(), ledger.clone());
        let working = async move {
            while let Some((errand, taken)) = ledger.take() {
                let result = run(&client, &errand, &ledger, work).await;
                taken.tell(result);
            }
        };
        let _ = host.spawn(working).map_err(|error| error.to_string())?;
    }
    Ok(client)
}

fn fetching(sim: &Sim) {
    let hosts = ["server", "client"].map(|name| sim.host(name));
    let network = draw_network(sim, &hosts);
    let errands: Vec<Errand> = (0..3 + sim.below(12)).map(|_| draw_errand(sim)).collect();
    let times = errands.iter().map(|errand| errand_max(&network, errand)).collect();
    let ledger = Ledger::new(errands);
    hosts[0].start(servers).unwrap();
    let faults = draw_faults(sim, secs(5));
    let (tasks, here, work) = (1 + sim.below(4), hosts[1].clone(), ledger.clone());
    let time = (!network.loses()).then(|| longest_of(times, tasks as usize + CONNECTIONS));
    hosts[1].start(move || client(&here, tasks, &work, time)).unwrap();
    ledger.finish(sim, secs(3_600), faults);
}

#[test]
fn files_arrive_whole_or_break_off_visibly() {
    // Some 4 s of one core in a debug build.
    for_seeds(0..100, fetching);
}

#[test]
fn files_are_determined_by_the_seed() {
    LazyLock::force(&SHARED);
    assert_determined(fetching);
}

/// A file that becomes shorter while it is sent.
fn cutting(sim: &Sim) {
    const LEN: usize = 300_000;
    let hosts = ["server", "client"].map(|name| sim.host(name));
    draw_network(sim, &hosts);
    let directory = Arc::new(Directory::new().unwrap());
    let path = directory.0.join("shrinks.bin");
    fs::write(&path, content(7, LEN)).unwrap();
    let pieces = one_in(sim, 2);
    let (served, root) = (path.clone(), directory.clone());
    hosts[0]
        .start(move || {
            let files = Files::below(&root.0).unwrap();
            let path = served.clone();
            if !pieces {
                let server = Server::builder().pipeline(move |_| pipeline().add(HttpServer::new()).app(files.server()));
                return server.bind("0.0.0.0:80").wait();
            }
            let server = Server::builder().pipeline(move |_| {
                let path = path.clone();
                let answer = move |_: Request<Body>| {
                    let path = path.clone();
                    async move { Response::new(Body::from_source(File::open(path).await.unwrap().pieces(..))) }
                };
                pipeline().add(HttpServer::new()).app(serve(answer))
            });
            server.bind("0.0.0.0:80").wait()
        })
        .unwrap();
    hosts[1].enter(|| {
        let client = WebClient::builder().build().unwrap();
        let reply = client.get("http://server/shrinks.bin").wait().unwrap();
        sim.run_for(millis(sim.below(300)));
        let left = sim.below(LEN as u64);
        fs::File::options().write(true).open(&path).unwrap().set_len(left).unwrap();
        let collecting = hosts[1].spawn(reply.into_body().collect(LEN + 1));
        let got: Result<Bytes, _> = collecting.unwrap().wait().unwrap();
        match got {
            Ok(bytes) => assert!(bytes == content(7, LEN), "{} bytes of {LEN}, cut to {left}", bytes.len()),
            Err(error) => sim.note(error),
        }
        // Who asks again has what there is now.
        let reply = client.get("http://server/shrinks.bin").wait().unwrap();
        let got = hosts[1].spawn(reply.into_body().collect(LEN + 1)).unwrap().wait().unwrap().unwrap();
        assert_eq!(got, content(7, LEN).slice(..left as usize));
    });
}

#[test]
fn a_file_that_is_cut_while_it_is_sent_breaks_off_visibly() {
    // Some 4 s of one core in a debug build.
    for_seeds(0..100, cutting);
}
