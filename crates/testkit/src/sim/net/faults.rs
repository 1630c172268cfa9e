//! What goes wrong, by order.

use super::{Failure, Happened, HostId, Net, StreamId, Time, host::Socket};

impl Net {
    /// Nothing passes from one host to another any more, in this direction. Streams send again until it is healed or they give up.
    pub(crate) fn cut(&mut self, now: Time, from: HostId, to: HostId) {
        self.at(now);
        self.paths.set_cut(from, to, true);
        self.note(Happened::Cut { from, to });
    }

    /// Undoes a cut.
    pub(crate) fn mend(&mut self, now: Time, from: HostId, to: HostId) {
        self.at(now);
        self.paths.set_cut(from, to, false);
        self.note(Happened::Healed { from, to });
    }

    /// Hosts of different sets do not reach each other any more. Who is in no set reaches everybody.
    pub(crate) fn partition(&mut self, now: Time, sets: &[&[HostId]]) {
        for (n, one) in sets.iter().enumerate() {
            for other in sets.iter().skip(n + 1) {
                for (a, b) in one.iter().flat_map(|a| other.iter().map(move |b| (*a, *b))) {
                    self.cut(now, a, b);
                    self.cut(now, b, a);
                }
            }
        }
    }

    /// Undoes all cuts and partitions.
    pub(crate) fn heal(&mut self, now: Time) {
        self.at(now);
        self.paths.heal();
        self.note(Happened::HealedAll);
    }

    /// Resets a connection from outside: both ends are told, without anything being sent.
    pub(crate) fn reset(&mut self, now: Time, id: StreamId) -> Result<(), Failure> {
        self.at(now);
        let connection = self.connection_of(id).ok_or(Failure::NotOpen)?;
        self.note(Happened::ResetByOrder { connection });
        for id in self.ends_of(id) {
            self.break_off(id, Failure::ConnectionReset);
        }
        Ok(())
    }

    /// Resets all connections between two hosts. Returns how many.
    pub(crate) fn reset_between(&mut self, now: Time, one: HostId, two: HostId) -> usize {
        let mut count = 0;
        for id in self.all_ends_on(one) {
            if self.peer_host(id) == Some(two) && self.reset(now, id).is_ok() {
                count += 1;
            }
        }
        count
    }

    /// A host stops without a word: its sockets are gone, and nobody is told. What is sent to it vanishes until it is up again.
    pub(crate) fn crash(&mut self, now: Time, host: HostId) {
        self.at(now);
        if !std::mem::replace(&mut self.host_mut(host).up, false) {
            return;
        }
        self.note(Happened::Crashed(host));
        for socket in self.host(host).open.clone() {
            match socket {
                Socket::Listener(id) => drop(self.drop_listener(id)),
                Socket::Datagram(id) => drop(self.drop_binding(id)),
                Socket::Stream(id) => self.vanish(id),
            }
        }
        for id in self.all_ends_on(host) {
            self.vanish(id);
        }
        self.forget_lookups_of(host);
    }

    /// A host that had crashed is up again, with nothing open.
    pub(crate) fn restart(&mut self, now: Time, host: HostId) {
        self.at(now);
        if !std::mem::replace(&mut self.host_mut(host).up, true) {
            self.note(Happened::Restarted(host));
        }
    }

    /// The programs of a host end, and its system closes their sockets as it does: by an end, or by a reset if something is unread.
    pub(crate) fn kill(&mut self, now: Time, host: HostId) {
        self.at(now);
        self.note(Happened::Killed(host));
        for socket in self.host(host).open.clone() {
            let closed = match socket {
                Socket::Listener(id) => self.close_listener(now, id),
                Socket::Datagram(id) => self.unbind(now, id),
                Socket::Stream(id) => self.close(now, id, false),
            };
            debug_assert!(closed.is_ok(), "{socket:?} was open: {closed:?}");
        }
        self.forget_lookups_of(host);
    }
}
