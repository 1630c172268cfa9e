//! The stage that has the dialogue with the proxies, and gives way to the user's pipeline.
//!
//! ```text
//!   active ─▶ ask, deadline armed ─▶ bytes … ─▶ agreed ─▶ switch to the user's pipeline, told: a channel
//!     │           │                                └ the next one is in TLS ─┐
//!     └ in TLS ─▶ [ TLS ] ─▶ ( joint ) ─▶ another of these, goes on ◀────────┘
//!                 └─ refused, garbage, end of input, end of the channel, too late ─▶ told: an error; closed
//! ```
//! Always true: it is told once how it ended, or what is to be told is dropped with the stage; it reads whether or not anybody
//! behind it asks for messages; and a deadline that has begun goes on in the next stage.

use super::{Dialogue, ProxyError, ProxyWhy, dialogue::Step, secure, secure::Secures};
use crate::bootstrap::ConnectError;
use bytes::{Bytes, BytesMut};
use netwright_core::{
    CloseCause, Context, Fault, HalfClosure, Handler, Hold, IntoPipeline, Joint, Leftover, Outgoing,
    PipelineBuilder, StageTimer, Switch, WritePromise, internal::catch, pipeline,
};
use std::{
    convert::Infallible,
    marker::PhantomData,
    time::{Duration, Instant},
};

/// Who hears whether the proxies have let us through.
pub(crate) type Told = Box<dyn FnOnce(Result<(), ConnectError>)>;

/// A pipeline that goes through proxies and is then what `make` makes.
pub(crate) fn through<P, W, S>(
    dialogue: Box<Dialogue>,
    limit: Duration,
    told: Told,
    secures: Option<Secures<S>>,
    make: impl FnOnce() -> P + 'static,
) -> PipelineBuilder<(), Joint<W>>
where
    P: IntoPipeline<W>,
    W: 'static,
    S: Handler<Read = BytesMut, ReadOut = BytesMut, Write = Outgoing, WriteOut = Outgoing>,
{
    pipeline().joint(move |switch| {
        let talk = Talk { dialogue, limit, until: None, told };
        pipeline().last(Handshake::<W>::new(talk, Box::new(Successors { switch, secures, make }), false))
    })
}

/// What may come in the place of this stage.
trait Succession {
    /// The user's pipeline, which reads this first.
    fn enter(self: Box<Self>, rest: BytesMut) -> Result<(), ConnectError>;

    /// TLS with the proxy whose turn it is, and behind it a stage that goes on.
    fn secure(self: Box<Self>, talk: Talk) -> Result<(), (Told, ConnectError)>;
}

struct Successors<F, W, S> {
    switch: Switch<W>,
    secures: Option<Secures<S>>,
    make: F,
}

impl<F, P, W, S> Succession for Successors<F, W, S>
where
    F: FnOnce() -> P + 'static,
    P: IntoPipeline<W>,
    W: 'static,
    S: Handler<Read = BytesMut, ReadOut = BytesMut, Write = Outgoing, WriteOut = Outgoing>,
{
    fn enter(self: Box<Self>, rest: BytesMut) -> Result<(), ConnectError> {
        let Self { switch, make, .. } = *self;
        let leftover = if rest.is_empty() { Leftover::nothing() } else { Leftover::one(rest) };
        catch(|| switch.to_with(make(), leftover)).map_err(ConnectError::Panicked)
    }

    fn secure(self: Box<Self>, talk: Talk) -> Result<(), (Told, ConnectError)> {
        let Self { switch, secures, make } = *self;
        let proxy = talk.dialogue.proxy();
        let name = proxy.tls_name().unwrap_or_default();
        let stage = match secure::stage_for(proxy, name, secures.as_ref()) {
            Ok(stage) => stage,
            Err(error) => return Err((talk.told, error)),
        };
        let inside = pipeline().add(stage).joint(move |switch| {
            pipeline().last(Handshake::<W>::new(talk, Box::new(Successors { switch, secures, make }), true))
        });
        switch.to(inside);
        Ok(())
    }
}

/// All of it that goes on from stage to stage.
struct Talk {
    dialogue: Box<Dialogue>,
    /// For all proxies together. Zero: none.
    limit: Duration,
    /// When that is over, once it has begun.
    until: Option<Instant>,
    told: Told,
}

struct Handshake<W> {
    /// Until it is over, or goes on in another stage.
    talk: Option<(Talk, Box<dyn Succession>)>,
    /// This one is behind TLS with the proxy whose turn it is.
    in_tls: bool,
    /// Something has come, so hands are shaken.
    heard: bool,
    due: Option<StageTimer>,
    insists: Option<Hold>,
    writes: PhantomData<W>,
}

