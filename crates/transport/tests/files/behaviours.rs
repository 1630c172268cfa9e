//! What is the same in every way.

use crate::support::{Folder, Way, pattern};
use bytes::{Bytes, BytesMut};
use netwright_core::PromiseError;
use netwright_transport::files::{File, FileError, OpenOptions};
use std::path::PathBuf;

type Outcome = Result<(), FileError>;

/// Runs a behaviour in every way, each in a folder of its own.
macro_rules! in_every_way {
    ($($behaviour:ident),+ $(,)?) => { $(
        #[test]
        fn $behaviour() {
            for way in Way::all() {
                let folder = Folder::new();
                let result = way.run(behaviour::$behaviour(folder.root().to_owned()));
                result.unwrap_or_else(|error| panic!("{way}: {error}"));
            }
        }
    )+ };
}

in_every_way!(
    what_was_written_is_read_back_at_any_offset,
    a_read_ends_with_the_file_and_behind_it_there_is_nothing,
    what_is_larger_than_one_step_arrives_as_a_whole,
    a_buffer_is_read_into_behind_what_it_holds_and_comes_back,
    what_is_appended_stands_behind_what_was_there,
    what_is_appended_at_the_same_time_is_not_mixed,
    options_decide_what_becomes_of_what_was_there,
    what_a_file_was_not_opened_for_is_refused_in_words,
    a_file_can_be_synced_and_closed,
    a_file_that_is_shared_is_not_closed_before_its_last_handle,
    a_close_waits_for_what_is_under_way,
    metadata_is_what_it_was_at_open_or_what_it_is_now,
    a_file_whose_name_is_gone_is_whole_for_whoever_has_it_open,
    many_operations_at_once_all_end,
    nothing_to_read_or_write_is_done_at_once,
    results_that_nobody_waits_for_are_carried_out_all_the_same,
);

mod behaviour {
    use super::*;

    pub(super) async fn what_was_written_is_read_back_at_any_offset(folder: PathBuf) -> Outcome {
        let file = File::create(folder.join("file")).await?;
        file.write_all_at(0, "hello, world").await?;
        file.write_all_at(7, Bytes::from("there")).await?;
        file.write_all_at(1 << 33, "far").await?;
        assert_eq!(file.read_at(0, 12).await?, "hello, there");
        assert_eq!(file.read_at(4, 4).await?, "o, t");
        assert_eq!(file.read_at((1 << 33) - 1, 100).await?, "\0far");
        Ok(())
    }

    pub(super) async fn a_read_ends_with_the_file_and_behind_it_there_is_nothing(folder: PathBuf) -> Outcome {
        std::fs::write(folder.join("file"), "0123456789").unwrap();
        let file = File::open(folder.join("file")).await?;
        assert_eq!(file.read_at(8, 100).await?, "89");
        assert_eq!(file.read_at(10, 100).await?, "");
        assert_eq!(file.read_at(1 << 40, 100).await?, "");
        Ok(())
    }

    pub(super) async fn what_is_larger_than_one_step_arrives_as_a_whole(folder: PathBuf) -> Outcome {
        let content = Bytes::from(pattern(3_000_001));
        let file = File::create(folder.join("file")).await?;
        file.write_all_at(0, content.clone()).await?;
        assert_eq!(file.read_at(0, 4 << 20).await?, content);
        assert_eq!(file.read_at(1_000_003, 1_234_567).await?, content[1_000_003..][..1_234_567]);
        Ok(())
    }

    pub(super) async fn a_buffer_is_read_into_behind_what_it_holds_and_comes_back(
        folder: PathBuf,
    ) -> Outcome {
        std::fs::write(folder.join("file"), "0123456789").unwrap();
        let file = File::open(folder.join("file")).await?;
        let mut buffer = BytesMut::with_capacity(8);
        buffer.extend_from_slice(b"abc");
        let place = buffer.as_ptr() as usize;
        let buffer = file.read_into(2, buffer).await?;
        assert_eq!(buffer, "abc23456");
        assert_eq!(buffer.as_ptr() as usize, place, "in the same memory");
        Ok(())
    }

