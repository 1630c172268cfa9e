//! How many operations run at a time, what waits, and what is taken back.

use crate::support::{Folder, HANGS, gate};
use netwright_core::{PromiseError, Workers};
use netwright_transport::files::{FileError, OpenOptions};

#[cfg(target_os = "linux")]
mod rings {
    use super::*;
    use crate::support::on;
    use bytes::Bytes;
    use netwright_core::{EventLoopGroup, LocalLoop};
    use netwright_transport::{
        files::File,
        uring::{Uring, UringFigures, UringSeed, UringSettings},
    };

    fn ring(operations: usize, bytes: usize) -> Option<EventLoopGroup> {
        let settings = UringSettings::new().files(operations, bytes);
        EventLoopGroup::builder().loops(1).driver(move |_| UringSeed::with(settings)).build().ok()
    }

    fn figures() -> UringFigures {
        LocalLoop::current().unwrap().driver::<Uring>().unwrap().figures()
    }

    #[test]
    fn a_ring_has_no_more_operations_than_its_settings_say_and_none_that_waits_is_lost() {
        let Some(group) = ring(2, 1 << 20) else { return };
        let folder = Folder::new();
        let path = folder.path("file");
        on(&group, async move {
            let file = OpenOptions::new().append(true).read(true).create(true).open(path).await.unwrap();
            let writes: Vec<_> = (0..500).map(|n| file.append(format!("{n} "))).collect();
            assert_eq!(figures().files_waiting, 500, "nothing is handed over before the turn ends");
            for (n, write) in writes.into_iter().enumerate() {
                write.await.unwrap();
                let UringFigures { files_in_flight, files_waiting, .. } = figures();
                assert!(files_in_flight <= 2, "{files_in_flight} in flight");
                assert!(files_waiting < 500 - n);
            }
            let text: String = (0..500).map(|n| format!("{n} ")).collect();
            let got = file.read_at(0, 10_000).await.unwrap();
            let sorted = |text: &str| {
                let mut words: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
                words.sort();
                words
            };
            assert_eq!(sorted(std::str::from_utf8(&got).unwrap()), sorted(&text));
        });
    }

    #[test]
    fn an_operation_that_is_larger_than_all_bytes_in_flight_is_carried_out_alone() {
        let Some(group) = ring(64, 0) else { return };
        let folder = Folder::new();
        let path = folder.path("file");
        on(&group, async move {
            let file = File::create(path).await.unwrap();
            let content = Bytes::from(vec![7; 1 << 20]);
            let (one, other) =
                (file.write_all_at(0, content.clone()), file.write_all_at(1 << 20, content.clone()));
            other.await.unwrap();
            one.await.unwrap();
            assert_eq!(file.read_at(1 << 20, 2 << 20).await.unwrap(), content);
        });
    }

    #[test]
    fn what_was_cancelled_before_a_ring_began_it_is_never_done() {
        let Some(group) = ring(1, 1 << 20) else { return };
        let folder = Folder::new();
        let path = folder.path("file");
        on(&group, async move {
            let file = File::create(path).await.unwrap();
            let first = file.write_all_at(0, "first");
            let second = file.write_all_at(5, "second");
            assert!(second.cancel());
            let third = file.write_all_at(11, "third");
            third.await.unwrap();
            assert!(matches!(second.await, Err(FileError::Promise(PromiseError::Cancelled))));
            assert!(!first.cancel(), "it is done");
            assert_eq!(file.read_at(0, 100).await.unwrap(), "first\0\0\0\0\0\0third");
            assert_eq!(figures().files_in_flight + figures().files_waiting, 0);
        });
    }

    #[test]
    fn so_many_may_wait_on_a_ring_and_the_next_is_refused_with_the_limit() {
        let Some(group) = ring(64, 1 << 20) else { return };
        let folder = Folder::new();
        let path = folder.with("file", "x");
        on(&group, async move {
            let file = File::open(path).await.unwrap();
            let accepted: Vec<_> = (0..65_536).map(|_| file.read_at(0, 1)).collect();
            let error = file.read_at(0, 1).await.unwrap_err();
            assert!(error.to_string().ends_with("its limit is 65536 pending tasks"), "{error}");
            for read in accepted {
                assert_eq!(read.await.unwrap(), "x");
            }
        });
    }
}

#[test]
fn what_was_cancelled_before_a_worker_began_it_is_never_done() {
    let folder = Folder::new();
    let path = folder.path("file");
    let workers = Workers::new(1).unwrap();
    let options = OpenOptions::new().read(true).write(true).create(true).workers(&workers);
    let file = options.open(path).wait().unwrap();
    let (open, opened) = gate();
    workers.execute(opened).unwrap();
    let (mut first, mut second) = (file.write_all_at(0, "first"), file.write_all_at(5, "second"));
    assert!(second.cancel());
    open();
    first.wait_timeout(HANGS).unwrap().unwrap();
    assert!(matches!(second.wait(), Err(FileError::Promise(PromiseError::Cancelled))));
    assert_eq!(file.read_at(0, 100).wait().unwrap(), "first");
}
