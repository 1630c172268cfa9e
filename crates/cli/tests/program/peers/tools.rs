//! openssl's client and wrk.

use super::{program, run};
use crate::web::serve;
use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Command, Stdio},
};

#[test]
fn openssl_agrees_on_tls_and_hears_how_it_ends() {
    let Some(openssl) = program("openssl", "openssl") else { return };
    let (_server, address) = serve(&["hello", "--tls", "--http1-only"]);
    for version in ["-tls1_2", "-tls1_3"] {
        let mut client = Command::new(&openssl);
        client.args([
            "s_client",
            "-connect",
            &address.to_string(),
            "-alpn",
            "h2,http/1.1",
            "-ign_eof",
            version,
        ]);
        let mut client =
            client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        client
            .stdin
            .as_mut()
            .unwrap()
            .write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
            .unwrap();
        let (mut said, mut line) = (String::new(), String::new());
        let mut output = BufReader::new(client.stdout.take().unwrap());
        while !said.contains("Hello, World!") && output.read_line(&mut line).unwrap() > 0 {
            said.push_str(&std::mem::take(&mut line));
        }
        output.read_to_string(&mut said).unwrap(); // the server closes
        assert!(said.contains("ALPN protocol: http/1.1"), "{said}");
        assert!(said.contains("HTTP/1.1 200 OK"), "{said}");
        assert!(said.contains("closed"), "ended in order: {said}");
        assert!(client.wait().unwrap().success(), "{said}");
    }
}

#[test]
fn wrk_finds_no_errors() {
    let Some(wrk) = program("wrk", "wrk") else { return };
    let (_plain, plain) = serve(&["hello"]);
    let (_secure, secure) = serve(&["hello", "--tls"]);
    for url in [
        format!("http://{plain}/"),
        format!("http://{plain}/json"),
        format!("http://{plain}/bytes/100000"),
        format!("https://{secure}/"),
    ] {
        let mut load = Command::new(&wrk);
        load.args(["-t", "1", "-c", "16", "-d", "1s", "--timeout", "10s", &url]);
        let said = run(&mut load).unwrap_or_else(|error| panic!("{error}"));
        assert!(said.contains("requests in"), "{said}");
        assert!(!said.contains("Non-2xx") && !said.contains("Socket errors"), "{url}: {said}");
    }
}
