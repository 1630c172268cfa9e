//! Names.

use super::*;

impl World {
    fn asked(&mut self, host: HostId, name: &str) -> Result<Vec<IpAddr>, LookupFailure> {
        let id = self.net.look_up(self.now, host, name);
        self.pass(ms(2));
        self.net.found(id).expect("the answer is there")
    }
}

#[test]
fn hosts_are_found_by_their_names_after_a_while() {
    let mut world = World::of_two();
    world.net.set_lookup_latency(ms(5)..=ms(5));
    let id = world.net.look_up(world.now, A, "B.");
    world.pass(ms(4));
    assert_eq!(world.net.found(id), None);
    world.pass(ms(1));
    assert_eq!(world.news(), [News::Answered(id)]);
    assert_eq!(world.net.found(id), Some(Ok(vec![ip("10.0.0.2"), ip("fd00::2")])));
    assert_eq!(world.net.found(id), None, "it is given once");
}

#[test]
fn what_a_host_sees_goes_before_what_all_see() {
    let mut world = World::of_two();
    world.net.set_name(Some(A), "b", NameAnswer::Addresses(vec![ip("10.9.9.9")]));
    assert_eq!(world.asked(A, "b"), Ok(vec![ip("10.9.9.9")]));
    assert_eq!(world.asked(B, "b"), Ok(vec![ip("10.0.0.2"), ip("fd00::2")]));
    assert_eq!(world.asked(A, "10.1.2.3"), Ok(vec![ip("10.1.2.3")]));
    assert_eq!(world.asked(A, "localhost"), Ok(vec![ip("127.0.0.1"), ip("::1")]));
}

#[test]
fn lookups_fail_as_ordered() {
    let mut world = World::of_two();
    world.net.set_name(None, "broken", NameAnswer::ServerFails);
    world.net.set_name(None, "silent", NameAnswer::Silence(secs(10)));
    assert_eq!(world.asked(A, "nobody"), Err(LookupFailure::NoSuchName));
    assert_eq!(world.asked(A, "broken"), Err(LookupFailure::ServerFails));
    let id = world.net.look_up(world.now, A, "silent");
    world.pass(secs(9));
    assert_eq!(world.net.found(id), None);
    world.pass(secs(1));
    assert_eq!(world.net.found(id), Some(Err(LookupFailure::TimedOut)));
}

#[test]
fn a_lookup_that_nobody_waits_for_is_not_answered() {
    let mut world = World::of_two();
    let id = world.net.look_up(world.now, A, "b");
    world.net.forget_lookup(id);
    world.net.look_up(world.now, A, "b");
    world.net.crash(world.now, A);
    world.pass(secs(1));
    assert_eq!(world.news(), []);
}
