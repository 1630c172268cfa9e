//! Files arrive byte for byte, and what goes wrong with one is told apart from what goes wrong with the connection.

use super::{
    Behaviour, Need, Setup, Variation, behaviour,
    support::{PATIENCE, Running, Soon, expect, expect_end, pattern},
};
use bytes::{Bytes, BytesMut};
use netwright_core::{
    AppContext, Application, Channel, CloseCause, FileRegion, Outgoing, WriteError, pipeline,
};
use std::{
    fs::{File, OpenOptions},
    io::{ErrorKind, Write},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
};

/// Peers that are sent files say nothing.
const VARIED: &[Variation] = &[Variation::Asking, Variation::OnWorkers];

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    behaviour!(a_file_arrives_byte_for_byte_between_other_messages)
        .shows(&[62])
        .not(VARIED)
        .needs(&[Need::Files]),
    behaviour!(a_region_that_ends_early_fails_and_its_channel_closes_behind_what_went_out)
        .shows(&[62])
        .not(VARIED)
        .needs(&[Need::Files]),
    behaviour!(a_region_within_a_message_closes_its_channel_also_if_nothing_of_it_was_sent)
        .not(VARIED)
        .needs(&[Need::Files]),
    behaviour!(a_file_that_cannot_be_read_fails_its_promise_and_not_the_channel)
        .shows(&[62])
        .not(VARIED)
        .needs(&[Need::Files]),
    behaviour!(a_region_of_what_has_no_offsets_fails_alone).not(VARIED).needs(&[Need::Files]),
    behaviour!(a_file_that_breaks_fails_alone_whichever_call_finds_out).not(VARIED).needs(&[Need::Files]),
    behaviour!(a_file_to_a_peer_that_goes_away_fails_and_ends_the_channel).not(VARIED).needs(&[Need::Files]),
    behaviour!(one_file_goes_to_many_peers_at_once).not(VARIED).needs(&[Need::Files]),
];

/// Writes bytes and files.
struct Files(mpsc::Sender<Channel<Outgoing>>);

impl Application for Files {
    type Read = BytesMut;
    type Write = Outgoing;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        self.0.send(cx.channel()).unwrap();
    }
    fn read(&mut self, _: &mut AppContext<'_, Self>, _: BytesMut) {}
}

fn file_server(setup: Setup) -> (Running, mpsc::Receiver<Channel<Outgoing>>) {
    let (told, channels) = mpsc::channel();
    let (builder, loops) = setup.server();
    let server = builder
        .pipeline(move |_| pipeline().app(Files(told.clone())))
        .bind(setup.listen_at())
        .soon()
        .unwrap();
    (Running { setup, server, loops }, channels)
}

/// An open file with this content, which is gone when it is closed.
fn file_with(content: &[u8], set_up: impl FnOnce(&mut OpenOptions)) -> File {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("netwright-sockets-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, content).unwrap();
    let mut options = OpenOptions::new();
    set_up(options.read(true));
    let file = options.open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file
}

fn a_file_arrives_byte_for_byte_between_other_messages(setup: Setup) {
    let (running, channels) = file_server(setup);
    let mut stream = running.dial();
    let channel = channels.recv_timeout(PATIENCE).unwrap();
    let content = pattern(5 << 20);
    let file = Arc::new(file_with(&content, |_| ()));
    let mut whole = FileRegion::whole(file.clone()).unwrap();
    let progress = whole.progress();
    channel.write(Bytes::from_static(b"<"));
    let mut sent = channel.write_tracked(whole);
    channel.write(Bytes::from_static(b"|"));
    channel.write(FileRegion::new(file.clone(), 1_000_003, 70_000));
    channel.write(FileRegion::new(file, 17, 0));
    channel.write(Bytes::from_static(b">"));
    channel.flush();
    expect(&mut stream, b"<");
    expect(&mut stream, &content);
    expect(&mut stream, b"|");
    expect(&mut stream, &content[1_000_003..1_070_003]);
    expect(&mut stream, b">");
    sent.soon().unwrap();
    assert_eq!((progress.sent(), progress.total()), (content.len() as u64, content.len() as u64));
}

/// Nobody could tell where the region ends in what the peer gets, and where the next message begins.
fn a_region_that_ends_early_fails_and_its_channel_closes_behind_what_went_out(setup: Setup) {
    let (running, channels) = file_server(setup);
    let mut stream = running.dial();
    let channel = channels.recv_timeout(PATIENCE).unwrap();
    let region = FileRegion::new(file_with(b"short", |_| ()), 0, 1_000);
    let mut failed = channel.write_tracked(region);
    let mut behind = channel.send(Bytes::from_static(b"next"));
    let failed = failed.soon();
    let Err(WriteError::File(error)) = failed else { panic!("{failed:?}") };
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    let cause = channel.closed().soon();
    assert!(matches!(&cause, CloseCause::Io(error) if error.kind() == ErrorKind::UnexpectedEof), "{cause}");
    assert!(matches!(behind.soon(), Err(WriteError::Closed(_))));
    expect(&mut stream, b"short");
    expect_end(&mut stream);
    running.wait_for_open(0);
}

/// What was written before it says how long it is, and what comes next would be taken for it.
fn a_region_within_a_message_closes_its_channel_also_if_nothing_of_it_was_sent(setup: Setup) {
    let (running, channels) = file_server(setup);
    let only_written = file_with(b"secret", |options| {
        options.read(false).write(true);
    });
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"from a pipe").unwrap();
    let files = [file_with(b"", |_| ()), only_written, file_of(reader)];
    for file in files {
        let mut stream = running.dial();
        let channel = channels.recv_timeout(PATIENCE).unwrap();
        channel.write(Bytes::from_static(b"five bytes follow:"));
        let mut failed = channel.write_tracked(FileRegion::new(file, 0, 5).within_message());
        let mut behind = channel.send(Bytes::from_static(b"next"));
        let failed = failed.soon();
        assert!(matches!(failed, Err(WriteError::File(_))), "{failed:?}");
        assert!(matches!(channel.closed().soon(), CloseCause::Io(_)));
        assert!(matches!(behind.soon(), Err(WriteError::Closed(_))));
        expect(&mut stream, b"five bytes follow:");
        expect_end(&mut stream);
    }
    running.wait_for_open(0);
}

