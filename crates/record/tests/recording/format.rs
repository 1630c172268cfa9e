//! Files that are whole, cut, damaged or hostile.

use super::{echo, flight, recorded};
use bytes::BytesMut;
use netwright_core::{CloseCause, FileRegion, pipeline};
use netwright_record::{Ending, FlightRecorder, FormatError, Recording, When};
use netwright_testkit::verify::Numbers;
use std::{io, time::Duration};

/// A recording with something of everything.
fn sample() -> Recording {
    let (flight, files) =
        flight(FlightRecorder::builder().label("sample").written_max(20).bytes(4096).when(When::ALWAYS));
    let path = std::env::current_exe().unwrap();
    let app = pipeline().handle(move |cx, bytes: BytesMut| match &bytes[..] {
        b"file" => cx.write_and_flush(FileRegion::new(std::fs::File::open(&path).unwrap(), 0, 300)),
        _ => cx.write_and_flush(bytes),
    });
    let mut channel = recorded(&flight, app);
    for piece in [&b"hello"[..], b"file", b"a piece that is longer than what is kept", b""] {
        channel.write_inbound(piece).advance(Duration::from_millis(250));
    }
    channel.block_output(true).write_inbound(vec![b'x'; 100_000]).block_output(false).run();
    channel.write_inbound("end").end_because(CloseCause::io(io::ErrorKind::ConnectionReset.into()));
    files.next().1
}

/// Looks at everything that there is to be seen, and plays it.
fn use_up(recording: &Recording) -> usize {
    let text = recording.show().bytes_of_each(64).to_string();
    let _ = (recording.began(), recording.peer(), recording.local(), recording.lost(), recording.why());
    let _ =
        recording.compare(recording).ignore_header("date").in_the_same_pieces().with_the_same_end().check();
    let again = recording.replay().patience(Duration::ZERO).run(echo());
    let _ = again.compare(recording).check();
    text.len() + recording.records().count()
}

#[test]
fn what_was_written_is_read_to_its_end() {
    let recording = sample();
    assert_eq!(recording.ending(), Ending::Complete);
    assert_eq!(recording.label(), Some("sample"));
    assert!(recording.began().is_some());
    use_up(&recording);
    recording.compare(&recording).in_the_same_pieces().with_the_same_end().assert_same();
}

#[test]
fn a_file_that_is_cut_anywhere_is_read_as_far_as_it_goes_and_says_so() {
    let whole = sample();
    let (bytes, all) = (whole.to_bytes(), whole.records().count());
    let mut most = 0;
    for len in 0..bytes.len() {
        match Recording::parse(bytes.slice(..len)) {
            Err(error) => assert!(len < 9 && matches!(error, FormatError::NoRecording)),
            Ok(cut) => {
                assert_eq!(cut.ending(), Ending::Cut, "cut at {len}");
                let count = cut.records().count();
                assert!(count >= most && cut.records().eq(whole.records().take(count)), "cut at {len}");
                most = count;
            }
        }
    }
    assert_eq!(most, all);
}

#[test]
fn a_bit_that_is_flipped_anywhere_costs_no_more_than_the_file() {
    let bytes = sample().to_bytes();
    for place in (0..bytes.len()).filter(|place| *place < 600 || place % 61 == 0) {
        for bit in 0..8 {
            let mut damaged = bytes.to_vec();
            damaged[place] ^= 1 << bit;
            if let Ok(recording) = Recording::parse(damaged) {
                assert!(recording.records().count() <= bytes.len());
                if place % 7 == 0 {
                    use_up(&recording);
                }
            }
        }
    }
}

#[test]
fn anything_behind_a_head_is_read_without_a_panic() {
    let seed = 7;
    let mut numbers = Numbers::new(seed);
    for round in 0..3000 {
        let mut bytes = b"\x89NWR\r\n\x1a\n\x01".to_vec();
        let kinds = [1_u8, 2, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 77, 255];
        for _ in 0..numbers.below(12) {
            bytes.push(kinds[numbers.below(kinds.len())]);
            match numbers.below(4) {
                0 => bytes.extend_from_slice(&[0xff; 11][..numbers.below(12)]), // a number that never ends
                _ => bytes.push(numbers.below(128) as u8),
            }
            let len = numbers.below(20);
            bytes.push(if numbers.below(5) == 0 { 0x7f } else { len as u8 });
            (0..len).for_each(|_| bytes.push(numbers.next_u64() as u8));
        }
        let recording =
            Recording::parse(bytes).unwrap_or_else(|error| panic!("seed {seed}, round {round}: {error}"));
        use_up(&recording);
    }
}

#[test]
fn lengths_that_no_file_has_and_times_that_no_clock_shows_are_harmless() {
    let head = b"\x89NWR\r\n\x1a\n\x01";
    let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]; // u64::MAX
    let body_of_that_length = [&head[..], &[17, 0], &huge].concat();
    assert_eq!(Recording::parse(body_of_that_length).unwrap().ending(), Ending::Cut);
    let twice_that_time = [&head[..], &[16], &huge, &[0], &[22], &huge, &[0]].concat();
    let recording = Recording::parse(twice_that_time).unwrap();
    assert_eq!(recording.records().last().unwrap().at, Duration::from_nanos(u64::MAX));
    let file_of_that_length = [&head[..], &[21, 0, 10], &huge, &[21, 0, 10], &huge].concat();
    let recording = Recording::parse(file_of_that_length).unwrap();
    assert_eq!(recording.written_len(), u64::MAX);
    recording.compare(&recording).assert_same();
}

#[test]
fn kinds_of_a_later_version_are_skipped_and_other_versions_refused() {
    let head = b"\x89NWR\r\n\x1a\n\x01";
    let later =
        [&head[..], &[16, 1, 0], &[200, 2, 3, 9, 9, 9], &[17, 4, 1, b'x'], &[255, 0, 5, 5, 0, 0, 0, 0]]
            .concat();
    let recording = Recording::parse(later).unwrap();
    assert_eq!(recording.ending(), Ending::Complete);
    let times: Vec<_> = recording.records().map(|record| record.at.as_nanos()).collect();
    assert_eq!(times, [1, 7], "the time of what is skipped passes too");
    assert!(matches!(Recording::parse(&b"\x89NWR\r\n\x1a\n\x02"[..]), Err(FormatError::Version(2))));
    assert!(matches!(Recording::parse(&b""[..]), Err(FormatError::NoRecording)));
}

#[test]
fn what_stands_behind_the_end_is_told() {
    let mut bytes = sample().to_bytes().to_vec();
    let end = bytes.len();
    bytes.push(0);
    assert_eq!(Recording::parse(bytes).unwrap().ending(), Ending::Damaged { at: end });
}
