//! What goes wrong: an error that names the file and what was asked of it, and nothing half-made.

use crate::support::{Folder, HANGS, Way, gate, on};
use netwright_core::{RefusedWhy, Workers};
use netwright_transport::{
    Backend,
    files::{File, FileAction, FileError, OpenOptions},
};
use std::{io::ErrorKind, path::PathBuf};

/// Opens in every way, and gives what came of it.
fn open_fails(options: &OpenOptions, path: PathBuf, check: impl Fn(Way, FileError)) {
    for way in Way::all() {
        let (options, path) = (options.clone(), path.clone());
        check(way, way.run(async move { options.open(path).await.map(drop).unwrap_err() }));
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let folder = Folder::new();
    let path = folder.path("vanished");
    open_fails(&OpenOptions::new().read(true), path.clone(), |way, error| {
        assert_eq!(error.kind(), ErrorKind::NotFound, "{way}");
        assert_eq!(error.path(), Some(path.as_path()), "{way}");
        let expected = format!("opening {path:?} failed: No such file or directory (os error 2)");
        assert_eq!(error.to_string(), expected, "{way}");
    });
    open_fails(&OpenOptions::new().write(true).create(true), path.join("below"), |way, error| {
        assert_eq!(error.kind(), ErrorKind::NotFound, "{way}");
    });
    assert!(!path.exists(), "nothing half-made");
}

#[test]
fn a_directory_is_no_file_for_reading_or_writing() {
    let folder = Folder::new();
    for options in [OpenOptions::new().read(true), OpenOptions::new().write(true)] {
        open_fails(&options, folder.root().to_owned(), |way, error| {
            assert_eq!(error.kind(), ErrorKind::IsADirectory, "{way}: {error}");
            assert_eq!(error.path(), Some(folder.root()), "{way}");
        });
    }
}

#[test]
fn what_this_user_may_not_open_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let path = folder.with("secret", "content");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::File::open(&path).is_ok() {
        return eprintln!("skipped: this user may open everything");
    }
    open_fails(&OpenOptions::new().read(true), path.clone(), |way, error| {
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{way}");
        assert_eq!(error.path(), Some(path.as_path()), "{way}");
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_pipe_is_refused_at_once_although_nobody_is_at_its_other_end() {
    let folder = Folder::new();
    let path = folder.path("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    open_fails(&OpenOptions::new().read(true), path.clone(), |way, error| {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{way}: {error}");
        assert!(error.to_string().contains("pipe"), "{way}: {error}");
    });
}

/// Reads of these may have no end, and would keep a worker or a place on a ring for as long.
#[cfg(target_os = "linux")]
#[test]
fn devices_that_have_no_offsets_or_wait_are_refused() {
    for (device, why) in [
        ("/dev/ptmx", "it is a stream"),
        ("/dev/kmsg", "it is a stream"),
        ("/dev/random", "it is a device that waits for something"),
    ] {
        if let Err(error) = std::fs::File::open(device) {
            eprintln!("skipped: {device}: {error}");
            continue;
        }
        open_fails(&OpenOptions::new().read(true), device.into(), |way, error| {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{way}: {error}");
            let expected = format!("opening {device:?} failed: {why}");
            assert!(error.to_string().starts_with(&expected), "{way}: {error}");
        });
    }
}

#[cfg(target_os = "linux")]
#[test]
fn devices_that_always_have_an_answer_are_read_and_written() {
    for way in Way::all() {
        let result: Result<(), FileError> = way.run(async {
            let options = OpenOptions::new().read(true).write(true);
            assert_eq!(options.open("/dev/zero").await?.read_at(7, 3).await?, "\0\0\0");
            assert_eq!(File::open("/dev/urandom").await?.read_at(7, 3).await?.len(), 3);
            let null = options.open("/dev/null").await?;
            null.write_all_at(7, "gone").await?;
            assert_eq!(null.read_at(7, 3).await?, "");
            null.close().await
        });
        result.unwrap_or_else(|error| panic!("{way}: {error}"));
    }
}

#[test]
fn a_path_with_a_zero_byte_is_refused() {
    open_fails(&OpenOptions::new().read(true), PathBuf::from("a\0b"), |way, error| {
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{way}: {error}");
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_fails_the_write_and_is_named() {
    for way in Way::all() {
        let error = way.run(async {
            let full = OpenOptions::new().write(true).open("/dev/full").await.unwrap();
            full.write_all_at(512, vec![1; 4096]).await.unwrap_err()
        });
        assert_eq!(error.kind(), ErrorKind::StorageFull, "{way}: {error}");
        let FileError::Failed { action, done: 0, .. } = &error else { panic!("{way}: {error}") };
        assert_eq!(*action, FileAction::Write { offset: 512, len: 4096 }, "{way}");
        let expected = "writing 4096 bytes at offset 512 of \"/dev/full\" failed: ";
        assert!(error.to_string().starts_with(expected), "{way}: {error}");
    }
}

#[test]
fn offsets_that_no_file_has_and_reads_that_are_too_long_are_refused_before_anything_happens() {
    for way in Way::all() {
        let folder = Folder::new();
        let path = folder.path("file");
        way.run(async move {
            let file = File::create(path).await.unwrap();
            let errors = [
                file.read_at(u64::MAX, 1).await.map(drop).unwrap_err(),
                file.read_at(i64::MAX as u64, 1).await.map(drop).unwrap_err(),
                file.read_at(0, usize::MAX).await.map(drop).unwrap_err(),
                file.read_at(0, (1 << 30) + 1).await.map(drop).unwrap_err(),
                file.write_all_at(u64::MAX, "x").await.unwrap_err(),
            ];
            for error in errors {
                assert!(matches!(error, FileError::Misuse { .. }), "{way}: {error}");
            }
        });
    }
}

#[test]
fn workers_that_take_no_more_fail_the_operation_and_files_of_theirs_are_closed_all_the_same() {
    let folder = Folder::new();
    let path = folder.with("file", "content");
    let workers = Workers::new(1).unwrap();
    let options = OpenOptions::new().read(true).workers(&workers);
    let file = options.open(&path).wait().unwrap();
    assert_eq!(file.read_at(0, 7).wait().unwrap(), "content");
    workers.shutdown_gracefully(std::time::Duration::from_secs(60)).wait().unwrap();

    let error = file.read_at(0, 7).wait().unwrap_err();
    assert!(matches!(error, FileError::Refused { why: RefusedWhy::ShutDown, .. }), "{error}");
    let expected =
        format!("reading 7 bytes at offset 0 of {path:?} was not begun: the executor has been shut down");
    assert_eq!(error.to_string(), expected);
    assert!(options.open(&path).wait().is_err());
    file.close().wait().unwrap();
}

#[test]
fn workers_that_end_before_its_turn_fail_the_operation_by_name_and_a_close_is_done_all_the_same() {
    let folder = Folder::new();
    let path = folder.with("file", "content");
    let workers = Workers::new(1).unwrap();
    let options = OpenOptions::new().read(true).workers(&workers);
    let (file, other) = (options.open(&path).wait().unwrap(), options.open(&path).wait().unwrap());
    let (open, opened) = gate();
    workers.execute(opened).unwrap();
    let mut read = file.read_at(0, 7);
    let group = Backend::Readiness.event_loops(1).unwrap();
    let mut close = on(&group, async move { [other.close()] });
    workers.shutdown_now();
    open();

    let error = read.wait_timeout(HANGS).unwrap().unwrap_err();
    let expected =
        format!("reading 7 bytes at offset 0 of {path:?} was not begun: the executor has been shut down");
    assert_eq!(error.to_string(), expected);
    close[0].wait_timeout(HANGS).unwrap().unwrap();
}

#[test]
fn an_error_becomes_one_of_the_standard_library_and_keeps_its_words() {
    let error = File::open("no/such/file").wait().unwrap_err();
    let text = error.to_string();
    let error = std::io::Error::from(error);
    assert_eq!((error.kind(), error.to_string()), (ErrorKind::NotFound, text));
}
