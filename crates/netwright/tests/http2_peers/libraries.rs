//! Libraries of Python and Node.

use super::{
    site::Site,
    support::{node, python, succeeds},
};

#[test]
fn python_httpx_is_answered() {
    let Some(mut python) = python("with_httpx.py", &["httpx[http2]"]) else { return };
    let (plain, secure) = (Site::plain(), Site::secure());
    succeeds(python.arg(plain.url("/")).arg(secure.url("/")));
}

#[test]
fn python_h2_hears_nothing_that_is_against_the_rules() {
    let Some(mut python) = python("with_h2.py", &["h2"]) else { return };
    let plain = Site::plain();
    succeeds(python.arg(plain.url("/")));
}

#[test]
fn node_http2_is_answered() {
    let Some(mut node) = node("with_http2.js", &[]) else { return };
    let (plain, secure) = (Site::plain(), Site::secure());
    succeeds(node.arg(plain.url("/")).arg(secure.url("/")));
}

#[test]
fn node_undici_is_answered() {
    let Some(mut node) = node("with_undici.js", &["undici@7"]) else { return };
    let secure = Site::secure();
    succeeds(node.arg(secure.url("/")));
}
