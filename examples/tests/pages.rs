//! Pages for people stay true: what they link to exists, and the tests that they name are where they say.
//!
//! ```text
//!   | what | where: links to files | shown by: [link to a file]: `tests` in it; … | different, or why not |
//! ```
//! The code on pages runs as doc tests (`src/lib.rs`).

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the examples are in the workspace")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All pages of the project.
fn pages() -> Vec<PathBuf> {
    let mut folders = vec![root().join("docs")];
    let mut pages: Vec<PathBuf> = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "examples/README.md",
        "benches/compare/README.md",
    ]
    .map(|page| root().join(page))
    .into();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages
}

/// A page without its code, in which brackets mean something else.
fn prose(page: &str) -> String {
    page.split("```").step_by(2).collect()
}

/// Where the links of a text lead; of a line without its title.
fn links(text: &str) -> Vec<&str> {
    let ends = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    ends.filter_map(|(target, _)| target.split(' ').next()).collect()
}

/// What stands between back ticks.
fn code(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The place in a page that a heading is found under.
fn anchor(heading: &str) -> String {
    let letters = heading.trim().to_lowercase();
    let kept = letters.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.collect::<String>().replace(' ', "-")
}

#[test]
fn every_link_on_every_page_leads_somewhere() {
    let mut broken = Vec::new();
    for page in pages() {
        let text = prose(&read(&page));
        for link in
            links(&text).into_iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:"))
        {
            let (file, place) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.with_file_name("").join(file) };
            let found = target.exists()
                && (place.is_empty()
                    || prose(&read(&target))
                        .lines()
                        .filter(|line| line.starts_with('#'))
                        .any(|line| anchor(line.trim_start_matches('#')) == place));
            if !found {
                broken.push(format!("{}: {link}", page.strip_prefix(root()).unwrap_or(&page).display()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

/// A row of the page of Netty's model.
struct Row<'a> {
    what: &'a str,
    places: &'a str,
    tests: &'a str,
    why: &'a str,
}

fn rows(page: &str) -> Vec<Row<'_>> {
    let lines = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---"));
    lines
        .filter(|line| !line.starts_with("| what |"))
        .map(|line| match line.split('|').map(str::trim).collect::<Vec<_>>()[..] {
            ["", what, places, tests, why, ""] => Row { what, places, tests, why },
            _ => panic!("not a row of four cells: {line}"),
        })
        .collect()
}

#[test]
fn every_row_of_nettys_model_names_its_file_and_its_test_or_says_why_not() {
    let page = read(&root().join("docs/netty-model.md"));
    let rows = rows(&page);
    assert!(rows.len() > 150, "only {} rows", rows.len());
    assert!(!page.contains("TBD"), "something was to be filled in");
    for Row { what, places, tests, why } in rows {
        let there = places != "-" && tests != "-";
        assert!(there || why.len() > 5, "{what}: neither a file and a test, nor a reason");
    }
}

#[test]
fn every_test_that_the_page_of_nettys_model_names_is_in_the_file_beside_it() {
    let docs = root().join("docs");
    let page = read(&docs.join("netty-model.md"));
    let (mut missing, mut seen) = (Vec::new(), BTreeSet::new());
    for row in rows(&page) {
        for shown in row.tests.split("; ").filter(|shown| shown.contains("](")) {
            let [file] = links(shown)[..] else { panic!("{}: not one file: {shown}", row.what) };
            let source = read(&docs.join(file));
            for test in code(shown) {
                seen.insert(test);
                if !source.contains(&format!("fn {test}(")) {
                    missing.push(format!("{}: {test} is not in {file}", row.what));
                }
            }
        }
    }
    assert!(missing.is_empty(), "tests that are not where the page says:\n{}", missing.join("\n"));
    assert!(seen.len() > 90, "only {} tests were found on the page", seen.len());
}
