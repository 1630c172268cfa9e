use crate::support::{In, Out, Parent, data, echo, end};
use bytes::{Bytes, BytesMut};
use netwright_core::{AppContext, Application, Outgoing, pipeline};
use std::{cell::RefCell, rc::Rc, time::Duration};

#[test]
fn messages_go_to_their_child_and_answers_come_from_it() {
    let mut parent = Parent::of(|_| echo());
    assert_eq!(parent.say(In::Open(1)), []);
    parent.say(In::Open(2));
    assert_eq!(parent.say(In::Data(1, "one")), [data(1, "one"), Out::Credit(1, 3)]);
    assert_eq!(parent.say(In::Data(2, "other")), [data(2, "other"), Out::Credit(2, 5)]);
    assert_eq!((parent.seen.living.get(), parent.seen.pokes.get()), (2, 0));
}

/// Writes down what it hears, and answers when all has come.
#[derive(Default)]
struct Notes {
    log: Rc<RefCell<Vec<String>>>,
    answer: Vec<u8>,
}

impl Notes {
    fn note(&self, what: impl Into<String>) {
        self.log.borrow_mut().push(what.into());
    }
}

impl Application for Notes {
    type Read = BytesMut;
    type Write = Outgoing;

    fn active(&mut self, _: &mut AppContext<'_, Self>) {
        self.note("active");
    }
    fn read(&mut self, _: &mut AppContext<'_, Self>, bytes: BytesMut) {
        self.note(String::from_utf8_lossy(&bytes));
        self.answer.extend(bytes);
    }
    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        self.note("complete");
        cx.write_and_flush(std::mem::take(&mut self.answer));
    }
    fn input_closed(&mut self, cx: &mut AppContext<'_, Self>) {
        self.note("input closed");
        cx.shut_down_output();
    }
    fn inactive(&mut self, _: &mut AppContext<'_, Self>, cause: netwright_core::CloseCause) {
        self.note(format!("inactive: {cause}"));
    }
    fn removed(&mut self) {
        self.note("removed");
    }
}

#[test]
fn a_child_lives_as_every_channel_does() {
    let log = Rc::<RefCell<Vec<String>>>::default();
    let noted = log.clone();
    let mut parent =
        Parent::of(move |_| pipeline().app(Notes { log: noted.clone(), answer: Vec::new() }).into_segment());
    parent.say(In::Open(1));
    assert_eq!(parent.say(In::Data(1, "hello")), [data(1, "hello"), Out::Credit(1, 5)]);
    assert_eq!(parent.say(In::Fin(1)), [Out::Fin(1)]);
    assert_eq!(parent.say(In::End(1)), [end(1, "closed by the peer")]);
    let heard = ["active", "hello", "complete", "input closed", "inactive: closed by the peer", "removed"];
    assert_eq!(*log.borrow(), heard);
    assert_eq!(parent.sources(), 1);
}

/// Asks for messages one by one.
struct Asks;

impl Application for Asks {
    type Read = BytesMut;
    type Write = Outgoing;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.pause();
    }
    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        cx.write_and_flush(bytes.freeze());
    }
}

#[test]
fn who_does_not_ask_keeps_its_credit_and_holds_up_nobody_else() {
    let mut parent = Parent::of_known(|_| pipeline().app(Asks).into_segment());
    parent.say(In::Open(1));
    let first = parent.seen.last();
    parent.say(In::Open(2));
    let second = parent.seen.last();
    assert_eq!(parent.say(In::Data(1, "waits")), []);
    assert_eq!(parent.say(In::Data(1, "too")), []);
    assert_eq!(parent.say(In::Fin(1)), []);
    second.resume();
    assert_eq!(parent.say(In::Data(2, "goes")), [data(2, "goes"), Out::Credit(2, 4)]);
    first.request();
    assert_eq!(parent.heard(), [data(1, "waits"), Out::Credit(1, 5)]);
    first.request();
    assert_eq!(parent.heard(), [data(1, "too"), Out::Credit(1, 3)]);
}

/// Speaks by itself, some time after it was born.
struct Later(Duration);

impl Application for Later {
    type Read = BytesMut;
    type Write = Outgoing;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.arm(self.0);
    }
    fn read(&mut self, _: &mut AppContext<'_, Self>, _: BytesMut) {}
    fn timer(&mut self, cx: &mut AppContext<'_, Self>, _: netwright_core::StageTimer) {
        cx.write_and_flush("ding");
    }
}

