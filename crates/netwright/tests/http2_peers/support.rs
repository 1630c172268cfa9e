//! Where the peers come from, and how they are run: each to its end, or to the end of our patience.

use std::{
    env, fs,
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

/// Longer than anything takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The peer, or a line that says why there is none.
pub(crate) fn or_skip<T>(what: &str, peer: Result<T, String>) -> Option<T> {
    match peer {
        Ok(peer) => Some(peer),
        Err(reason) if env::var("NETWRIGHT_PEERS").is_ok_and(|peers| peers == "required") => {
            panic!("no {what}: {reason}")
        }
        Err(reason) => {
            // Past the test harness, which would keep what a passing test prints to itself.
            let _ = io::stderr().write_all(format!("SKIPPED {what}: {reason}\n").as_bytes());
            None
        }
    }
}

/// A program of the system, by the Debian package that has it.
pub(crate) fn program(name: &str, package: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&folders).chain(["/usr/sbin".into()]);
    let found = folders.map(|folder| folder.join(name)).find(|path| path.is_file());
    or_skip(name, found.ok_or_else(|| format!("it is not installed (Debian: {package}; see scripts/peers)")))
}

/// Runs a program to its end; what it prints.
pub(crate) fn run(command: &mut Command) -> Result<String, String> {
    let what = command.get_program().to_string_lossy().into_owned();
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{what}: {error}"))?;
    let (out, err) = (all(child.stdout.take()), all(child.stderr.take()));
    let until = Instant::now() + PATIENCE;
    let (Ok(out), Ok(err)) =
        (out.recv_timeout(PATIENCE), err.recv_timeout(until.saturating_duration_since(Instant::now())))
    else {
        let _ = child.kill();
        let _ = child.wait();
        return Err(format!("{what} does not end"));
    };
    let ended = child.wait().map_err(|error| format!("{what}: {error}"))?;
    if ended.success() {
        return Ok(out);
    }
    Err(format!("{what} failed, {ended}: {}\n{}", err.trim(), out.trim()))
}

/// All that comes from there, when it has ended.
fn all(from: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.map(|mut from| from.read_to_end(&mut bytes));
        let _ = tell.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    told
}

/// Runs it, and expects that it succeeds.
#[track_caller]
pub(crate) fn succeeds(command: &mut Command) -> String {
    run(command).unwrap_or_else(|error| panic!("{error}"))
}

/// Installs something, unless that was done before. Tests run at the same time: one of them does it.
fn once(name: &str, install: impl FnOnce(&Path) -> Result<(), String>) -> Result<PathBuf, String> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("peers").join(name);
    let complete = folder.join("complete");
    if !complete.exists() {
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        install(&folder)?;
        fs::write(complete, "").map_err(|error| error.to_string())?;
    }
    Ok(folder)
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http2_peers").join(name)
}

/// A script of ours, with Python and these packages.
pub(crate) fn python(name: &str, packages: &[&str]) -> Option<Command> {
    let folder = once(name, |folder| {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder))?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1"];
        run(Command::new(folder.join("bin/python")).args(pip).args(packages)).map(drop)
    });
    let folder = or_skip(name, folder)?;
    let mut python = Command::new(folder.join("bin/python"));
    python.arg(script(name));
    Some(python)
}

/// Engines of JavaScript reserve more addresses than a shell may allow; what they use is another matter.
fn has_addresses() -> Result<(), String> {
    const NEEDED_KIB: u64 = 64 << 20;
    let said = run(Command::new("sh").args(["-c", "ulimit -v"])).unwrap_or_default();
    match said.trim().parse() {
        Ok(limit @ ..NEEDED_KIB) => {
            Err(format!("the address space is limited to {limit} KiB (ulimit -v), it needs {NEEDED_KIB}"))
        }
        _ => Ok(()),
    }
}

/// A script of ours, with Node and these packages.
pub(crate) fn node(name: &str, packages: &[&str]) -> Option<Command> {
    or_skip(name, has_addresses())?;
    let node = program("node", "nodejs")?;
    let folder = once(name, |folder| {
        if packages.is_empty() {
            return Ok(());
        }
        let npm = ["install", "--silent", "--no-audit", "--no-fund", "--prefix"];
        run(Command::new("npm").args(npm).arg(folder).args(packages)).map(drop)
    });
    let folder = or_skip(name, folder)?;
    let mut node = Command::new(node);
    node.env("NODE_PATH", folder.join("node_modules")).arg(script(name));
    Some(node)
}

/// A folder that goes with the test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("netwright-peers-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder can be made");
        Self(path)
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).expect("a file can be written");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A port that is free now. Between this and its use another program may take it: such a program has to say that it could not bind.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A program that runs until the test ends.
pub(crate) struct Background(Child);

impl Background {
    /// Starts it, and waits until somebody listens there.
    #[track_caller]
    pub(crate) fn start(command: &mut Command, address: SocketAddr) -> Self {
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = Self(quiet.spawn().unwrap());
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(begun.elapsed() < PATIENCE, "{command:?} does not listen");
            let ended = running.0.try_wait().unwrap();
            assert!(ended.is_none(), "{command:?} ended, {ended:?}");
            thread::sleep(Duration::from_millis(10)); // it does not say when it does
        }
        running
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