/// What the stage is to do.
enum Act {
    Nothing,
    Send(Vec<u8>),
    Close(CloseCause),
}

impl<W: 'static> Handshake<W> {
    fn new(talk: Talk, next: Box<dyn Succession>, in_tls: bool) -> Self {
        Self { talk: Some((talk, next)), in_tls, heard: false, due: None, insists: None, writes: PhantomData }
    }

    fn step(&mut self, step: Result<Step, ProxyError>) -> Act {
        match step {
            Ok(Step::Wait) => Act::Nothing,
            Ok(Step::Send(bytes)) => Act::Send(bytes),
            Ok(Step::Secure) => self.go_on_in_tls(),
            Ok(Step::Done(rest)) => {
                let Some((talk, next)) = self.take() else { return Act::Nothing };
                let entered = next.enter(rest);
                let act = entered.as_ref().err().map_or(Act::Nothing, Act::closes);
                (talk.told)(entered);
                act
            }
            Err(error) => self.failed(error),
        }
    }

    fn go_on_in_tls(&mut self) -> Act {
        let Some((talk, next)) = self.take() else { return Act::Nothing };
        match next.secure(talk) {
            Ok(()) => Act::Nothing,
            Err((told, error)) => {
                let act = Act::closes(&error);
                told(Err(error));
                act
            }
        }
    }

    fn fail(&mut self, why: ProxyWhy) -> Act {
        let Some((talk, _)) = &self.talk else { return Act::Nothing };
        let error = talk.dialogue.error(why);
        self.failed(error)
    }

    fn failed(&mut self, error: ProxyError) -> Act {
        let Some((talk, _)) = self.take() else { return Act::Nothing };
        let cause = CloseCause::Fault(error.clone().into());
        (talk.told)(Err(error.into()));
        Act::Close(cause)
    }

    /// It is over for this stage.
    fn take(&mut self) -> Option<(Talk, Box<dyn Succession>)> {
        self.insists = None;
        self.talk.take()
    }

    fn act(cx: &mut Context<'_, Self>, act: Act) {
        match act {
            Act::Nothing => {}
            Act::Send(bytes) => cx.write_and_flush(Bytes::from(bytes)),
            Act::Close(cause) => cx.close_because(cause),
        }
    }
}

impl Act {
    fn closes(error: &ConnectError) -> Self {
        Self::Close(CloseCause::Fault(error.clone().into()))
    }
}

impl<W: 'static> Handler for Handshake<W> {
    type Read = BytesMut;
    type ReadOut = Infallible;
    type Write = W;
    type WriteOut = Outgoing;

    fn active(&mut self, cx: &mut Context<'_, Self>) {
        let Some((talk, _)) = &mut self.talk else { return };
        if !talk.limit.is_zero() {
            let (now, limit) = (cx.now(), talk.limit);
            // Without a moment that it could end at there is none.
            if let Some(until) = talk.until.or_else(|| now.checked_add(limit)) {
                talk.until = Some(until);
                self.due = Some(cx.arm(until.saturating_duration_since(now)));
            }
        }
        self.insists = Some(cx.insist());
        let act = if talk.dialogue.proxy().tls_name().is_some() && !self.in_tls {
            self.go_on_in_tls()
        } else {
            Act::Send(talk.dialogue.begin())
        };
        Self::act(cx, act);
    }

    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        self.heard = true;
        let Some((talk, _)) = &mut self.talk else { return }; // it is over, and closing
        let step = talk.dialogue.hear(bytes);
        let act = self.step(step);
        Self::act(cx, act);
    }

    /// Nobody has the channel yet.
    fn write(&mut self, _: &mut Context<'_, Self>, _: W, done: WritePromise) {
        drop(done);
    }

    /// A proxy that sends no more will not agree any more.
    fn input_closed(&mut self, cx: &mut Context<'_, Self>) {
        let act = self.fail(ProxyWhy::Ended(CloseCause::PeerClosed));
        Self::act(cx, act);
    }

    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Needs
    }

    fn timer(&mut self, cx: &mut Context<'_, Self>, timer: StageTimer) {
        if let (true, Some((talk, _))) = (self.due == Some(timer), &self.talk) {
            let act = self.fail(ProxyWhy::TimedOut(talk.limit));
            Self::act(cx, act);
        }
    }

    fn error(&mut self, cx: &mut Context<'_, Self>, fault: Fault) {
        let act = self.fail(match self.in_tls && !self.heard {
            true => ProxyWhy::Tls(fault),
            false => ProxyWhy::Ended(CloseCause::Fault(fault)),
        });
        Self::act(cx, act);
    }

    fn inactive(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause) {
        drop(self.fail(ProxyWhy::Ended(cause.clone())));
        cx.fire_inactive(cause);
    }
}

#[cfg(test)]
mod tests;
