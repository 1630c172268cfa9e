//! The stock service in three formats, as programs; `stock.rs` looks at each reply.

use crate::support::{LOOPBACK, Server, run};

#[test]
fn prices_are_asked_for_in_three_formats() {
    for (server, client) in [
        ("protobuf_server", "protobuf_client"),
        ("messagepack_server", "messagepack_client"),
        ("thrift_server", "thrift_client"),
    ] {
        let server = Server::start(server, &[LOOPBACK]);
        let said = run(client, &[&server.address, "gear", "moon"]);
        let lines: Vec<_> = said.lines().collect();
        assert!(lines[0].starts_with("3 of gear: ") && lines[0].contains("5997"), "{said}");
        assert!(lines[1].starts_with("3 of moon: ") && !lines[1].contains("5997"), "{said}");
    }
}
