//! The programs as their users see them: started, talked to, ended. Those over HTTP are in `http.rs`.
//!
//! `cargo test -p netwright-examples` builds them first; with `--test programs` alone they are what was built before.

mod classic;
mod limits;
#[path = "../python/mod.rs"]
mod python;
mod straight;
mod support;
mod values;

#[test]
fn every_example_is_started_by_a_test() {
    let tests = [
        include_str!("classic.rs"),
        include_str!("limits.rs"),
        include_str!("straight.rs"),
        include_str!("values.rs"),
        include_str!("../http.rs"),
    ]
    .concat();
    let examples = include_str!("../../Cargo.toml").split("[[example]]").skip(1);
    let names = examples.filter_map(|example| example.split('"').nth(1));
    let forgotten: Vec<_> = names.filter(|name| !tests.contains(&format!("\"{name}\""))).collect();
    assert!(forgotten.is_empty(), "no test starts {forgotten:?}");
}
