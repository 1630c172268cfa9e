//! What many connections cost, counted in steps.

use super::*;

/// Each connection sends so many messages, a few at a time, and everything is read. Returns the steps.
fn steps(connections: usize, messages: usize) -> u64 {
    const MESSAGE: [u8; 64] = [7; 64];
    let mut world = World::of_two();
    let listener = world.listen(B, "0.0.0.0:80");
    let clients: Vec<_> = (0..connections).map(|_| world.connect(A, "10.0.0.2:80")).collect();
    world.pass(ms(40));
    let accept = || world.net.accept(world.now, listener).ok().map(|(id, _)| id);
    let servers: Vec<_> = std::iter::from_fn(accept).collect();
    assert_eq!(servers.len(), connections);
    let before = world.net.steps();
    for _ in 0..messages / 10 {
        for client in &clients {
            (0..10).for_each(|_| assert_eq!(world.send(*client, &MESSAGE), Ok(MESSAGE.len())));
        }
        world.pass(ms(20));
        servers.iter().for_each(|server| assert_eq!(world.read_all(*server).len(), 10 * MESSAGE.len()));
    }
    assert_eq!(world.net.check(), Ok(()));
    world.net.steps() - before
}

#[test]
fn a_message_costs_the_same_however_many_there_are() {
    // Its segment, and the acknowledgement.
    assert_eq!(steps(10, 100), 2 * 10 * 100);
    assert_eq!(steps(100, 1_000), 2 * 100 * 1_000);
}
