//! Applications that say too much, too little, or in the wrong order. Their peers are told what is true, others are served, and every
//! write is told how it ended.

use super::{
    app::{bytes, head, serving, whole},
    peer::Heard,
};
use crate::{
    codec::h2::code::ErrorCode,
    limits::HttpLimits,
    message::{HttpPart, ReplyHead, ReplyPart},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use std::{cell::RefCell, rc::Rc};

fn data(text: &'static str) -> ReplyPart {
    HttpPart::Data(Bytes::from_static(text.as_bytes()))
}

fn sized(len: u64) -> ReplyPart {
    let mut head = ReplyHead::from(StatusCode::OK);
    head.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(len));
    HttpPart::Head(head)
}

fn reset(code: ErrorCode) -> Heard {
    Heard::Reset { stream: 1, code }
}

/// Writes these parts to one request, with another one behind it that is answered. What the peer hears of the first, and whether each
/// write succeeded.
fn writes(method: &str, parts: fn() -> Vec<ReplyPart>) -> (Vec<Heard>, Vec<bool>) {
    let promises = Rc::new(RefCell::new(Vec::new()));
    let kept = promises.clone();
    let (mut peer, told) = serving(HttpLimits::default(), move |cx, part| match &part {
        HttpPart::Head(head) | HttpPart::Whole(head, _) if head.uri.path() == "/" => {
            for part in parts() {
                kept.borrow_mut().push(cx.write_tracked(part));
            }
            cx.flush();
        }
        HttpPart::Whole(..) => cx.write_and_flush(whole(200, 1)),
        _ => {}
    });
    peer.request(1, method, "/", &[], true).get(3, "/other").send();
    let heard = peer.hear();
    let (other, heard): (Vec<_>, Vec<_>) = heard.into_iter().partition(|heard| heard.stream() == 3);
    assert_eq!(other[0].status(), Some("200"), "others are served");
    peer.reset(1, ErrorCode::CANCEL).send(); // if it is still there
    peer.channel.run();
    let results = promises.take().into_iter().map(|mut written| match written.try_take() {
        Some(result) => result.is_ok(),
        None => panic!("a write that was not told how it ended: {told:?}"),
    });
    (heard, results.collect())
}

#[test]
fn a_body_without_a_head_is_a_500() {
    for parts in [|| vec![data("x")], || vec![HttpPart::End(None)]] {
        let (heard, written) = writes("GET", parts);
        assert_eq!(heard[0].status(), Some("500"));
        assert_eq!(written, [false]);
    }
}

#[test]
fn two_replies_are_one() {
    let (heard, written) = writes("GET", || vec![whole(200, 1), whole(200, 2)]);
    assert_eq!((heard[0].status(), bytes(&heard), heard.len()), (Some("200"), 1, 2));
    assert_eq!(written, [true, false]);
}

#[test]
fn a_head_within_a_body_ends_the_stream_whatever_its_length() {
    for parts in [
        || vec![head(200), data("x"), head(200)],
        || vec![head(200), data("x"), whole(200, 5)],
        || vec![head(200), data("x"), whole(200, 100_000)],
    ] {
        let (heard, written) = writes("GET", parts);
        assert_eq!(heard.len(), 3, "{heard:?}");
        assert_eq!(heard[2], reset(ErrorCode::INTERNAL_ERROR));
        assert_eq!(written, [true, true, false]);
    }
}

#[test]
fn bodies_that_are_not_as_long_as_was_said_end_the_stream() {
    for parts in [
        || vec![sized(5), data("abc"), HttpPart::End(None)],
        || vec![sized(5), data("abcdef")],
        || vec![sized(5), data("abc"), data("def")],
        || vec![sized(5), HttpPart::End(Some(Box::new(HeaderMap::new())))],
    ] {
        let (heard, written) = writes("GET", parts);
        assert_eq!(heard[0].status(), Some("200"));
        assert_eq!(heard.last(), Some(&reset(ErrorCode::INTERNAL_ERROR)), "{heard:?}");
        assert!(!heard.iter().any(|heard| matches!(heard, Heard::Data { end: true, .. })));
        assert_eq!(written.last(), Some(&false));
    }
}

