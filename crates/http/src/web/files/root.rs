//! Opening what lies below a directory, and nothing else, whatever links say.
//!
//! ```text
//!   Linux      openat2(root, path, BENEATH)      the kernel refuses to leave the root at any step
//!                └ a link that leaves by an absolute path, renames that do not end, or a kernel that does not know the call:
//!   elsewhere  canonicalise, compare with the root, open what came of it
//! ```
//! Always true:
//! 1. What is opened lies below the root at the time of opening; on Linux also if links are exchanged meanwhile.
//! 2. Opening never waits for somebody at the other end of a pipe, and only plain files and directories come out.

use std::{
    fs::{File, Metadata, OpenOptions},
    io,
    path::{Path, PathBuf},
};

/// How often the kernel may ask to try again before links are followed here.
#[cfg(target_os = "linux")]
const TRIES: usize = 8;

/// A directory, held open.
#[derive(Debug)]
pub(super) struct Root {
    canonical: PathBuf,
    #[cfg(target_os = "linux")]
    directory: File,
}

/// `FILE_FLAG_BACKUP_SEMANTICS`, without which Windows opens no directory.
#[cfg(windows)]
const ALSO_DIRECTORIES: u32 = 0x0200_0000;

impl Root {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let canonical = path.canonicalize()?;
        if !canonical.is_dir() {
            return Err(io::Error::new(
                io::ErrorKind::NotADirectory,
                format!("{} is no directory", path.display()),
            ));
        }
        Ok(Self {
            #[cfg(target_os = "linux")]
            directory: File::open(&canonical)?,
            canonical,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.canonical
    }

    /// Opens a file or a directory below the root. `relative` has normal components only.
    pub(super) fn open_below(&self, relative: &Path) -> io::Result<(File, Metadata)> {
        let file = self.open_any(relative)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() && !metadata.is_dir() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "neither a file nor a directory"));
        }
        Ok((file, metadata))
    }

    #[cfg(target_os = "linux")]
    fn open_any(&self, relative: &Path) -> io::Result<File> {
        use rustix::{fs::ResolveFlags, io::Errno};
        let below = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let mut opened = self.open_at(relative, below);
        for _ in 0..TRIES {
            if !matches!(opened, Err(Errno::AGAIN)) {
                break;
            }
            opened = self.open_at(relative, below);
        }
        match opened {
            // A link by an absolute path may still lead to a place below the root; and of one with `..` in it the kernel cannot be
            // certain while something is renamed, anywhere. What they lead to now is opened without following any link.
            Err(Errno::XDEV | Errno::AGAIN) => {
                let inside = self.resolve(relative)?;
                Ok(self.open_at(&inside, below | ResolveFlags::NO_SYMLINKS)?)
            }
            // Kernels before 5.6, and sandboxes that know no better.
            Err(Errno::NOSYS | Errno::PERM) => self.open_resolved(relative),
            opened => Ok(opened?),
        }
    }

    #[cfg(target_os = "linux")]
    fn open_at(&self, relative: &Path, how: rustix::fs::ResolveFlags) -> rustix::io::Result<File> {
        use rustix::fs::{Mode, OFlags};
        let path = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        rustix::fs::openat2(&self.directory, path, flags, Mode::empty(), how).map(File::from)
    }

    #[cfg(not(target_os = "linux"))]
    fn open_any(&self, relative: &Path) -> io::Result<File> {
        self.open_resolved(relative)
    }

    /// Follows all links, then looks where they lead: what comes out is relative to the root, and has no links in it.
    fn resolve(&self, relative: &Path) -> io::Result<PathBuf> {
        let real = self.canonical.join(relative).canonicalize()?;
        match real.strip_prefix(&self.canonical) {
            Ok(inside) => Ok(inside.to_owned()),
            Err(_) => Err(io::Error::new(io::ErrorKind::NotFound, "a link leads out of the root")),
        }
    }

    fn open_resolved(&self, relative: &Path) -> io::Result<File> {
        let path = self.canonical.join(self.resolve(relative)?);
        let kind = path.metadata()?; // a pipe would be waited for
        if !kind.is_file() && !kind.is_dir() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "neither a file nor a directory"));
        }
        let mut how = OpenOptions::new();
        how.read(true);
        #[cfg(windows)]
        std::os::windows::fs::OpenOptionsExt::custom_flags(&mut how, ALSO_DIRECTORIES);
        how.open(path)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::web::testing::Directory;
    use std::{
        os::unix::fs::symlink,
        sync::atomic::{AtomicBool, Ordering},
    };

    fn kinds(root: &Root, open: impl Fn(&Root, &Path) -> io::Result<File>) -> Vec<bool> {
        [
            "file",
            "dir",
            "dir/inner",
            "in",
            "abs-in",
            "dir/up",
            "out",
            "abs-out",
            "dir/out-dir/secret",
            "loop",
            "missing",
            "file/x",
        ]
        .map(|path| open(root, Path::new(path)).is_ok())
        .to_vec()
    }

    #[test]
    fn links_that_stay_inside_are_followed_and_others_are_not() {
        let outer = Directory::new();
        outer.write("secret", "s").write("root/file", "f").write("root/dir/inner", "i");
        let root_path = outer.path().join("root");
        symlink("dir/inner", root_path.join("in")).unwrap();
        symlink(root_path.canonicalize().unwrap().join("file"), root_path.join("abs-in")).unwrap();
        symlink("../file", root_path.join("dir/up")).unwrap();
        symlink("../secret", root_path.join("out")).unwrap();
        symlink("/etc/passwd", root_path.join("abs-out")).unwrap();
        symlink("../..", root_path.join("dir/out-dir")).unwrap();
        symlink("loop", root_path.join("loop")).unwrap();
        let root = Root::open(&root_path).unwrap();
        let expected = [true, true, true, true, true, true, false, false, false, false, false, false];
        assert_eq!(kinds(&root, |root, path| root.open_below(path).map(|(file, _)| file)), expected);
        assert_eq!(kinds(&root, Root::open_resolved), expected, "also without openat2");
        assert!(root.open_below(Path::new("")).unwrap().1.is_dir());
    }

    /// Whatever is renamed anywhere: the kernel cannot be certain of `..` in a link meanwhile, and says to try again.
    #[test]
    fn a_file_is_found_while_others_are_renamed() {
        let outer = Directory::new();
        outer.write("root/file", "f").write("root/dir/inner", "i").write("root/other", "o");
        let root_path = outer.path().join("root");
        symlink("../dir/../file", root_path.join("dir/up")).unwrap();
        let root = Root::open(&root_path).unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for number in 0..2 {
                let (from, to) =
                    (outer.path().join(format!("a-{number}")), outer.path().join(format!("b-{number}")));
                std::fs::write(&from, "x").unwrap();
                let over = &over;
                scope.spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        std::fs::rename(&from, &to).unwrap();
                        std::fs::rename(&to, &from).unwrap();
                    }
                });
            }
            let failed = (0..20_000).find_map(|_| root.open_below(Path::new("dir/up")).err());
            over.store(true, Ordering::Relaxed);
            assert!(failed.is_none(), "{failed:?}");
        });
    }

    #[test]
    fn what_is_neither_file_nor_directory_is_not_there() {
        let outer = Directory::new();
        let socket = outer.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let root = Root::open(outer.path()).unwrap();
        assert!(root.open_below(Path::new("socket")).is_err());
        assert!(Root::open(&socket).is_err());
        let made = std::process::Command::new("mkfifo").arg(outer.path().join("pipe")).status();
        if made.is_ok_and(|status| status.success()) {
            assert!(root.open_below(Path::new("pipe")).is_err(), "and nobody waits for its other end");
            assert!(root.open_resolved(Path::new("pipe")).is_err());
        }
    }
}
