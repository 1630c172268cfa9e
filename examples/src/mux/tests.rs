use super::{Frame, Kind, Mux, MuxError, MuxLimits, Open, OpenError, code};
use bytes::BytesMut;
use netwright::{
    CloseCause, EmbeddedChannel, Event, Outgoing, channel::ShuttingDown, pipeline, pipeline::Segment,
};
use std::convert::Infallible;

type Side = EmbeddedChannel<Infallible, Open<Outgoing>>;

fn echo() -> impl Segment<BytesMut, Outgoing, Tail = Outgoing> {
    pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())).starts_over().into_segment()
}

fn server(limits: MuxLimits) -> Side {
    EmbeddedChannel::new(pipeline().last(Mux::server(echo).limits(limits)))
}

fn data(stream: u32, text: &str) -> Vec<u8> {
    Frame::encode(stream, &Kind::Data(BytesMut::from(text))).to_vec()
}

fn said(stream: u32, kind: Kind) -> Vec<u8> {
    Frame::encode(stream, &kind).to_vec()
}

fn frames(side: &mut Side) -> Vec<Frame> {
    let mut bytes = BytesMut::from(&side.outbound_bytes()[..]);
    let all = std::iter::from_fn(|| Frame::decode(&mut bytes, &MuxLimits::default()).unwrap()).collect();
    assert!(bytes.is_empty());
    all
}

/// The bytes of one stream.
fn bytes_of(frames: &[Frame], number: u32) -> Vec<u8> {
    let of = |frame: &Frame| match &frame.kind {
        Kind::Data(bytes) if frame.stream == number => bytes.to_vec(),
        _ => Vec::new(),
    };
    frames.iter().flat_map(of).collect()
}

