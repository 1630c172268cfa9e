//! Streams that are kept in the repository: what other programs wrote, and what went wrong once.
//!
//! `seeds/compress/FORMAT-ok-NAME` unpacks, `seeds/compress/FORMAT-bad-NAME` is refused; both however they are split.

use super::*;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/seeds/compress");

/// The streams of a format, in an order that does not change.
pub(super) fn streams(format: Format) -> Vec<Vec<u8>> {
    let prefix = format!("{}-", format.name());
    let mut paths: Vec<_> = std::fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix)));
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn all_seeds() {
    let mut seen = std::collections::HashMap::<_, usize>::new();
    for entry in std::fs::read_dir(FOLDER).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let (format, rest) = name.split_once('-').unwrap();
        let Some(&format) = Format::all().iter().find(|known| known.name() == format) else { continue };
        let stream = std::fs::read(&path).unwrap();
        let ok = damage::same_however_split(format, &stream, name);
        assert_eq!(ok, rest.starts_with("ok-"), "{name}: {:?}", damage::run(format, &stream, usize::MAX).1);
        *seen.entry(format).or_default() += 1;
    }
    for &format in Format::all() {
        assert!(seen.get(&format).is_some_and(|&seeds| seeds >= 3), "{format}: too few seeds");
    }
}
