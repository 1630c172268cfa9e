use super::{Peer, Running};

#[test]
fn without_a_command_four_servers_run_also_beside_another_demo() {
    let (_first, first) = Running::serve(&[], 4);
    let (_second, second) = Running::serve(&[], 4);
    assert!(first.iter().all(|address| !second.contains(address)), "{first:?} {second:?}");
    for addresses in [first, second] {
        assert!(addresses.iter().all(|address| address.ip().is_loopback()));
        let [time, echo, chat, page] = addresses[..] else { panic!("four addresses") };
        assert!(Peer::connect(time).send("QUERY TIME ORDER\n").line().ends_with(" GMT"));
        assert_eq!(Peer::connect(echo).send("hello\n").line(), "hello");
        let mut ada = Peer::connect(chat);
        ada.line();
        let mut bob = Peer::connect(chat);
        bob.line();
        bob.send("hello\n");
        assert_eq!(ada.line(), format!("* {} came", bob.name()));
        assert_eq!(ada.line(), format!("[{}] hello", bob.name()));

        // A browser is in the same room.
        let answer = Peer::connect(page).send("GET / HTTP/1.0\r\n\r\n").rest();
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("new WebSocket("), "{answer}");
        let mut browser = Peer::connect(page);
        browser.send(
            "GET /chat?name=eve HTTP/1.1\r\nHost: a\r\nOrigin: http://localhost\r\nUpgrade: websocket\r\n\
             Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        );
        assert_eq!(browser.line(), "HTTP/1.1 101 Switching Protocols\r");
        assert_eq!(ada.line(), "* eve came");
    }
}

#[test]
fn it_says_what_to_type() {
    let demo = Running::start(&[]);
    let mut said = String::new();
    while !said.contains("Ctrl-C") {
        said.push_str(&demo.line());
        said.push('\n');
    }
    for word in ["nc 127.0.0.1 ", "telnet 127.0.0.1 ", "/dev/tcp/127.0.0.1/", "QUERY TIME ORDER", "load echo"]
    {
        assert!(said.contains(word), "{word} in {said}");
    }
}
