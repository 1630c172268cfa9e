use super::*;
use netwright_codec::{DecodeError, Decoder, MessageDecoder, Messages, decode, decode_messages};
use netwright_core::{InboundOnly, InboundStage};
use netwright_testkit::{fuzz_decoder, verify_decoder};

const SMALL: FormLimits = FormLimits { fields: 100, head_bytes: 120, field_bytes: 40, total_bytes: 20_000 };

/// Bytes of a connection as a body that has no end, for the verifier.
struct Endless(Multipart);

impl Decoder for Endless {
    type Item = MultipartEvent;

    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<MultipartEvent>, DecodeError> {
        self.0.next(bytes).map_err(DecodeError::fatal)
    }
}

/// What does not depend on how a body is cut.
#[derive(Debug, Clone, PartialEq)]
enum Seen {
    Part(String, Option<String>, Option<String>),
    Byte(u8),
    End,
}

struct Apart;

impl MessageDecoder for Apart {
    type In = MultipartEvent;
    type Out = Seen;
    fn decode(&mut self, event: MultipartEvent, out: &mut Messages<Seen>) -> Result<(), DecodeError> {
        match event {
            MultipartEvent::Part(head) => out.push(Seen::Part(
                head.name().to_owned(),
                head.file_name().map(str::to_owned),
                head.content_type().map(str::to_owned),
            )),
            MultipartEvent::Data(data) => {
                assert!(!data.is_empty());
                data.iter().for_each(|&byte| out.push(Seen::Byte(byte)));
            }
            MultipartEvent::End => out.push(Seen::End),
        }
        Ok(())
    }
}

fn field(name: &str, data: &[u8]) -> Vec<Result<Seen, &'static str>> {
    let part = Seen::Part(name.to_owned(), None, None);
    std::iter::once(part)
        .chain(data.iter().map(|&byte| Seen::Byte(byte)))
        .chain([Seen::End])
        .map(Ok)
        .collect()
}

macro_rules! verify {
    ($($samples:tt)+) => {
        verify_decoder!(decode(Endless(Multipart::new("XX").unwrap().limits(SMALL))), decode_messages(Apart); $($samples)+)
    };
}

fn body(parts: &str) -> Result<Vec<FormPart>, MultipartError> {
    Multipart::new("XX").unwrap().read_all(Bytes::copy_from_slice(parts.as_bytes()))
}

fn one(head: &str) -> Result<PartHead, MultipartError> {
    body(&format!("--XX\r\n{head}\r\n\r\ndata\r\n--XX--\r\n")).map(|mut parts| parts.remove(0).head)
}

#[test]
fn fields_and_files_read_the_same_however_the_body_is_cut() {
    let file = Seen::Part("f".into(), Some("a.txt".into()), Some("text/plain".into()));
    let file: Vec<Result<Seen, &str>> = [file]
        .into_iter()
        .chain(b"\r\n--X\r".iter().map(|&byte| Seen::Byte(byte)))
        .chain([Seen::End])
        .map(Ok)
        .collect();
    verify!(
        b"--XX\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\none\r\n--XX" => field("a", b"one"),
        b"\r\nContent-Disposition: form-data; name=b\r\n\r\n\r\n--XX" => field("b", b""),
        b"\r\ncontent-disposition: form-data; name=\"f\"; filename=\"a.txt\"\r\ncontent-type: text/plain\r\n\r\n\r\n--X\r\r\n--XX" => file,
        b"\r\nContent-Disposition:form-data;name=c\r\n\r\n\r\r\n\r\n-\r\n--\r\n--XX" => field("c", b"\r\r\n\r\n-\r\n--"),
    );
}

#[test]
fn errors_are_the_same_however_the_body_is_cut() {
    verify!(b"-\nXX" => [Err("does not begin with its boundary")]);
    verify!(b"--XX \r\n" => [Err("follows a boundary on its line")]);
    verify!(b"--XX\r\nno colon\r\n\r\n" => [Err("a line has no colon")]);
    verify!(b"--XX--\r\nmore" => [Err("follows the last delimiter")]);
    verify!(b"--XX\r\nContent-Disposition: form-data; name=a\r\n\r\n--XX\r\n" => [
        Ok(Seen::Part("a".into(), None, None)), Err("no empty line"),
    ]);
    let fits = format!("--XX\r\nContent-Disposition: form-data; name={}\r\n\r\n", "n".repeat(83));
    assert_eq!(fits.len(), 6 + SMALL.head_bytes + 4);
    verify!(fits.as_bytes() => [Ok(Seen::Part("n".repeat(83), None, None))]);
    let long = format!("--XX\r\nx: {}\r\n\r\n", "y".repeat(118));
    verify!(long.as_bytes() => [Err("a part's head has 121 bytes or more, the limit is 120")]);
}

