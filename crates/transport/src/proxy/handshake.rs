//! The stage that has the dialogue with the proxies, and gives way to the user's pipeline.
//!
//! ```text
//!   active ─▶ ask, deadline armed ─▶ bytes … ─▶ agreed ─▶ switch to the user's pipeline, told: a channel
//!                 └─ refused, garbage, end of input, end of the channel, too late ─▶ told: an error; closed
//! ```
//! Always true: it is told once how it ended, or what is to be told is dropped with the stage; and it reads whether or not anybody
//! behind it asks for messages.

use super::{Dialogue, ProxyError, ProxyWhy, dialogue::Step};
use crate::bootstrap::ConnectError;
use bytes::{Bytes, BytesMut};
use netwright_core::{
    CloseCause, Context, Fault, HalfClosure, Handler, Hold, IntoPipeline, Joint, Leftover, Outgoing,
    PipelineBuilder, StageTimer, WritePromise, internal::catch, pipeline,
};
use std::{convert::Infallible, marker::PhantomData, time::Duration};

/// Who hears whether the proxies have let us through.
pub(crate) type Told = Box<dyn FnOnce(Result<(), ConnectError>)>;

/// A pipeline that goes through proxies and is then what `make` makes.
pub(crate) fn through<P, W>(
    dialogue: Box<Dialogue>,
    limit: Duration,
    told: Told,
    make: impl FnOnce() -> P + 'static,
) -> PipelineBuilder<(), Joint<W>>
where
    P: IntoPipeline<W>,
    W: 'static,
{
    pipeline().joint(move |switch| {
        let enter = move |rest: BytesMut| {
            let leftover = if rest.is_empty() { Leftover::nothing() } else { Leftover::one(rest) };
            catch(|| switch.to_with(make(), leftover)).map_err(ConnectError::Panicked)
        };
        let talk = Talk {
            dialogue,
            limit,
            told: Some(told),
            enter: Some(Box::new(enter)),
            due: None,
            insists: None,
        };
        pipeline().last(Handshake { talk, writes: PhantomData })
    })
}

struct Handshake<W> {
    talk: Talk,
    writes: PhantomData<W>,
}

/// All of it that does not depend on what is written later.
struct Talk {
    dialogue: Box<Dialogue>,
    /// For all proxies together. Zero: none.
    limit: Duration,
    told: Option<Told>,
    /// Exchanges the pipeline.
    enter: Option<Enter>,
    due: Option<StageTimer>,
    insists: Option<Hold>,
}

type Enter = Box<dyn FnOnce(BytesMut) -> Result<(), ConnectError>>;

/// What the stage is to do.
enum Act {
    Nothing,
    Send(Vec<u8>),
    Close(CloseCause),
}

impl Talk {
    fn heard(&mut self, bytes: BytesMut) -> Act {
        if self.told.is_none() {
            return Act::Nothing; // it is over, and closing
        }
        match self.dialogue.hear(bytes) {
            Ok(Step::Wait) => Act::Nothing,
            Ok(Step::Send(bytes)) => Act::Send(bytes),
            Ok(Step::Done(rest)) => {
                self.insists = None;
                let entered = self.enter.take().map_or(Ok(()), |enter| enter(rest));
                let act = match &entered {
                    Ok(()) => Act::Nothing,
                    Err(error) => Act::Close(CloseCause::Fault(error.clone().into())),
                };
                self.tell(entered);
                act
            }
            Err(error) => self.failed(error),
        }
    }

    fn fail(&mut self, why: ProxyWhy) -> Act {
        self.failed(self.dialogue.error(why))
    }

    fn failed(&mut self, error: ProxyError) -> Act {
        self.insists = None;
        let cause = CloseCause::Fault(error.clone().into());
        self.tell(Err(error.into()));
        Act::Close(cause)
    }

    fn tell(&mut self, result: Result<(), ConnectError>) {
        if let Some(told) = self.told.take() {
            told(result);
        }
    }
}

impl<W: 'static> Handshake<W> {
    fn act(cx: &mut Context<'_, Self>, act: Act) {
        match act {
            Act::Nothing => {}
            Act::Send(bytes) => cx.write_and_flush(Bytes::from(bytes)),
            Act::Close(cause) => cx.close_because(cause),
        }
    }
}

