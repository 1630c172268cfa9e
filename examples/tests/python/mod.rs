//! Python programs as peers, each with one package in a virtual environment of its own below the target folder.
//!
//! What cannot be had, Python or the package, skips the test with a line that says so. `NETWRIGHT_PEERS=required` makes it a
//! failure.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Runs a program of `examples/peers` with its package; it has to end with success.
pub(crate) fn peer(package: &str, program: &str, arguments: &[&str]) {
    let python = match environment(package) {
        Ok(python) => python,
        Err(reason) if std::env::var("NETWRIGHT_PEERS").is_ok_and(|peers| peers == "required") => {
            panic!("no peer for {program}: {reason}")
        }
        Err(reason) => {
            // Past the test harness, which would keep what a passing test prints to itself.
            let line = format!("SKIPPED {program}: {reason}\n");
            let _ = io::stderr().write_all(line.as_bytes());
            return;
        }
    };
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(program);
    let run = Command::new(python).arg(&program).args(arguments).output().expect("python started before");
    assert!(
        run.status.success(),
        "{} ended with {}\n{}{}",
        program.display(),
        run.status,
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr)
    );
}

/// The Python of an environment with the package, made when it is not there yet.
fn environment(package: &str) -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("peers").join(package);
    let python = if cfg!(windows) { folder.join("Scripts/python.exe") } else { folder.join("bin/python") };
    let complete = folder.join("complete");
    if complete.exists() {
        return Ok(python);
    }
    let folder = folder.to_string_lossy();
    run(Command::new("python3").args(["-m", "venv", "--clear", &folder]))?;
    let pip = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--retries",
        "1",
        "--timeout",
        "20",
    ];
    run(Command::new(&python).args(pip).arg(package))?;
    fs::write(&complete, package).map_err(|error| error.to_string())?;
    Ok(python)
}

/// Runs a command to its end; if it fails, says why in a line.
fn run(command: &mut Command) -> Result<(), String> {
    let what = format!("{} {}", command.get_program().to_string_lossy(), last(command));
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{what}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{what}: {}", said.trim().lines().last().unwrap_or("failed")))
}

fn last(command: &Command) -> String {
    command.get_args().last().map(|argument| argument.to_string_lossy().into_owned()).unwrap_or_default()
}
