//! What becomes of operations when their loop ends or is rebuilt, and of loops that have had files.

use crate::support::{Folder, HANGS, Way, gate, on, on_loop, ring};
use bytes::Bytes;
use netwright_core::{EventLoopGroup, LocalLoop, Outgoing, Promised};
use netwright_transport::{
    Backend,
    files::{File, FileError},
};
use std::time::Duration;

fn both() -> impl Iterator<Item = (Way, EventLoopGroup)> {
    let readiness = Backend::Readiness.event_loops(1).unwrap();
    [(Way::Readiness, Some(readiness)), (Way::Ring, ring())]
        .into_iter()
        .filter_map(|(way, group)| Some((way, group?)))
}

/// Begins many writes and lets none of them be awaited on the loop.
fn begin(group: &EventLoopGroup, file: &File) -> Vec<Promised<(), FileError>> {
    let file = file.clone();
    let content = Bytes::from(vec![7; 64 << 10]);
    on(group, async move { (0..200).map(|n| file.write_all_at(n << 16, content.clone())).collect() })
}

#[test]
fn a_loop_that_shuts_down_carries_out_what_it_has_accepted() {
    for (way, group) in both() {
        let folder = Folder::new();
        let path = folder.path("file");
        let created = path.clone();
        let file = on(&group, async move { File::create(created).await.unwrap() });
        let writes = begin(&group, &file);
        group.shutdown_gracefully(Duration::ZERO, HANGS).unwrap().wait().unwrap();
        for mut write in writes {
            write.wait_timeout(HANGS).expect("it is told").unwrap_or_else(|error| panic!("{way}: {error}"));
        }
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 200 << 16, "{way}");
    }
}

#[test]
fn a_loop_without_patience_tells_what_became_of_each_operation() {
    for (way, group) in both() {
        let folder = Folder::new();
        let path = folder.path("file");
        let file = on(&group, async move { File::create(path).await.unwrap() });
        let writes = begin(&group, &file);
        group.shutdown_gracefully(Duration::ZERO, Duration::ZERO).unwrap().wait().unwrap();
        for mut write in writes {
            match write.wait_timeout(HANGS).expect("it is told") {
                Ok(()) => {}
                Err(FileError::LoopEnded { path, .. }) => assert!(path.ends_with("file")),
                Err(error) => panic!("{way}: {error}"),
            }
        }
    }
}

#[test]
fn a_file_outlives_its_loop_and_is_used_on_another_or_none() {
    for (way, group) in both() {
        let folder = Folder::new();
        let path = folder.with("file", "content");
        let file = on(&group, async move { File::open(path).await.unwrap() });
        group.shutdown_gracefully(Duration::ZERO, HANGS).unwrap().wait().unwrap();
        assert_eq!(file.read_at(0, 7).wait().unwrap(), "content", "{way}");
        let other = Backend::Readiness.event_loops(1).unwrap();
        let same = file.clone();
        assert_eq!(on(&other, async move { same.read_at(3, 4).await.unwrap() }), "tent", "{way}");
    }
}

