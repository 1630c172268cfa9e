use super::{Peer, Running, numbered};

#[test]
fn echo_sends_every_byte_back_in_every_reactor_model() {
    let models: [&[&str]; 7] = [
        &["--model", "single"],
        &["--model", "workers", "--loops", "2"],
        &["--model", "acceptors", "--acceptors", "2", "--loops", "2"],
        &["--model", "shared-port", "--loops", "2"],
        &["--model", "blocking", "--backend", "blocking"],
        &["--backend", "blocking"],
        &["--model", "workers", "--backend", "blocking", "--loops", "2"],
    ];
    let bytes = numbered(300_000);
    for model in models {
        let arguments = [&["serve", "echo", "--listen", "127.0.0.1:0"], model].concat();
        let (_server, addresses) = Running::serve(&arguments, 1);
        for _ in 0..4 {
            assert!(Peer::connect(addresses[0]).exchange(&bytes) == bytes, "{model:?}");
        }
    }
}

#[test]
fn a_question_that_comes_together_with_the_end_is_answered_before_the_end() {
    let (_server, address) = Running::echo();
    for _ in 0..100 {
        assert_eq!(Peer::connect(address).send("x").end_output().rest(), b"x");
    }
}

#[test]
fn every_listen_address_is_served_and_printed() {
    let arguments = ["serve", "echo", "--listen", "127.0.0.1:0", "--listen", "127.0.0.1:0"];
    let (_server, addresses) = Running::serve(&arguments, 2);
    assert_ne!(addresses[0], addresses[1]);
    for address in addresses {
        assert_eq!(Peer::connect(address).send("hello").end_output().rest(), b"hello");
    }
}

#[test]
fn it_says_what_auto_takes_and_what_became_of_the_descriptor_limit() {
    let server = Running::start(&["serve", "echo", "--listen", "127.0.0.1:0"]);
    let mut said = Vec::new();
    while !said.iter().any(|line: &String| line.contains("listens on")) {
        said.push(server.line());
    }
    assert!(
        said.iter().any(|line| line.starts_with("backend: ") && line.contains("what auto takes: ")),
        "{said:?}"
    );
    assert!(!cfg!(unix) || said[0].starts_with("descriptor limit: "), "{said:?}");
}

#[test]
fn either_word_for_a_thread_per_connection_is_enough_and_it_says_so() {
    for word in ["--model", "--backend"] {
        let server = Running::start(&["serve", "echo", "--listen", "127.0.0.1:0", word, "blocking"]);
        let mut said = Vec::new();
        while !said.iter().any(|line: &String| line.contains("listens on")) {
            said.push(server.line());
        }
        assert!(said.contains(&"backend: blocking".to_owned()), "{said:?}");
        assert!(said.iter().any(|line| line.contains("a thread for each connection")), "{said:?}");
    }
}

#[test]
fn time_answers_its_order_and_nothing_else() {
    let (_server, addresses) = Running::serve(&["serve", "time", "--listen", "127.0.0.1:0"], 1);
    let mut peer = Peer::connect(addresses[0]);
    let time = peer.send("QUERY TIME ORDER\r\n").line();
    assert!(time.ends_with(" GMT"), "{time}");
    assert_eq!(peer.send("WHAT TIME IS IT\n").line(), "BAD ORDER");
    peer.send("QUERY TIME").send(" ORDER\nX\n");
    assert!(peer.line().ends_with(" GMT"));
    assert_eq!(peer.line(), "BAD ORDER");
    assert_eq!(peer.end_output().rest(), b"");
}

#[test]
fn time_refuses_a_line_without_end() {
    let (_server, addresses) = Running::serve(&["serve", "time", "--listen", "127.0.0.1:0"], 1);
    let mut peer = Peer::connect(addresses[0]);
    assert_eq!(peer.send([b'x'; 1026]).rest(), b"BAD ORDER\n");
}

#[test]
fn chat_tells_all_others_and_nobody_else() {
    let (_server, addresses) =
        Running::serve(&["serve", "chat", "--listen", "127.0.0.1:0", "--loops", "2"], 1);
    let mut ada = Peer::connect(addresses[0]);
    assert_eq!(ada.line(), format!("* you are {}; others here: 0", ada.name()));
    let mut bob = Peer::connect(addresses[0]);
    assert_eq!(bob.line(), format!("* you are {}; others here: 1", bob.name()));
    assert_eq!(ada.line(), format!("* {} came", bob.name()));

    ada.send("hello\n");
    assert_eq!(bob.line(), format!("[{}] hello", ada.name()));
    bob.send("good morning\r\n");
    assert_eq!(ada.line(), format!("[{}] good morning", bob.name()), "and not what she said herself");
    assert_eq!(bob.end_output().rest(), b"", "nor he");
    assert_eq!(ada.line(), format!("* {} left", bob.name()));
}

#[test]
fn discard_reads_everything_and_answers_nothing() {
    let (_server, addresses) = Running::serve(&["serve", "discard", "--listen", "127.0.0.1:0"], 1);
    assert_eq!(Peer::connect(addresses[0]).exchange(&numbered(1_000_000)), b"");
}