fn a_file_that_cannot_be_read_fails_its_promise_and_not_the_channel(setup: Setup) {
    let (running, channels) = file_server(setup);
    let mut stream = running.dial();
    let channel = channels.recv_timeout(PATIENCE).unwrap();
    let only_written = file_with(b"secret", |options| {
        options.read(false).write(true);
    });
    let directory = File::open(std::env::temp_dir()).ok(); // Windows does not open one
    assert!(directory.is_some() || cfg!(windows));
    for file in [Some(only_written), directory].into_iter().flatten() {
        fails_alone(&channel, FileRegion::new(file, 0, 6));
    }
    channel.send(Bytes::from_static(b"alive")).soon().unwrap();
    expect(&mut stream, b"alive");
}

#[track_caller]
fn fails_alone(channel: &Channel<Outgoing>, region: FileRegion) -> Arc<std::io::Error> {
    match channel.send(region).soon() {
        Err(WriteError::File(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn file_of(pipe: std::io::PipeReader) -> File {
    #[cfg(unix)]
    return std::os::fd::OwnedFd::from(pipe).into();
    #[cfg(windows)]
    return std::os::windows::io::OwnedHandle::from(pipe).into();
}

fn a_region_of_what_has_no_offsets_fails_alone(setup: Setup) {
    let (running, channels) = file_server(setup);
    let mut stream = running.dial();
    let channel = channels.recv_timeout(PATIENCE).unwrap();
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"from a pipe").unwrap();
    let error = fails_alone(&channel, FileRegion::new(file_of(reader), 0, 11));
    assert_eq!(error.kind(), ErrorKind::NotSeekable, "{error}");
    channel.send(Bytes::from_static(b"alive")).soon().unwrap();
    expect(&mut stream, b"alive");
}

/// Files that open and cannot be read, the first by whoever may open it: a broken disk cannot be had.
const BROKEN: [&str; 2] = ["/proc/sys/net/ipv6/conf/default/stable_secret", "/proc/self/mem"];

fn a_file_that_breaks_fails_alone_whichever_call_finds_out(setup: Setup) {
    let (running, channels) = file_server(setup);
    let mut stream = running.dial();
    let channel = channels.recv_timeout(PATIENCE).unwrap();
    for file in BROKEN.into_iter().filter_map(|path| File::open(path).ok()) {
        let region = FileRegion::new(file, 0, 6);
        if region.read_chunk(6).is_ok() {
            continue; // somebody has made it a whole one
        }
        let error = fails_alone(&channel, region);
        assert_eq!(error.raw_os_error(), Some(5), "{error}"); // EIO
        channel.send(Bytes::from_static(b"alive")).soon().unwrap();
        expect(&mut stream, b"alive");
    }
}

fn a_file_to_a_peer_that_goes_away_fails_and_ends_the_channel(setup: Setup) {
    let (running, channels) = file_server(setup);
    let mut stream = running.dial_narrow();
    let channel = channels.recv_timeout(PATIENCE).unwrap();
    let content = pattern(16 << 20);
    let region = FileRegion::whole(file_with(&content, |_| ())).unwrap();
    let mut sent = channel.send(region);
    expect(&mut stream, &content[..1000]);
    drop(stream); // with bytes unread: a reset
    let failed = sent.wait_timeout(PATIENCE).unwrap();
    assert!(matches!(failed, Err(WriteError::Closed(_))), "{failed:?}");
    channel.closed().soon();
    running.wait_for_open(0);
}

fn one_file_goes_to_many_peers_at_once(setup: Setup) {
    let (running, channels) = file_server(setup);
    let content = pattern(1 << 20);
    let region = FileRegion::whole(file_with(&content, |_| ())).unwrap();
    let mut streams: Vec<_> = (0..8).map(|_| running.dial()).collect();
    for _ in &streams {
        let channel = channels.recv_timeout(PATIENCE).unwrap();
        channel.write_and_flush(region.clone());
        channel.close_when_flushed();
    }
    for stream in &mut streams {
        expect(stream, &content);
        expect_end(stream);
    }
}