impl<W: 'static> Handler for Handshake<W> {
    type Read = BytesMut;
    type ReadOut = Infallible;
    type Write = W;
    type WriteOut = Outgoing;

    fn active(&mut self, cx: &mut Context<'_, Self>) {
        self.talk.insists = Some(cx.insist());
        self.talk.due = (!self.talk.limit.is_zero()).then(|| cx.arm(self.talk.limit));
        cx.write_and_flush(Bytes::from(self.talk.dialogue.first()));
    }

    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        let act = self.talk.heard(bytes);
        Self::act(cx, act);
    }

    /// Nobody has the channel yet.
    fn write(&mut self, _: &mut Context<'_, Self>, _: W, done: WritePromise) {
        drop(done);
    }

    /// A proxy that sends no more will not agree any more.
    fn input_closed(&mut self, cx: &mut Context<'_, Self>) {
        let act = self.talk.fail(ProxyWhy::Ended(CloseCause::PeerClosed));
        Self::act(cx, act);
    }

    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Needs
    }

    fn timer(&mut self, cx: &mut Context<'_, Self>, timer: StageTimer) {
        if self.talk.due == Some(timer) {
            let act = self.talk.fail(ProxyWhy::TimedOut(self.talk.limit));
            Self::act(cx, act);
        }
    }

    fn error(&mut self, cx: &mut Context<'_, Self>, fault: Fault) {
        let act = self.talk.fail(ProxyWhy::Ended(CloseCause::Fault(fault)));
        Self::act(cx, act);
    }

    fn inactive(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause) {
        drop(self.talk.fail(ProxyWhy::Ended(cause.clone())));
        cx.fire_inactive(cause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::{Proxy, dialogue::tests::dialogue};
    use netwright_core::EmbeddedChannel;
    use std::{cell::RefCell, rc::Rc};

    type Channel = EmbeddedChannel<Infallible, Outgoing>;
    type Outcome = Rc<RefCell<Option<Result<(), ConnectError>>>>;

    const LIMIT: Duration = Duration::from_secs(10);
    const SECOND: Duration = Duration::from_secs(1);

    /// Through one proxy of HTTP to an echo.
    fn echo() -> (Channel, Outcome) {
        let outcome = Outcome::default();
        let told = outcome.clone();
        let told: Told = Box::new(move |result| assert!(told.replace(Some(result)).is_none(), "told twice"));
        let dialogue = Box::new(dialogue(&[(Proxy::http("a:1"), "b:2")]));
        let echo = || pipeline().handle(|cx, bytes: BytesMut| cx.write_and_flush(bytes.freeze()));
        let mut channel = EmbeddedChannel::with_joint(through(dialogue, LIMIT, told, echo));
        assert_eq!(channel.outbound_bytes(), b"CONNECT b:2 HTTP/1.1\r\nHost: b:2\r\n\r\n");
        (channel, outcome)
    }

    fn why(outcome: &Outcome) -> ProxyWhy {
        match outcome.take() {
            Some(Err(ConnectError::Proxy(error))) => error.why,
            other => panic!("{other:?}"),
        }
    }

    const AGREED: &[u8] = b"HTTP/1.1 200 ok\r\n\r\n";

    #[test]
    fn drops_of_an_answer_do_not_move_the_deadline() {
        let (mut channel, outcome) = echo();
        for byte in "HTTP/1.1 ".bytes() {
            channel.write_inbound(&[byte][..]).advance(SECOND);
        }
        assert!(channel.is_open() && outcome.borrow().is_none());
        channel.advance(SECOND);
        assert!(!channel.is_open());
        assert!(matches!(why(&outcome), ProxyWhy::TimedOut(LIMIT)));
    }

    #[test]
    fn behind_the_answer_there_is_no_deadline_any_more_and_no_byte_is_lost() {
        for cut in 1..AGREED.len() + 5 {
            let (mut channel, outcome) = echo();
            let all = [AGREED, b"hello"].concat();
            channel.write_inbound(&all[..cut]).write_inbound(&all[cut..]);
            assert!(matches!(outcome.take(), Some(Ok(()))), "{cut}");
            channel.advance(LIMIT * 10);
            assert_eq!(channel.outbound_bytes(), b"hello", "{cut}");
            assert!(channel.is_open());
        }
    }

    #[test]
    fn an_end_of_input_or_of_the_channel_is_told_once_wherever_it_comes() {
        for cut in 0..AGREED.len() {
            let (mut channel, outcome) = echo();
            channel.write_inbound(&AGREED[..cut]).end_input();
            assert!(matches!(why(&outcome), ProxyWhy::Ended(CloseCause::PeerClosed)), "{cut}");
            assert!(!channel.is_open());
            let (channel, outcome) = echo();
            drop(channel);
            assert!(outcome.take().is_none_or(|result| result.is_err()), "{cut}");
        }
    }

    #[test]
    fn what_comes_behind_a_refusal_changes_nothing() {
        let (mut channel, outcome) = echo();
        channel.write_inbound("HTTP/1.1 403 no\r\n\r\nHTTP/1.1 200 ok\r\n\r\n");
        assert!(matches!(why(&outcome), ProxyWhy::Status(403)));
        channel.write_inbound(AGREED);
        assert!(outcome.take().is_none() && !channel.is_open());
    }
}
