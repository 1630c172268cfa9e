//! The time, for those who ask properly: `QUERY TIME ORDER`, in any case. Everything else is a `BAD ORDER`.

use super::front::Front;
use crate::record::Tape;
use bytes::Bytes;
use netwright::{
    AppContext, Application, Fault, Promised, Server,
    codec::LineFrames,
    pipeline,
    pipeline::{HalfClosure, IntoPipeline},
    server::{BindError, ServerBuilder},
};
use std::time::{Instant, SystemTime};

/// Much longer than any order: whoever sends more is not talking to a time server.
const LINE_MAX: usize = 1024;

const ORDER: &[u8] = b"QUERY TIME ORDER";
const BAD_ORDER: Bytes = Bytes::from_static(b"BAD ORDER");

pub(crate) fn bind(server: ServerBuilder, address: &str, front: Front) -> Promised<Server, BindError> {
    front.bind(server, address, |_, tape| stages(Clock::System, tape))
}

pub(crate) fn stages(clock: Clock, tape: &Tape) -> impl IntoPipeline<Bytes> + use<> {
    pipeline().add(tape.stage()).add(lines()).app(Time { clock })
}

/// Who knows the time.
pub(crate) enum Clock {
    System,
    /// The time of day at a moment of the loop's clock, which goes on from there: for a conversation of another day.
    From(Option<(SystemTime, Instant)>, SystemTime),
}

impl Clock {
    /// It is this time when the channel begins.
    pub(crate) fn from(time: SystemTime) -> Self {
        Self::From(None, time)
    }

    fn now(&mut self, loop_time: Instant) -> SystemTime {
        match self {
            Self::System => SystemTime::now(),
            Self::From(begun, time) => {
                let (time, at) = *begun.get_or_insert((*time, loop_time));
                time + (loop_time - at)
            }
        }
    }
}

fn lines() -> LineFrames {
    LineFrames::max(LINE_MAX).fail_fast(true)
}

/// What an order is answered now.
pub(super) fn answer(order: &[u8]) -> Bytes {
    answer_at(order, SystemTime::now)
}

fn answer_at(order: &[u8], now: impl FnOnce() -> SystemTime) -> Bytes {
    match order.eq_ignore_ascii_case(ORDER) {
        true => Bytes::from(httpdate::fmt_http_date(now())),
        false => BAD_ORDER,
    }
}

struct Time {
    clock: Clock,
}

impl Application for Time {
    type Read = Bytes;
    type Write = Bytes;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        self.clock.now(cx.view().event_loop().now());
    }

    fn read(&mut self, cx: &mut AppContext<'_, Self>, order: Bytes) {
        // A flush is only a wish until the turn's end: orders that came together are answered together all the same.
        let now = || self.clock.now(cx.view().event_loop().now());
        let answer = answer_at(&order, now);
        cx.write_and_flush(answer);
    }

    /// Who does not read the answers is not asked for more orders.
    fn writability(&mut self, cx: &mut AppContext<'_, Self>, writable: bool) {
        if writable { cx.resume() } else { cx.pause() }
    }

    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Needs
    }

    fn input_closed(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.close_when_flushed();
    }

    /// A line that is too long.
    fn error(&mut self, cx: &mut AppContext<'_, Self>, fault: Fault) {
        tracing::info!(peer = ?cx.view().peer_addr(), error = %fault, "closing");
        cx.write_and_flush(BAD_ORDER);
        cx.close_when_flushed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netwright::EmbeddedChannel;

    fn ask(question: &[u8]) -> String {
        let mut channel = EmbeddedChannel::new(pipeline().add(lines()).app(Time { clock: Clock::System }));
        channel.write_inbound(question);
        String::from_utf8(channel.outbound_bytes()).unwrap()
    }

    #[test]
    fn only_the_exact_order_gets_the_time_in_any_case() {
        for order in ["QUERY TIME ORDER\r\n", "query time order\n", "Query Time Order\n"] {
            assert!(ask(order.as_bytes()).ends_with(" GMT\n"), "{order:?}");
        }
        for order in ["query time", " QUERY TIME ORDER", "QUERY TIME ORDER ", ""] {
            assert_eq!(ask(format!("{order}\n").as_bytes()), "BAD ORDER\n", "{order:?}");
        }
    }

    #[test]
    fn orders_in_one_read_are_answered_one_by_one() {
        assert_eq!(ask(b"a\nb\nc\nunfinished"), "BAD ORDER\n".repeat(3));
    }

    #[test]
    fn an_order_beyond_the_limit_is_answered_and_ends_the_channel() {
        let mut channel = EmbeddedChannel::new(pipeline().add(lines()).app(Time { clock: Clock::System }));
        channel.write_inbound([b'x'; LINE_MAX + 2]);
        assert_eq!(channel.outbound_bytes(), b"BAD ORDER\n");
        assert!(!channel.is_open());
    }

    #[test]
    fn orders_without_end_from_a_peer_that_reads_nothing_pause_and_go_on() {
        let mut channel = EmbeddedChannel::new(pipeline().add(lines()).app(Time { clock: Clock::System }));
        channel.block_output(true);
        channel.write_inbound(b"x\n".repeat(10_000));
        assert!(!channel.wants_read(), "too much waits to be sent");
        channel.block_output(false).run();
        assert_eq!(channel.outbound_bytes().len(), 10_000 * "BAD ORDER\n".len());
        assert!(channel.wants_read());
    }
}
