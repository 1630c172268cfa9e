//! A server that shuts down while h2load asks it.

use super::{
    site::Site,
    support::{PATIENCE, program, run},
};
use std::{process::Command, sync::mpsc, thread, time::Duration};

/// What h2load says behind this word: `… 20 done, …`.
fn number(said: &str, word: &str) -> u32 {
    let words: Vec<_> = said.split([' ', ',', '\n']).filter(|word| !word.is_empty()).collect();
    let place =
        words.iter().position(|found| *found == word).unwrap_or_else(|| panic!("no {word} in {said}"));
    words[place - 1].parse().unwrap_or_else(|_| panic!("no number of {word} in {said}"))
}

#[test]
fn a_shutdown_under_load_loses_no_request_and_answers_none_twice() {
    let Some(h2load) = program("h2load", "nghttp2-client") else { return };
    for site in [Site::plain(), Site::secure()] {
        let (tell, told) = mpsc::channel();
        site.seen.lock().unwrap().tell = Some((2000, tell));
        let mut command = Command::new(&h2load);
        // More than it comes to.
        command.args(["-n", "10000000", "-c", "8", "-m", "16", "-N", "60"]);
        command.args([site.url("/once"), site.url("/once?later")]);
        let load = thread::spawn(move || run(&mut command));
        told.recv_timeout(PATIENCE).expect("it asks");
        let drained = site.server.drain(Duration::from_secs(30)).wait().unwrap();
        let said = load.join().unwrap().unwrap_or_else(|error| error);
        let asked = site.seen.lock().unwrap().asked;
        // Whatever had begun was answered, by one reply: h2load counts no other one, and takes a second one for an error of the connection.
        assert_eq!((number(&said, "succeeded"), number(&said, "2xx")), (asked, asked), "{said}");
        assert!(asked >= 2000, "{said}");
        assert_eq!(drained.cut, 0, "every connection ended by itself: {said}");
    }
}
