use super::*;

/// Values, and the error that ended it.
fn decoded(mut decoder: JsonDecoder, text: &str) -> (Vec<Bytes>, Option<String>) {
    let mut bytes = BytesMut::from(text);
    let mut values = Vec::new();
    loop {
        match decoder.decode(&mut bytes) {
            Ok(Some(value)) => values.push(value),
            Ok(None) => return (values, None),
            Err(error) => return (values, Some(error.to_string())),
        }
    }
}

fn streamed(text: &str) -> (Vec<Bytes>, Option<String>) {
    decoded(JsonDecoder { stream_arrays: true, ..JsonDecoder::max(100) }, text)
}

#[test]
fn what_is_not_json_is_fatal_and_says_where() {
    for (text, error) in [
        ("x", "\"x\" cannot be at place 0 of a JSON value"),
        (" ,{}", "\",\" cannot be at place 0 of a JSON value"),
        ("{\"a\":1]", "\"]\" cannot be at place 6 of a JSON value"),
        ("[{}}", "\"}\" cannot be at place 3 of a JSON value"),
    ] {
        assert_eq!(decoded(JsonDecoder::max(100), text), (vec![], Some(error.to_owned())), "{text}");
    }
    for text in ["[1,]", "[,1]", "[1 2]", "[\"a\"\"b\"]", "[1}", "[:1]"] {
        assert!(streamed(text).1.is_some(), "{text}");
    }
}

#[test]
fn nesting_is_followed_to_the_limit_and_no_deeper() {
    let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let (values, error) = decoded(JsonDecoder::max(1000), &deep(128));
    assert_eq!((values.len(), error), (1, None));
    let (values, error) = decoded(JsonDecoder::max(1000), &deep(129));
    assert_eq!((values.len(), error.unwrap().as_str()), (0, "JSON nests deeper than the limit of 128"));
}

#[test]
fn a_number_that_was_skipped_may_end_with_any_byte_that_ends_one() {
    for fail_fast in [true, false] {
        for (behind, values) in [(",2,", vec!["2"]), (" ,2,", vec!["2"]), ("]{}", vec!["{}"])] {
            let mut decoder = JsonDecoder { stream_arrays: true, fail_fast, ..JsonDecoder::max(3) };
            let mut bytes = BytesMut::from("[12345");
            let mut errors = usize::from(decoder.decode(&mut bytes).is_err());
            bytes.extend_from_slice(behind.as_bytes());
            let mut got = Vec::new();
            for _ in 0..4 {
                match decoder.decode(&mut bytes) {
                    Ok(value) => got.extend(value),
                    Err(error) => {
                        assert!(!error.is_fatal());
                        errors += 1;
                    }
                }
            }
            assert_eq!(
                (got, errors),
                (values.into_iter().map(Bytes::from).collect(), 1),
                "{behind}, {fail_fast}"
            );
        }
    }
}
