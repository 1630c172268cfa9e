//! Names: who is found by which, and what name servers do instead of answering.

use super::{Happened, HostId, Net, News, Time, agenda::Due, time::nanoseconds};
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    ops::RangeInclusive,
    time::Duration,
};

/// A lookup, by the order in which they came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LookupId(pub(crate) u32);

/// What is known of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NameAnswer {
    /// In the order in which they are to be tried.
    Addresses(Vec<IpAddr>),
    /// There is no such name.
    NoSuchName,
    /// The server answers that it cannot tell.
    ServerFails,
    /// Nobody answers; the resolver gives up after this time.
    Silence(Duration),
}

/// Why a name was not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookupFailure {
    NoSuchName,
    ServerFails,
    TimedOut,
}

#[derive(Debug)]
struct Lookup {
    host: HostId,
    answer: NameAnswer,
    is_done: bool,
}

#[derive(Debug)]
pub(super) struct Names {
    /// By whose view and name, in small letters. What a host sees goes before what all see.
    known: BTreeMap<(Option<HostId>, String), NameAnswer>,
    latency: RangeInclusive<Duration>,
    lookups: BTreeMap<LookupId, Lookup>,
    asked: u32,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            known: BTreeMap::new(),
            latency: Duration::from_micros(200)..=Duration::from_millis(2),
            lookups: BTreeMap::new(),
            asked: 0,
        }
    }
}

impl Names {
    pub(super) fn set(&mut self, view: Option<HostId>, name: &str, answer: NameAnswer) {
        self.known.insert((view, canonical(name)), answer);
    }

    fn find(&self, host: HostId, name: &str) -> NameAnswer {
        if let Ok(ip) = name.parse() {
            return NameAnswer::Addresses(vec![ip]);
        }
        let name = canonical(name);
        for view in [Some(host), None] {
            if let Some(answer) = self.known.get(&(view, name.clone())) {
                return answer.clone();
            }
        }
        match name.as_str() {
            "localhost" => {
                NameAnswer::Addresses(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()])
            }
            _ => NameAnswer::NoSuchName,
        }
    }
}

/// Large and small letters are the same, and so is a name with the final dot.
fn canonical(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

impl Net {
    /// What all hosts, or one of them, are told of a name. What is being looked up already is answered as it was.
    pub(crate) fn set_name(&mut self, view: Option<HostId>, name: &str, answer: NameAnswer) {
        self.names.set(view, name, answer);
    }

    /// How long an answer takes, drawn each time. Default: 0.2 to 2 ms.
    pub(crate) fn set_lookup_latency(&mut self, latency: RangeInclusive<Duration>) {
        self.names.latency = latency;
    }

    /// Asks for the addresses of a name. There is news when [`found`](Self::found) has the answer.
    pub(crate) fn look_up(&mut self, now: Time, host: HostId, name: &str) -> LookupId {
        self.at(now);
        let id = LookupId(self.names.asked);
        self.names.asked += 1;
        let answer = self.names.find(host, name);
        let (low, high) = self.names.latency.clone().into_inner();
        let took = self.chance.between(nanoseconds(low)..=nanoseconds(high.max(low)));
        let took = match answer {
            NameAnswer::Silence(after) => after,
            _ => Duration::from_nanos(took),
        };
        self.names.lookups.insert(id, Lookup { host, answer, is_done: false });
        self.note(Happened::Asks { host, lookup: id.0 });
        self.agenda.plan(now + took, Due::Answer(id));
        id
    }

    /// The answer, once it is there. It is given once.
    pub(crate) fn found(&mut self, id: LookupId) -> Option<Result<Vec<IpAddr>, LookupFailure>> {
        if !self.names.lookups.get(&id)?.is_done {
            return None;
        }
        Some(match self.names.lookups.remove(&id)?.answer {
            NameAnswer::Addresses(addresses) => Ok(addresses),
            NameAnswer::NoSuchName => Err(LookupFailure::NoSuchName),
            NameAnswer::ServerFails => Err(LookupFailure::ServerFails),
            NameAnswer::Silence(_) => Err(LookupFailure::TimedOut),
        })
    }

    /// Nobody waits for the answer any more.
    pub(crate) fn forget_lookup(&mut self, id: LookupId) {
        self.names.lookups.remove(&id);
    }

    pub(super) fn answer(&mut self, id: LookupId) {
        let Some(lookup) = self.names.lookups.get_mut(&id) else { return };
        lookup.is_done = true;
        let found = matches!(lookup.answer, NameAnswer::Addresses(_));
        self.note(Happened::Answered { lookup: id.0, found });
        self.news.push(News::Answered(id));
    }

    pub(super) fn forget_lookups_of(&mut self, host: HostId) {
        self.names.lookups.retain(|_, lookup| lookup.host != host);
    }
}
