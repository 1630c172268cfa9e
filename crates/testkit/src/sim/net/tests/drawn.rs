//! Scripts that are drawn: hosts, connections and faults by chance, and what holds whatever happens.

use super::*;
use std::collections::BTreeMap;

/// What byte a side writes at a position of a connection.
fn byte_at(connection: u32, accepted: bool, at: u64) -> u8 {
    let n =
        (at ^ u64::from(connection) << 40 ^ u64::from(accepted) << 39).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (n >> 56) as u8
}

/// A program's view of one of its connections.
#[derive(Default)]
struct Held {
    connection: u32,
    accepted: bool,
    written: u64,
    read: u64,
    is_told: bool,
    waits_to_read: bool,
    /// Since when.
    waits_to_write: Option<Time>,
}

/// The programs of all hosts.
struct Programs {
    world: World,
    chance: Chance,
    hosts: u32,
    held: BTreeMap<StreamId, Held>,
    listeners: BTreeMap<HostId, ListenerId>,
    waits_to_accept: BTreeMap<ListenerId, bool>,
}

impl Programs {
    fn new(seed: u64) -> Self {
        let mut world = World::new(seed);
        let mut chance = world.net.chance.fork("script");
        let hosts = chance.between(2..=4) as u32;
        for n in 0..hosts {
            let host = world.net.add_host(&format!("h{n}"), &[ip(&format!("10.0.0.{n}"))]);
            *world.net.limits_mut(host) = HostLimits::default()
                .send_buffer(chance.between(100..=20_000) as usize)
                .receive_buffer(chance.between(100..=20_000) as usize)
                .short_sends(0.2)
                .short_receives(0.2)
                .backlog(chance.between(1..=8) as usize)
                .accept_delay(Duration::ZERO..=ms(chance.below(50)));
        }
        Self {
            world,
            chance,
            hosts,
            held: BTreeMap::new(),
            listeners: BTreeMap::new(),
            waits_to_accept: BTreeMap::new(),
        }
    }

    fn any_host(&mut self) -> HostId {
        HostId(self.chance.below(self.hosts.into()) as u32)
    }

    fn any_held(&mut self) -> Option<StreamId> {
        let n = self.chance.below(self.held.len() as u64) as usize;
        self.held.keys().copied().nth(n)
    }

    fn connection_of(&self, id: StreamId) -> u32 {
        // Before its end, which is when this is asked.
        self.world.net.connection_of(id).unwrap_or(u32::MAX)
    }

    fn connect(&mut self) {
        let (from, to) = (self.any_host(), self.any_host());
        let to = address(&format!("10.0.0.{}:80", to.0));
        if let Ok(id) = self.world.net.connect(self.world.now, from, to, None) {
            let connection = self.connection_of(id);
            self.held.insert(id, Held { connection, ..Held::default() });
        }
    }

    fn accept(&mut self) {
        for host in (0..self.hosts).map(HostId) {
            if !self.listeners.contains_key(&host)
                && let Ok(id) = self.world.net.listen(self.world.now, host, Listen::at(address("0.0.0.0:80")))
            {
                self.listeners.insert(host, id);
            }
            let Some(listener) = self.listeners.get(&host).copied() else { continue };
            loop {
                match self.world.net.accept(self.world.now, listener) {
                    Ok((id, _)) => {
                        let line = self.connection_of(id);
                        self.held.insert(id, Held { connection: line, accepted: true, ..Held::default() });
                    }
                    Err(failure) => {
                        assert_eq!(failure, Failure::WouldBlock);
                        self.waits_to_accept.insert(listener, true);
                        break;
                    }
                }
            }
        }
    }

    fn write(&mut self, id: StreamId) {
        let len = self.chance.between(1..=5_000);
        let held = self.held.get_mut(&id).expect("is held");
        let bytes: Vec<u8> = (held.written..held.written + len)
            .map(|at| byte_at(held.connection, held.accepted, at))
            .collect();
        match self.world.net.send(self.world.now, id, &mut &bytes[..]) {
            Ok(n) => {
                held.written += n as u64;
                held.waits_to_write = ((n as u64) < len).then_some(self.world.now);
            }
            Err(failure) => {
                held.waits_to_write = (failure == Failure::WouldBlock).then_some(self.world.now);
            }
        }
    }

    fn read(&mut self, id: StreamId) {
        let max = self.chance.between(1..=10_000) as usize;
        let held = self.held.get_mut(&id).expect("is held");
        match self.world.net.receive(self.world.now, id, max) {
            Ok(received) => {
                for byte in &received.bytes {
                    // Who was broken before it was accepted cannot be asked any more which connection it is.
                    if held.connection != u32::MAX {
                        assert_eq!(*byte, byte_at(held.connection, !held.accepted, held.read), "{id}");
                    }
                    held.read += 1;
                }
                held.is_told |= received.bytes.is_empty();
                held.waits_to_read = !received.more && !received.bytes.is_empty();
            }
            Err(Failure::WouldBlock) => held.waits_to_read = true,
            Err(_) => held.is_told = true,
        }
    }

