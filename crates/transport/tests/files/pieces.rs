//! Files as sources of bytes: in order, read ahead but not too far, and never silently shorter.

use crate::support::{Folder, Way, pattern};
use netwright_core::ByteSource;
use netwright_transport::files::{File, FileError};
use std::{
    future::poll_fn,
    io::ErrorKind,
    task::{Context, Waker},
};

#[test]
fn pieces_are_the_part_that_was_asked_for_in_order() {
    const LEN: usize = 300_000;
    for way in Way::all() {
        let folder = Folder::new();
        let content = pattern(LEN);
        let path = folder.with("file", &content);
        way.run(async move {
            let file = File::open(path).await.unwrap();
            let parts: [(u64, u64); 5] =
                [(0, LEN as u64), (1, 65_537), (65_536, 131_072), (299_999, 300_000), (5, 5)];
            for (start, end) in parts {
                let mut pieces = file.pieces(start..end);
                assert_eq!(pieces.remaining(), end - start, "{way}");
                let mut got = Vec::new();
                while let Some(piece) = pieces.next().await.unwrap() {
                    got.extend_from_slice(&piece);
                    assert_eq!(pieces.remaining(), end - start - got.len() as u64, "{way}");
                }
                assert!(got == content[start as usize..end as usize], "{way}: {start}..{end}");
                assert_eq!(pieces.next().await.unwrap(), None, "{way}: the end stays");
            }
            assert_eq!(file.pieces(..).remaining(), LEN as u64, "{way}");
            assert_eq!(file.pieces(10..=19).remaining(), 10, "{way}");
            #[allow(clippy::reversed_empty_ranges)]
            let backwards = file.pieces(20..10);
            assert_eq!(backwards.remaining(), 0, "{way}");
        });
    }
}

#[test]
fn pieces_that_are_kept_stay_as_they_are_and_those_that_are_not_give_their_memory_to_the_next() {
    for way in Way::all() {
        let folder = Folder::new();
        let content = pattern(1 << 20);
        let path = folder.with("file", &content);
        way.run(async move {
            let file = File::open(path).await.unwrap();
            let (mut kept, mut pieces) = (Vec::new(), file.pieces(..));
            while let Some(piece) = pieces.next().await.unwrap() {
                kept.push(piece);
            }
            assert!(kept.concat() == content, "{way}");

            let (mut places, mut pieces) = (std::collections::HashSet::new(), file.pieces(..));
            while let Some(piece) = pieces.next().await.unwrap() {
                places.insert(piece.as_ptr() as usize);
            }
            assert!(places.len() <= 6, "{way}: {} buffers for 16 pieces", places.len());
        });
    }
}

#[test]
fn a_file_that_shrinks_ends_its_pieces_with_an_error_that_says_where_and_how_much() {
    for way in Way::all() {
        let folder = Folder::new();
        let path = folder.with("file", pattern(300_000));
        let same = path.clone();
        let (got, error) = way.run(async move {
            let file = File::open(&same).await.unwrap();
            let shrinks = std::fs::OpenOptions::new().write(true).open(&same).unwrap();
            shrinks.set_len(100_000).unwrap();
            let (mut got, mut pieces) = (0, file.pieces(..));
            loop {
                match pieces.next().await {
                    Ok(Some(piece)) => got += piece.len(),
                    Ok(None) => panic!("an end that is none"),
                    Err(error) => {
                        assert!(pieces.next().await.is_err(), "it stays an error");
                        return (got, error);
                    }
                }
            }
        });
        assert_eq!(got, 100_000, "{way}: all that there is");
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{way}");
        let expected =
            format!("{path:?} ends at offset 100000 or before: expected 200000 more bytes there, got 0");
        assert_eq!(error.to_string(), expected, "{way}");
    }
}

#[test]
fn nothing_is_read_before_it_is_asked_for_and_no_more_than_two_pieces_ahead() {
    let folder = Folder::new();
    let path = folder.with("file", pattern(1 << 20));
    let workers = netwright_core::Workers::new(1).unwrap();
    let options = netwright_transport::files::OpenOptions::new().read(true).workers(&workers);
    let file = options.open(path).wait().unwrap();
    let done = || {
        let figures = workers.figures();
        (figures.completed + (figures.pending + figures.running) as u64) - 1 // but for the opening
    };
    let mut pieces = file.pieces(..);
    assert_eq!(done(), 0);
    let mut given = 0;
    for _ in 0..10 {
        given += u64::from(pieces.poll_next(&mut Context::from_waker(Waker::noop())).is_ready());
        assert_eq!(done(), given.div_ceil(2) + 1, "two pieces by each");
    }
}

#[test]
fn pieces_are_a_source_of_bytes_that_knows_its_length() {
    let folder = Folder::new();
    let path = folder.with("file", "content");
    Way::Thread.run(async move {
        let mut pieces = File::open(path).await.unwrap().pieces(3..);
        assert_eq!(pieces.bytes_left(), Some(4));
        let piece = poll_fn(|cx| pieces.poll_piece(cx)).await.unwrap().unwrap();
        assert_eq!((&piece[..], pieces.bytes_left()), (&b"tent"[..], Some(0)));
    });
    let path = folder.path("file");
    Way::Thread.run(async move {
        let mut pieces = File::open(path).await.unwrap().pieces(3..100);
        assert_eq!(poll_fn(|cx| pieces.poll_piece(cx)).await.unwrap().unwrap(), "tent");
        let fault = poll_fn(|cx| pieces.poll_piece(cx)).await.unwrap_err();
        assert!(matches!(fault.downcast_ref::<FileError>(), Some(FileError::Short { missing: 93, .. })));
    });
}
