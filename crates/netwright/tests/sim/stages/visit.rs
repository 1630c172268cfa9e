//! A server's host is back after a crash: the same server begins there again, and who comes to it is served.

use super::{
    SETTLING, builder,
    draw::Draw,
    ends::End,
    last::{Last, Set},
    line::{Line, Script},
    moments::Moment,
    record::Record,
    tell_faults,
};
use netwright::{Server, Workers};
use netwright_testkit::sim::{Host, Sim};
use std::time::Duration;

/// How long a visit may take: bad ways bring everything in that time.
const VISIT_MAX: Duration = Duration::from_secs(700);

/// Starts the server on its host again, and has a new client ask it something. Returns the new server.
pub(crate) fn returns(sim: &Sim, draw: &Draw<'_>, host: &Host, last: &Last, before: &Set) -> Server {
    let visitor = sim.host("visitor");
    let record = Record::default();
    let mut set = before.clone();
    set.workers = host.enter(|| Workers::new(1)).unwrap();
    // Others may come as well: with what had been under way when the host was gone.
    let strangers: Vec<Record> = set
        .records
        .values_mut()
        .map(|record| {
            *record = Record::default();
            record.clone()
        })
        .collect();
    set.records.insert(visitor.address(), record.clone());
    let (builder, resets) = builder(draw);
    let server = host.enter(|| (last.serve)(builder, set).wait()).unwrap();

    let mut script = Script::draw(draw, &[Moment::BetweenMessages]);
    (script.end, script.slip) = (End::HalfClose, None);
    let mut line = Line::begin(sim, draw, host, visitor, script, record);
    line.hears_of_half_closure = before.half_closure;
    let end = sim.now() + VISIT_MAX;
    while !line.is_over() && sim.now() < end {
        sim.run_until(line.due().saturating_sub(sim.now()), || line.has_news());
        line.step(sim);
    }
    sim.run_for(SETTLING);
    line.let_go();
    line.check(last, resets);
    tell_faults(sim, &line);
    for record in strangers {
        line.record = record;
        tell_faults(sim, &line);
    }
    server
}
