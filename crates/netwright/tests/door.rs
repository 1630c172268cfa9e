//! Everything that the parts offer can be reached through this crate, and its root stays small.

use std::{collections::BTreeSet, fs, path::Path};

fn source(of: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(of).join("src/lib.rs");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The names that `pub use` statements of this text bring.
fn names(text: &str) -> BTreeSet<String> {
    text.split("pub use ")
        .skip(1)
        .filter_map(|rest| rest.split(';').next())
        .flat_map(|statement| {
            let list = match statement.split_once('{') {
                Some((_, list)) => list.trim_end().trim_end_matches('}'),
                None => statement.rsplit("::").next().unwrap_or(statement),
            };
            list.split(',')
                .map(|name| name.trim().to_owned())
                .filter(|name| !name.is_empty())
                .collect::<Vec<_>>()
        })
        .collect()
}

/// What is nobody's business.
fn without_internals(text: &str) -> &str {
    text.split("pub mod internal").next().unwrap_or(text)
}

#[test]
fn every_public_name_of_core_and_transport_is_in_a_module_of_the_facade() {
    let facade = names(&source("netwright"));
    for part in ["core", "transport"] {
        let text = source(part);
        // What a module offers that the facade has as a whole is there.
        let elsewhere: Vec<_> = without_internals(&text)
            .split("pub use ")
            .skip(1)
            .filter(|statement| {
                let module = statement.split("::").next().unwrap_or(statement);
                !facade.contains(module) || text.contains(&format!("\nmod {module};"))
            })
            .collect();
        let offered = names(&format!("pub use {}", elsewhere.join("pub use ")));
        let missing: Vec<_> = offered.into_iter().filter(|name| !facade.contains(name)).collect();
        assert!(missing.is_empty(), "netwright-{part} offers what netwright does not: {missing:?}");
    }
}

#[test]
fn the_root_has_about_25_names_and_the_prelude_has_no_other() {
    let text = source("netwright");
    let (before, rest) = text.split_once("pub mod prelude").expect("a prelude");
    let root = names(before);
    assert!((20..=30).contains(&root.len()), "{} names at the root: {root:?}", root.len());
    let prelude = names(rest.split("pub mod ").next().expect("its text"));
    let other: Vec<_> = prelude.difference(&root).collect();
    assert!(other.is_empty(), "in the prelude and not at the root: {other:?}");
}

#[test]
fn the_types_of_others_in_our_signatures_come_with_us() {
    let _: netwright::bytes::Bytes = netwright::bytes::Bytes::new();
    #[cfg(feature = "http")]
    let _: netwright::http::http::Method = http::Method::GET;
    #[cfg(feature = "protobuf")]
    let _ = std::any::type_name::<netwright::codec::prost::DecodeError>();
}
