//! Simulated sockets for datagrams.

use super::{net::HostId, universe::Universe};
use netwright_transport::open::{DatagramSocket, NetworkDatagrams};
use std::{io, sync::Arc};

pub(super) fn open(
    _: &Arc<Universe>,
    _: HostId,
    _: &NetworkDatagrams<'_>,
) -> io::Result<Box<dyn DatagramSocket>> {
    Err(io::ErrorKind::Unsupported.into())
}
