use super::*;
use bytes::{Buf, Bytes};
use netwright_core::{AppContext, Application, EmbeddedChannel, Fault, pipeline};
use std::{cell::RefCell, rc::Rc};

/// One byte is one message; `!` is an error, `#` the end of everything. Says at the end how much is left.
#[derive(Debug, Default)]
struct Letters {
    held: usize,
    pairs: bool,
}

#[derive(Debug)]
struct Wrong(char);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wrong: {}", self.0)
    }
}

impl std::error::Error for Wrong {}

impl Decoder for Letters {
    type Item = String;
    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<String>, DecodeError> {
        if self.pairs && bytes.len() < 2 {
            return Ok(None);
        }
        match char::from(bytes.get_u8()) {
            '!' => Err(DecodeError::recoverable(Wrong('!'))),
            '#' => Err(Wrong('#').into()),
            letter if self.pairs => Ok(Some(format!("{letter}{}", char::from(bytes.get_u8())))),
            letter => Ok(Some(letter.to_string())),
        }
    }
    fn decode_last(&mut self, bytes: &mut BytesMut) -> Result<Option<String>, DecodeError> {
        self.held = self.held.saturating_sub(1);
        Ok(Some(format!("last, {} left", bytes.len())))
    }
    fn has_more(&self) -> bool {
        self.held > 0
    }
}

type Log = Rc<RefCell<Vec<String>>>;

struct Note(Log);

impl Application for Note {
    type Read = String;
    type Write = Bytes;
    fn read(&mut self, cx: &mut AppContext<'_, Self>, letter: String) {
        if letter == "p" {
            cx.pause();
        }
        self.0.borrow_mut().push(letter);
    }
    fn error(&mut self, cx: &mut AppContext<'_, Self>, fault: Fault) {
        cx.write_and_flush(Bytes::from("sorry"));
        self.0.borrow_mut().push(format!("error: {fault}"));
    }
    fn input_closed(&mut self, _: &mut AppContext<'_, Self>) {
        self.0.borrow_mut().push("input closed".into());
    }
    fn inactive(&mut self, _: &mut AppContext<'_, Self>, cause: CloseCause) {
        self.0.borrow_mut().push(format!("inactive: {cause}"));
    }
}

fn noted(letters: Letters) -> (EmbeddedChannel<std::convert::Infallible, Bytes>, Log) {
    let log = Log::default();
    (EmbeddedChannel::new(pipeline().add(decode(letters)).app(Note(log.clone()))), log)
}

#[test]
fn an_error_that_says_so_lets_the_stream_go_on_and_keeps_its_place() {
    let (mut channel, log) = noted(Letters::default());
    channel.write_inbound("a!b!").write_inbound("c");
    assert_eq!(log.take(), ["a", "error: wrong: !", "b", "error: wrong: !", "c"]);
    assert!(channel.is_open());
}

#[test]
fn a_fatal_error_closes_even_if_somebody_takes_care_of_it_and_what_follows_is_dropped() {
    let (mut channel, log) = noted(Letters::default());
    channel.write_inbound("a#b").write_inbound("c");
    assert_eq!(log.take(), ["a", "error: wrong: #", "inactive: unhandled error: wrong: #"]);
    assert_eq!(channel.outbound_bytes(), b"sorry", "what it said is sent before");
    assert!(!channel.is_open());
}

#[test]
fn decode_last_is_called_once_with_the_rest_before_the_end_goes_on() {
    let (mut channel, log) = noted(Letters { pairs: true, ..Letters::default() });
    channel.write_inbound("abc").close_by_peer();
    assert_eq!(log.take(), ["ab", "last, 1 left", "inactive: closed by the peer"]);
    let (mut channel, log) = noted(Letters::default());
    channel.close_input().close_by_peer();
    assert_eq!(log.take(), ["last, 0 left", "input closed", "inactive: closed by the peer"]);
}

#[test]
fn a_decoder_that_holds_several_at_the_end_gives_them_all() {
    let (mut channel, log) = noted(Letters { held: 3, pairs: true });
    channel.close_by_peer();
    assert_eq!(log.borrow().iter().filter(|line| line.starts_with("last")).count(), 3);
}

#[test]
fn a_pause_between_two_messages_of_one_read_holds_the_second_and_the_end() {
    let (mut channel, log) = noted(Letters::default());
    channel.write_inbound("apbc").close_by_peer();
    assert_eq!(log.take(), ["a", "p"]);
    channel.channel().request();
    channel.run();
    assert_eq!(log.take(), ["b"]);
    channel.channel().resume();
    channel.run();
    assert_eq!(log.take(), ["c", "last, 0 left", "inactive: closed by the peer"]);
}

#[test]
fn stages_are_listed_by_the_decoders_name() {
    let (mut channel, _) = noted(Letters::default());
    let mut stages = channel.channel().stages();
    channel.run();
    assert_eq!(stages.try_take().unwrap().unwrap()[0].name, "Letters");
}
