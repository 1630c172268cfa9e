use bytes::BytesMut;
use netwright_core::{AppContext, Application, Outgoing, pipeline};

struct Echo;

impl Application for Echo {
    type Read = BytesMut;
    type Write = Outgoing;
    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        cx.write_and_flush(bytes);
    }
}

fn main() {
    let _ = pipeline().add(Echo); // it is no stage in the middle
}
