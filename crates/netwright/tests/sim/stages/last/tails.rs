//! Async functions and services.

use super::{
    super::{
        moments::Moment,
        record::{Record, Wrote},
        wire::{Asks, NOTICES, Request, said},
    },
    Bye, Set, Wire, requests,
};
use netwright::{
    CloseCause, EventLoop, Outgoing, Peer, Promised, Server, pipeline,
    pipeline::{PeerReader, PeerWriter},
    server::{BindError, ServerBuilder},
    time,
};
use std::{cell::Cell, rc::Rc, time::Duration};

pub fn function(builder: ServerBuilder, set: Set) -> Promised<Server, BindError> {
    let make = move |accepted: &_| {
        let (set, record) = (set.clone(), set.record(accepted));
        let stages = pipeline().add(Wire(record.clone())).add(requests());
        stages.serve(move |peer| answers(peer, set, record))
    };
    builder.pipeline(make).bind("0.0.0.0:7")
}

/// One request after the other. Who cannot be answered any more is read nevertheless.
pub async fn answers(mut peer: Peer<Request, Outgoing>, set: Set, record: Record) -> Result<(), CloseCause> {
    record.has_channel(peer.channel());
    while let Some(request) = peer.read().await? {
        record.reads(request.number);
        take_time(&set, &record, request).await;
        if request.number.is_multiple_of(2) {
            let _ = peer.send(request.answer(0)).await;
        } else if let Ok(written) = peer.write_tracked(request.answer(0)).await {
            record.tracks(request.wrote(), written);
        }
        if request.asks == Asks::Bye {
            record.reach(Moment::BehindAClose);
            match set.bye {
                Bye::WhenFlushed => return Ok(()),
                Bye::AtOnce => peer.close(),
                Bye::OutputFirst => {
                    peer.shut_down_output();
                    peer.close_when_flushed();
                }
            }
        }
    }
    Ok(())
}

async fn take_time(set: &Set, record: &Record, request: Request) {
    match request.asks {
        Asks::Answer | Asks::Bye => {}
        Asks::Pause => {
            record.reach(Moment::WhileTheApplicationHasPaused);
            time::sleep(set.pause).await;
        }
        Asks::Work => {
            record.reach(Moment::WhileWorkIsUnderWay);
            if let Ok(work) = set.workers.submit(set.work()) {
                let _ = work.await;
            }
        }
    }
}

pub fn halves(builder: ServerBuilder, set: Set) -> Promised<Server, BindError> {
    let make = move |accepted: &_| {
        let (set, record) = (set.clone(), set.record(accepted));
        let stages = pipeline().add(Wire(record.clone())).add(requests());
        stages.serve(move |peer: Peer<Request, Outgoing>| async move {
            record.has_channel(peer.channel());
            let (reader, writer) = peer.split();
            in_two_tasks(reader, writer, set, record).await
        })
    };
    builder.pipeline(make).bind("0.0.0.0:7")
}

/// One task reads, another one answers; the channel ends when both are done.
async fn in_two_tasks(
    mut reader: PeerReader<Request, Outgoing>,
    mut writer: PeerWriter<Request, Outgoing>,
    set: Set,
    record: Record,
) -> Result<(), CloseCause> {
    let queue = Rc::new(std::cell::RefCell::new(std::collections::VecDeque::new()));
    let over = Rc::new(Cell::new(false));
    let (asked, ended, told) = (queue.clone(), over.clone(), record.clone());
    let answering = EventLoop::current().expect("on a loop").spawn_local(async move {
        loop {
            let next: Option<Request> = asked.borrow_mut().pop_front();
            let Some(request) = next else {
                if ended.get() {
                    return;
                }
                time::sleep(Duration::from_micros(200)).await;
                continue;
            };
            take_time(&set, &told, request).await;
            if let Ok(written) = writer.write_tracked(request.answer(0)).await {
                told.tracks(request.wrote(), written);
            }
            if request.asks == Asks::Bye {
                told.reach(Moment::BehindAClose);
                writer.close_when_flushed();
            }
        }
    });
    let result = loop {
        match reader.read().await {
            Ok(Some(request)) => {
                record.reads(request.number);
                queue.borrow_mut().push_back(request);
            }
            Ok(None) => break Ok(()),
            Err(cause) => break Err(cause),
        }
    };
    over.set(true);
    if let Ok(answering) = answering {
        let _ = answering.await;
    }
    result
}

pub fn service(builder: ServerBuilder, set: Set) -> Promised<Server, BindError> {
    let make = move |accepted: &_| {
        let (set, record) = (set.clone(), set.record(accepted));
        let stages = pipeline().add(Wire(record.clone())).add(requests());
        stages.service(set.concurrency, move |request: Request| {
            record.reads(request.number);
            let (set, record) = (set.clone(), record.clone());
            async move {
                take_time(&set, &record, request).await;
                request.answer(0)
            }
        })
    };
    builder.pipeline(make).bind("0.0.0.0:7")
}
