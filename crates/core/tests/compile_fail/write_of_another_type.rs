//! What a handler writes is what its stage says, or becomes that.
use netwright_core::pipeline;

fn main() {
    let _ = pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.len()));
}