#[test]
fn names_are_read_as_browsers_write_them() {
    let head =
        one("Content-Disposition: form-data; name=\"a%22b\"; filename=\"C:\\dir\\caf\u{e9}.txt\"").unwrap();
    assert_eq!((head.name(), head.file_name()), ("a%22b", Some("C:\\dir\\café.txt")));
    assert_eq!(head.safe_file_name(), Some("café.txt"));
    let head = one("Content-Disposition: form-data; name=\"a\\\"b\"; filename=\"\"").unwrap();
    assert_eq!((head.name(), head.file_name(), head.safe_file_name()), ("a\"b", Some(""), None));
    let head = one("Content-Disposition: form-data; name=a; filename*=UTF-8''%e2%82%ac").unwrap();
    assert_eq!(head.file_name(), Some("€"));
    let head = one("Content-Disposition: form-data; name=a; filename=plain; filename*=UTF-8''other").unwrap();
    assert_eq!(head.file_name(), Some("plain"));
}

#[test]
fn file_names_that_could_lead_elsewhere_are_not_safe() {
    for name in [
        "..",
        ".",
        "../..",
        ".htaccess",
        "a/../..",
        "x\u{7f}",
        "a.",
        "a ",
        "con:",
        "dir/",
        "a?b",
        &"x".repeat(256),
    ] {
        let head = PartHead::parse(
            format!("content-disposition: form-data; name=a; filename=\"{name}\"").as_bytes(),
        );
        match head {
            Ok(head) => assert_eq!(head.safe_file_name(), None, "{name:?}"),
            Err(error) => assert!(error.to_string().contains("control"), "{name:?}: {error}"),
        }
    }
    let head =
        PartHead::parse(b"content-disposition: form-data; name=a; filename=\"../../etc/passwd\"").unwrap();
    assert_eq!(head.safe_file_name(), Some("passwd"));
}

#[test]
fn heads_that_are_wrong_are_refused() {
    for (head, what) in [
        ("X: y", "no Content-Disposition"),
        ("Content-Disposition: attachment; name=a", "not form-data"),
        ("Content-Disposition: form-data", "has no name"),
        ("Content-Disposition: form-data; name=a; name=b", "name twice"),
        ("Content-Disposition: form-data; name=\"a", "no end"),
        ("Content-Disposition: form-data; name=a\r\nContent-Disposition: form-data; name=b", "comes twice"),
        ("Content-Disposition : form-data; name=a", "no token"),
        ("Content-Disposition: form-data; name=a\r\n folded", "no colon"),
        ("Content-Disposition: form-data; name=a\nX: y", "control"),
        ("Content-Disposition: form-data; name=a; filename*=latin1''a", "UTF-8"),
        ("\u{0}: y", "no token"),
    ] {
        let error = one(head).unwrap_err().to_string();
        assert!(error.contains(what), "{head:?} gives {error:?}");
    }
    let many = "a: b\r\n".repeat(17);
    assert!(
        one(&format!("{many}Content-Disposition: form-data; name=a"))
            .unwrap_err()
            .to_string()
            .contains("more than 16")
    );
}

