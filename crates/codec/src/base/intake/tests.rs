use super::*;
use std::cell::Cell;

/// Messages of a length that their first byte tells, in units; counts the bytes that it looks at.
struct Units {
    unit: usize,
    tells: bool,
    needs: Option<usize>,
    calls: Cell<usize>,
}

impl Units {
    fn of(unit: usize) -> Self {
        Self { unit, tells: true, needs: None, calls: Cell::new(0) }
    }
}

impl Decoder for Units {
    type Item = BytesMut;
    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<BytesMut>, DecodeError> {
        self.calls.set(self.calls.get() + 1);
        let Some(&first) = bytes.first() else { return Ok(None) };
        let len = 1 + usize::from(first) * self.unit;
        if bytes.len() < len {
            self.needs = self.tells.then_some(len);
            return Ok(None);
        }
        self.needs = None;
        Ok(Some(take(bytes, len)))
    }
    fn needs(&self) -> Option<usize> {
        self.needs
    }
    fn limit(&self) -> usize {
        1 + 255 * self.unit
    }
}

fn drain<D: Decoder>(intake: &mut Intake, decoder: &mut D) -> Vec<D::Item> {
    std::iter::from_fn(|| intake.next(decoder)).map(Result::unwrap).collect()
}

#[test]
fn a_message_of_a_mebibyte_in_pieces_is_copied_once_and_its_room_made_once() {
    let mut decoder = Units::of(8192);
    let mut intake = Intake::default();
    let mut stream = vec![128u8];
    stream.resize(1 + 128 * 8192, b'x');
    let mut place = None;
    for piece in stream.chunks(16 * 1024) {
        intake.feed(BytesMut::from(piece));
        let messages = drain(&mut intake, &mut decoder);
        if let Some(message) = messages.first() {
            assert_eq!(Some(message.as_ptr()), place, "the message is the buffer that was filled");
            assert_eq!(message.len(), stream.len());
            return;
        }
        assert!(intake.is_waiting_alone());
        let now = Some(intake.rest().as_ptr());
        assert!(place.is_none() || place == now, "moved when {} bytes were there", intake.rest().len());
        place = now;
    }
    panic!("no message");
}

#[test]
fn room_is_made_on_the_word_of_a_peer_only_if_it_is_little() {
    let mut decoder = Units::of(64 * 1024);
    let mut intake = Intake::default();
    intake.feed(BytesMut::from(&[255u8][..]));
    assert!(drain(&mut intake, &mut decoder).is_empty());
    assert!(intake.rest().capacity() < 1024, "one byte says that 16 MiB follow");
    let mut small = Units::of(10);
    let mut intake = Intake::default();
    intake.feed(BytesMut::from(&[255u8][..]));
    assert!(drain(&mut intake, &mut small).is_empty());
    assert_eq!(intake.rest().capacity(), 2551);
}

#[test]
fn a_byte_at_a_time_is_one_call_for_each_and_room_that_doubles() {
    for tells in [true, false] {
        let mut decoder = Units { tells, ..Units::of(4096) };
        let mut intake = Intake::default();
        let (mut moves, mut place) = (0, std::ptr::null());
        intake.feed(BytesMut::from(&[255u8][..]));
        for byte in 0..255 * 4096 {
            assert!(intake.next(&mut decoder).is_none(), "{byte}");
            moves += usize::from(std::mem::replace(&mut place, intake.rest().as_ptr()) != place);
            intake.feed(BytesMut::from(&[0u8][..]));
        }
        assert_eq!(drain(&mut intake, &mut decoder).len(), 1);
        assert!(moves <= 20, "moved {moves} times");
        assert!(decoder.calls.get() <= 255 * 4096 + 2);
    }
}

#[test]
fn only_the_message_that_a_read_cuts_in_two_is_copied() {
    let mut decoder = Units::of(3);
    let mut intake = Intake::default();
    intake.feed(BytesMut::from(&[1u8, 0][..]));
    assert!(drain(&mut intake, &mut decoder).is_empty());
    let input = BytesMut::from(&[0u8, 0, 1, 2, 3, 4, 1, 5, 6, 7][..]);
    let place = input.as_ptr();
    intake.feed(input);
    let messages = drain(&mut intake, &mut decoder);
    assert_eq!(messages.len(), 3);
    assert_eq!([messages[1].as_ptr(), messages[2].as_ptr()], [place.wrapping_add(2), place.wrapping_add(6)]);
}

/// Does as it is told.
#[derive(Default)]
struct Odd {
    needs: Option<usize>,
    refuses: bool,
    endless: bool,
    limit: usize,
}

impl Decoder for Odd {
    type Item = ();
    fn decode(&mut self, _: &mut BytesMut) -> Result<Option<()>, DecodeError> {
        match self.refuses {
            true => Err(DecodeError::recoverable(std::fmt::Error)),
            false => Ok(self.endless.then_some(())),
        }
    }
    fn needs(&self) -> Option<usize> {
        self.needs
    }
    fn limit(&self) -> usize {
        self.limit
    }
}

fn first_error(mut decoder: Odd) -> DecodeError {
    let mut intake = Intake::default();
    intake.feed(BytesMut::from("12345"));
    (0..100_000).find_map(|_| intake.next(&mut decoder)?.err()).expect("an error")
}

#[test]
fn a_decoder_that_makes_no_progress_is_found_out_and_named() {
    let refuses = first_error(Odd { refuses: true, ..Odd::default() });
    let defect = DecoderDefect::RefusesInPlace { decoder: "Odd", has: 5 };
    assert_eq!(refuses.fault().downcast_ref(), Some(&defect));
    assert!(refuses.is_fatal());
    assert_eq!(refuses.to_string(), "Odd reported a recoverable error and took off none of 5 bytes");
    let waits = first_error(Odd { needs: Some(5), limit: 9, ..Odd::default() });
    assert_eq!(waits.to_string(), "Odd waits for 5 bytes, has 5 and makes nothing of them");
    let endless = first_error(Odd { endless: true, ..Odd::default() });
    assert_eq!(endless.to_string(), "Odd gave 65536 messages in a row without taking off a byte");
}

#[test]
fn a_message_without_an_end_is_given_up_at_the_limit() {
    let error = first_error(Odd { limit: 4, ..Odd::default() });
    assert!(error.is_fatal());
    assert_eq!(error.to_string(), "Odd has 5 bytes of a message without an end, the limit is 4");
}
