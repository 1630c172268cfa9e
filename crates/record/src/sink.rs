//! Where recordings go: a directory with a bounded number of files, or whatever a user's function does with them.

use crate::{FormatError, Recording, Why};
use std::{
    collections::VecDeque,
    fmt, fs,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// What names of files end with.
pub(crate) const EXTENSION: &str = "nwr";
/// And those of files that are not complete yet.
const UNFINISHED: &str = "nwr.part";
/// What names of files begin with, so that no others are ever removed.
const PREFIX: &str = "recording-";

/// A recording on its way to a [`Sink`].
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_record::{FlightRecorder, NewRecording, When, Why};
/// use std::{sync::mpsc, time::Duration};
///
/// let (send, files) = mpsc::channel();
/// let flight = FlightRecorder::builder()
///     .when(When::TROUBLE)
///     .to(move |file: &NewRecording| { let _ = send.send((file.why, file.recording()?)); Ok(()) })
///     .build();
/// let mut channel = EmbeddedChannel::new(pipeline().add(flight.stage()).handle(|_, bytes| assert!(bytes.len() < 4)));
/// channel.write_inbound("hello");
/// let (why, recording) = files.recv_timeout(Duration::from_secs(30))?;
/// assert_eq!((why, recording.read_len()), (Why::Panic, 5));
/// # Ok::<(), mpsc::RecvTimeoutError>(())
/// ```
pub struct NewRecording {
    /// A name for it: of letters, digits, dots and dashes, different from that of every other one, in the order of time.
    pub name: String,
    /// Why it is written.
    pub why: Why,
    /// The file.
    pub bytes: Vec<u8>,
}

impl NewRecording {
    /// What is in the file.
    ///
    /// # Errors
    /// None that a recorder would make: it is there so that `?` can be used where a sink reads what it was given.
    pub fn recording(&self) -> io::Result<Recording> {
        Recording::parse(self.bytes.clone()).map_err(|error| match error {
            FormatError::Io(error) => error,
            other => io::Error::other(other),
        })
    }
}

impl fmt::Debug for NewRecording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewRecording")
            .field("name", &self.name)
            .field("why", &self.why)
            .field("bytes", &self.bytes.len())
            .finish()
    }
}

/// Takes recordings. Called on a worker, so it may block; never twice at the same time for one file, but maybe for several.
///
/// Any function of the right type is one: see [`NewRecording`].
pub trait Sink: Send + Sync + 'static {
    /// Keeps a recording.
    ///
    /// # Errors
    /// It could not be kept. That is counted and logged, and the channel goes on.
    fn keep(&self, file: &NewRecording) -> io::Result<()>;
}

impl<F: Fn(&NewRecording) -> io::Result<()> + Send + Sync + 'static> Sink for F {
    fn keep(&self, file: &NewRecording) -> io::Result<()> {
        self(file)
    }
}

/// A directory that keeps the newest recordings: one more than it may have costs the oldest.
///
/// A directory that is removed meanwhile is made again. Files of an earlier run count, also those that it did not finish; files of other names do not and are never
/// touched. A file has its name only once it is complete. Only the user of the program may read it: it may hold what peers have sent in confidence.
///
/// ```
/// use netwright_record::{Directory, FlightRecorder};
///
/// # let path = std::env::temp_dir().join(format!("netwright-doc-{}", std::process::id()));
/// let flight = FlightRecorder::builder().to(Directory::new(&path, 100)?).build();
/// # drop(flight);
/// # std::fs::remove_dir_all(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    files_max: usize,
    /// Names of what is there, the oldest first: by name what was there before, which is by time unless the clock was set, then as they came.
    files: Mutex<VecDeque<String>>,
}

impl Directory {
    /// Makes the directory, if it is not there, and looks at what is in it.
    ///
    /// # Errors
    /// It cannot be made or read.
    pub fn new(path: impl AsRef<Path>, files_max: usize) -> io::Result<Self> {
        let path = path.as_ref().to_owned();
        fs::create_dir_all(&path)?;
        let files = found_in(&path, &[EXTENSION, UNFINISHED])?;
        Ok(Self { path, files_max: files_max.max(1), files: Mutex::new(files) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file of this name, in a directory that is made again if somebody has removed it.
    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        match self.write_there(name, bytes) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(&self.path)?;
                tracing::warn!(path = %self.path.display(), "the directory of recordings was gone, and is made again");
                let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
                *files = found_in(&self.path, &[EXTENSION])?; // what others have written since
                drop(files);
                self.write_there(name, bytes)
            }
            other => other,
        }
    }

    fn write_there(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let unfinished = self.path.join(name).with_extension(UNFINISHED);
        let written = create(&unfinished)
            .and_then(|mut file| file.write_all(bytes))
            .and_then(|()| fs::rename(&unfinished, self.path.join(name)));
        if written.is_err() {
            let _ = fs::remove_file(&unfinished); // what a full disk has left of it
        }
        written
    }
}

/// Names of our files with one of these extensions, in their order.
fn found_in(path: &Path, extensions: &[&str]) -> io::Result<VecDeque<String>> {
    let is_ours = |name: &String| {
        let ends_with =
            |extension: &&str| name.strip_suffix(*extension).is_some_and(|rest| rest.ends_with('.'));
        name.starts_with(PREFIX) && extensions.iter().any(ends_with)
    };
    let names = fs::read_dir(path)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<_> = names.filter(is_ours).collect();
    names.sort();
    Ok(names.into())
}

fn create(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path)
}

impl Sink for Directory {
    fn keep(&self, file: &NewRecording) -> io::Result<()> {
        let name = format!("{PREFIX}{}.{EXTENSION}", file.name);
        self.write(&name, &file.bytes)?;
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.retain(|other| *other != name); // seen when the directory was made again
        files.push_back(name);
        let more = files.len().saturating_sub(self.files_max);
        let old: Vec<_> = files.drain(..more).collect();
        drop(files);
        for name in old {
            match fs::remove_file(self.path.join(&name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(name, %error, "an old recording could not be removed");
                }
                _ => {}
            }
        }
        Ok(())
    }
}