#[test]
fn results_reach_threads_that_wait_for_what_a_loop_has_begun() {
    for (way, group) in both() {
        let folder = Folder::new();
        let path = folder.with("file", "content");
        let mut reads = on(&group, async move {
            let file = File::open(path).await.unwrap();
            [file.read_at(0, 7), file.read_at(0, 7)]
        });
        let [read, _] = &mut reads;
        assert_eq!(read.wait_timeout(HANGS).unwrap().unwrap(), "content", "{way}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_ring_that_had_files_has_no_source_left_behind_when_none_was_used_for_a_second() {
    let clock = netwright_core::ManualClock::new();
    let seed = |_| netwright_transport::uring::UringSeed::new();
    let Ok(group) = EventLoopGroup::builder().loops(1).driver(seed).clock(clock.clone()).build() else {
        return;
    };
    let folder = Folder::new();
    folder.with("file", "content");
    let event_loop = group.next();
    for _ in 0..2 {
        let path = folder.path("file");
        on_loop(&event_loop, async move {
            let file = File::open(path).await.unwrap();
            assert_eq!(file.read_at(0, 7).await.unwrap(), "content");
            file.close().await.unwrap();
        });
        on_loop(&event_loop, async {});
        assert_eq!(event_loop.figures().sources, 1, "it may be needed again soon");
        clock.advance(Duration::from_secs(2));
        let begun = std::time::Instant::now();
        while event_loop.figures().sources > 0 {
            assert!(begun.elapsed() < HANGS, "it stays");
            on_loop(&event_loop, async {}); // looks at the clock
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn files_that_are_dropped_on_a_loop_are_closed() {
    for (way, group) in both() {
        let folder = Folder::new();
        let path = folder.with("file", "content");
        let open = |path: &std::path::Path| {
            let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            links.filter(|link| std::fs::read_link(link.path()).is_ok_and(|target| target == path)).count()
        };
        let same = path.clone();
        on(&group, async move {
            for _ in 0..10 {
                let file = File::open(&same).await.unwrap();
                drop(file.read_at(0, 7)); // under way when the file goes
            }
        });
        let begun = std::time::Instant::now();
        while open(&path) > 0 {
            assert!(begun.elapsed() < HANGS, "{way}: {} are open", open(&path));
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_handler_goes_on_with_what_was_read() {
    use bytes::BytesMut;
    use netwright_core::{AppContext, Application, pipeline};
    use netwright_transport::Server;
    use std::{io::Read, io::Write, net::TcpStream, path::PathBuf};

    /// Answers each message with the content of a file.
    struct Reads(PathBuf);

    impl Application for Reads {
        type Read = BytesMut;
        type Write = Outgoing;

        fn read(&mut self, cx: &mut AppContext<'_, Self>, _: BytesMut) {
            cx.spawn(File::open(&self.0), |_, cx, file| match file {
                Err(error) => cx.fire_error(error),
                Ok(file) => {
                    cx.spawn(file.read_at(0, 100), |_, cx, bytes| match bytes {
                        Ok(bytes) => cx.write_and_flush(bytes.freeze()),
                        Err(error) => cx.fire_error(error),
                    });
                }
            });
        }
    }

    for (way, group) in both() {
        let folder = Folder::new();
        let path = folder.with("file", "content");
        let server = Server::builder()
            .group(group)
            .pipeline(move |_| pipeline().app(Reads(path.clone())))
            .bind("127.0.0.1:0")
            .wait()
            .unwrap();
        let mut stream = TcpStream::connect(server.local_addr().unwrap()).unwrap();
        stream.set_read_timeout(Some(HANGS)).unwrap();
        for _ in 0..3 {
            stream.write_all(b"?").unwrap();
            let mut got = [0; 7];
            stream.read_exact(&mut got).unwrap();
            assert_eq!(&got, b"content", "{way}");
        }
    }
}

/// What was opened, and what it is like, may have to be asked of a server.
#[test]
fn files_are_opened_and_looked_at_by_workers_also_where_there_is_a_ring() {
    for (way, group) in both() {
        let folder = Folder::new();
        let path = folder.with("file", "content");
        let workers = netwright_core::Workers::new(1).unwrap();
        let options = netwright_transport::files::OpenOptions::new().read(true).workers(&workers);
        on(&group, async move {
            let asked = || {
                let figures = workers.figures();
                figures.pending + figures.running
            };
            let (open, opened) = gate();
            workers.execute(opened).unwrap();
            let opening = options.open(path);
            assert_eq!(asked(), 2, "{way}: behind what the worker waits for");
            open();
            let file = opening.await.unwrap();
            let (open, opened) = gate();
            workers.execute(opened).unwrap();
            let metadata = file.metadata();
            assert!(asked() >= 2, "{way}"); // the open may not have been counted out yet
            open();
            assert_eq!(metadata.await.unwrap().len(), 7, "{way}");
        });
    }
}

#[test]
fn a_loop_serves_others_while_an_operation_takes_its_time() {
    let folder = Folder::new();
    let path = folder.with("file", "content");
    let workers = netwright_core::Workers::new(1).unwrap();
    let group = Backend::Readiness.event_loops(1).unwrap();
    let (open, opened) = gate();
    workers.execute(opened).unwrap(); // as slow as a disk can be
    let options = netwright_transport::files::OpenOptions::new().read(true).workers(&workers);
    let read = group.next().spawn(async move { options.open(path).await?.read_at(0, 7).await }).unwrap();
    on(&group, async { assert!(LocalLoop::current().is_some()) });
    assert!(!read.is_done());
    open();
    assert_eq!(on(&group, async move { read.await.unwrap().unwrap() }), "content");
}
