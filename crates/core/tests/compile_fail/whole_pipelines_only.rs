//! As a server takes pipelines: whole, and for bytes.
use bytes::{Bytes, BytesMut};
use netwright_core::{AppContext, Application, IntoPipeline, Observer, observe, pipeline};

fn serve<P: IntoPipeline<T>, T: Send + 'static>(_: impl Fn() -> P + Send + Sync + 'static) {}

struct Log;

impl Observer for Log {
    type Read = BytesMut;
    type Write = Bytes;
}

/// Reads numbers; bytes would have to become some first.
struct Adds;

impl Application for Adds {
    type Read = u64;
    type Write = Bytes;
    fn read(&mut self, _: &mut AppContext<'_, Self>, _: u64) {}
}

fn main() {
    serve(|| pipeline().add(observe(Log))); // nobody reads what it passes on
    serve(|| pipeline().app(Adds)); // nobody makes numbers of the bytes
}
