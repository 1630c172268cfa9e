//! HTTP and WebSocket libraries of Python and Node.

use super::{node, python, run};
use crate::web::{Directory, serve};

#[test]
fn python_requests_are_answered() {
    let directory = Directory::new();
    directory.write("digits", "0123456789");
    let (_hello, hello) = serve(&["hello"]);
    let (_secure, secure) = serve(&["hello", "--tls"]);
    let (_files, files) = serve(&["http", "--dir", directory.text()]);
    let urls = [format!("http://{hello}"), format!("https://{secure}"), format!("http://{files}")];
    python("with_requests.py", &["requests"], &urls.each_ref().map(String::as_str));
}

#[test]
fn python_websockets_hear_what_they_say() {
    let (_plain, plain) = serve(&["ws-echo"]);
    let (_secure, secure) = serve(&["ws-echo", "--tls"]);
    let urls = [format!("ws://{plain}/"), format!("wss://{secure}/")];
    python("with_websockets.py", &["websockets>=14"], &urls.each_ref().map(String::as_str));
}

#[test]
fn node_undici_is_answered() {
    let (_hello, hello) = serve(&["hello"]);
    let (_secure, secure) = serve(&["hello", "--tls"]);
    let Some(mut node) = node("with_undici.js", &["undici@6"]) else { return };
    run(node.args([format!("http://{hello}"), format!("https://{secure}")]))
        .unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn node_ws_hears_what_it_says() {
    let (_plain, plain) = serve(&["ws-echo"]);
    let (_secure, secure) = serve(&["ws-echo", "--tls"]);
    let Some(mut node) = node("with_ws.js", &["ws@8"]) else { return };
    run(node.args([format!("ws://{plain}/"), format!("wss://{secure}/")]))
        .unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn node_hears_what_it_says_in_websockets_on_streams_of_http2() {
    let (_plain, plain) = serve(&["ws-echo"]);
    let (_secure, secure) = serve(&["ws-echo", "--tls"]);
    let Some(mut node) = node("with_http2_websocket.js", &[]) else { return };
    run(node.args([format!("http://{plain}"), format!("https://{secure}")]))
        .unwrap_or_else(|error| panic!("{error}"));
}