#[test]
fn a_long_reply_that_contradicts_itself_is_a_500() {
    fn lying(len: usize) -> Vec<ReplyPart> {
        let HttpPart::Head(head) = sized(5) else { return Vec::new() };
        vec![HttpPart::Whole(head, vec![b'x'; len].into())]
    }
    for parts in [|| lying(6), || lying(100_000)] {
        let (heard, written) = writes("GET", parts);
        assert_eq!(heard[0].status(), Some("500"));
        assert_eq!(written, [false]);
    }
}

#[test]
fn replies_without_bodies_have_none_whatever_is_written() {
    for (method, status) in [("HEAD", 200), ("GET", 304)] {
        let parts = match status {
            304 => || vec![head(304), HttpPart::End(None)],
            _ => || vec![sized(5), data("abcde"), HttpPart::End(None)],
        };
        let (heard, written) = writes(method, parts);
        assert!(matches!(&heard[..], [Heard::Head { end: true, .. }]), "{heard:?}");
        assert!(written.iter().all(|written| *written), "{written:?}");
    }
    let (heard, written) = writes("HEAD", || vec![whole(200, 100_000)]);
    let Heard::Head { fields, end: true, .. } = &heard[0] else { panic!("{heard:?}") };
    assert!(fields.contains(&("content-length".to_owned(), "100000".to_owned())));
    assert_eq!((heard.len(), &written[..]), (1, &[true][..]));
    let (heard, _) = writes("GET", || vec![whole(204, 3)]);
    assert_eq!(heard[0].status(), Some("500"), "a body that cannot be");
}

#[test]
fn answers_before_the_answer_come_before_it_and_nowhere_else() {
    fn hint() -> ReplyPart {
        HttpPart::Interim(ReplyHead::from(StatusCode::EARLY_HINTS))
    }
    let (heard, written) = writes("GET", || vec![hint(), hint(), whole(200, 1)]);
    let statuses: Vec<_> = heard.iter().filter_map(Heard::status).collect();
    assert_eq!((statuses, written), (vec!["103", "103", "200"], vec![true; 3]));
    let (heard, written) = writes("GET", || vec![head(200), hint()]);
    assert_eq!((&heard[1], written), (&reset(ErrorCode::INTERNAL_ERROR), vec![true, false]));
    for status in [101, 200] {
        let parts = match status {
            101 => || vec![HttpPart::Interim(ReplyHead::from(StatusCode::SWITCHING_PROTOCOLS))],
            _ => || vec![HttpPart::Interim(ReplyHead::from(StatusCode::OK))],
        };
        assert_eq!(writes("GET", parts).0[0].status(), Some("500"));
    }
}

#[test]
fn trailers_that_belong_into_a_head_are_refused() {
    let (heard, _) = writes("GET", || {
        let mut trailers = HeaderMap::new();
        trailers.insert(header::CONTENT_LENGTH, HeaderValue::from(5));
        vec![head(200), HttpPart::End(Some(Box::new(trailers)))]
    });
    assert_eq!(heard[1], reset(ErrorCode::INTERNAL_ERROR));
}

#[test]
fn whoever_says_no_more_without_an_end_has_ended_if_that_is_all_that_was_said() {
    fn ends(method: &str, parts: fn() -> Vec<ReplyPart>) -> Vec<Heard> {
        let (mut peer, _) = serving(HttpLimits::default(), move |cx, _| {
            for part in parts() {
                cx.write(part);
            }
            cx.flush();
            cx.shut_down_output();
        });
        peer.request(1, method, "/", &[], true).send();
        peer.hear()
    }
    let heard = ends("GET", || vec![head(200), data("x")]);
    assert!(matches!(&heard[2], Heard::Data { end: true, .. }), "{heard:?}");
    let heard = ends("GET", || vec![sized(5), data("x")]);
    assert_eq!(heard[2], reset(ErrorCode::INTERNAL_ERROR), "{heard:?}");
    let heard = ends("HEAD", || vec![head(200)]);
    assert!(matches!(&heard[..], [Heard::Head { end: true, .. }]), "{heard:?}");
    assert_eq!(ends("GET", Vec::new)[0].status(), Some("500"));
    let heard = ends("GET", || vec![whole(200, 5)]);
    assert_eq!((heard.len(), bytes(&heard)), (2, 5));
}

