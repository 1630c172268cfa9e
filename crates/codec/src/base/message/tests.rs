use super::*;
use crate::LineFrames;
use bytes::Bytes;
use netwright_core::{AppContext, Application, EmbeddedChannel, pipeline};
use std::{cell::RefCell, rc::Rc};

/// Characters of a line; `!` is an error behind those before it, `#` one that ends everything. Writes twice what it is given.
struct Characters;

impl MessageDecoder for Characters {
    type In = Bytes;
    type Out = char;
    fn decode(&mut self, line: Bytes, out: &mut Messages<char>) -> Result<(), DecodeError> {
        for byte in line {
            match byte {
                b'!' => return Err(DecodeError::recoverable(std::fmt::Error)),
                b'#' => return Err(std::fmt::Error.into()),
                byte => out.push(char::from(byte)),
            }
        }
        Ok(())
    }
    fn decode_last(&mut self, out: &mut Messages<char>) -> Result<(), DecodeError> {
        out.push('.');
        Ok(())
    }
}

impl MessageEncoder for Characters {
    type In = Bytes;
    type Out = Bytes;
    fn encode(&mut self, text: Bytes, out: &mut Messages<Bytes>) -> Result<(), Fault> {
        if text.contains(&b'!') {
            return Err(std::fmt::Error.into());
        }
        text.chunks(2).for_each(|pair| out.push(Bytes::copy_from_slice(pair)));
        Ok(())
    }
}

struct Note(Rc<RefCell<String>>);

impl Application for Note {
    type Read = char;
    type Write = Bytes;
    fn read(&mut self, _: &mut AppContext<'_, Self>, letter: char) {
        self.0.borrow_mut().push(letter);
    }
    fn error(&mut self, _: &mut AppContext<'_, Self>, _: Fault) {
        self.0.borrow_mut().push_str("(error)");
    }
}

#[allow(clippy::type_complexity)]
fn channel() -> (EmbeddedChannel<std::convert::Infallible, Bytes>, Rc<RefCell<String>>) {
    let log = Rc::default();
    let stages = pipeline().add(LineFrames::max(100)).add(message_codec(Characters));
    (EmbeddedChannel::new(stages.app(Note(Rc::clone(&log)))), log)
}

#[test]
fn several_messages_of_one_and_their_errors_keep_their_order() {
    let (mut channel, log) = channel();
    channel.write_inbound("abc\n\nd!e\nf\n!\ng").write_inbound("\n").close_by_peer();
    assert_eq!(log.take(), "abcd(error)f(error)g.");
}

#[test]
fn a_fatal_error_ends_it() {
    let (mut channel, log) = channel();
    channel.write_inbound("ab\nc#d\ne\n");
    assert_eq!((log.take().as_str(), channel.is_open()), ("abc(error)", false));
}

#[test]
fn each_request_brings_one_message_also_of_several_that_were_one() {
    let (mut channel, log) = channel();
    channel.channel().pause();
    channel.run().write_inbound("ab\ncd\n");
    for so_far in ["", "a", "ab", "abc", "abcd"] {
        assert_eq!(*log.borrow(), so_far);
        channel.channel().request();
        channel.run();
    }
}

#[test]
fn the_promise_of_several_belongs_to_the_last_and_nothing_made_is_an_error() {
    let (mut channel, _) = channel();
    let mut several = channel.channel().write_tracked(Bytes::from("abcde"));
    let mut none = channel.channel().write_tracked(Bytes::new());
    let mut wrong = channel.channel().write_tracked(Bytes::from("!"));
    channel.channel().flush();
    assert_eq!(channel.outbound_bytes(), b"ab\ncd\ne\n");
    assert!(matches!(several.try_take(), Some(Ok(()))));
    let Some(Err(error)) = none.try_take() else { panic!("not told") };
    assert_eq!(error.to_string(), "the message could not be written: Characters made nothing of a message");
    assert!(matches!(wrong.try_take(), Some(Err(WriteError::Fault(_)))));
}