fn fault(side: &Side) -> MuxError {
    match side.channel().close_cause() {
        Some(CloseCause::Fault(fault)) => fault.downcast_ref::<MuxError>().expect("of ours").clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn streams_are_told_apart_whole_byte_by_byte_and_glued() {
    let all = [data(1, "one"), data(3, "three"), data(1, "more")].concat();
    let mut answers = Vec::new();
    for size in [1, 2, 5, all.len()] {
        let mut side = server(MuxLimits::default());
        for piece in all.chunks(size) {
            side.write_inbound(piece);
        }
        let frames = frames(&mut side);
        answers.push((bytes_of(&frames, 1), bytes_of(&frames, 3)));
    }
    assert!(answers.iter().all(|answer| *answer == (b"onemore".to_vec(), b"three".to_vec())), "{answers:?}");
}

#[test]
fn a_connection_that_is_cut_in_a_frame_ends_its_streams_and_nothing_else_happens() {
    let whole = data(1, "hello");
    for cut in 0..whole.len() {
        let mut side = server(MuxLimits::default());
        side.write_inbound(data(3, "x")).write_inbound(&whole[..cut]);
        side.close_by_peer();
        let frames = frames(&mut side);
        assert_eq!((bytes_of(&frames, 1), bytes_of(&frames, 3)), (Vec::new(), b"x".to_vec()));
    }
}

#[test]
fn every_bad_frame_ends_the_connection_with_an_error_that_names_it() {
    let limits = MuxLimits { frame: 8, credit: 10, ..MuxLimits::default() };
    let too_long = (MuxError::FrameTooLong { length: 9, limit: 8 }, data(1, "123456789"));
    let ended = [said(1, Kind::End), data(1, "x")].concat();
    let cases = [
        too_long,
        (MuxError::UnknownKind(9), vec![0, 0, 9, 0, 0, 0, 1]),
        (MuxError::WrongLength { kind: 1, length: 1, expected: 0 }, vec![0, 1, 1, 0, 0, 0, 1, 0]),
        (MuxError::WrongLength { kind: 2, length: 3, expected: 4 }, vec![0, 3, 2, 0, 0, 0, 1, 0, 0, 0]),
        (MuxError::WrongNumber(0), data(0, "x")),
        (MuxError::WrongNumber(2), data(2, "x")),
        (MuxError::CreditOverflow(1), [data(1, "x"), said(1, Kind::Credit(u32::MAX))].concat()),
    ];
    for (error, bytes) in cases {
        let mut side = server(limits);
        side.write_inbound(&bytes);
        assert_eq!(fault(&side), error);
        assert!(!error.to_string().is_empty());
    }
    // A stream that both sides have ended is over, and what comes late is dropped; one that answers still knows its end.
    let mut side = EmbeddedChannel::<Infallible, Open<Outgoing>>::new(pipeline().last(Mux::server(waits)));
    side.write_inbound(&ended);
    assert_eq!(fault(&side), MuxError::BehindTheEnd(1));
}

/// Reads nothing, and does not end.
fn waits() -> impl Segment<BytesMut, Outgoing, Tail = Outgoing> {
    use netwright::{AppContext, Application};
    struct Waits;
    impl Application for Waits {
        type Read = BytesMut;
        type Write = Outgoing;
        fn active(&mut self, cx: &mut AppContext<'_, Self>) {
            cx.pause();
        }
        fn read(&mut self, _: &mut AppContext<'_, Self>, _: BytesMut) {}
    }
    pipeline().app(Waits).into_segment()
}

#[test]
fn limits_are_what_they_say_and_one_more_is_too_much() {
    let limits = MuxLimits { frame: 4, streams: 2, credit: 6 };
    let mut side: Side = EmbeddedChannel::new(pipeline().last(Mux::server(waits).limits(limits)));
    side.write_inbound(data(1, "1234")).write_inbound(data(1, "56"));
    assert!(side.is_open(), "as much as was granted");
    side.write_inbound(data(3, "")).write_inbound(data(5, ""));
    let refused = Frame { stream: 5, kind: Kind::Reset(code::REFUSED) };
    assert_eq!(frames(&mut side), [refused], "a third stream");
    side.write_inbound(data(1, "7"));
    assert_eq!(fault(&side), MuxError::TooMuch { stream: 1, sent: 1, granted: 0 });
}

#[test]
fn who_does_not_read_holds_up_itself_alone() {
    let mut builds = 0;
    let mut side: Side = EmbeddedChannel::new(pipeline().last(Mux::server(move || {
        builds += 1;
        let first = builds == 1;
        pipeline()
            .handle(move |cx, bytes: BytesMut| {
                cx.write_and_flush(bytes.freeze());
                if first {
                    cx.pause();
                }
            })
            .into_segment()
    })));
    side.write_inbound([data(1, "read, "), data(1, "not read"), data(3, "others are")].concat());
    let frames = frames(&mut side);
    assert_eq!((bytes_of(&frames, 1), bytes_of(&frames, 3)), (b"read, ".to_vec(), b"others are".to_vec()));
    let credits: Vec<_> = frames.iter().filter(|frame| matches!(frame.kind, Kind::Credit(_))).collect();
    assert_eq!(credits.len(), 2, "for what was read: {frames:?}");
}

#[test]
fn what_is_sent_waits_for_credit_and_streams_take_turns() {
    let limits = MuxLimits { frame: 4, credit: 6, ..MuxLimits::default() };
    let mut side: Side = EmbeddedChannel::new(pipeline().last(Mux::client(echo).limits(limits)));
    let mut open = || {
        let (open, mut stream) = Open::new();
        side.write_outbound(open);
        stream.wait().unwrap()
    };
    let (one, other) = (open(), open());
    one.write_and_flush("abcdefghij");
    other.write_and_flush("ABCDEFGHIJ");
    let sent = frames(&mut side);
    let order: Vec<_> = sent.iter().map(|frame| frame.stream).collect();
    assert_eq!(order, [1, 3, 1, 3], "{sent:?}");
    assert_eq!((bytes_of(&sent, 1), bytes_of(&sent, 3)), (b"abcdef".to_vec(), b"ABCDEF".to_vec()));
    side.write_inbound(said(1, Kind::Credit(3)));
    assert_eq!(bytes_of(&frames(&mut side), 1), b"ghi");
    side.write_inbound(said(1, Kind::Credit(100)));
    assert_eq!(bytes_of(&frames(&mut side), 1), b"j");
}

#[test]
fn a_client_and_a_server_talk_through_many_streams() {
    let mut client: Side = EmbeddedChannel::new(pipeline().last(Mux::client(echo)));
    let mut server = server(MuxLimits::default());
    let open = |client: &mut Side| {
        let (open, mut stream) = Open::new();
        client.write_outbound(open);
        stream.wait()
    };
    let streams: Vec<_> = (0..100).map(|_| open(&mut client).unwrap()).collect();
    assert_eq!(open(&mut client).err(), Some(OpenError::TooMany(100)));
    for stream in &streams {
        stream.write_and_flush("ping");
        stream.shut_down_output();
    }
    let there = client.outbound_bytes();
    let back = server.write_inbound(&there).outbound_bytes();
    client.write_inbound(&back);
    client.run();
    assert!(streams.iter().all(|stream| stream.close_cause().is_some()), "both sides have said all");
    assert!(open(&mut client).is_ok(), "there is room again");
}

#[test]
fn a_shutdown_finishes_what_has_begun_and_takes_nothing_new() {
    let mut side = server(MuxLimits::default());
    side.write_inbound(data(1, "begun"));
    side.channel().fire_event(Event::new(ShuttingDown));
    side.run().write_inbound(data(3, "too late"));
    let frames = frames(&mut side);
    assert!(frames.contains(&Frame { stream: 3, kind: Kind::Reset(code::REFUSED) }), "{frames:?}");
    assert!(side.is_open());
    side.write_inbound(said(1, Kind::End));
    assert!(!side.is_open());
}