    pub(super) async fn what_is_appended_stands_behind_what_was_there(folder: PathBuf) -> Outcome {
        std::fs::write(folder.join("file"), "zero ").unwrap();
        let options = OpenOptions::new().append(true).read(true);
        let (one, other) =
            (options.open(folder.join("file")).await?, options.open(folder.join("file")).await?);
        one.append("one ").await?;
        other.append("two ").await?;
        one.append("three").await?;
        assert_eq!(one.read_at(0, 100).await?, "zero one two three");

        let error = one.write_all_at(0, "x").await.unwrap_err();
        assert!(error.to_string().ends_with("it was opened for appending"), "{error}");
        let error = File::create(folder.join("other")).await?.append("x").await.unwrap_err();
        assert!(error.to_string().ends_with("it was not opened for appending"), "{error}");
        assert_eq!(std::fs::read(folder.join("file")).unwrap(), b"zero one two three");
        Ok(())
    }

    pub(super) async fn what_is_appended_at_the_same_time_is_not_mixed(folder: PathBuf) -> Outcome {
        const LEN: usize = 700_000;
        let path = folder.join("file");
        let file = OpenOptions::new().append(true).create(true).open(&path).await?;
        let appends: Vec<_> = (0..4).map(|letter| file.append(vec![letter; LEN])).collect();
        for append in appends {
            append.await?;
        }
        let content = std::fs::read(&path).unwrap();
        assert_eq!(content.len(), 4 * LEN);
        for whole in content.chunks(LEN) {
            assert!(whole.iter().all(|letter| *letter == whole[0]), "one is within another");
        }
        Ok(())
    }

    pub(super) async fn options_decide_what_becomes_of_what_was_there(folder: PathBuf) -> Outcome {
        let path = folder.join("file");
        let writes = || OpenOptions::new().write(true);
        writes().create_new(true).open(&path).await?.write_all_at(0, "content").await?;
        let error = writes().create_new(true).open(&path).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
        writes().create(true).open(&path).await?.write_all_at(0, "C").await?;
        assert_eq!(std::fs::read(&path).unwrap(), b"Content");
        writes().truncate(true).open(&path).await?;
        assert_eq!(std::fs::read(&path).unwrap(), b"");

        let contradictions = [
            OpenOptions::new(),
            OpenOptions::new().read(true).create(true),
            OpenOptions::new().read(true).truncate(true),
            OpenOptions::new().append(true).truncate(true).create(true),
        ];
        for options in contradictions {
            let error = options.open(folder.join("never")).await.unwrap_err();
            assert!(matches!(error, FileError::Misuse { .. }), "{error}");
        }
        assert!(!folder.join("never").exists());
        Ok(())
    }

