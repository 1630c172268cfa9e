//! The contract as Markdown: which behaviour holds on which transport, and why not where it does not apply.

use super::{Behaviour, Transport, Variation, netty, suite};
use std::fmt::Write;

/// The whole of `docs/contract.md`.
pub fn markdown() -> String {
    let mut page = String::from(INTRODUCTION);
    netty_list(&mut page);
    let mut notes = Notes::default();
    let mut groups: Vec<&str> = Vec::new();
    for behaviour in suite() {
        if !groups.contains(&behaviour.group()) {
            groups.push(behaviour.group());
            heading(&mut page, behaviour.group());
        }
        row(&mut page, behaviour, &mut notes);
    }
    notes.print(&mut page);
    page
}

const INTRODUCTION: &str = "\
# What every transport does

Written by `cargo run -p netwright-testkit --features contract --example contract_table > docs/contract.md`; a test compares.

Each behaviour is one function of `netwright_testkit::contract`, and `cargo test -p netwright-transport --test contract`
runs it once for each transport and reactor model, and again with other peers and other demand. *yes* comes with the number of
these cases. A number alone means that the behaviour does not apply, for the reason below the tables.
";

/// Which expectation is shown by what, and where.
fn netty_list(page: &mut String) {
    page.push_str("\n## What people who know Netty expect\n\n| no. | expected |");
    for transport in Transport::ALL {
        let _ = write!(page, " {} |", transport.name());
    }
    page.push_str(" shown by |\n| --- | --- |");
    page.push_str(&" --- |".repeat(Transport::ALL.len() + 1));
    page.push('\n');
    for expectation in netty::EXPECTATIONS {
        let shown_by: Vec<&Behaviour> =
            suite().iter().filter(|behaviour| behaviour.numbers().contains(&expectation.number)).collect();
        let _ = write!(page, "| {} | {} |", expectation.number, expectation.sentence);
        for &transport in Transport::ALL {
            let here =
                shown_by.iter().filter(|behaviour| behaviour.does_not_apply(transport).is_none()).count();
            let _ = match (here, shown_by.len()) {
                (_, 0) => write!(page, " |"),
                (0, _) => write!(page, " no |"),
                (here, all) if here == all => write!(page, " yes |"),
                (here, all) => write!(page, " {here} of {all} |"),
            };
        }
        let mut by: Vec<String> = shown_by.iter().map(|behaviour| format!("`{behaviour:?}`")).collect();
        by.extend(expectation.note.map(str::to_owned));
        let _ = writeln!(page, " {} |", by.join("; "));
    }
}

fn heading(page: &mut String, group: &str) {
    let _ = write!(page, "\n## {}\n\n| behaviour | no. |", group.replace('_', " "));
    for transport in Transport::ALL {
        let _ = write!(page, " {} |", transport.name());
    }
    page.push_str("\n| --- | --- |");
    page.push_str(&" --- |".repeat(Transport::ALL.len()));
    page.push('\n');
}

fn row(page: &mut String, behaviour: &Behaviour, notes: &mut Notes) {
    let numbers: Vec<String> = behaviour.numbers().iter().map(u8::to_string).collect();
    let _ = write!(page, "| {} | {} |", behaviour.name().replace('_', " "), numbers.join(", "));
    for &transport in Transport::ALL {
        let shown: usize =
            Variation::ALL.iter().map(|variation| behaviour.models(transport, *variation).len()).sum();
        let _ = match behaviour.does_not_apply(transport) {
            Some(why) => write!(page, " ({}) |", notes.number(why)),
            None => write!(page, " yes, {} |", shown),
        };
    }
    page.push('\n');
}

/// Reasons, each told once.
#[derive(Default)]
struct Notes(Vec<&'static str>);

impl Notes {
    fn number(&mut self, why: &'static str) -> usize {
        let known = self.0.iter().position(|known| *known == why);
        known.unwrap_or_else(|| {
            self.0.push(why);
            self.0.len() - 1
        }) + 1
    }

    fn print(&self, page: &mut String) {
        if self.0.is_empty() {
            return;
        }
        page.push_str("\n## Why a behaviour does not apply\n\n");
        for (index, why) in self.0.iter().enumerate() {
            let _ = writeln!(page, "{}. {why}", index + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_in_the_docs_is_what_the_suite_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/contract.md");
        let kept = std::fs::read_to_string(path).unwrap();
        let wrong = kept.lines().zip(markdown().lines()).position(|(kept, said)| kept != said);
        let same = kept == markdown();
        assert!(
            same,
            "docs/contract.md is old, from line {wrong:?} on; its first lines say how it is written"
        );
    }

    #[test]
    fn every_expectation_is_shown_or_has_a_note() {
        for expectation in netty::EXPECTATIONS {
            let shown = suite().iter().any(|behaviour| behaviour.numbers().contains(&expectation.number));
            assert!(shown || expectation.note.is_some(), "{}", expectation.number);
        }
    }

    #[test]
    fn every_number_is_on_the_list_and_every_name_is_there_once() {
        for (index, behaviour) in suite().iter().enumerate() {
            let listed = |number: &u8| netty::EXPECTATIONS.iter().any(|listed| listed.number == *number);
            assert!(behaviour.numbers().iter().all(listed), "{behaviour:?}");
            let again = suite()[index + 1..].iter().any(|other| other.name() == behaviour.name());
            assert!(!again, "{behaviour:?} is there twice");
        }
    }
}
