use super::*;

fn refused(delimiters: &[&str]) -> String {
    DelimiterDecoder::max(10, delimiters).unwrap_err().to_string()
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    assert_eq!(refused(&[]), "delimiters cannot be none: no frame would end");
    assert_eq!(refused(&["a", ""]), "delimiter cannot be \"\": there would be frames without end");
    assert_eq!(
        refused(&["\r\n", "\r"]),
        "delimiter cannot be \"\\r\": it ends inside \"\\r\\n\", which could never end a frame"
    );
    assert!(DelimiterDecoder::max(10, ["\n", "\r\n"]).is_ok(), "at its end it may be");
}

#[test]
fn a_frame_that_is_skipped_keeps_only_what_may_begin_a_delimiter() {
    let mut decoder = DelimiterDecoder::max(4, ["--end--"]).unwrap();
    decoder.fail_fast = false;
    let mut bytes = BytesMut::new();
    for _ in 0..1000 {
        bytes.extend_from_slice(b"--en-end");
        assert!(matches!(decoder.decode(&mut bytes), Ok(None)));
        assert!(bytes.len() <= 10);
    }
    bytes.extend_from_slice(b"--end--ok--end--");
    let error = decoder.decode(&mut bytes).unwrap_err();
    assert_eq!(error.to_string(), "a frame of 8000 bytes or more, the limit is 4");
    assert_eq!(decoder.decode(&mut bytes).unwrap().unwrap(), "ok");
}

#[test]
fn more_delimiters_than_the_vector_search_takes_are_found_as_well() {
    let mut decoder = DelimiterDecoder::max(4, ["1", "2", "3", "4", "ab"]).unwrap();
    let mut bytes = BytesMut::from("x1yb4zab");
    for frame in ["x", "yb", "z"] {
        assert_eq!(decoder.decode(&mut bytes).unwrap().unwrap(), frame);
    }
}
