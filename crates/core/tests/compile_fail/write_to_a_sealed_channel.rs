use bytes::Bytes;
use netwright_core::{EmbeddedChannel, pipeline};

fn main() {
    let sealed = pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())).sealed();
    let outside = EmbeddedChannel::<(), _>::with_joint(sealed);
    outside.channel().write_and_flush(Bytes::from("nobody takes this"));
}
