use super::{PATIENCE, Peer, Running, run, text, web::Directory};
use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// Between two looks at what another process does.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Looks at the recordings in a directory until they are as wanted: another process writes them, when it has time.
fn recordings_until(directory: &Path, wanted: impl Fn(&[PathBuf]) -> bool) -> Vec<PathBuf> {
    let begun = Instant::now();
    loop {
        let entries = fs::read_dir(directory).expect("a directory").flatten().map(|entry| entry.path());
        let mut files: Vec<_> =
            entries.filter(|path| path.extension().is_some_and(|extension| extension == "nwr")).collect();
        files.sort();
        if wanted(&files) {
            return files;
        }
        assert!(begun.elapsed() < PATIENCE, "these are not the recordings that are wanted: {files:?}");
        thread::sleep(LOOK_AGAIN);
    }
}

/// The recordings in a directory, once there are that many.
fn recordings(directory: &Path, wanted: usize) -> Vec<PathBuf> {
    recordings_until(directory, |files| files.len() >= wanted)
}

fn serve(protocol: &[&str], directory: &Directory, more: &[&str]) -> (Running, std::net::SocketAddr) {
    let record = ["--listen", "127.0.0.1:0", "--record", directory.text()];
    let (running, addresses) = Running::serve(&[&["serve"], protocol, &record, more].concat(), 1);
    (running, addresses[0])
}

fn replay(file: &Path, more: &[&str]) -> (Option<i32>, String, String) {
    let output = run(&[&["replay", file.to_str().expect("a path of text")], more].concat());
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn what_is_served_is_recorded_and_gives_the_same_replies_again() {
    let request = "GET /json HTTP/1.1\r\nHost: a\r\nCookie: id=secret\r\n\r\n";
    let upload =
        "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    for (protocol, said) in [
        ("hello", format!("{request}{upload}{request}nonsense\r\n\r\n")),
        ("echo", "hello\0\x1b[2J".to_owned()),
        ("time", "what\nquery time order\n".to_owned()),
        ("chat", "alone\n".to_owned()),
        ("ws-echo", request.to_owned()),
    ] {
        let directory = Directory::new();
        let (_server, address) = serve(&[protocol], &directory, &["--record-all"]);
        let heard = Peer::connect(address).send(&said).end_output().rest();
        let file = &recordings(directory.path(), 1)[0];
        let (code, shown, errors) = replay(file, &[]);
        assert_eq!(code, Some(0), "{protocol}: {shown}{errors}");
        assert!(shown.contains(&format!("the same: {} bytes went out", heard.len())), "{shown}");
        assert!(shown.contains(&format!("label     {protocol}\n")), "{shown}");
        assert!(!shown.contains("secret") && !shown.contains('\x1b'), "{shown}");
    }
}

#[test]
fn files_are_served_again_from_the_same_directory() {
    let (files, directory) = (Directory::new(), Directory::new());
    files.write("a.txt", "hello\n".repeat(20_000));
    let (_server, address) = serve(&["http", "--dir", files.text()], &directory, &["--record-all"]);
    // No half-close: whether that comes before workers have an answer is theirs to say, here and in the replay.
    let asked =
        "GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\nGET /b.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    Peer::connect(address).send(asked).rest();
    let file = &recordings(directory.path(), 1)[0];
    let (code, shown, errors) = replay(file, &["--dir", files.text()]);
    assert_eq!(code, Some(0), "{shown}{errors}");
    assert!(shown.contains("120000 bytes of a file"), "{shown}");

    files.write("b.txt", "now it is there");
    let (code, shown, _) = replay(file, &["--dir", files.text()]);
    assert_eq!(code, Some(1));
    assert!(shown.contains("different: ") && shown.contains("404 Not Found"), "{shown}");
    let (code, _, errors) = replay(file, &[]);
    assert_eq!((code, errors.contains("--dir")), (Some(2), true), "{errors}");
}

#[test]
fn only_connections_in_trouble_are_kept_unless_all_are_wanted() {
    let directory = Directory::new();
    let (_server, address) = serve(&["hello"], &directory, &[]);
    Peer::connect(address).send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").end_output().rest();
    // Who goes with bytes unread resets the connection.
    let mut rude = Peer::connect(address);
    rude.send("GET /bytes/50000000 HTTP/1.1\r\nHost: a\r\n\r\n");
    rude.line();
    drop(rude);
    let files = recordings(directory.path(), 1);
    assert_eq!(files.len(), 1);
    assert!(files[0].to_string_lossy().ends_with("-io.nwr"), "{files:?}");
    let (code, shown, _) = replay(&files[0], &["--show"]);
    assert_eq!(code, Some(0));
    assert!(shown.contains("written   because of: io\n") && shown.contains("GET /bytes/50000000"), "{shown}");
}