#[test]
fn any_number_of_children_that_run_by_themselves_poke_their_parent_once() {
    let mut parent = Parent::of(|_| pipeline().app(Later(Duration::from_secs(1))).into_segment());
    (0..10).for_each(|id| drop(parent.say(In::Open(id))));
    parent.embedded.advance(Duration::from_secs(1));
    assert_eq!(parent.heard(), (0..10).map(|id| data(id, "ding")).collect::<Vec<_>>());
    assert_eq!(parent.seen.pokes.get(), 1);
}

#[test]
fn what_a_parent_does_not_take_stays_and_its_writer_hears_that_there_is_no_room() {
    let mut parent = Parent::of_known(|_| echo());
    parent.say(In::Open(1));
    let child = parent.seen.last();
    parent.seen.blocked.set(true);
    let mut written = child.write_tracked(vec![b'x'; 100_000]);
    child.flush();
    assert_eq!(parent.heard(), []);
    assert!(!child.is_writable() && written.try_take().is_none());
    parent.seen.blocked.set(false);
    child.flush();
    child.write_and_flush("y");
    assert_eq!(parent.heard().len(), 2);
    assert!(child.is_writable());
    assert!(written.wait().is_ok());
}

#[test]
fn a_part_of_a_message_counts_as_sent_and_the_rest_stays() {
    use netwright_core::{
        AppContext, Application, ChildKey, Children, Context, EmbeddedChannel, Handler, Segment, WritePromise,
    };
    use std::convert::Infallible;

    /// Sends three bytes at a time, one piece for each message that it reads.
    struct Pieces<P: Segment<BytesMut, Bytes>> {
        children: Children<P, BytesMut, Bytes>,
        key: Option<ChildKey>,
        build: Option<P>,
    }
    impl<P: Segment<BytesMut, Bytes>> Handler for Pieces<P> {
        type Read = ();
        type ReadOut = Infallible;
        type Write = Infallible;
        type WriteOut = Bytes;
        fn active(&mut self, cx: &mut Context<'_, Self>) {
            let pipeline = self.build.take().unwrap();
            self.key = Some(self.children.open(cx, || pipeline).unwrap());
            let text = BytesMut::from(&b"abcdefgh"[..]);
            self.children.with(self.key.unwrap(), |child| child.received(text, 0));
            assert_eq!(self.children.next_ready(), self.key);
        }
        fn read(&mut self, cx: &mut Context<'_, Self>, (): ()) {
            let (piece, done) = self
                .children
                .with(self.key.unwrap(), |child| {
                    let piece = child.take_part(|bytes| bytes.split_to(3.min(bytes.len())));
                    let empty = child.first().is_some_and(Bytes::is_empty);
                    (piece, empty.then(|| child.take_first()).flatten())
                })
                .unwrap();
            piece.into_iter().for_each(|piece| cx.write(piece));
            done.into_iter().for_each(|(_, done)| done.succeed());
            cx.flush();
        }
        fn write(&mut self, _: &mut Context<'_, Self>, never: Infallible, _: WritePromise) {
            match never {}
        }
    }
    /// Writes bytes back, and never a file.
    struct Back;
    impl Application for Back {
        type Read = BytesMut;
        type Write = Bytes;
        fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
            cx.write_and_flush(bytes);
        }
    }
    let pieces =
        Pieces { children: Children::default(), key: None, build: Some(pipeline().app(Back).into_segment()) };
    let mut channel = EmbeddedChannel::of_messages(pipeline().last(pieces));
    for piece in ["abc", "def", "gh"] {
        assert_eq!(channel.receive(()).read_outbound().unwrap(), piece);
    }
    assert_eq!(channel.receive(()).read_outbound(), None);
}

#[test]
fn what_a_child_asked_of_its_own_handle_comes_before_the_end_of_its_input() {
    struct Roundabout;
    impl Application for Roundabout {
        type Read = BytesMut;
        type Write = Outgoing;

        fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
            cx.channel().write_and_flush(bytes.freeze());
        }
        fn input_closed(&mut self, cx: &mut AppContext<'_, Self>) {
            cx.write_and_flush("goodbye");
            cx.close_when_flushed();
        }
    }
    let mut parent = Parent::of(|_| pipeline().app(Roundabout).into_segment());
    let all = vec![In::Open(1), In::Data(1, "answer"), In::Fin(1)];
    let heard = parent.say(In::AtOnce(all));
    assert_eq!(
        heard,
        [data(1, "answer"), data(1, "goodbye"), Out::Credit(1, 6), end(1, "closed by our side")]
    );
}
