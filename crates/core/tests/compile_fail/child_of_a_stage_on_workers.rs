//! A stage that runs wherever it is put has no children: those belong to a loop.

use bytes::BytesMut;
use netwright_core::{AppContext, Application, Children, Outgoing, Place, Segment};

struct Parent<C: Segment<BytesMut, Outgoing>>(Children<C, BytesMut, Outgoing>, fn() -> C);

impl<C: Segment<BytesMut, Outgoing>, P: Place> Application<P> for Parent<C> {
    type Read = BytesMut;
    type Write = Outgoing;
    fn read(&mut self, cx: &mut AppContext<'_, Self, P>, _: BytesMut) {
        let _ = self.0.open(cx, self.1);
    }
}

fn main() {}
