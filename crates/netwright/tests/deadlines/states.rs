//! Every state that the sources have is in a line of the table, and every line names states that there are.
//!
//! The enums are private to their crates, so the compiler cannot tell: this reads the sources. Looked at are all enums called
//! as states are called, in the files of protocols; a further one of such a name is found by itself.

use crate::row::Row;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Where protocols are, below `crates`.
const FOLDERS: [&str; 8] = [
    "http/src/body",
    "http/src/codec",
    "http/src/client",
    "http/src/service/aggregate.rs",
    "websocket/src",
    "tls/src",
    "core/src/detect",
    "handler/src/proxy_protocol",
];

/// What enums of states are called.
const NAMES: [&str; 6] = ["Phase", "State", "Due", "Body", "Sending", "Suspicion"];

/// States in which nobody waits for a peer, and why.
const NOBODY_WAITS: &[(&str, &str)] = &[
    (
        "http/src/codec/h1/client.rs Phase::Over",
        "the connection is closed, or being closed by its application",
    ),
    ("http/src/codec/h2/connection/side.rs Body::Nothing", "no state: what a head leads to"),
    ("http/src/codec/h2/connection/side.rs Body::Follows", "no state: what a head leads to"),
    (
        "http/src/codec/h1/server/mod.rs Phase::Tunnel",
        "the application speaks with the peer, by a protocol of its own",
    ),
    ("tls/src/handler.rs Phase::Over", "the channel is closed, or closes behind what is flushed"),
    ("handler/src/proxy_protocol/stage.rs State::Failed", "the channel is being closed"),
    ("http/src/service/aggregate.rs State::Between", "the codec in front waits, and has the deadline"),
];

pub(crate) fn check<'a>(rows: impl Iterator<Item = &'a Row>) {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates are in a folder");
    let mut states = BTreeSet::new();
    for folder in FOLDERS {
        for file in files(&crates.join(folder)) {
            let text = fs::read_to_string(&file).unwrap();
            let file = file.strip_prefix(crates).unwrap().display().to_string();
            states.extend(variants(&text).into_iter().map(|variant| format!("{file} {variant}")));
        }
    }
    let mut covered: BTreeSet<String> = NOBODY_WAITS.iter().map(|(state, _)| (*state).to_owned()).collect();
    covered.extend(rows.flat_map(|row| row.of).map(|state| (*state).to_owned()));
    let missing: Vec<_> = states.difference(&covered).collect();
    assert!(missing.is_empty(), "these states have no line in the table of deadlines: {missing:#?}");
    let unknown: Vec<_> = covered.difference(&states).collect();
    assert!(unknown.is_empty(), "the table of deadlines names states that are not there: {unknown:#?}");
}

fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.is_dir() || path.extension().is_some_and(|end| end == "rs"))
        .flat_map(|path| files(&path))
        .collect()
}

/// `Enum::Variant` of each enum that is called as states are. rustfmt has put one on each line.
fn variants(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut within: Option<&str> = None;
    let mut depth = 0;
    for line in text.lines() {
        let line = line.trim();
        match within {
            None => {
                let Some((_, rest)) = line.split_once("enum ") else { continue };
                let name = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
                if line.ends_with('{') && !line.starts_with("//") && NAMES.contains(&name) {
                    within = Some(name);
                }
            }
            Some(_) if line == "}" && depth == 0 => within = None,
            Some(name) => {
                let variant: String = line.chars().take_while(|c| c.is_alphanumeric()).collect();
                if depth == 0 && variant.starts_with(char::is_uppercase) {
                    found.push(format!("{name}::{variant}"));
                }
                depth += line.matches(['{', '(']).count();
                depth -= line.matches(['}', ')']).count();
            }
        }
    }
    found
}
