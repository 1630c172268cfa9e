//! A server with a recorder on a real transport, and a client that sends pieces.

use crate::PATIENCE;
use bytes::{Bytes, BytesMut};
use netwright_core::{IntoPipeline, pipeline};
use netwright_record::FlightRecorder;
use netwright_transport::{Backend, Client, Server};
use std::sync::{
    atomic::{AtomicU32, Ordering},
    mpsc,
};

/// Says these pieces, then that there is no more, and hears everything.
pub(crate) fn talk<T: Send + 'static, P: IntoPipeline<T> + 'static>(
    transport: &str,
    flight: FlightRecorder,
    make: fn() -> P,
    pieces: &[&[u8]],
) -> Vec<u8> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let address = match transport {
        "local:" => format!("local:recorded-{}", NUMBER.fetch_add(1, Ordering::Relaxed)),
        other => other.to_owned(),
    };
    let loops = Backend::Readiness.event_loops(1).expect("a loop");
    let server = Server::builder()
        .group(loops.clone())
        .pipeline(move |_| pipeline().add(flight.stage()).joint(|_| make()))
        .bind(&address)
        .wait()
        .expect("it listens");
    let (tell, heard) = mpsc::channel::<BytesMut>();
    let client = Client::builder().group(loops).half_closure(true).pipeline(move || {
        let tell = tell.clone();
        pipeline().handle(move |_, bytes: BytesMut| _ = tell.send(bytes))
    });
    let client = client.expect("a client");
    let channel = client.connect(server.address()).wait().expect("somebody listens");
    let mut said = 0;
    for piece in pieces {
        channel.send(Bytes::copy_from_slice(piece)).wait().expect("it is read");
        said += piece.len();
    }
    assert!(said > 0);
    let _ = channel.shut_down_output_tracked().wait();
    let (ends, ended) = mpsc::channel();
    channel.on_close(move |_| _ = ends.send(()));
    ended.recv_timeout(PATIENCE).expect("it ends");
    let mut all = Vec::new();
    while let Ok(bytes) = heard.try_recv() {
        all.extend_from_slice(&bytes);
    }
    all
}