#[test]
fn other_replies_are_told_with_the_first_byte_that_differs() {
    let directory = Directory::new();
    let (_server, address) = serve(&["echo"], &directory, &["--record-all"]);
    Peer::connect(address).send("hello\n").end_output().rest();
    let file = &recordings(directory.path(), 1)[0];
    let (code, shown, _) = replay(file, &["--protocol", "time"]);
    assert_eq!(code, Some(1));
    assert!(shown.contains("from byte 0 on:\n  recorded: ▸hello\\n\n  now:      ▸BAD ORDER\\n"), "{shown}");
}

#[test]
fn a_directory_has_as_many_recordings_as_it_may_have() {
    let directory = Directory::new();
    let (_server, address) = serve(&["echo"], &directory, &["--record-all", "--record-most", "2"]);
    let mut newest = PathBuf::new();
    for round in 0..4 {
        Peer::connect(address).send("x").end_output().rest();
        let least = (round + 1).min(2);
        let is_new = |files: &[PathBuf]| files.len() >= least && files.last() != Some(&newest);
        newest = recordings_until(directory.path(), is_new).pop().expect("one");
    }
    recordings_until(directory.path(), |files| files.len() <= 2);
}

#[test]
fn what_cannot_be_recorded_or_played_is_said() {
    let directory = Directory::new();
    let output = run(&["serve", "echo", "--listen", "udp:127.0.0.1:0", "--record", directory.text()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--record"), "{}", text(&output.stderr));
    let nothing = directory.write("nothing.nwr", "GET / HTTP/1.1\r\n\r\n");
    let (code, _, errors) = replay(&nothing, &[]);
    assert_eq!((code, errors.contains("no recording")), (Some(1), true), "{errors}");
    let (code, _, errors) = replay(&directory.path().join("missing.nwr"), &[]);
    assert_eq!((code, errors.contains("missing.nwr")), (Some(1), true), "{errors}");
    let unnamed = directory.write("unnamed.nwr", b"\x89NWR\r\n\x1a\n\x01");
    let (code, _, errors) = replay(&unnamed, &[]);
    assert_eq!((code, errors.contains("--protocol")), (Some(2), true), "{errors}");
    let (code, shown, _) = replay(&unnamed, &["--protocol", "echo"]);
    assert_eq!((code, shown.contains("The file is cut")), (Some(0), true), "{shown}");
}

/// The bytes of a file with these records, all at one time.
fn file(records: &[(u8, &[u8])]) -> Vec<u8> {
    let mut file = b"\x89NWR\r\n\x1a\n\x01".to_vec();
    for (kind, body) in records {
        file.extend([*kind, 0, u8::try_from(body.len()).expect("a short one")]);
        file.extend_from_slice(body);
    }
    file
}

#[test]
fn texts_of_a_recording_do_not_command_the_terminal() {
    let directory = Directory::new();
    let text = "\x1b[2J\u{9b}31m";
    for (kind, body) in [(28, format!("\x04{text}")), (29, text.to_owned())] {
        let records: [(u8, &[u8]); 3] = [(1, b"label=echo"), (16, b""), (kind, body.as_bytes())];
        let (code, shown, errors) = replay(&directory.write("escapes.nwr", file(&records)), &[]);
        assert_eq!(code, Some(0), "{shown}{errors}");
        assert!(shown.contains("it ended then: "), "{shown}");
        assert!(!(shown.clone() + &errors).contains(['\x1b', '\u{9b}']), "{shown:?}{errors:?}");
    }
}

#[test]
fn a_recording_without_its_beginning_is_not_said_to_differ() {
    let directory = Directory::new();
    let lost: [(u8, &[u8]); 4] = [(1, b"label=echo"), (2, &[1, 5]), (19, b"hello"), (255, &[0])];
    let (code, shown, errors) = replay(&directory.write("lost.nwr", file(&lost)), &["--protocol", "echo"]);
    assert_eq!(code, Some(2), "{shown}{errors}");
    assert!(errors.contains("cannot be compared from the beginning"), "{errors}");
}

#[test]
fn the_help_of_replay_has_examples() {
    let page = text(&run(&["replay", "--help"]).stdout);
    assert!(page.contains("Usage:") && page.contains("Examples:") && page.contains("Exit codes:"), "{page}");
}