    /// Fails as long as it connects, and when it is broken.
    fn shut_down(&mut self, id: StreamId) {
        if self.world.net.shut_down_output(self.world.now, id).is_ok() {
            self.held.get_mut(&id).expect("is held").waits_to_write = None;
        }
    }

    /// What a host that has crashed or was killed held is gone with it.
    fn drop_host(&mut self, host: HostId) {
        self.listeners.remove(&host);
        let net = &self.world.net;
        let is_open =
            |id: StreamId| (0..self.hosts).any(|n| net.open_sockets(HostId(n)).contains(&Socket::Stream(id)));
        self.held.retain(|id, _| is_open(*id));
    }

    fn fault(&mut self) {
        let (one, two, now) = (self.any_host(), self.any_host(), self.world.now);
        match self.chance.below(10) {
            0 => self.world.net.cut(now, one, two),
            1 => self.world.net.partition(now, &[&[one], &[two]]),
            2 | 3 => self.world.net.heal(now),
            4 => {
                self.world.net.crash(now, one);
                self.drop_host(one);
            }
            5 | 6 => (0..self.hosts).for_each(|n| self.world.net.restart(now, HostId(n))),
            7 => {
                self.world.net.kill(now, one);
                self.drop_host(one);
            }
            8 => {
                let loss = self.chance.below(30) as f64 / 100.0;
                let jitter = ms(self.chance.below(30));
                *self.world.net.link_mut(one, two) = Link::default().loss(loss).jitter(jitter).rate(100_000);
            }
            _ => {
                if let Some(id) = self.any_held() {
                    let _ = self.world.net.reset(now, id);
                }
            }
        }
    }

    /// Lets time pass, and sees to it that whoever waits and could go on was told.
    fn pass(&mut self, time: Duration) {
        self.world.pass(time);
        for news in self.world.news() {
            match news {
                News::Readable(id) | News::Ended(id) | News::Broken(id) | News::Writable(id) => {
                    let Some(held) = self.held.get_mut(&id) else { continue };
                    held.waits_to_read &= matches!(news, News::Writable(_));
                    if matches!(news, News::Writable(_) | News::Broken(_)) {
                        held.waits_to_write = None;
                    }
                }
                News::Outcome(id) => {
                    if let Some(held) = self.held.get_mut(&id) {
                        (held.waits_to_read, held.waits_to_write) = (false, None);
                    }
                }
                News::Acceptable(id) => drop(self.waits_to_accept.insert(id, false)),
                News::Datagram(_) | News::Answered(_) => {}
            }
        }
        for (id, held) in &self.held {
            let ready = self.world.net.look(*id);
            assert!(!(held.waits_to_read && ready.read), "{id} waits to read, and was not told: {ready:?}");
            // Who wrote less than there was room for is told a moment later.
            let waits = held.waits_to_write.is_some_and(|since| self.world.now - since > ms(1));
            assert!(!(waits && ready.write), "{id} waits to write, and was not told: {ready:?}");
        }
        for (id, waits) in &self.waits_to_accept {
            assert!(!(*waits && self.world.net.can_accept(*id)), "{id:?} was not told");
        }
    }

    fn step(&mut self) {
        let id = self.any_held();
        match (self.chance.below(40), id) {
            (0..4, _) => self.connect(),
            (4..10, _) => self.accept(),
            (10..22, Some(id)) => self.write(id),
            (22..34, Some(id)) => self.read(id),
            (34, Some(id)) => self.shut_down(id),
            (35, Some(id)) => {
                let abortive = self.chance.chance(0.3);
                self.world.net.close(self.world.now, id, abortive).expect("is held");
                self.held.remove(&id);
            }
            (36, _) => self.fault(),
            _ => {}
        }
        let time = match self.chance.below(20) {
            0 => secs(self.chance.below(100)),
            1..5 => ms(self.chance.below(500)),
            _ => Duration::from_micros(self.chance.below(3_000)),
        };
        self.pass(time);
    }

