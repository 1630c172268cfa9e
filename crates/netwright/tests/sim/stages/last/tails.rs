//! Async functions and services.

use super::{
    super::{
        moments::Moment,
        record::Record,
        slips::Step,
        wire::{Asks, Request},
    },
    Bye, Set, Slow, Wire, requests,
};
use netwright::{
    CloseCause, EventLoop, Outgoing, Peer, Promised, Server, pipeline,
    pipeline::{PeerReader, PeerWriter},
    server::{BindError, ServerBuilder},
    time,
};
use std::{
    cell::RefCell,
    collections::VecDeque,
    future::poll_fn,
    rc::Rc,
    task::{self, Poll, Waker},
};

pub(crate) fn function(builder: ServerBuilder, set: Set) -> Promised<Server, BindError> {
    let make = move |accepted: &_| {
        let (set, record) = (set.clone(), set.record(accepted));
        let stages = pipeline().add(Wire(record.clone())).add(requests()).add(Slow::new(&set));
        stages.serve(move |peer| answers(peer, set, record))
    };
    builder.pipeline(make).bind("0.0.0.0:7")
}

/// One request after the other. Who cannot be answered any more is read nevertheless.
pub(crate) async fn answers(
    mut peer: Peer<Request, Outgoing>,
    set: Set,
    record: Record,
) -> Result<(), CloseCause> {
    record.has_channel(peer.channel());
    while let Some(request) = peer.read().await? {
        record.reads(request.number);
        take_time(&set, &record, request).await;
        if request.number.is_multiple_of(2) {
            let _ = peer.send(request.answer(0)).await;
        } else if let Ok(written) = peer.write_tracked(request.answer(0)).await {
            record.tracks(request.wrote(0), written);
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
    record.step(Step::Read);
    match request.asks {
        Asks::Answer | Asks::Bye => {}
        Asks::Pause => {
            record.reach(Moment::WhileTheApplicationHasPaused);
            time::sleep(set.pause).await;
            record.step(Step::Timer);
        }
        Asks::Work => {
            record.reach(Moment::WhileWorkIsUnderWay);
            if let Ok(work) = set.workers.submit(set.work()) {
                let _ = work.await;
                record.step(Step::Done);
            }
        }
    }
}

pub(crate) fn halves(builder: ServerBuilder, set: Set) -> Promised<Server, BindError> {
    let make = move |accepted: &_| {
        let (set, record) = (set.clone(), set.record(accepted));
        let stages = pipeline().add(Wire(record.clone())).add(requests()).add(Slow::new(&set));
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
    let queue = Rc::new(RefCell::new(Queue::default()));
    let (asked, told) = (queue.clone(), record.clone());
    let answering = EventLoop::current().expect("on a loop").spawn_local(async move {
        while let Some(request) = poll_fn(|cx| asked.borrow_mut().poll_next(cx)).await {
            take_time(&set, &told, request).await;
            if let Ok(written) = writer.write_tracked(request.answer(0)).await {
                told.tracks(request.wrote(0), written);
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
                queue.borrow_mut().put(Some(request));
            }
            Ok(None) => break Ok(()),
            Err(cause) => break Err(cause),
        }
    };
    queue.borrow_mut().put(None);
    if let Ok(answering) = answering {
        let _ = answering.await;
    }
    result
}

/// From one task to another one on the same loop.
#[derive(Default)]
struct Queue {
    requests: VecDeque<Request>,
    is_over: bool,
    waiting: Option<Waker>,
}

impl Queue {
    /// None: there will be no more.
    fn put(&mut self, request: Option<Request>) {
        self.is_over = request.is_none();
        self.requests.extend(request);
        if let Some(waiting) = self.waiting.take() {
            waiting.wake();
        }
    }

    fn poll_next(&mut self, cx: &mut task::Context<'_>) -> Poll<Option<Request>> {
        let next = self.requests.pop_front();
        if next.is_some() || self.is_over {
            return Poll::Ready(next);
        }
        self.waiting = Some(cx.waker().clone());
        Poll::Pending
    }
}

pub(crate) fn service(builder: ServerBuilder, set: Set) -> Promised<Server, BindError> {
    let make = move |accepted: &_| {
        let (set, record) = (set.clone(), set.record(accepted));
        let stages = pipeline().add(Wire(record.clone())).add(requests()).add(Slow::new(&set));
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
