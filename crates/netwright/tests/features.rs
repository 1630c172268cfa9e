//! Most people depend on this crate and read the documentation of the others: where that names a feature, it names the one that
//! this crate has for it.

use std::{
    fs,
    path::{Path, PathBuf},
};

const CRATES: [&str; 7] = ["bridge", "codec", "core", "http", "tls", "transport", "websocket"];

/// The lines of a file's `[features]`.
fn features(cargo: &str) -> impl Iterator<Item = (&str, &str)> {
    let section =
        cargo.split("[features]").nth(1).and_then(|rest| rest.split("\n[").next()).unwrap_or_default();
    // What is on unless it is switched off is a list of others.
    section.lines().filter_map(|line| line.split_once(" = ")).filter(|(name, _)| *name != "default")
}

/// The features of this crate that switch on one of another, those first that say nothing else.
fn switches<'a>(facade: &'a str, of: &str, feature: &str) -> Vec<&'a str> {
    let (one, or) = (format!("\"netwright-{of}/{feature}\""), format!("\"netwright-{of}?/{feature}\""));
    features(facade)
        .filter(|(_, list)| list.contains(&one) || list.contains(&or))
        .map(|(name, _)| name)
        .collect()
}

/// What the word `feature` stands right before: names in backticks.
fn named(line: &str) -> impl Iterator<Item = &str> {
    ["feature `", "Feature `", "features `", "Features: `"]
        .into_iter()
        .flat_map(|word| line.split(word).skip(1))
        .filter_map(|rest| rest.split('`').next())
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources(&path, found),
            false => found.push(path),
        }
    }
}

#[test]
fn documentation_names_the_features_of_the_facade() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let facade = fs::read_to_string(crates.join("netwright/Cargo.toml")).unwrap();
    let (mut seen, mut wrong) = (0, Vec::new());
    for name in CRATES {
        let mut files = vec![crates.join(name).join("README.md")];
        sources(&crates.join(name).join("src"), &mut files);
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            let is_page = file.ends_with("README.md");
            for line in text.lines().filter(|line| is_page || line.trim_start().starts_with("//")) {
                for feature in named(line) {
                    seen += 1;
                    let ours = switches(&facade, name, feature);
                    let said = |ours: &&str| *ours == feature || line.contains(&format!("`{ours}`"));
                    if !ours.iter().any(said) {
                        wrong.push(format!("{}: {line}\n  here: {ours:?}", file.display()));
                    }
                }
            }
        }
    }
    assert!(seen > 5, "{seen} features are named");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_feature_of_a_part_can_be_switched_on_here() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let facade = fs::read_to_string(crates.join("netwright/Cargo.toml")).unwrap();
    for name in CRATES.into_iter().chain(["websocket"]) {
        let cargo = fs::read_to_string(crates.join(name).join("Cargo.toml")).unwrap();
        for (feature, _) in features(&cargo).filter(|(feature, _)| !feature.starts_with('_')) {
            let ours = switches(&facade, name, feature);
            assert!(!ours.is_empty(), "nothing here switches on `{feature}` of netwright-{name}");
        }
    }
}

#[test]
fn the_table_of_features_has_all_of_them_and_no_others() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let cargo = fs::read_to_string(here.join("Cargo.toml")).unwrap();
    let library = fs::read_to_string(here.join("src/lib.rs")).unwrap();
    let table = library.split("//! | feature |").nth(1).unwrap().split("//!\n").next().unwrap();
    let first_columns = table.lines().filter_map(|line| line.strip_prefix("//! | `")?.split(" | ").next());
    let mut said: Vec<_> =
        first_columns.flat_map(|column| column.split(", ")).map(|name| name.replace('`', "")).collect();
    // Those that begin with `_` are nobody's business.
    let mut there: Vec<_> =
        features(&cargo).map(|(name, _)| name.to_owned()).filter(|name| !name.starts_with('_')).collect();
    said.sort();
    there.sort();
    assert_eq!(said, there);
}
