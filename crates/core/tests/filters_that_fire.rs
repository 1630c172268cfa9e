//! A filter that says something towards the application because of what is written: nothing of that is lost, and it comes where that of a handler would.

use bytes::{Bytes, BytesMut};
use netwright_core::{
    AppContext, Application, Context, EmbeddedChannel, Event, Fault, Filter, FilterContext, Handler,
    Outgoing, WritePromise, pipeline,
};
use std::{cell::RefCell, rc::Rc};

/// What is fired for each write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fires {
    Message,
    Event,
    Error,
}

/// Makes a message of each byte, and tells of each write.
struct Tells(Fires);

macro_rules! tell {
    ($cx:expr, $what:expr) => {
        match $what {
            Fires::Message => $cx.fire_read(BytesMut::from(&b"W"[..])),
            Fires::Event => $cx.fire_event(Event::new("written")),
            Fires::Error => $cx.fire_error(Fault::new(std::io::Error::other("it cannot be written"))),
        }
    };
}

impl Filter<BytesMut, Outgoing> for Tells {
    fn read(&mut self, cx: &mut FilterContext<'_, Self, BytesMut, Outgoing>, bytes: BytesMut) {
        bytes.chunks(1).for_each(|byte| cx.fire_read(byte.into()));
    }
    fn write(
        &mut self,
        cx: &mut FilterContext<'_, Self, BytesMut, Outgoing>,
        message: Outgoing,
        done: WritePromise,
    ) {
        cx.write_with(message, done);
        tell!(cx, self.0);
    }
}

/// The same as a handler.
struct Plain(Fires);

impl Handler for Plain {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    type WriteOut = Outgoing;

    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        bytes.chunks(1).for_each(|byte| cx.fire_read(byte.into()));
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, message: Outgoing, done: WritePromise) {
        cx.write_with(message, done);
        tell!(cx, self.0);
    }
}

/// Answers each message but those that tell of an answer.
struct Answers {
    log: Rc<RefCell<Vec<String>>>,
    pauses: bool,
}

impl Application for Answers {
    type Read = BytesMut;
    type Write = Outgoing;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, message: BytesMut) {
        self.log.borrow_mut().push(String::from_utf8_lossy(&message).into_owned());
        if self.pauses {
            cx.pause();
        }
        if message != "W" {
            cx.write_and_flush(Bytes::from_static(b"r"));
        }
    }
    fn event(&mut self, _: &mut AppContext<'_, Self>, _: Event) {
        self.log.borrow_mut().push("written".into());
    }
}

/// What the application was told, with messages that wait and are asked for one by one.
fn told(filter: bool, fires: Fires, pauses: bool) -> Vec<String> {
    let log = Rc::default();
    let answers = Answers { log: Rc::clone(&log), pauses };
    let mut channel = match filter {
        true => EmbeddedChannel::of(pipeline().filter(Tells(fires)).app(answers)),
        false => EmbeddedChannel::of(pipeline().add(Plain(fires)).app(answers)),
    };
    channel.channel().pause();
    channel.run();
    channel.write_inbound("123").run();
    channel.channel().request();
    channel.run();
    channel.write_inbound("123");
    for _ in 0..12 {
        channel.channel().resume();
        channel.run();
    }
    drop(channel); // and its application
    log.take()
}

#[test]
fn what_a_filter_fires_because_of_a_write_is_what_a_handler_would_have_fired() {
    for fires in [Fires::Message, Fires::Event, Fires::Error] {
        for pauses in [false, true] {
            let (filter, handler) = (told(true, fires, pauses), told(false, fires, pauses));
            assert_eq!(filter, handler, "{fires:?}, the application pauses: {pauses}");
        }
    }
}
