//! A message codec on real datagrams.

use bytes::Bytes;
use netwright::{
    Address, AppContext, Application, Datagrams, Event,
    codec::{EachDatagram, Lift, LineDecoder, LineEncoder, NotDecoded},
    datagram::Datagram,
    pipeline,
};
use std::{net::UdpSocket, sync::mpsc, time::Duration};

type Lines = EachDatagram<(LineDecoder, LineEncoder)>;

/// Answers each line in upper case, and tells of what it cannot read.
struct Shout(mpsc::Sender<String>);

impl Application for Shout {
    type Read = (Address, Bytes);
    type Write = (Address, Bytes);

    fn read(&mut self, cx: &mut AppContext<'_, Self>, (from, line): (Address, Bytes)) {
        cx.write_and_flush((from, line.to_ascii_uppercase().into()));
    }

    fn event(&mut self, _: &mut AppContext<'_, Self>, event: Event) {
        if let Some(NotDecoded { fault, .. }) = event.get::<NotDecoded>() {
            self.0.send(fault.to_string()).unwrap();
        }
    }
}

#[test]
fn a_codec_for_streams_serves_datagrams_and_outlives_a_bad_one() {
    let (sender, events) = mpsc::channel();
    let datagrams = Datagrams::builder()
        .pipeline(move || {
            let lines: Lines = EachDatagram((LineDecoder::max(100), LineEncoder::lf()));
            pipeline().add(Lift::<Datagram, _>::new(lines)).app(Shout(sender.clone()))
        })
        .unwrap();
    let channel = datagrams.bind("127.0.0.1:0").wait().unwrap();
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    peer.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let server = channel.local().and_then(|address| address.ip()).unwrap();
    peer.send_to(b"unfinished", server).unwrap();
    peer.send_to(b"one\ntwo\n", server).unwrap();
    let mut buffer = [0; 100];
    for answer in ["ONE\n", "TWO\n"] {
        let len = peer.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], answer.as_bytes(), "a datagram for each line");
    }
    let wrong = events.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(wrong, "10 bytes of a datagram of 10 are in no message");
    channel.close().wait().unwrap();
}
