use super::*;

#[test]
fn a_host_is_a_name_or_an_address_in_brackets_and_a_port_is_a_number() {
    for (text, host, port) in [
        ("a", "a", None),
        ("a:", "a", None),
        ("a.b:80", "a.b", Some(80)),
        ("a:0", "a", Some(0)),
        ("a:65535", "a", Some(65535)),
        ("a:00080", "a", Some(80)),
        ("127.0.0.1", "127.0.0.1", None),
        ("a_b-c~d!$&'()*+;=.", "a_b-c~d!$&'()*+;=.", None),
        ("x%41", "x%41", None),
        ("%c3%A4:1", "%c3%A4", Some(1)),
        ("[::1]:8080", "[::1]", Some(8080)),
        ("[::]", "[::]", None),
        ("[1:2:3:4:5:6:7:8]:", "[1:2:3:4:5:6:7:8]", None),
        ("[1:2:3:4:5:6:7::]", "[1:2:3:4:5:6:7::]", None),
        ("[::ffff:192.0.2.1]", "[::ffff:192.0.2.1]", None),
        ("[v1.a]", "[v1.a]", None),
        ("[vF.a:b]:2", "[vF.a:b]", Some(2)),
    ] {
        assert_eq!(HostAndPort::parse(text), Ok(HostAndPort { host, port }), "{text}");
        assert!(is_host_field(text.as_bytes()), "{text}");
    }
}

#[test]
fn what_is_no_host_or_no_port_is_neither_guessed_nor_repaired() {
    use BadAuthority::{Address, Host, NoHost, Port, User};
    for (text, why) in [
        ("", NoHost),
        (":", NoHost),
        (":80", NoHost),
        ("[", Address),
        ("]", Address),
        ("[]", Address),
        ("[]:80", Address),
        ("[::1", Address),
        ("::1]", NoHost),
        ("::1", NoHost),
        ("1::2", Port),
        ("[::1]x", Address),
        ("[::1]]", Address),
        ("[[::1]]", Address),
        ("[gg::1]", Address),
        ("[1:2:3:4:5:6:7:8:9]", Address),
        ("[1:2:3:4:5:6:7]", Address),
        ("[12345::]", Address),
        ("[::1::]", Address),
        ("[::1.2.3]", Address),
        ("[::01.2.3.4]", Address),
        ("[::256.2.3.4]", Address),
        ("[127.0.0.1]", Address),
        ("[fe80::1%25eth0]", Address),
        ("[fe80::1%eth0]", Address),
        ("[a.b]", Address),
        ("[v.a]", Address),
        ("[v1]", Address),
        ("[v1.]", Address),
        ("[vg.a]", Address),
        ("[v1.a/]", Address),
        ("a[b]", Address),
        ("[::1]:b", Port),
        ("[::1]80", Address),
        ("a:b", Port),
        ("a:-1", Port),
        ("a:+1", Port),
        ("a: 1", Port),
        ("a:80:80", Port),
        ("a::", Port),
        ("a:65536", Port),
        ("a:99999", Port),
        ("a:18446744073709551616", Port),
        ("a:0x50", Port),
        ("%", Host),
        ("%4", Host),
        ("a%zz", Host),
        ("%zz:80", Host),
        ("a%4:80", Host),
        ("a b", Host),
        (" a", Host),
        ("a/b", Host),
        ("a,b", Host),
        ("a?b", Host),
        ("a#b", Host),
        ("a\\b", Host),
        ("a\"b", Host),
        ("a<b", Host),
        ("a\u{7f}", Host),
        ("a\0", Host),
        ("ä", Host),
        ("u@a", User),
        ("u:p@a", User),
        ("u:1@a:80", User),
        ("u%41:p@a", User),
        ("a@", User),
    ] {
        assert_eq!(HostAndPort::parse(text), Err(why), "{text:?}");
        assert_eq!(is_host_field(text.as_bytes()), text.is_empty(), "{text:?}");
    }
}

#[test]
fn a_uri_has_the_host_and_the_port_that_were_written() {
    for (uri, expected) in [
        ("http://a:81/x", Ok(("a", Some(81)))),
        ("https://[::1]/", Ok(("[::1]", None))),
        ("http://a?x=1", Ok(("a", None))),
        ("http://a:99999/", Err(BadAuthority::Port)),
        ("http://u@a/", Err(BadAuthority::User)),
        ("/x", Err(BadAuthority::NoHost)),
    ] {
        let uri: Uri = uri.parse().unwrap();
        assert_eq!(HostAndPort::of(&uri).map(|both| (both.host, both.port)), expected, "{uri}");
    }
}

/// Python's parser as the other opinion: what it refuses, we do; what it splits, we split in the same place. It takes more, so the
/// other way round does not hold.
#[test]
fn another_parser_splits_what_is_accepted_in_the_same_places() {
    let pieces = ["a", ":", "[", "]", "%", "4", "1", "::1", "v1.", "@", ".", "65535", "g", ""];
    let mut texts = Vec::new();
    for one in pieces {
        for two in pieces {
            for three in pieces {
                for four in pieces {
                    texts.push([one, two, three, four].concat());
                }
            }
        }
    }
    texts.sort();
    texts.dedup();
    let accepted: Vec<_> =
        texts.iter().filter_map(|text| HostAndPort::parse(text).ok().map(|is| (text, is))).collect();
    let input: String = accepted.iter().map(|(text, _)| format!("{text}\n")).collect();
    let Some(output) = python(SPLIT, &input) else { return println!("skipped: no python3") };
    let mut lines = output.lines();
    for (text, ours) in &accepted {
        let port = ours.port.map_or("None".to_owned(), |port| port.to_string());
        let expected = format!("{} {port}", ours.bare_host().to_ascii_lowercase());
        assert_eq!(lines.next(), Some(expected.as_str()), "{text}");
    }
    assert!(accepted.len() > 1000, "{}", accepted.len());
}

const SPLIT: &str = "
import sys
from urllib.parse import urlsplit
for line in sys.stdin.read().split('\\n')[:-1]:
    try:
        parts = urlsplit('http://' + line + '/')
        print(parts.hostname, parts.port)
    except ValueError as error:
        print('refused', error)
";

fn python(program: &str, input: &str) -> Option<String> {
    use std::{
        io::Write,
        process::{Command, Stdio},
    };
    let mut child = Command::new("python3")
        .args(["-c", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    child.stdin.take()?.write_all(input.as_bytes()).ok()?;
    let output = child.wait_with_output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}
