//! Other programs read what we write and write what we read: Python's libraries, and the tools of the command line.
//!
//! Packages that Python does not bring along are installed into a virtual environment below the target folder, once. Without
//! Python, or without a way to get the packages, the formats that need them are skipped, with a line that says so.

#![cfg(feature = "_compress")]

use bytes::{Bytes, BytesMut};
use netwright_codec::{Compression, Compressor, Decompressor, Format};
use netwright_core::{EmbeddedChannel, pipeline};
use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

/// What the formats need that Python does not bring along.
const PACKAGES: [(&str, &str, &str); 4] = [
    ("zstd", "zstandard", "zstandard"),
    ("brotli", "brotli", "brotli"),
    ("lz4", "lz4", "lz4.frame"),
    ("snappy", "python-snappy", "snappy"),
];

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/compress.py");

/// Something of every kind: text, repetition over a long way, noise.
fn message() -> Vec<u8> {
    let mut message = b"event loops own channels, channels own pipelines\n".repeat(2000);
    let mut state = 1u32;
    message.extend((0..100_000).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    }));
    message.extend_from_within(..150_000);
    message
}

fn channel(format: Format) -> EmbeddedChannel<BytesMut, Bytes> {
    EmbeddedChannel::new(pipeline().add(Compression::new(Decompressor::new(format), Compressor::new(format))))
}

/// What we write: two flushes, and the end of the stream if it is to have one.
fn packed(format: Format, message: &[u8], ended: bool) -> Vec<u8> {
    let mut channel = channel(format);
    let (first, second) = message.split_at(message.len() / 3);
    channel.write_outbound(Bytes::copy_from_slice(first)).write_outbound(Bytes::copy_from_slice(second));
    if ended {
        drop(channel.channel().close());
    }
    channel.outbound_bytes()
}

/// What we read, with the peer closing behind it.
#[track_caller]
fn unpacked(format: Format, stream: &[u8], from: &str) -> Vec<u8> {
    let mut channel = channel(format);
    for read in stream.chunks(10_000) {
        channel.write_inbound(read);
    }
    assert!(channel.is_open(), "{format} of {from}: {:?}", channel.channel().close_cause());
    channel.close_by_peer();
    std::iter::from_fn(|| channel.read_inbound()).flatten().collect()
}

/// Runs a program with this input, and gives its output. `None` if there is no such program.
fn run(command: &mut Command, input: &[u8]) -> Option<Result<Vec<u8>, String>> {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().ok()?;
    let mut stdin = child.stdin.take()?;
    let input = input.to_vec();
    let writer = thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().ok()?;
    drop(writer.join());
    if !output.status.success() {
        return Some(Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Some(Ok(output.stdout))
}

/// A Python with all packages that can be had, or why there is none.
fn python() -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compress-peers");
    let python = folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    if !python.exists() {
        let made = run(Command::new("python3").args(["-m", "venv"]).arg(&folder), &[]);
        made.ok_or("no python3 here")?.map_err(|error| format!("no virtual environment: {error}"))?;
    }
    for (_, package, module) in PACKAGES {
        if has(&python, module) {
            continue;
        }
        let quick = [
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
        drop(run(Command::new(&python).args(quick).args(["--only-binary", ":all:", package]), &[]));
        if !has(&python, module) {
            drop(run(Command::new(&python).args(quick).arg(package), &[]));
        }
    }
    Ok(python)
}

fn has(python: &Path, module: &str) -> bool {
    matches!(run(Command::new(python).args(["-c", &format!("import {module}")]), &[]), Some(Ok(_)))
}

#[test]
fn python_reads_what_we_write_and_writes_what_we_read() {
    let python = match python() {
        Ok(python) => python,
        Err(why) => return println!("skipped: {why}"),
    };
    let message = message();
    for &format in Format::all() {
        let needs = PACKAGES.iter().find(|(needs, ..)| *needs == format.name());
        if let Some((_, package, module)) = needs
            && !has(&python, module)
        {
            println!("skipped: {format}, the Python package {package} could not be had");
            continue;
        }
        let ask = |what: &str, variant: &str, input: &[u8]| {
            let answer = run(Command::new(&python).args([SCRIPT, what, format.name(), variant]), input);
            answer.unwrap().unwrap_or_else(|error| panic!("{what} {format} {variant}: {error}"))
        };
        for variant in ["", "strong", if format.name() == "gzip" { "module" } else { "whole" }] {
            let theirs = ask("pack", variant, &message);
            assert!(unpacked(format, &theirs, "Python") == message, "{format} {variant}, written by Python");
        }
        assert!(ask("unpack", "", &packed(format, &message, true)) == message, "{format}, read by Python");
        let begun = ask("unpack-begun", "", &packed(format, &message, false));
        assert!(
            begun == message,
            "{format}: after a flush Python has {} of {} bytes",
            begun.len(),
            message.len()
        );
        println!("{format}: Python and we understand each other");
    }
}

#[test]
fn tools_of_the_command_line_read_what_we_write_and_write_what_we_read() {
    let message = message();
    let tools = [("gzip", "gzip"), ("zstd", "zstd"), ("brotli", "brotli"), ("lz4", "lz4")];
    for (name, tool) in tools {
        let Some(&format) = Format::all().iter().find(|format| format.name() == name) else { continue };
        let Some(theirs) = run(Command::new(tool).arg("-c"), &message) else {
            println!("skipped: there is no {tool} here");
            continue;
        };
        assert!(unpacked(format, &theirs.unwrap(), tool) == message, "{format}, written by {tool}");
        let ours = run(Command::new(tool).arg("-dc"), &packed(format, &message, true)).unwrap();
        assert!(
            ours.unwrap_or_else(|error| panic!("{tool}: {error}")) == message,
            "{format}, read by {tool}"
        );
        println!("{format}: {tool} and we understand each other");
    }
}
