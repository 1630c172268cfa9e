//! A process of one's own, for what counts or limits the descriptors of a process.

use super::wait_until;
use crate::contract::Setup;

/// Set in a process that was started for one case.
const CHILD: &str = "NETWRIGHT_CONTRACT_CHILD";

/// What runs programs like this one, if the system does not by itself: `qemu-aarch64 -L …`.
const RUNNER: &str = "NETWRIGHT_RUNNER";

/// Runs `body` in a process where nothing else runs: for what counts or limits the descriptors of a process.
pub(crate) fn in_own_process(setup: Setup, body: impl FnOnce()) {
    if is_child() {
        return body();
    }
    let output = child(setup).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    assert!(text(&output.stdout).contains("1 passed"), "no such test: {}", setup.test_name());
}

pub(crate) fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// This test program again, for one case.
pub(crate) fn child(setup: Setup) -> std::process::Command {
    let mut command = ourselves();
    command.args([&setup.test_name(), "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, "1");
    command
}

fn ourselves() -> std::process::Command {
    let own = std::env::current_exe().unwrap();
    let Ok(runner) = std::env::var(RUNNER) else { return std::process::Command::new(own) };
    let mut words = runner.split_whitespace();
    let mut command = std::process::Command::new(words.next().expect("a program"));
    command.args(words).arg(own);
    command
}

/// Waits until this process has so many sockets open, where that can be known.
pub(crate) fn wait_for_sockets(open: usize) {
    wait_until(|| open_sockets() == open, || format!("{open} sockets, there are {}", open_sockets()));
}

/// How many descriptors of this process are sockets; always the same where nobody tells.
pub(crate) fn open_sockets() -> usize {
    if !cfg!(target_os = "linux") {
        return 0;
    }
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
    let is_socket = |path: std::path::PathBuf| {
        std::fs::read_link(path).is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
    };
    descriptors.filter(|entry| entry.as_ref().is_ok_and(|entry| is_socket(entry.path()))).count()
}

/// How many descriptors this process may have from now on.
#[cfg(unix)]
pub(crate) fn set_descriptor_limit(limit: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(limit), maximum }).unwrap();
}

#[cfg(windows)]
pub(crate) fn set_descriptor_limit(_: u64) {
    unreachable!("Windows has no such limit, and its table says so");
}
