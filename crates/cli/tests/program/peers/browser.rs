//! Chromium opens the demo's page twice, and what is typed in one is read in the other.

use super::{node, program, run};
use crate::{Peer, Running};

#[test]
fn a_line_typed_in_one_page_arrives_in_another_and_in_a_terminal() {
    let Some(chromium) = program("chromium", "chromium") else { return };
    let Some(mut node) = node("with_chromium.js", &["playwright-core@1"]) else { return };
    let (_demo, addresses) = Running::serve(&[], 4);
    let [.., chat, page] = addresses[..] else { panic!("four addresses") };
    let mut terminal = Peer::connect(chat);
    terminal.line();
    run(node.arg(chromium).arg(format!("http://{page}/"))).unwrap_or_else(|error| panic!("{error}"));
    let mut heard = Vec::new();
    while !heard.contains(&"[Bob] loud and clear".to_owned()) {
        heard.push(terminal.line());
    }
    assert!(heard.contains(&"[Ada] do you hear me?".to_owned()), "{heard:?}");
}
