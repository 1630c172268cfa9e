//! What all scenarios draw, and how they count.

use bytes::Bytes;
use netwright::{
    http::Body,
    time,
    tls::{Acceptor, Certificate, Connector, Roots},
};
use netwright_testkit::sim::{FaultPlan, Host, Link, Sim, for_seeds};
use std::{
    collections::{BTreeMap, VecDeque},
    future::poll_fn,
    pin::pin,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
    task::Poll,
    time::Duration,
};

pub(super) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// True once in so many times.
pub(super) fn one_in(sim: &Sim, many: u64) -> bool {
    sim.below(many) == 0
}

/// What was drawn of a network: how slow it may be without a fault.
#[derive(Clone, Debug)]
pub(super) struct Network {
    pub(super) link: Link,
    /// Of each host, in bytes: what it buffers of what it sends, and of what it receives.
    buffers: Vec<[usize; 2]>,
}

/// The longest time until a connection that has arrived is accepted.
pub(super) const ACCEPT_MAX: Duration = Duration::from_millis(30);

/// What the loops of all hosts need for themselves, where a time is bounded.
pub(super) const TURNS_MAX: Duration = Duration::from_millis(50);

/// How long a web client waits for a connection.
pub(super) const ACQUIRE_MAX: Duration = Duration::from_secs(30);

impl Network {
    /// Whether something may be lost and come later, which has no bound.
    pub(super) fn loses(&self) -> bool {
        self.link.loss > 0.0
    }

    /// There and back, at most.
    pub(super) fn round_trip(&self) -> Duration {
        (self.link.latency + self.link.jitter) * 2
    }

    /// Until both hosts have a connection and have accepted it, at most.
    pub(super) fn connect_max(&self) -> Duration {
        self.round_trip() * 2 + ACCEPT_MAX
    }

    /// What may be on its way from one host to the other: the smaller of two buffers.
    pub(super) fn window(&self, from: usize, to: usize) -> usize {
        self.buffers[from][0].min(self.buffers[to][1])
    }

    /// Until all is there that a host's system has taken and not sent yet, at most.
    pub(super) fn unsent_max(&self, from: usize, to: usize) -> Duration {
        self.transfer_max(from, to, self.buffers[from][0])
    }

    /// What so many bytes need from one host to the other, at most: each time the window is full, somebody has to say that there is
    /// space again. Twice that, for what is sent and received in shorter pieces.
    pub(super) fn transfer_max(&self, from: usize, to: usize, bytes: usize) -> Duration {
        let rounds = 1 + bytes.div_ceil(self.window(from, to)) as u32;
        let sending = self.link.rate.map_or(0.0, |rate| bytes as f64 / rate as f64);
        (self.round_trip() * rounds + Duration::from_secs_f64(sending)) * 2
    }
}

/// How long somebody waits at most who waits for so many others, of whom each needs one of these times.
pub(super) fn longest_of(mut times: Vec<Duration>, others: usize) -> Duration {
    times.sort_unstable_by(|a, b| b.cmp(a));
    times.iter().take(others).sum()
}

/// What is between the hosts, and how much each of them buffers. Nothing of it breaks a connection.
pub(super) fn draw_network(sim: &Sim, hosts: &[Host]) -> Network {
    let mut link = Link::default()
        .latency(Duration::from_micros(50 + sim.below(40_000)))
        .jitter(Duration::from_micros(sim.below(20_000)));
    if one_in(sim, 3) {
        link = link.loss(sim.below(15) as f64 / 100.0);
    }
    if one_in(sim, 3) {
        link = link.rate(50_000 + sim.below(2_000_000)).queue(2_000 + sim.below(200_000));
    }
    sim.link(link.clone());
    let mut network = Network { link, buffers: Vec::new() };
    for host in hosts {
        let buffers: [usize; 2] =
            std::array::from_fn(|_| if one_in(sim, 2) { 64 << 10 } else { 500 + sim.below(8_000) as usize });
        let (short_sends, short_receives) = (sim.below(50), sim.below(50));
        let (accept, reset) = (sim.below(ACCEPT_MAX.as_millis() as u64), one_in(sim, 2));
        host.limit(|limits| {
            limits.send_buffer = buffers[0];
            limits.receive_buffer = buffers[1];
            limits.short_sends = short_sends as f64 / 100.0;
            limits.short_receives = short_receives as f64 / 100.0;
            limits.accept_delay = Duration::ZERO..=millis(accept);
            limits.reset_discards = if reset { 0.5 } else { 0.0 };
        });
        host.cores(1 + sim.below(3) as usize);
        network.buffers.push(buffers);
    }
    network
}

/// Faults within a time, in two of three runs. False: nothing goes wrong in this one, so everything has to succeed.
pub(super) fn draw_faults(sim: &Sim, within: Duration) -> bool {
    if one_in(sim, 3) {
        return false;
    }
    let plan = FaultPlan::new(within).lasting(millis(5)..=secs(3));
    // Killed as often as crashed; hosts are gone in half of these runs.
    let gone = sim.below(4) as u32;
    sim.draw_faults(&plan.crashes(gone / 2).kills(gone % 2));
    true
}

/// Bytes that belong to a number, and to no other.
pub(super) fn content(id: u64, len: usize) -> Bytes {
    let mut state = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes.into()
}

/// A body whose length nobody is told, made piece by piece on the loop that runs.
pub(super) fn in_pieces(bytes: Bytes, len: usize, pause: Duration) -> Body {
    let (mut sender, body) = Body::channel();
    let sending = async move {
        let mut left = bytes;
        while !left.is_empty() {
            let piece = left.split_to(left.len().min(len));
            if sender.send(piece).await.is_err() {
                return;
            }
            time::sleep(pause).await;
        }
        sender.end();
    };
    if let Some(here) = netwright::EventLoop::current() {
        drop(here.spawn_local(sending));
    }
    body
}

