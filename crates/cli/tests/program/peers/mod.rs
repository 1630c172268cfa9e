//! Other people's programs as peers of ours: curl, openssl, wrk, Python's `requests` and `websockets`, Node's `undici` and `ws`,
//! haproxy and Chromium.
//!
//! Packages of Python and Node are installed below the target folder, once. Programs of the system are used if they are there;
//! with `NETWRIGHT_PEERS=install` they are installed first, by `apt-get`, which takes minutes for Chromium. What cannot be had
//! skips its test with a line that says so; `NETWRIGHT_PEERS=required` makes that a failure.

mod browser;
mod curl;
mod haproxy;
mod libraries;
mod tools;

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Mutex,
};

/// Said to be what, by the environment.
fn wanted(what: &str) -> bool {
    std::env::var("NETWRIGHT_PEERS").is_ok_and(|peers| peers.split(',').any(|word| word == what))
}

/// The peer, or a line that says why there is none.
fn or_skip<T>(what: &str, peer: Result<T, String>) -> Option<T> {
    match peer {
        Ok(peer) => Some(peer),
        Err(reason) if wanted("required") => panic!("no {what}: {reason}"),
        Err(reason) => {
            // Past the test harness, which would keep what a passing test prints to itself.
            let _ = io::stderr().write_all(format!("SKIPPED {what}: {reason}\n").as_bytes());
            None
        }
    }
}

/// A program of the system, by the Debian package that has it.
fn program(name: &str, package: &str) -> Option<PathBuf> {
    static ONE: Mutex<()> = Mutex::new(()); // apt-get does not like company
    let found = || {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
    };
    let path = found().map_or_else(
        || {
            if !wanted("install") {
                return Err(format!(
                    "{name} is not there; NETWRIGHT_PEERS=install has apt-get install {package}"
                ));
            }
            let _one = ONE.lock();
            let mut apt = Command::new("apt-get");
            run(apt.args(["install", "-y", "--no-install-recommends", package]))?;
            found().ok_or_else(|| format!("{package} has no {name}"))
        },
        Ok,
    );
    or_skip(name, path)
}

/// Runs a program to its end.
fn run(command: &mut Command) -> Result<String, String> {
    let what = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{what}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{what} failed: {}", said.trim()))
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
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program/peers").join(name)
}

/// Runs a script of ours with Python and these packages, to its end.
#[track_caller]
fn python(name: &str, packages: &[&str], arguments: &[&str]) {
    let folder = once(name, |folder| {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder))?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1"];
        run(Command::new(folder.join("bin/python")).args(pip).args(packages)).map(drop)
    });
    let Some(folder) = or_skip(name, folder) else { return };
    let mut python = Command::new(folder.join("bin/python"));
    run(python.arg(script(name)).args(arguments)).unwrap_or_else(|error| panic!("{name}: {error}"));
}

/// Engines of JavaScript reserve more addresses than a shell may allow; what they use is another matter.
fn has_addresses() -> Result<(), String> {
    const NEEDED: u64 = 64 << 30;
    #[cfg(unix)]
    if let Some(limit @ ..NEEDED) = rustix::process::getrlimit(rustix::process::Resource::As).current {
        return Err(format!("the address space is limited to {limit} bytes (ulimit -v), it needs {NEEDED}"));
    }
    Ok(())
}

/// A script of ours, with Node and these packages.
fn node(name: &str, packages: &[&str]) -> Option<Command> {
    or_skip(name, has_addresses())?;
    if packages.is_empty() {
        let mut node = Command::new(program("node", "nodejs")?);
        node.arg(script(name));
        return Some(node);
    }
    let folder = once(name, |folder| {
        let npm = ["install", "--silent", "--no-audit", "--no-fund", "--prefix"];
        run(Command::new("npm").args(npm).arg(folder).args(packages)).map(drop)
    });
    let folder = or_skip(name, folder)?;
    let mut node = Command::new("node");
    node.env("NODE_PATH", folder.join("node_modules")).arg(script(name));
    Some(node)
}
