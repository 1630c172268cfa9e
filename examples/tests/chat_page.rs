//! The chat page in a real browser: two of them, what one types the other sees, and what both say when the server goes and comes back.
//!
//! The browser is driven by Node's package `playwright-core`, which is installed below the target folder, once. Without Node, the
//! package or a Chromium the test is skipped with a line that says so; `NETWRIGHT_PEERS=required` makes that a failure.

use std::{
    env, fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// What the driver ends with if there is no browser.
const NO_BROWSER: i32 = 77;

/// Cargo builds examples before tests, beside them.
fn chat() -> PathBuf {
    let test = env::current_exe().expect("a program has a path");
    let folder = test.parent().and_then(Path::parent).expect("…/deps/chat_page");
    folder.join("examples/websocket_chat")
}

/// Where the driver's package is, installed when it is not there yet.
fn packages() -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("peers/playwright");
    let complete = folder.join("complete");
    if !complete.exists() {
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let npm = ["install", "--silent", "--no-audit", "--no-fund", "--prefix"];
        let mut command = Command::new("npm");
        command.args(npm).arg(&folder).arg("playwright-core@1").stdin(Stdio::null());
        let output = command.output().map_err(|error| format!("npm: {error}"))?;
        if !output.status.success() {
            return Err(format!("npm: {}", String::from_utf8_lossy(&output.stderr).trim()));
        }
        fs::write(complete, "").map_err(|error| error.to_string())?;
    }
    Ok(folder.join("node_modules"))
}

fn drive(server: &Path) -> Result<(), String> {
    let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/chat_page.cjs");
    let mut node = Command::new("node");
    node.env("NODE_PATH", packages()?).arg(driver).arg(server);
    let output = node.output().map_err(|error| format!("node: {error}"))?;
    let said = [&output.stdout[..], &output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    match output.status.code() {
        Some(NO_BROWSER) => Err(said.trim().to_owned()),
        Some(0) => Ok(()),
        _ => panic!("the driver ended with {}\n{said}", output.status),
    }
}

#[test]
fn what_one_browser_types_the_other_sees_and_both_tell_of_an_outage_and_come_back() {
    match drive(&chat()) {
        Ok(()) => {}
        Err(reason) if env::var("NETWRIGHT_PEERS").is_ok_and(|peers| peers == "required") => {
            panic!("{reason}")
        }
        Err(reason) => {
            // Past the test harness, which would keep what a passing test prints to itself.
            let _ = io::stderr().write_all(format!("SKIPPED the chat page: {reason}\n").as_bytes());
        }
    }
}
