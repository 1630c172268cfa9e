//! Notes over JSON: `cargo run --release --example http_json_api`, then
//!
//! ```text
//! curl 127.0.0.1:7014/notes -d '{"text": "buy milk"}'
//! curl 127.0.0.1:7014/notes
//! curl -X DELETE 127.0.0.1:7014/notes/1
//! ```
//!
//! The router finds a function by method and path; the stages before it write a log, let pages of one origin in, and unpack
//! and compress bodies.

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use netwright::{
    Server, event_loops,
    http::{
        HttpServer, Received, respond,
        web::{AccessLog, Cors, Params, Query, Reply, ReplyCompression, RequestDecompression, Router},
    },
    pipeline,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    error::Error,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Notes that are kept; whoever wants to write more is told so.
const NOTES_MAX: usize = 10_000;

#[derive(Serialize, Deserialize, Clone)]
struct Note {
    text: String,
}

#[derive(Serialize)]
struct Numbered<'a> {
    id: u64,
    #[serde(flatten)]
    note: &'a Note,
}

/// All loops share it. No handler holds it for longer than a look or a change takes.
#[derive(Default)]
struct Notes {
    list: Mutex<(u64, BTreeMap<u64, Note>)>,
}

impl Notes {
    fn lock(&self) -> MutexGuard<'_, (u64, BTreeMap<u64, Note>)> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Handler = fn(&Notes, &Received, &Params<'_, '_>) -> Result<Response<Bytes>, Box<dyn Error>>;

/// `GET /notes?like=milk`
fn list(notes: &Notes, request: &Received, _: &Params<'_, '_>) -> Result<Response<Bytes>, Box<dyn Error>> {
    let query = Query::of(request.uri())?;
    let like = query.get("like").unwrap_or_default();
    let notes = notes.lock();
    let found: Vec<_> = notes.1.iter().filter(|(_, note)| note.text.contains(like)).collect();
    Ok(Reply::json(&found.iter().map(|(id, note)| Numbered { id: **id, note }).collect::<Vec<_>>())?)
}

/// `POST /notes`
fn add(notes: &Notes, request: &Received, _: &Params<'_, '_>) -> Result<Response<Bytes>, Box<dyn Error>> {
    let note: Note = serde_json::from_slice(request.body())?;
    let mut notes = notes.lock();
    if notes.1.len() == NOTES_MAX {
        return Ok(Reply::status(StatusCode::INSUFFICIENT_STORAGE));
    }
    notes.0 += 1;
    let id = notes.0;
    let mut reply = Reply::json(&Numbered { id, note: &note })?;
    notes.1.insert(id, note);
    *reply.status_mut() = StatusCode::CREATED;
    reply.headers_mut().insert(http::header::LOCATION, format!("/notes/{id}").parse()?);
    Ok(reply)
}

/// `GET /notes/{id}`
fn show(notes: &Notes, _: &Received, params: &Params<'_, '_>) -> Result<Response<Bytes>, Box<dyn Error>> {
    let id = params.parse("id")?;
    Ok(match notes.lock().1.get(&id) {
        Some(note) => Reply::json(&Numbered { id, note })?,
        None => Reply::not_found(),
    })
}

/// `DELETE /notes/{id}`
fn remove(notes: &Notes, _: &Received, params: &Params<'_, '_>) -> Result<Response<Bytes>, Box<dyn Error>> {
    Ok(match notes.lock().1.remove(&params.parse("id")?) {
        Some(_) => Reply::status(StatusCode::NO_CONTENT),
        None => Reply::not_found(),
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7014".to_owned());
    let loops = std::thread::available_parallelism().map_or(1, usize::from);

    let notes: Router<Handler> = Router::new()
        .get("/", list as Handler)?
        .post("/", add)?
        .get("/{id}", show)?
        .delete("/{id}", remove)?;
    let router = Arc::new(Router::new().nest("/notes", notes)?);
    let notes = Arc::new(Notes::default());
    let log = AccessLog::new(|entry| eprintln!("{} {:?}", entry.common(), entry.latency));
    let cors = Cors::origins(["http://localhost:3000"])?.methods([Method::GET, Method::POST, Method::DELETE]);
    let compression = ReplyCompression::new();

    let server = Server::builder()
        .group(event_loops(loops)?)
        .pipeline(move |_| {
            let (router, notes) = (router.clone(), notes.clone());
            pipeline()
                .add(HttpServer::new())
                .add(log.stage())
                .add(cors.stage())
                .add(RequestDecompression::new())
                .add(compression.stage())
                .app(respond(move |request: &Received| {
                    match router.find(request.method(), request.uri().path()) {
                        Ok(found) => {
                            (found.handler)(&notes, request, &found.params).unwrap_or_else(Reply::bad_request)
                        }
                        Err(miss) => miss.reply(),
                    }
                }))
        })
        .bind(address)
        .wait()?;
    println!("notes on {}; Enter ends it", server.address());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let cut = server.drain(Duration::from_secs(10)).wait()?.cut;
    println!("ended; {cut} connections did not finish in time");
    Ok(())
}