#[test]
fn each_limit_is_kept_and_named() {
    let part = "--XX\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n";
    let many = |count: usize| body(&format!("{}--XX--", part.repeat(count)));
    assert_eq!(many(128).unwrap().len(), 128);
    assert_eq!(many(129), Err(MultipartError::TooManyParts { limit: 128 }));
    assert_eq!(many(129).unwrap_err().status(), 413);

    // 1024 bytes of a head that is not understood yet, and not one more.
    let mut form = Multipart::new("XX").unwrap();
    let mut bytes = BytesMut::from("--XX\r\n");
    bytes.extend_from_slice(&[b'h'; 1024]);
    assert_eq!(form.next(&mut bytes), Ok(None));
    bytes.extend_from_slice(b"h");
    let error = form.next(&mut bytes).unwrap_err();
    assert_eq!(error, MultipartError::TooLong { what: "a part's head", limit: 1024, got: 1025 });
    assert_eq!(form.next(&mut bytes), Err(MultipartError::AfterError));

    let data = |name: &str, len: usize| {
        let body =
            format!("--XX\r\nContent-Disposition: form-data; {name}\r\n\r\n{}\r\n--XX--", "d".repeat(len));
        Multipart::new("XX").unwrap().limits(SMALL).read_all(body.into())
    };
    assert!(data("name=a", 40).is_ok());
    assert!(
        data("name=a", 41).unwrap_err().to_string().contains("a field has 41 bytes or more, the limit is 40")
    );
    assert!(data("name=a; filename=f", 4100).is_ok(), "files are not fields");
    let mut form = Multipart::new("XX").unwrap().limits(SMALL);
    let mut bytes = BytesMut::from("--XX\r\nContent-Disposition: form-data; name=a\r\n\r\n");
    bytes.extend_from_slice(&[b'd'; 50]);
    assert!(matches!(form.next(&mut bytes), Ok(Some(MultipartEvent::Part(_)))));
    assert!(
        matches!(form.next(&mut bytes), Ok(Some(MultipartEvent::Data(data))) if data.len() == 40),
        "what fits comes first"
    );
    assert!(form.next(&mut bytes).is_err());
    assert!(data("name=a; filename=f", 20_000).unwrap_err().to_string().contains("the limit is 20000"));
}

#[test]
fn a_body_that_ends_early_or_late_is_an_error() {
    let whole = "--XX\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--XX--";
    for end in 0..whole.len() {
        assert!(body(&whole[..end]).is_err(), "cut at {end}");
    }
    assert!(body(whole).is_ok() && body(&format!("{whole}\r\n")).is_ok());
    assert!(body(&format!("\r\n{whole}")).is_ok(), "an empty line before the first delimiter");
    for rest in ["\r", "\n", "\r\n\r\n", "x", "\r\nepilogue"] {
        assert!(body(&format!("{whole}{rest}")).is_err(), "{rest:?}");
    }
    assert_eq!(body("--XX--").unwrap().len(), 0, "no part is a form too");
}

#[test]
fn types_and_boundaries_are_checked() {
    for (value, what) in [
        ("text/plain", "is not multipart/form-data"),
        ("multipart/mixed; boundary=x", "is not multipart/form-data"),
        ("multipart/form-data", "no boundary"),
        ("multipart/form-data; boundary=\"\"", "0 bytes"),
        ("multipart/form-data; boundary=\"a \"", "not allowed"),
        ("multipart/form-data; boundary=\"a;b\"", "not allowed"),
    ] {
        let error = Multipart::of(value).unwrap_err();
        assert_eq!(error.status(), 415);
        assert!(error.to_string().contains(what), "{value:?} gives {error}");
    }
    assert!(Multipart::new(&"x".repeat(70)).is_ok() && Multipart::new(&"x".repeat(71)).is_err());
    assert!(Multipart::of("multipart/form-data; boundary=----WebKitFormBoundaryABC").is_ok());
}

#[test]
fn a_large_file_is_given_out_as_it_comes_and_never_kept() {
    let mut form = Multipart::new("XX").unwrap();
    let mut bytes = BytesMut::from("--XX\r\nContent-Disposition: form-data; name=a; filename=b\r\n\r\n");
    let (mut given, mut sent) = (0, 0);
    assert!(matches!(form.next(&mut bytes), Ok(Some(MultipartEvent::Part(_)))));
    for round in 0..2000u32 {
        // Nothing but beginnings of delimiters.
        let piece: &[u8] = if round % 2 == 0 { b"\r\n--X\r\n--X\r\n--" } else { b"\r\n-\r\r\n--Xx" };
        bytes.extend_from_slice(piece);
        sent += piece.len();
        while let Some(MultipartEvent::Data(data)) = form.next(&mut bytes).unwrap() {
            given += data.len();
        }
        assert!(bytes.len() < 6, "only what may be a delimiter is kept: {bytes:?}");
    }
    assert_eq!(given + bytes.len(), sent);
}

/// Keeps the fuzzer's messages apart from how data is cut.
struct Keep;

impl InboundOnly for Keep {
    type Read = Seen;
    type ReadOut = Seen;
    type Write = Bytes;
    fn read(&mut self, cx: &mut netwright_core::Context<'_, InboundStage<Self>>, seen: Seen) {
        cx.fire_read(seen);
    }
}

#[test]
fn attacks_end_in_parts_or_errors() {
    fuzz_decoder!(
        "multipart",
        decode(Endless(Multipart::new("XX").unwrap().limits(SMALL))),
        decode_messages(Apart),
        netwright_core::inbound(Keep)
    );
}
