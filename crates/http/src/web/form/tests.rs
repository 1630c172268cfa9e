use super::*;
use bytes::BytesMut;
use netwright_codec::{DecodeError, Decoder, decode};
use netwright_testkit::verify_decoder;

#[test]
fn fields_are_split_at_the_first_equals_sign_and_decoded() {
    let query = Query::parse("&a=b=c&&d&=e&%26=%3D+%2B&").unwrap();
    let fields: Vec<_> = query.iter().collect();
    assert_eq!(fields, [("a", "b=c"), ("d", ""), ("", "e"), ("&", "= +")]);
    assert_eq!(Query::of(&"/path".parse().unwrap()).unwrap().len(), 0);
}

#[test]
fn limits_and_bad_encoding_are_named() {
    let many = "a&".repeat(129);
    assert_eq!(Query::parse(&many), Err(FormError::TooManyFields { limit: 128 }));
    assert!(Query::parse(&"a&".repeat(128)).is_ok());
    let error = Query::parse(&"n".repeat(1025)).unwrap_err();
    assert_eq!(error.to_string(), "a field's name has 1025 bytes or more, the limit is 1024");
    assert_eq!(error.status(), 413);
    let error = Query::parse("a=%zz").unwrap_err();
    assert_eq!(error.to_string(), "field \"a\": the % at byte 0 is not followed by two hex digits");
    assert_eq!(Query::parse("n=x").unwrap().value::<u8>("n").unwrap_err().status(), 400);
}

/// Fields that end, for the verifier.
struct Ended(Urlencoded);

impl Decoder for Ended {
    type Item = (String, String);

    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<Self::Item>, DecodeError> {
        self.0.next(bytes).map_err(DecodeError::fatal)
    }
}

#[test]
fn a_form_reads_the_same_however_it_is_cut() {
    let field = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
    let limits = FormLimits { fields: 100, head_bytes: 8, field_bytes: 12, total_bytes: 4096 };
    verify_decoder!(decode(Ended(Urlencoded::with_limits(limits)));
        b"a=1&" => [field("a", "1")],
        b"&&b=%41+&" => [field("b", "A ")],
        b"c&=&" => [field("c", ""), field("", "")],
        b"x==%3d&" => [field("x", "==")],
    );
    verify_decoder!(decode(Ended(Urlencoded::with_limits(limits))); b"ok=1&123456789=1&" => [field("ok", "1"), Err("name has 9 bytes or more, the limit is 8")]);
}

#[test]
fn a_long_field_is_refused_before_it_is_kept_and_searched_once() {
    let mut form = Urlencoded::default();
    let mut body = BytesMut::from("a=");
    for _ in 0..1024 {
        body.extend_from_slice(&[b'x'; 1024]);
        assert_eq!(form.next(&mut body), Ok(None));
        assert_eq!(form.searched, body.len());
    }
    body.extend_from_slice(b"x");
    assert!(matches!(
        form.next(&mut body),
        Err(FormError::TooLong { what: "a field's value", limit: 1048576, got: 1048577 })
    ));
    let mut names = Urlencoded::default();
    assert!(names.next(&mut BytesMut::from(&[b'n'; 1025][..])).is_err());
    let limits = FormLimits { total_bytes: 6, ..FormLimits::default() };
    let mut body = BytesMut::from("a=1&b=2&");
    let mut form = Urlencoded::with_limits(limits);
    assert!(form.next(&mut body).unwrap().is_some());
    assert!(matches!(form.next(&mut body), Err(FormError::TooLong { what: "the form", limit: 6, got: 7 })));
}
