use super::{Peer, Running};

#[test]
fn without_a_command_three_servers_run_also_beside_another_demo() {
    let (_first, first) = Running::serve(&[], 3);
    let (_second, second) = Running::serve(&[], 3);
    assert!(first.iter().all(|address| !second.contains(address)), "{first:?} {second:?}");
    for addresses in [first, second] {
        assert!(addresses.iter().all(|address| address.ip().is_loopback()));
        let [time, echo, chat] = addresses[..] else { panic!("three addresses") };
        assert!(Peer::connect(time).send("QUERY TIME ORDER\n").line().ends_with(" GMT"));
        assert_eq!(Peer::connect(echo).send("hello\n").line(), "hello");
        let mut ada = Peer::connect(chat);
        ada.line();
        let mut bob = Peer::connect(chat);
        bob.line();
        bob.send("hello\n");
        assert_eq!(ada.line(), format!("* {} came", bob.name()));
        assert_eq!(ada.line(), format!("[{}] hello", bob.name()));
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
