//! Chromium.

use super::{
    site::Site,
    support::{node, program, succeeds},
};

#[test]
fn a_page_loads_all_its_images_over_one_connection() {
    let Some(chromium) = program("chromium", "chromium") else { return };
    let Some(mut node) = node("with_chromium.js", &["playwright-core@1"]) else { return };
    let secure = Site::secure();
    succeeds(node.arg(chromium).arg(secure.url("/")).arg("200"));
}
