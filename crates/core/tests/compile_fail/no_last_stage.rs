//! What comes out of the last stage would be read by nobody.
use bytes::{Bytes, BytesMut};
use netwright_core::{EmbeddedChannel, Observer, observe, pipeline};

struct Log;

impl Observer for Log {
    type Read = BytesMut;
    type Write = Bytes;
}

fn main() {
    let _ = EmbeddedChannel::<(), Bytes>::with_joint(pipeline().joint(|_switch| pipeline().add(observe(Log))));
}
