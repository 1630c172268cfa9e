//! What was opened: whether it is a file, and whether a ring may read and write it on the thread of its loop.
//!
//! Always true: everything here asks the system, which may have to ask a disk or a server for the answer, so only workers do it.

use std::{fs, io};

/// What is known of an open file for as long as it is open.
pub(super) struct Examined {
    pub(super) at_open: fs::Metadata,
    /// Asked not to wait, its file system does not: what cannot be done at once is said to be so.
    pub(super) prompt: bool,
}

/// Looks at what was opened, and refuses what has no bytes at offsets.
pub(super) fn examine(file: &fs::File) -> io::Result<Examined> {
    let at_open = file.metadata()?;
    if at_open.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        let kind = at_open.file_type();
        if kind.is_fifo() || kind.is_socket() {
            return Err(unsupported("it is a pipe or a socket, which has no bytes at offsets"));
        }
        if rustix::fs::seek(file, rustix::fs::SeekFrom::Current(0)).is_err() {
            return Err(unsupported(
                "it is a stream (a terminal, a log, a device), which has no bytes at offsets",
            ));
        }
        if kind.is_char_device() && waits(file)? {
            return Err(unsupported(
                "it is a device that waits for something, so that reading it may never end",
            ));
        }
        // It was to hold up no opening. From here on it would make a ring give up where it has to wait.
        let flags = rustix::fs::fcntl_getfl(file)?;
        if flags.contains(rustix::fs::OFlags::NONBLOCK) {
            rustix::fs::fcntl_setfl(file, flags - rustix::fs::OFlags::NONBLOCK)?;
        }
    }
    let prompt = prompt::is_prompt(file, &at_open);
    Ok(Examined { at_open, prompt })
}

#[cfg(unix)]
fn unsupported(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, why)
}

/// Whether it may have nothing now, and something later: whatever can be polled. Devices that always have something to say, such as
/// `/dev/null`, cannot.
#[cfg(target_os = "linux")]
fn waits(device: &fs::File) -> io::Result<bool> {
    use rustix::event::epoll;
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    match epoll::add(&poll, device, epoll::EventData::new_u64(0), epoll::EventFlags::empty()) {
        Err(rustix::io::Errno::PERM) => Ok(false),
        added => added.map(|()| true).map_err(io::Error::from),
    }
}

/// Elsewhere the system does not tell: only what has no offsets is found out.
#[cfg(all(unix, not(target_os = "linux")))]
fn waits(_: &fs::File) -> io::Result<bool> {
    Ok(false)
}

#[cfg(target_os = "linux")]
mod prompt {
    use std::{fs, os::unix::fs::FileTypeExt};

    /// File systems that keep their word when a ring asks them not to wait: those of disks and of memory. The kernel believes it also
    /// of others, and those of servers and programs (FUSE) then wait for these, on the thread that asked. What is laid over another
    /// (overlayfs) is as good as what is below, and the kernel gives it to a thread anyway.
    const PROMPT: [u32; 6] = [
        0xef53,      // ext2, ext3, ext4
        0x5846_5342, // xfs
        0x9123_683e, // btrfs
        0xf2f5_2010, // f2fs
        0x0102_1994, // tmpfs
        0x8584_58f6, // ramfs
    ];

    pub(super) fn is_prompt(file: &fs::File, at_open: &fs::Metadata) -> bool {
        let kind = at_open.file_type();
        // A device is not of the file system that its name is in.
        kind.is_block_device()
            || kind.is_file() && rustix::fs::fstatfs(file).is_ok_and(|system| is_known(system.f_type as u32))
    }

    /// Takes the number by which Linux knows a kind of file system, which has 32 bits everywhere.
    fn is_known(kind: u32) -> bool {
        PROMPT.contains(&kind)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn file_systems_of_disks_and_memory_are_known_and_those_that_ask_others_are_not() {
            for known in ["ef53", "58465342", "9123683e", "f2f52010", "01021994", "858458f6"] {
                assert!(is_known(u32::from_str_radix(known, 16).unwrap()), "{known}");
            }
            let others = [
                ("FUSE", 0x6573_5546),
                ("NFS", 0x6969),
                ("CIFS", 0xff53_4d42),
                ("SMB 2", 0xfe53_4d42),
                ("9p", 0x0102_1997),
                ("Ceph", 0x00c3_6400),
                ("AFS", 0x5346_414f),
                ("overlayfs", 0x794c_7630),
                ("proc", 0x9fa0),
                ("none at all", 0),
            ];
            for (name, kind) in others {
                assert!(!is_known(kind), "{name}");
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod prompt {
    use std::fs;

    /// There are no rings that would ask.
    pub(super) fn is_prompt(_: &fs::File, _: &fs::Metadata) -> bool {
        false
    }
}
