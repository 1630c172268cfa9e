//! What comes piece by piece from a source is written as there is room, and as a whole or with the end of its channel: files that no
//! loop waits for, on every backend.

use super::{
    Behaviour, Setup, Variation, behaviour,
    support::{PATIENCE, Soon, expect, pattern, wait_until},
};
use bytes::Bytes;
use netwright_core::{ByteSource, CloseCause, Fault, Peer};
use netwright_transport::files::{File, FileError};
use std::{
    io::Read,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context, Poll},
};

/// Peers that are sent pieces say nothing.
const VARIED: &[Variation] = &[Variation::Asking, Variation::OnWorkers];

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    behaviour!(a_file_in_pieces_arrives_byte_for_byte_between_other_messages).not(VARIED),
    behaviour!(a_file_in_pieces_that_shrinks_ends_its_channel_behind_what_went_out).not(VARIED),
    behaviour!(a_peer_that_does_not_read_holds_up_the_source_and_not_our_memory).not(VARIED),
    behaviour!(a_peer_that_goes_away_ends_the_pieces_that_were_on_their_way_to_it).not(VARIED),
];

type Bare = Peer;
type Sent = Result<u64, CloseCause>;

/// A file that goes with its behaviour.
struct Temporary(PathBuf);

impl Temporary {
    fn new(content: &[u8]) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("netwright-contract-{}-{number}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        Self(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn a_file_in_pieces_arrives_byte_for_byte_between_other_messages(setup: Setup) {
    let content = pattern(5 << 20);
    let file = Temporary::new(&content);
    let path = file.0.clone();
    let running = setup.serve_tail(move |mut peer: Bare| {
        let path = path.clone();
        async move {
            let file = File::open(path).await.map_err(|error| CloseCause::Fault(error.into()))?;
            peer.write("<").await?;
            assert_eq!(peer.write_from(file.pieces(..)).await?, 5 << 20);
            peer.write("|").await?;
            peer.write_from(file.pieces(1_000_003..1_070_003)).await?;
            assert_eq!(peer.write_from(file.pieces(17..17)).await?, 0);
            peer.write(">").await?;
            peer.read().await.map(drop)
        }
    });
    for _ in 0..2 {
        let mut stream = running.dial();
        expect(&mut stream, b"<");
        expect(&mut stream, &content);
        expect(&mut stream, b"|");
        expect(&mut stream, &content[1_000_003..1_070_003]);
        expect(&mut stream, b">");
    }
}

fn a_file_in_pieces_that_shrinks_ends_its_channel_behind_what_went_out(setup: Setup) {
    let file = Temporary::new(&pattern(300_000));
    let path = file.0.clone();
    let (tell, told) = mpsc::channel();
    let running = setup.serve_tail(move |mut peer: Bare| {
        let (path, tell) = (path.clone(), tell.clone());
        async move {
            tell.send(peer.channel()).unwrap();
            let file = File::open(&path).await.map_err(|error| CloseCause::Fault(error.into()))?;
            std::fs::File::options().write(true).open(&path).unwrap().set_len(100_000).unwrap();
            let _ = peer.write_from(file.pieces(..)).await;
            peer.write("behind it").await?;
            peer.read().await.map(drop)
        }
    });
    let mut stream = running.dial();
    // As much as was taken before the end, and nothing behind it.
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    assert!(got.len() <= 100_000 && got == pattern(300_000)[..got.len()], "{} bytes", got.len());
    let cause = told.recv_timeout(PATIENCE).unwrap().closed().soon();
    let CloseCause::Fault(fault) = cause else { panic!("{cause:?}") };
    let short = fault.downcast_ref::<FileError>();
    assert!(matches!(short, Some(FileError::Short { offset: 100_000, .. })), "{fault}");
    running.wait_for_open(0);
}

/// Counts the pieces that were asked of it.
struct Counted {
    asked: Arc<AtomicUsize>,
    pieces: usize,
}

const PIECE: usize = 64 * 1024;

impl ByteSource for Counted {
    fn poll_piece(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Fault>> {
        let number = self.asked.load(Ordering::Relaxed);
        if number == self.pieces {
            return Poll::Ready(Ok(None));
        }
        self.asked.store(number + 1, Ordering::Relaxed);
        Poll::Ready(Ok(Some(Bytes::from(vec![number as u8; PIECE]))))
    }
}

fn a_peer_that_does_not_read_holds_up_the_source_and_not_our_memory(setup: Setup) {
    const PIECES: usize = 1000;
    let asked = Arc::new(AtomicUsize::new(0));
    let (counter, (tell, told)) = (asked.clone(), mpsc::channel());
    let running = setup.serve_tail(move |mut peer: Bare| {
        let (asked, tell) = (counter.clone(), tell.clone());
        async move {
            tell.send(peer.channel()).unwrap();
            assert_eq!(peer.write_from(Counted { asked, pieces: PIECES }).await?, (PIECES * PIECE) as u64);
            peer.read().await.map(drop)
        }
    });
    let mut stream = running.dial_narrow();
    let channel = told.recv_timeout(PATIENCE).unwrap();
    wait_until(|| !channel.is_writable(), || "the channel to be full".to_owned());
    running.assert_quiet();
    let before = asked.load(Ordering::Relaxed);
    assert!(before < PIECES / 2, "{before} pieces of {PIECES} were asked for");
    for number in 0..PIECES {
        expect(&mut stream, &[number as u8; PIECE]);
    }
}

fn a_peer_that_goes_away_ends_the_pieces_that_were_on_their_way_to_it(setup: Setup) {
    let (tell, told) = mpsc::channel::<Sent>();
    let running = setup.serve_tail(move |mut peer: Bare| {
        let tell = tell.clone();
        async move {
            let endless = Counted { asked: Arc::default(), pieces: usize::MAX };
            tell.send(peer.write_from(endless).await).unwrap();
            Ok::<(), CloseCause>(())
        }
    });
    let mut stream = running.dial_narrow();
    expect(&mut stream, &[0; PIECE]);
    drop(stream);
    let sent = told.recv_timeout(PATIENCE).unwrap();
    assert!(sent.is_err(), "{sent:?}");
    running.wait_for_open(0);
}
