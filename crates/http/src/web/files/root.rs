//! Opening what lies below a directory, and nothing else, whatever links say.
//!
//! ```text
//!   Linux      openat2(root, path, BENEATH)      the kernel refuses to leave the root at any step
//!                └ a link that leaves by an absolute path, or a kernel that does not know the call:
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

/// A directory, held open.
#[derive(Debug)]
pub(super) struct Root {
    canonical: PathBuf,
    #[cfg(target_os = "linux")]
    directory: File,
}

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
        match self.open_at(relative, below) {
            // A link by an absolute path may still lead to a place below the root. What it leads to now is opened without
            // following any link.
            Err(Errno::XDEV) => {
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
        OpenOptions::new().read(true).open(path)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::web::testing::Directory;
    use std::os::unix::fs::symlink;

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
