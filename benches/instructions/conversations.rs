//! One message, answered by somebody else: by a child that is opened for it, or by a channel that is there already.
//!
//! What the one takes more than the other is what a conversation costs beside its pipeline: to open it, to be told of it, to
//! be asked who has something to say, to end it and to forget it. Its pipeline hears four things: `active`, the message, that it
//! was all, and `inactive`; the other hears as many.

use bytes::{Bytes, BytesMut};
use netwright_benches::stages::Echo;
use netwright_core::{
    Children, CloseCause, Context, Handler, Host, HostSettings, LocalLoop, Segment, Weighed, Weight,
    WritePromise, pipeline,
};
use std::convert::Infallible;

/// The pipeline that answers.
fn answers() -> impl Segment<BytesMut, Bytes> {
    pipeline().app(Echo).into_segment()
}

/// What answers each message by a child of its own.
pub(crate) fn with_child() -> impl Segment<BytesMut, Bytes> {
    pipeline().last(WithChild(Children::default(), answers)).into_segment()
}

/// What answers all of them by one channel.
pub(crate) fn with_host() -> impl Segment<BytesMut, Bytes> {
    let local = LocalLoop::current().expect("entered");
    let mut host = Host::of_messages(local, answers(), HostSettings::default(), Weight::unsaid());
    host.activate(None, None);
    pipeline().last(WithHost(host)).into_segment()
}

struct WithChild<P: Segment<BytesMut, Bytes>, F>(Children<P, BytesMut, Bytes>, F);

impl<P: Segment<BytesMut, Bytes>, F: Fn() -> P + 'static> Handler for WithChild<P, F> {
    type Read = BytesMut;
    type ReadOut = Infallible;
    type Write = Infallible;
    type WriteOut = Bytes;

    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        self.0.open_with(cx, &self.1, |child| child.received(bytes, 64)).expect("the loop is open");
        while let Some(key) = self.0.next_ready() {
            self.0.end_if(key, |child| {
                while let Some((bytes, done)) = child.take_first() {
                    cx.write_with(bytes, done);
                }
                child.take_credit();
                Some(CloseCause::PeerClosed)
            });
        }
        cx.flush();
    }
    fn write(&mut self, _: &mut Context<'_, Self>, never: Infallible, _: WritePromise) {
        match never {}
    }
}

struct WithHost<P: Segment<BytesMut, Bytes>>(Host<P, Bytes, BytesMut, Weighed<Bytes>>);

impl<P: Segment<BytesMut, Bytes>> Handler for WithHost<P> {
    type Read = BytesMut;
    type ReadOut = Infallible;
    type Write = Infallible;
    type WriteOut = Bytes;

    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        self.0.input_closed(); // an event, as `active` is one
        self.0.received(bytes);
        self.0.read_complete();
        while self.0.take_flush() {
            while let Some((Weighed { message, .. }, done)) = self.0.outbound().take_first() {
                cx.write_with(message, done);
            }
            self.0.wrote();
        }
        self.0.input_closed(); // and `inactive`
        cx.flush();
    }
    fn write(&mut self, _: &mut Context<'_, Self>, never: Infallible, _: WritePromise) {
        match never {}
    }
}
