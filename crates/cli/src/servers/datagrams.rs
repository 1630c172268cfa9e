//! The classic servers over UDP: each datagram is a question of its own, and its answer goes back to the sender.

use super::time;
use bytes::{BufMut, Bytes, BytesMut};
use netwright::{
    AppContext, Application, Channel, Datagrams, EventLoopGroup, channel::Envelope, datagram::Datagram,
    pipeline, server::BindError,
};

/// What to do with a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    Echo,
    Discard,
    Time,
}

/// Serves at an address: on one loop, or on all of them if the port is shared.
pub(crate) fn bind(
    service: Service,
    group: &EventLoopGroup,
    shared: bool,
    address: &str,
) -> Result<Vec<Channel<Envelope>>, BindError> {
    let datagrams = Datagrams::builder().group(group.clone());
    let datagrams = datagrams.pipeline(move || pipeline().app(Serve { service }))?;
    if shared { datagrams.bind_shared(address).wait() } else { Ok(vec![datagrams.bind(address).wait()?]) }
}

struct Serve {
    service: Service,
}

impl Application for Serve {
    type Read = Datagram;
    type Write = Envelope;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, datagram: Datagram) {
        match self.service {
            Service::Discard => {}
            Service::Echo => cx.write(datagram.into_answer()),
            Service::Time => cx.write(datagram.answer(line(time::answer(order(&datagram.bytes))))),
        }
    }

    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush(); // all that came together is answered together
    }

    /// What waits to be sent is bounded by the water marks. What comes meanwhile waits with the system, or is lost there.
    fn writability(&mut self, cx: &mut AppContext<'_, Self>, writable: bool) {
        if writable { cx.resume() } else { cx.pause() }
    }
}

/// The order without the end of its line, which it may have.
fn order(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    bytes.strip_suffix(b"\r").unwrap_or(bytes)
}

fn line(text: Bytes) -> BytesMut {
    let mut line = BytesMut::with_capacity(text.len() + 1);
    line.put(text);
    line.put_u8(b'\n');
    line
}