#[test]
fn an_application_that_goes_away_resets_its_stream_at_every_point() {
    for (parts, said) in [(0, 0), (1, 1), (2, 2)] {
        let (mut peer, told) = serving(HttpLimits::default(), move |cx, _| {
            for part in [head(200), data("x")].into_iter().take(parts) {
                cx.write_and_flush(part);
            }
            cx.close_when_flushed();
        });
        peer.get(1, "/").send();
        let heard = peer.hear();
        assert_eq!((heard.len(), heard.last()), (said + 1, Some(&reset(ErrorCode::CANCEL))), "{heard:?}");
        assert_eq!(told.take(), ["ended: closed by our side"]);
    }
}

#[test]
fn a_panic_in_any_state_costs_its_stream_and_says_what_it_can() {
    for (parts, more) in [(0, 0), (1, 0), (2, 0), (1, 100_000)] {
        let (mut peer, _) = serving(HttpLimits::default(), move |cx, part| match part {
            HttpPart::Whole(..) => cx.write_and_flush(whole(200, 1)),
            HttpPart::Head(_) => {
                for part in [head(200), data("x")].into_iter().take(parts) {
                    cx.write_and_flush(part);
                }
                if more > 0 {
                    cx.write_and_flush(HttpPart::Data(vec![b'x'; more].into())); // more than the window
                }
            }
            _ => panic!("as it has to"),
        });
        peer.request(1, "POST", "/", &[], false).send();
        let mut heard = peer.hear();
        peer.window_update(0, 10_000).data(1, b"x", false).get(3, "/").send();
        heard.extend(peer.hear());
        if more > 0 {
            // It reads on when there is room for what it writes.
            peer.window_update(0, 100_000).window_update(1, 100_000).send();
            heard.extend(peer.hear());
        }
        assert!(heard.iter().any(|heard| heard.stream() == 3 && heard.status() == Some("200")), "{heard:?}");
        let first: Vec<_> = heard.iter().filter(|heard| heard.stream() == 1).collect();
        match parts {
            0 => assert_eq!((first[0].status(), first[2]), (Some("500"), &reset(ErrorCode::NO_ERROR))),
            _ => assert!(
                first.contains(&&reset(ErrorCode::INTERNAL_ERROR)),
                "{parts} {more} {} {:?}",
                bytes(&heard),
                heard.last()
            ),
        }
    }
}

#[test]
fn writes_that_wait_for_a_window_are_told_when_their_stream_is_reset() {
    let promises = Rc::new(RefCell::new(Vec::new()));
    let kept = promises.clone();
    let (mut peer, _) = serving(HttpLimits::default(), move |cx, _| {
        for part in [head(200), HttpPart::Data(vec![0; 100_000].into()), data("more"), HttpPart::End(None)] {
            kept.borrow_mut().push(cx.write_tracked(part));
        }
        cx.flush();
    });
    peer.get(1, "/").send();
    peer.hear();
    let done = |of: &mut Vec<netwright_core::Written>| -> Vec<Option<bool>> {
        of.iter_mut().map(|written| written.try_take().map(|result| result.is_ok())).collect()
    };
    assert_eq!(done(&mut promises.borrow_mut()), [Some(true), None, None, None]);
    peer.reset(1, ErrorCode::CANCEL).send();
    assert_eq!(done(&mut promises.borrow_mut())[1..], [Some(false), Some(false), Some(false)]);
}
