//! Segments behind a joint that give way to others while a conversation goes on.

use super::{
    super::record::Record,
    Set, Slow, Wire,
    applications::{App, giving_way},
    requests,
    tails::answers,
    workers::WorkerApp,
};
use netwright::{
    Outgoing, Promised, Server, pipeline,
    pipeline::{IntoPipeline, Switch},
    server::{BindError, ServerBuilder},
};
use std::convert::Infallible;

/// Which kind of segment comes next: drawn by the one number that differs from set to set.
fn next(set: &Set, record: &Record, switch: &Switch<Outgoing>) {
    match set.exchange_at % 3 {
        0 => switch.to(pipeline().add(requests()).add(Slow::new(set)).app(App::new(set, record, 1))),
        1 => {
            let (set, record) = (set.clone(), record.clone());
            switch.to(pipeline()
                .add(requests())
                .add(Slow::new(&set))
                .serve(move |peer| answers(peer, set, record)));
        }
        _ => switch.to(pipeline()
            .add(requests())
            .add(Slow::new(set))
            .app_on(&set.workers, WorkerApp::new(set, record, 1))),
    }
}

pub(crate) fn joint(builder: ServerBuilder, set: Set) -> Promised<Server, BindError> {
    let make = move |accepted: &_| {
        let (set, record) = (set.clone(), set.record(accepted));
        pipeline().add(Wire(record.clone())).joint(move |switch: Switch<Outgoing>| {
            let (later, told) = (set.clone(), record.clone());
            let app = giving_way(&set, &record, switch, move |switch| next(&later, &told, switch));
            pipeline().add(requests()).add(Slow::new(&set)).app(app)
        })
    };
    builder.pipeline(make).bind("0.0.0.0:7")
}

fn next_sealed(set: &Set, record: &Record, switch: &Switch<Infallible>) {
    match set.exchange_at % 3 {
        0 => switch.to(pipeline().add(requests()).add(Slow::new(set)).app(App::new(set, record, 1)).sealed()),
        1 => {
            let (set, record) = (set.clone(), record.clone());
            switch.to(pipeline()
                .add(requests())
                .add(Slow::new(&set))
                .serve(move |peer| answers(peer, set, record))
                .sealed());
        }
        _ => {
            let app = WorkerApp::new(set, record, 1);
            switch.to(IntoPipeline::<Outgoing>::sealed(
                pipeline().add(requests()).add(Slow::new(set)).app_on(&set.workers, app),
            ));
        }
    }
}

pub(crate) fn sealed(builder: ServerBuilder, set: Set) -> Promised<Server, BindError> {
    let make = move |accepted: &_| {
        let (set, record) = (set.clone(), set.record(accepted));
        pipeline().add(Wire(record.clone())).joint(move |switch: Switch<Infallible>| {
            let (later, told) = (set.clone(), record.clone());
            let app = giving_way(&set, &record, switch, move |switch| next_sealed(&later, &told, switch));
            pipeline().add(requests()).add(Slow::new(&set)).app(app).sealed()
        })
    };
    builder.pipeline(make).bind("0.0.0.0:7")
}