    pub(super) async fn what_a_file_was_not_opened_for_is_refused_in_words(folder: PathBuf) -> Outcome {
        let path = folder.join("file");
        std::fs::write(&path, "content").unwrap();
        let reads = File::open(&path).await?;
        let writes = OpenOptions::new().write(true).open(&path).await?;
        let appends = OpenOptions::new().append(true).open(&path).await?;
        let errors = [
            (reads.write_all_at(0, "C").await, "it was not opened for writing"),
            (writes.read_at(0, 1).await.map(drop), "it was not opened for reading"),
            (appends.read_at(0, 1).await.map(drop), "it was not opened for reading"),
            (appends.write_all_at(0, "C").await, "it was opened for appending"),
        ];
        for (result, why) in errors {
            let error = result.unwrap_err();
            assert!(matches!(error, FileError::Misuse { .. }), "{error}");
            assert!(error.to_string().ends_with(why), "{error}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"content");
        Ok(())
    }

    pub(super) async fn a_file_can_be_synced_and_closed(folder: PathBuf) -> Outcome {
        let file = File::create(folder.join("file")).await?;
        file.write_all_at(0, "content").await?;
        file.sync_data().await?;
        file.sync_all().await?;
        file.close().await
    }

    pub(super) async fn a_file_that_is_shared_is_not_closed_before_its_last_handle(
        folder: PathBuf,
    ) -> Outcome {
        let file = File::create(folder.join("file")).await?;
        let (other, pieces) = (file.clone(), file.pieces(..));
        let error = file.close().await.unwrap_err();
        assert!(matches!(error, FileError::Misuse { .. }), "{error}");
        other.write_all_at(0, "goes on").await?;
        drop(pieces);
        other.close().await
    }

    pub(super) async fn a_close_waits_for_what_is_under_way(folder: PathBuf) -> Outcome {
        let path = folder.join("file");
        let file = File::create(&path).await?;
        let content = Bytes::from(pattern(1 << 20));
        let writes: Vec<_> = (0..8).map(|part| file.write_all_at(part << 20, content.clone())).collect();
        file.close().await?;
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 8 << 20, "closed behind the writes");
        for write in writes {
            assert!(write.is_done());
            write.await?;
        }
        Ok(())
    }

    pub(super) async fn metadata_is_what_it_was_at_open_or_what_it_is_now(folder: PathBuf) -> Outcome {
        let path = folder.join("file");
        std::fs::write(&path, "1234").unwrap();
        let file = OpenOptions::new().write(true).open(&path).await?;
        file.write_all_at(4, "56").await?;
        assert_eq!((file.at_open().len(), file.metadata().await?.len()), (4, 6));
        assert_eq!(file.path(), path);
        Ok(())
    }

    pub(super) async fn a_file_whose_name_is_gone_is_whole_for_whoever_has_it_open(
        folder: PathBuf,
    ) -> Outcome {
        std::fs::write(folder.join("file"), "content").unwrap();
        let file = File::open(folder.join("file")).await?;
        std::fs::remove_file(folder.join("file")).unwrap();
        assert_eq!(file.read_at(0, 100).await?, "content");
        Ok(())
    }

    pub(super) async fn many_operations_at_once_all_end(folder: PathBuf) -> Outcome {
        let file = File::create(folder.join("file")).await?;
        let writes: Vec<_> =
            (0..1000_u64).map(|n| file.write_all_at(n * 8, n.to_be_bytes().to_vec())).collect();
        for write in writes {
            write.await?;
        }
        let reads: Vec<_> = (0..1000_u64).map(|n| file.read_at(n * 8, 8)).collect();
        for (n, read) in (0_u64..).zip(reads) {
            assert_eq!(read.await?, n.to_be_bytes()[..]);
        }
        Ok(())
    }

    pub(super) async fn nothing_to_read_or_write_is_done_at_once(folder: PathBuf) -> Outcome {
        let file = File::create(folder.join("file")).await?;
        assert_eq!(file.read_at(5, 0).try_take().unwrap()?, "");
        assert_eq!(file.read_into(5, BytesMut::from("full")).try_take().unwrap()?, "full");
        assert!(file.write_all_at(5, "").try_take().unwrap().is_ok());
        assert_eq!(file.metadata().await?.len(), 0);
        Ok(())
    }

    pub(super) async fn results_that_nobody_waits_for_are_carried_out_all_the_same(
        folder: PathBuf,
    ) -> Outcome {
        let path = folder.join("file");
        let file = File::create(&path).await?;
        for n in 0..100 {
            drop(file.write_all_at(n * 10_000, pattern(10_000)));
            drop(file.read_at(n * 5_000, 10_000));
        }
        file.close().await?; // behind them
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 1_000_000);
        Ok(())
    }
}

#[test]
fn a_loop_is_not_blocked_by_a_wait_for_a_file() {
    for way in Way::all().into_iter().filter(|way| *way != Way::Thread) {
        let folder = Folder::new();
        let path = folder.with("file", "content");
        way.run(async move {
            let file = File::open(path).await.unwrap();
            let mut read = file.read_at(0, 7);
            match read.wait() {
                Err(FileError::Promise(PromiseError::WouldBlockLoop)) => {
                    assert_eq!(read.await.unwrap(), "content", "it is still on its way");
                }
                Ok(bytes) => assert_eq!(bytes, "content", "a worker was faster than this thread"),
                Err(error) => panic!("{error}"),
            }
        });
    }
}