/// How long something is: mostly short, at times longer than any buffer.
pub(super) fn draw_len(sim: &Sim) -> usize {
    match sim.below(10) {
        0 => 0,
        1..=6 => sim.below(2_000) as usize,
        7..=8 => sim.below(20_000) as usize,
        _ => sim.below(200_000) as usize,
    }
}

/// Work that is to be done, by whoever comes first, and what has become of it. Clones are the same.
///
/// It lies outside of the hosts: what a host had taken when it crashed is gone, and the ledger knows it.
pub(super) struct Ledger<T> {
    inner: Arc<Mutex<Inner<T>>>,
}

struct Inner<T> {
    left: VecDeque<T>,
    under_way: usize,
    succeeded: u64,
    failed: Vec<String>,
    /// Of what was taken nobody knows any more.
    gone: u64,
    counts: BTreeMap<u64, u32>,
    wrong: Vec<String>,
}

impl<T> Clone for Ledger<T> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<T> Ledger<T> {
    pub(super) fn new(work: impl IntoIterator<Item = T>) -> Self {
        let inner = Inner {
            left: work.into_iter().collect(),
            under_way: 0,
            succeeded: 0,
            failed: Vec::new(),
            gone: 0,
            counts: BTreeMap::new(),
            wrong: Vec::new(),
        };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next piece of work.
    pub(super) fn take(&self) -> Option<(T, Taken<T>)> {
        let mut inner = self.lock();
        let work = inner.left.pop_front()?;
        inner.under_way += 1;
        Some((work, Taken { ledger: self.clone(), told: false }))
    }

    /// Something has happened to the one with this number. Returns how often by now.
    pub(super) fn count(&self, id: u64) -> u32 {
        let mut inner = self.lock();
        let count = inner.counts.entry(id).or_default();
        *count += 1;
        *count
    }

    pub(super) fn counted(&self, id: u64) -> u32 {
        self.lock().counts.get(&id).copied().unwrap_or_default()
    }

    /// Something is not as it must be.
    pub(super) fn wrong(&self, what: impl Into<String>) {
        self.lock().wrong.push(what.into());
    }

    pub(super) fn is_done(&self) -> bool {
        let inner = self.lock();
        inner.left.is_empty() && inner.under_way == 0
    }

    /// Waits for the end of it all, which has to come within so much time. Without faults nothing may have failed.
    pub(super) fn finish(&self, sim: &Sim, within: Duration, faults: bool) {
        let done = sim.run_until(within, || self.is_done());
        let inner = self.lock();
        for wrong in &inner.wrong {
            sim.violation(wrong.clone());
        }
        if !done {
            sim.violation(format!("{} are still under way, {} not begun", inner.under_way, inner.left.len()));
        }
        if !faults {
            inner.failed.iter().for_each(|failed| sim.violation(format!("without a fault: {failed}")));
            if inner.gone > 0 {
                sim.violation(format!("{} are gone, without a fault", inner.gone));
            }
        }
        sim.note(format_args!(
            "{} succeeded, {} failed, {} gone",
            inner.succeeded,
            inner.failed.len(),
            inner.gone
        ));
    }
}

/// A piece of work that somebody has taken.
pub(super) struct Taken<T> {
    ledger: Ledger<T>,
    told: bool,
}

impl<T> Taken<T> {
    /// It was done, or it failed in a way that may be.
    pub(super) fn tell(mut self, result: Result<(), String>) {
        self.told = true;
        let mut inner = self.ledger.lock();
        match result {
            Ok(()) => inner.succeeded += 1,
            Err(failure) => inner.failed.push(failure),
        }
    }
}

impl<T> Drop for Taken<T> {
    fn drop(&mut self) {
        let mut inner = self.ledger.lock();
        inner.under_way -= 1;
        inner.gone += u64::from(!self.told);
    }
}

/// The same happens for the same seed.
pub(super) fn assert_determined(scenario: impl Fn(&Sim) + Send + Sync) {
    let first = for_seeds(0..100, &scenario);
    let second = for_seeds(0..100, &scenario);
    let differ: Vec<usize> = (0..first.len()).filter(|seed| first[*seed] != second[*seed]).collect();
    assert!(differ.is_empty(), "these seeds do not say everything: {differ:?}");
}

/// What both come to, at the same time.
pub(super) async fn both<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut of_a, mut of_b) = (None, None);
    poll_fn(move |cx| {
        if of_a.is_none()
            && let Poll::Ready(done) = a.as_mut().poll(cx)
        {
            of_a = Some(done);
        }
        if of_b.is_none()
            && let Poll::Ready(done) = b.as_mut().poll(cx)
        {
            of_b = Some(done);
        }
        if of_a.is_none() || of_b.is_none() {
            return Poll::Pending;
        }
        of_a.take().zip(of_b.take()).map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

/// Made once: keys cost time.
static CERTIFICATE: LazyLock<Certificate> = LazyLock::new(|| Certificate::self_signed(["server"]).unwrap());

/// TLS for the host that is called `server`.
pub(super) fn acceptor() -> Acceptor {
    Acceptor::new(&*CERTIFICATE).unwrap()
}

/// Whoever trusts it.
pub(super) fn connector() -> Connector {
    Connector::builder().roots(Roots::of(&CERTIFICATE).unwrap()).build().unwrap()
}
