use netwright_core::{CloseCause, Peer, pipeline};

async fn count(mut peer: Peer) -> Result<usize, CloseCause> {
    let mut bytes = 0;
    while let Some(piece) = peer.read().await? {
        bytes += piece.len();
    }
    Ok(bytes) // to whom?
}

fn main() {
    drop(pipeline().serve(count));
}
