//! Files in a directory.

use super::{PATIENCE, echo, recorded};
use netwright_record::{Directory, FlightRecorder, NewRecording, Recording, Sink, When, Why};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A directory that goes with the test.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn file(name: &str) -> NewRecording {
    NewRecording { name: name.to_owned(), why: Why::ByHand, bytes: b"x".to_vec() }
}

#[test]
fn one_file_more_than_a_directory_may_have_costs_the_oldest_and_files_of_others_stay() {
    let there = Temporary::new("bounded");
    fs::create_dir_all(&there.0).unwrap();
    fs::write(there.0.join("notes.txt"), "mine").unwrap();
    let directory = Directory::new(&there.0, 2).unwrap();
    for name in ["1", "2"] {
        directory.keep(&file(name)).unwrap();
    }
    assert_eq!(there.names(), ["notes.txt", "recording-1.nwr", "recording-2.nwr"]);
    directory.keep(&file("3")).unwrap();
    assert_eq!(there.names(), ["notes.txt", "recording-2.nwr", "recording-3.nwr"]);
    // Those of an earlier run count.
    let again = Directory::new(&there.0, 2).unwrap();
    again.keep(&file("4")).unwrap();
    assert_eq!(there.names(), ["notes.txt", "recording-3.nwr", "recording-4.nwr"]);
}

#[test]
fn a_recording_is_read_from_the_file_that_it_was_written_to() {
    let there = Temporary::new("files");
    let directory = Directory::new(&there.0, 10).unwrap();
    let flight = FlightRecorder::builder().label("echo").when(When::ALWAYS).to(directory).build();
    let mut channel = recorded(&flight, echo());
    channel.write_inbound("hello").close_by_peer();
    assert!(flight.wait_until_written(PATIENCE));
    let names = there.names();
    assert!(names.len() == 1 && names[0].ends_with("-end.nwr"), "{names:?}");
    let path = there.0.join(&names[0]);
    let recording = Recording::open(&path).unwrap();
    assert_eq!((recording.label(), recording.read_len(), recording.why()), (Some("echo"), 5, Some(Why::End)));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o077, 0, "nobody else may read it");
    }
}

#[test]
fn a_directory_that_was_removed_is_made_again() {
    let there = Temporary::new("gone");
    let flight = FlightRecorder::in_directory(&there.0, 2).unwrap();
    let mut channel = recorded(&flight, echo());
    channel.write_inbound("hello");
    for round in 1..=3_u64 {
        if round < 3 {
            fs::remove_dir_all(&there.0).unwrap();
        }
        assert!(flight.live()[0].write());
        assert!(flight.wait_until_written(PATIENCE));
        assert_eq!((flight.figures().written, flight.figures().failed), (round, 0));
        assert_eq!(there.names().len(), if round < 3 { 1 } else { 2 }, "those that are gone do not count");
    }
    assert!(channel.is_open());
}

#[test]
fn a_directory_that_cannot_be_made_again_costs_recordings_and_no_channel() {
    let there = Temporary::new("replaced");
    let flight = FlightRecorder::in_directory(there.0.join("below"), 10).unwrap();
    fs::remove_dir_all(&there.0).unwrap();
    fs::write(&there.0, "a file in its place").unwrap();
    let mut channel = recorded(&flight, echo());
    channel.write_inbound("hello");
    assert!(flight.live()[0].write());
    assert!(flight.wait_until_written(PATIENCE));
    assert_eq!((flight.figures().written, flight.figures().failed), (0, 1));
    assert!(channel.is_open());
    fs::remove_file(&there.0).unwrap();
}

#[test]
fn a_clock_that_goes_back_does_not_cost_the_newest_files() {
    let there = Temporary::new("clock");
    let directory = Directory::new(&there.0, 2).unwrap();
    for name in ["8", "9", "1", "2"] {
        directory.keep(&file(name)).unwrap();
    }
    assert_eq!(there.names(), ["recording-1.nwr", "recording-2.nwr"]);
}

#[test]
fn what_a_program_left_unfinished_when_it_ended_counts_and_goes_with_its_time() {
    let there = Temporary::new("unfinished");
    fs::create_dir_all(&there.0).unwrap();
    for name in ["recording-1.nwr.part", "recording-2.nwr.part", "recording-3.nwr", "other.part"] {
        fs::write(there.0.join(name), "x").unwrap();
    }
    let directory = Directory::new(&there.0, 2).unwrap();
    directory.keep(&file("4")).unwrap();
    assert_eq!(there.names(), ["other.part", "recording-3.nwr", "recording-4.nwr"]);
}

#[test]
fn a_directory_that_goes_again_and_again_while_many_write_never_has_more_files_than_it_may() {
    let there = Temporary::new("raced");
    let directory = Directory::new(&there.0, 3).unwrap();
    for round in 0..200 {
        let _ = fs::remove_dir_all(&there.0);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let directory = &directory;
                scope.spawn(move || {
                    for number in 0..4 {
                        directory.keep(&file(&format!("{round}-{thread}-{number}"))).unwrap();
                    }
                });
            }
        });
        directory.keep(&file(&format!("{round}-last"))).unwrap();
        assert_eq!(there.names().len(), 3, "round {round}");
    }
}