    /// Everything is repaired, everybody says that they have no more to say, and reads what comes. Whoever had said so before their
    /// peer crashed would never learn, so all of them ask.
    fn wind_up(&mut self) {
        self.world.net.heal(self.world.now);
        *self.world.net.default_link_mut() = Link::default();
        for (one, two) in (0..self.hosts).flat_map(|one| (0..self.hosts).map(move |two| (one, two))) {
            *self.world.net.link_mut(HostId(one), HostId(two)) = Link::default();
        }
        (0..self.hosts).for_each(|n| self.world.net.restart(self.world.now, HostId(n)));
        for n in 0..2_000 {
            self.accept();
            for id in self.held.keys().copied().collect::<Vec<_>>() {
                if n % 500 == 0 {
                    let keepalive = Keepalive { idle: secs(10), interval: secs(1), probes: 5 };
                    self.world.net.set_keepalive(self.world.now, id, Some(keepalive)).expect("is held");
                }
                self.shut_down(id);
                while !self.held[&id].is_told && self.world.net.look(id).read {
                    self.read(id);
                }
            }
            self.pass(secs(1));
        }
    }
}

/// What happened: its hash, and how often each kind of event.
#[derive(Debug, PartialEq)]
struct Course {
    hash: u64,
    kinds: BTreeMap<String, usize>,
}

fn run(seed: u64, steps: usize) -> Course {
    let mut programs = Programs::new(seed);
    (0..steps).for_each(|_| programs.step());
    programs.wind_up();
    for (id, held) in &programs.held {
        assert!(held.is_told, "{id} was not told of its end: {:?}", programs.world.net.look(*id));
    }
    let Programs { mut world, held, listeners, .. } = programs;
    assert_eq!(world.net.check(), Ok(()));
    held.keys().for_each(|id| world.close(*id));
    listeners.values().for_each(|id| world.net.close_listener(world.now, *id).expect("is open"));
    assert_eq!(world.net.check_closed(), Ok(()));
    world.pass(secs(20 * 60));
    assert!(world.net.streams.iter().all(Option::is_none), "an end was kept");
    assert!(world.net.hosts.iter().all(|host| host.open.is_empty() && host.connections.is_empty()));
    assert_eq!(world.net.next_due(), None);
    let mut kinds = BTreeMap::new();
    for record in world.net.take_trace() {
        let kind = format!("{:?}", record.what);
        let kind = match record.what {
            Happened::Breaks { why, .. } => format!("Breaks, {why}"),
            _ => kind.split([' ', '(']).next().unwrap_or_default().to_owned(),
        };
        *kinds.entry(kind).or_default() += 1;
    }
    Course { hash: world.net.trace_hash(), kinds }
}

/// Runs a seed, and prints it if it fails.
fn run_and_tell(seed: u64) -> Course {
    match std::panic::catch_unwind(|| run(seed, 1_500)) {
        Ok(course) => course,
        Err(panic) => {
            eprintln!("the script failed with NETWRIGHT_SEED={seed}");
            std::panic::resume_unwind(panic)
        }
    }
}

#[test]
fn whatever_happens_every_byte_is_right_and_every_end_is_told() {
    let given = |name| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let seeds = match given("NETWRIGHT_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..given("NETWRIGHT_SIM_SEEDS").unwrap_or(40),
    };
    let is_usual = seeds.end - seeds.start >= 40;
    let mut kinds = BTreeMap::<String, usize>::new();
    for seed in seeds {
        for (kind, count) in run_and_tell(seed).kinds {
            *kinds.entry(kind).or_default() += count;
        }
    }
    let kinds_of_streams = [
        "Accepted",
        "Arrives",
        "BacklogFull",
        "Breaks, broken pipe",
        "Breaks, connection refused",
        "Breaks, connection reset",
        "Breaks, timed out",
        "Crashed",
        "Cut",
        "Killed",
        "Lost",
        "ResetByOrder",
        "Restarted",
    ];
    for kind in kinds_of_streams {
        assert!(!is_usual || kinds.get(kind).is_some_and(|count| *count >= 10), "{kind} is rare: {kinds:#?}");
    }
}

#[test]
fn a_seed_gives_the_same_trace_every_time_and_another_seed_another_one() {
    let courses: Vec<_> = (100..104).map(|seed| (run_and_tell(seed), run_and_tell(seed))).collect();
    assert!(courses.iter().all(|(one, two)| one == two), "{courses:?}");
    assert!(courses.windows(2).all(|pair| pair[0].0.hash != pair[1].0.hash), "{courses:?}");
}

#[test]
fn the_trace_keeps_its_limit_and_its_hash_counts_everything() {
    let trace = |limit| {
        let mut world = World::of_two();
        world.net.set_trace_limit(limit);
        world.connected();
        (world.net.take_trace().len(), world.net.trace_hash())
    };
    let (all, hash) = trace(1_000);
    assert!(all > 3);
    assert_eq!((trace(3), trace(0)), ((3, hash), (0, hash)));
    let mut world = World::of_two();
    world.net.set_trace_limit(3);
    world.connected();
    assert_eq!(world.net.trace_left_out(), all as u64 - 3);
}
