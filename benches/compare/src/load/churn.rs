//! Connections that live for one request.
//!
//! ```text
//!   connect ─▶ ask ─▶ the answer, checked ─▶ say that nothing follows ─▶ the server closes ─▶ the next
//!   └───────────── latency ─────────────┘
//! ```
//! Whoever ends a connection first keeps its port for a minute, so connections come from many addresses of this machine.

use super::{
    AT_ONCE, EVENTS, Run, SLICE, Slice,
    socket::{Ending, Moved, SILENCE, do_not_block, open, send_some},
    talk::{Progress, Talk},
};
use rustix::{
    event::epoll::{self, CreateFlags, EventData, EventFlags},
    io::Errno,
    net::{RecvFlags, Shutdown, recv, shutdown},
};
use std::{
    net::SocketAddr,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

/// Addresses that connections come from.
const SOURCES: usize = 200;

struct Visit {
    socket: OwnedFd,
    began: Instant,
    progress: Progress,
    answered: bool,
}

/// Keeps that many connections under way for `time`, each replaced by the next when the server has closed it.
pub(crate) fn churn(
    server: SocketAddr,
    talk: Talk,
    connections: usize,
    time: Duration,
    mut cpu: impl FnMut() -> Duration,
) -> Result<Run, String> {
    let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(|error| format!("no epoll: {error}"))?;
    let (asked, mut check, mut run) = (talk.asked(), talk.check(), Run::default());
    let mut number = 0;
    let mut visit = |at: usize| {
        let began = Instant::now();
        number += 1;
        let socket = open(server, (1 + number % SOURCES) as u8, Ending::Orderly)?;
        do_not_block(&socket)?;
        let edge = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &socket, EventData::new_u64(at as u64), edge)
            .map_err(|error| format!("cannot watch a connection: {error}"))?;
        match send_some(&socket, asked.at(talk.start(0), asked.message))? {
            Moved::Bytes(sent) if sent == asked.message => {}
            _ => return Err("a request does not fit into an empty socket".to_owned()),
        }
        Ok(Visit { socket, began, progress: Progress::from(talk.start(0)), answered: false })
    };
    let mut visits = (0..connections).map(|at| visit(at).map(Some)).collect::<Result<Vec<_>, String>>()?;
    let mut under_way = connections;
    let (start, start_cpu) = (Instant::now(), cpu());
    let (mut mark, mut mark_cpu, mut counted, mut last_event) = (start, start_cpu, 0, start);
    let (mut events, mut buffer) = (Vec::with_capacity(EVENTS), vec![0; 64 * 1024]);
    while under_way > 0 {
        events.clear();
        match epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), Some(&AT_ONCE)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(format!("the load cannot poll: {error}")),
        }
        let now = Instant::now();
        let go_on = now - start < time;
        if go_on && now - mark >= SLICE {
            let (cpu, total) = (cpu(), run.latency.total());
            let (seconds, requests) = ((now - mark).as_secs_f64(), total - counted);
            run.slices.push(Slice { seconds, requests, cpu: cpu - mark_cpu });
            (mark, mark_cpu, counted) = (now, cpu, total);
        }
        if !events.is_empty() {
            last_event = now;
        } else if now - last_event > SILENCE {
            return Err(format!("{under_way} connections have heard nothing for {SILENCE:?}"));
        }
        for event in &events {
            let at = event.data.u64() as usize;
            let Some(one) = &mut visits[at] else { continue };
            let over = loop {
                match recv(&one.socket, &mut buffer[..], RecvFlags::empty()) {
                    Ok((0, _)) if one.answered => break true,
                    Ok((0, _)) => {
                        return Err("the server has closed a connection without an answer".to_owned());
                    }
                    Ok((got, _)) => {
                        if check.take(&mut one.progress, &buffer[..got])? > 0 {
                            one.answered = true;
                            run.latency.add(one.began.elapsed().as_nanos() as u64);
                            shutdown(&one.socket, Shutdown::Write)
                                .map_err(|error| format!("cannot end a connection: {error}"))?;
                        }
                    }
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => break false,
                    Err(error) => return Err(format!("cannot receive: {error}")),
                }
            };
            if over {
                visits[at] = None; // closed, and with that no longer watched
                if go_on {
                    visits[at] = Some(visit(at)?);
                } else {
                    under_way -= 1;
                }
            }
        }
    }
    let (cpu, seconds) = (cpu() - start_cpu, start.elapsed().as_secs_f64());
    run.whole = Slice { seconds, requests: run.latency.total(), cpu };
    Ok(run)
}
