use super::{Running, run, text};

/// Runs what cannot be run: the exit code, and the one line that says why.
fn refused(arguments: &[&str], code: i32, words: &[&str]) {
    let output = run(arguments);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    for word in words {
        assert!(said.contains(word), "{word:?} should be in {said:?}");
    }
    assert_eq!(text(&output.stdout), "", "{arguments:?}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn what_is_not_there_yet_is_refused_by_its_name() {
    let listen = ["serve", "echo", "--listen", "127.0.0.1:0"];
    let both = [&listen[..], &["--backend", "uring", "--model", "blocking"]].concat();
    refused(&both, 2, &["--backend uring", "--model blocking"]);
}

#[test]
fn what_does_not_go_together_is_refused() {
    let listen = ["serve", "echo", "--listen", "127.0.0.1:0"];
    refused(&[&listen[..], &["--model", "single", "--loops", "3"]].concat(), 2, &["--loops 3", "single"]);
    refused(&[&listen[..], &["--acceptors", "3"]].concat(), 2, &["--acceptors 3", "workers"]);
    let blocking = [&listen[..], &["--model", "blocking"]].concat();
    refused(&[&blocking[..], &["--loops", "3"]].concat(), 2, &["--loops 3", "blocking"]);
    refused(&[&blocking[..], &["--acceptors", "3"]].concat(), 2, &["--acceptors 3", "blocking"]);
    refused(&[&blocking[..], &["--backend", "readiness"]].concat(), 2, &["readiness", "--model blocking"]);
    refused(&[&listen[..], &["--to", "127.0.0.1:1"]].concat(), 2, &["--to 127.0.0.1:1", "proxy"]);
}

#[test]
fn names_within_a_process_are_refused() {
    refused(&["serve", "echo", "--listen", "local:echo"], 2, &["local:echo", "within one process"]);
    refused(&["serve", "proxy", "--to", "local:echo"], 2, &["local:echo", "within one process"]);
    refused(&["connect", "local:echo"], 2, &["local:echo", "within one process"]);
    refused(&["load", "echo", "local:echo"], 2, &["local:echo", "within one process"]);
}

#[test]
fn what_has_no_datagrams_is_refused_by_its_name() {
    let listen = ["--listen", "udp:127.0.0.1:0"];
    refused(&[&["serve", "chat"], &listen[..]].concat(), 2, &["udp:127.0.0.1:0", "chat"]);
    let blocking = ["serve", "echo", "--model", "blocking"];
    refused(&[&blocking[..], &listen[..]].concat(), 2, &["udp:127.0.0.1:0", "--model blocking"]);
}

#[test]
fn what_is_for_connections_is_refused_where_there_are_only_datagrams() {
    let datagrams = ["serve", "echo", "--listen", "udp:127.0.0.1:0"];
    for option in [
        &["--idle", "5s"][..],
        &["--max-connections", "1"],
        &["--per-address", "1"],
        &["--rate", "5k"],
        &["--log"],
        &["--proxy-protocol", "127.0.0.1"],
        &["--capture", "/nowhere/at.all"],
    ] {
        refused(&[&datagrams[..], option].concat(), 2, &[option[0], "datagrams have none"]);
    }
    let both = [&datagrams[..], &["--listen", "127.0.0.1:0"]].concat();
    for option in ["--allow", "--deny"] {
        // Who is denied could send datagrams all the same.
        for listen in [&datagrams[..], &both[..]] {
            refused(&[listen, &[option, "127.0.0.1"]].concat(), 2, &[option, "udp:127.0.0.1:0"]);
        }
    }
}

#[test]
fn words_that_nobody_knows_are_refused_by_their_name() {
    for arguments in [
        &["serve", "echo", "--model", "psychic"][..],
        &["serve", "psychic"],
        &["psychic"],
        &["load", "psychic", "127.0.0.1:1"],
        &["load", "echo", "127.0.0.1:1", "--seconds", "psychic"],
        &["serve", "echo", "--loops", "psychic"],
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains("psychic"), "{}", text(&output.stderr));
    }
    let proxy = run(&["serve", "proxy"]);
    assert_eq!(proxy.status.code(), Some(2));
    assert!(text(&proxy.stderr).contains("--to"), "{}", text(&proxy.stderr));
}

#[test]
fn an_address_in_use_and_one_that_does_not_exist_are_named() {
    let (_echo, address) = Running::echo();
    let taken = address.to_string();
    for model in ["single", "workers", "acceptors", "shared-port", "blocking"] {
        let arguments = ["serve", "time", "--listen", &taken, "--model", model];
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(1), "{model}");
        let said = text(&output.stderr);
        assert!(said.contains(&taken) && said.contains("in use"), "{said}");
    }
    let output = run(&["serve", "time", "--listen", "nobody.invalid:7"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("nobody.invalid:7"), "{}", text(&output.stderr));
}

#[test]
fn load_on_other_machines_has_to_be_allowed() {
    // An address for documentation, where nobody is.
    refused(&["load", "echo", "192.0.2.1:7"], 2, &["192.0.2.1:7", "--allow-remote"]);
    refused(&["load", "echo", "[2001:db8::1]:7"], 2, &["[2001:db8::1]:7", "--allow-remote"]);
}

#[test]
fn every_help_page_has_examples() {
    for arguments in [&["--help"][..], &["serve", "--help"], &["connect", "--help"], &["load", "--help"]] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(0));
        let page = text(&output.stdout);
        assert!(page.contains("Usage:") && page.contains("Examples:"), "{page}");
    }
}
