//! Attacks on frames and on compressed messages. The corpus is in `corpus/`; how to attack for longer is in
//! `netwright_testkit::verify::Fuzz`.

use netwright_testkit::fuzz_decoder;
use netwright_websocket::{Agreed, Config, Deflate, WebSocket};

fn config() -> Config {
    Config::default().ping_after(None).max_message(4096).show_control(true)
}

#[test]
fn frames_of_a_client() {
    fuzz_decoder!("frames", WebSocket::server(config()));
}

#[test]
fn frames_of_a_server() {
    fuzz_decoder!("frames", WebSocket::client(config()));
}

#[test]
fn compressed_frames_of_a_client() {
    fuzz_decoder!(
        "deflate",
        WebSocket::server(config().deflate(Deflate::default())).agreed(Some(Agreed::default()))
    );
}

#[test]
fn compressed_frames_of_a_server() {
    fuzz_decoder!(
        "deflate",
        WebSocket::client(config().deflate(Deflate::default())).agreed(Some(Agreed::default()))
    );
}
