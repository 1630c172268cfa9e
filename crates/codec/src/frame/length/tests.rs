use super::*;

/// What a decoder makes of these bytes, whole: frames and errors.
fn decoded(mut decoder: LengthDecoder, bytes: &[u8]) -> Vec<Result<Bytes, FrameError>> {
    let mut bytes = BytesMut::from(bytes);
    let mut all = Vec::new();
    loop {
        match decoder.decode(&mut bytes) {
            Ok(Some(frame)) => all.push(Ok(frame)),
            Ok(None) => return all,
            Err(error) => {
                all.push(Err(*error.fault().downcast_ref().unwrap()));
                if error.is_fatal() {
                    return all;
                }
            }
        }
    }
}

fn frames(field: LengthField, bytes: &[u8]) -> Vec<Bytes> {
    decoded(field.decoder().unwrap(), bytes).into_iter().map(Result::unwrap).collect()
}

#[test]
fn the_examples_of_the_netty_manual_come_out_the_same() {
    let hello = b"HELLO, WORLD";
    let with = |header: &[u8]| [header, hello].concat();
    assert_eq!(frames(LengthField::new(2), &with(b"\0\x0c")), [&with(b"\0\x0c")[..]]);
    assert_eq!(frames(LengthField::new(2).strip(2), &with(b"\0\x0c")), [&hello[..]]);
    assert_eq!(frames(LengthField::new(2).adjustment(-2), &with(b"\0\x0e")), [&with(b"\0\x0e")[..]]);
    let offset = with(b"\xca\xfe\0\0\x0c");
    assert_eq!(frames(LengthField::new(3).offset(2), &offset), [&offset[..]]);
    let behind = with(b"\0\0\x0c\xca\xfe");
    assert_eq!(frames(LengthField::new(3).adjustment(2), &behind), [&behind[..]]);
    let both = with(b"\xca\0\x0c\xfe");
    let field = LengthField::new(2).offset(1).adjustment(1).strip(3);
    assert_eq!(frames(field, &both), [&with(b"\xfe")[..]]);
    let both = with(b"\xca\0\x10\xfe");
    let field = LengthField::new(2).offset(1).adjustment(-3).strip(3);
    assert_eq!(frames(field, &both), [&with(b"\xfe")[..]]);
}

#[test]
fn every_width_and_byte_order_is_read_and_written() {
    for width in [1, 2, 3, 4, 8] {
        for little in [false, true] {
            let prepender = LengthPrepender::new(width).unwrap().little_endian(little);
            let (mut out, mut bytes) = (crate::Batch::new(), BytesMut::new());
            for len in [0usize, 1, 200] {
                crate::Encoder::encode(&mut { prepender }, Bytes::from(vec![7; len]), &mut out).unwrap();
            }
            out.append_to(&mut bytes);
            let field = LengthField::new(width).little_endian(little).strip(width);
            let lengths: Vec<usize> = frames(field, &bytes).iter().map(Bytes::len).collect();
            assert_eq!(lengths, [0, 1, 200], "{width} bytes, little endian: {little}");
        }
    }
}

#[test]
fn lengths_that_cannot_be_right_are_fatal_and_say_what_they_are() {
    let negative = decoded(LengthField::new(8).decoder().unwrap(), &[0xff; 40]);
    assert_eq!(negative, [Err(FrameError::NegativeLength { length: -1 })]);
    let field = LengthField::new(1).offset(1).adjustment(-3);
    let short = decoded(field.decoder().unwrap(), b"\x01\x02 and more");
    let error = FrameError::EndsInHeader { length: 2, frame: 1, header: 2 };
    assert_eq!(short, [Err(error)]);
    assert_eq!(error.to_string(), "a frame's length of 2 makes 1 bytes in all, its header has 2");
}

#[test]
fn a_length_that_overflows_is_too_long_and_not_a_panic() {
    let field = LengthField::new(8).adjustment(i64::MAX - 8).max(1000);
    let mut stream = [0xff; 16];
    stream[0] = 0x7f;
    let got = decoded(field.decoder().unwrap(), &stream);
    assert_eq!(got, [Err(FrameError::TooLong { limit: 1000, got: i64::MAX as usize })]);
}

#[test]
fn a_frame_shorter_than_what_is_stripped_is_an_error_and_the_next_one_is_read() {
    let field = LengthField::new(1).strip(3);
    let got = decoded(field.decoder().unwrap(), b"\x01x\x03abc\x00\x02yz");
    let error = |frame| Err(FrameError::StripsTooMuch { strip: 3, frame });
    assert_eq!(got, [error(2), Ok(Bytes::from("c")), error(1), Ok(Bytes::new())]);
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let refused = |field: LengthField| field.decoder().unwrap_err().to_string();
    for width in [0, 5, 6, 7, 9, usize::MAX] {
        assert_eq!(LengthField::new(width).decoder().unwrap_err().parameter, "width");
        assert_eq!(LengthPrepender::new(width).unwrap_err().parameter, "width");
    }
    assert_eq!(
        refused(LengthField::new(4).offset(7).max(10)),
        "offset cannot be 7: a length of 4 bytes behind it ends beyond max, 10"
    );
    assert_eq!(LengthField::new(1).offset(usize::MAX).decoder().unwrap_err().parameter, "offset");
    assert_eq!(
        refused(LengthField::new(4).strip(11).max(10)),
        "strip cannot be 11: no frame has more than max, 10"
    );
    assert_eq!(
        refused(LengthField::new(1).adjustment(-256)),
        "adjustment cannot be -256: with a length of 1 bytes, no frame ends behind its header"
    );
    assert_eq!(LengthField::new(8).adjustment(i64::MAX).decoder().unwrap_err().parameter, "adjustment");
    assert!(LengthField::new(1).adjustment(-255).decoder().is_ok());
}

#[test]
fn a_length_that_does_not_fit_is_not_written() {
    let mut out = crate::Batch::new();
    let mut encode = |mut prepender: LengthPrepender, len: usize| {
        crate::Encoder::encode(&mut prepender, Bytes::from(vec![0; len]), &mut out)
            .map_err(|fault| fault.to_string())
    };
    let narrow = LengthPrepender::new(1).unwrap();
    assert_eq!(encode(narrow, 256), Err("a length of 256 does not fit into 1 bytes".to_owned()));
    assert_eq!(
        encode(narrow.counts_itself(true), 255),
        Err("a length of 256 does not fit into 1 bytes".to_owned())
    );
    assert_eq!(encode(narrow.adjustment(-3), 2), Err("a length of -1 does not fit into 1 bytes".to_owned()));
    assert_eq!(encode(narrow.adjustment(-3), 3), Ok(()));
}
