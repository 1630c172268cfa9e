use super::*;
use netwright_core::{CloseCause, EmbeddedChannel, Fault, WriteError, pipeline};

/// Puts `<` and `>` around bytes; refuses those that hold an `!`, after having written most of it.
#[derive(Debug)]
struct Brackets;

impl Encoder for Brackets {
    type Message = Bytes;
    fn encode(&mut self, message: Bytes, out: &mut Batch) -> Result<(), Fault> {
        out.extend_from_slice(b"<");
        let refused = message.contains(&b'!');
        out.pass(message);
        if refused {
            return Err(std::fmt::Error.into());
        }
        out.extend_from_slice(b">");
        Ok(())
    }
}

fn channel() -> EmbeddedChannel<BytesMut, Bytes> {
    EmbeddedChannel::new(pipeline().add(encode(Brackets)))
}

fn large(byte: u8) -> Bytes {
    Bytes::from(vec![byte; 100_000])
}

#[test]
fn large_payloads_pass_as_they_are_between_what_was_gathered() {
    let mut channel = channel();
    let payload = large(b'x');
    for message in [Bytes::from("a"), payload.clone(), Bytes::from("b")] {
        channel.channel().write(message);
    }
    channel.channel().flush();
    assert_eq!(channel.read_outbound().unwrap(), "<a><");
    assert_eq!(channel.read_outbound().unwrap().as_ptr(), payload.as_ptr());
    assert_eq!(channel.read_outbound().unwrap(), "><b>");
}

#[test]
fn nothing_is_sent_of_a_message_that_cannot_be_encoded() {
    for refused in [Bytes::from("no!"), large(b'!')] {
        let mut channel = channel();
        channel.channel().write(Bytes::from("a"));
        let mut told = channel.channel().write_tracked(refused);
        channel.channel().write(Bytes::from("b"));
        channel.channel().flush();
        assert_eq!(channel.outbound_bytes(), b"<a><b>");
        assert!(matches!(told.try_take(), Some(Err(WriteError::Fault(_)))));
        assert!(channel.is_open(), "who wrote it knows");
    }
}

#[test]
fn an_error_that_nobody_waits_for_reaches_the_pipeline_and_harms_no_message_before() {
    for refused in [Bytes::from("no!"), large(b'!')] {
        let mut channel = channel();
        channel.channel().write(Bytes::from("a"));
        channel.channel().flush();
        channel.channel().write(Bytes::from("b"));
        channel.channel().write(refused);
        channel.channel().flush();
        assert!(channel.outbound_bytes().starts_with(b"<a>"));
        assert!(matches!(channel.channel().close_cause(), Some(CloseCause::Fault(_))));
    }
}

#[test]
fn a_large_tracked_message_leaves_in_pieces_and_is_told_of_with_the_last() {
    let mut channel = channel();
    channel.block_output(true);
    let told = channel.channel().write_tracked(large(b'x'));
    channel.run();
    assert!(!told.is_done() && !told.cancel(), "half of it could be on its way");
    let mut told = channel.channel().write_tracked(large(b'y'));
    channel.channel().flush();
    channel.run();
    assert!(told.try_take().is_none());
    channel.block_output(false);
    assert!(matches!(told.try_take(), Some(Ok(()))));
    let sent = channel.outbound_bytes();
    assert_eq!((sent.len(), sent[100_001], sent[100_002]), (200_004, b'>', b'<'));
}

struct Silent;

impl Encoder for Silent {
    type Message = ();
    fn encode(&mut self, (): (), _: &mut Batch) -> Result<(), Fault> {
        Ok(())
    }
}

#[test]
fn a_message_without_bytes_is_told_of_as_well() {
    let mut channel = EmbeddedChannel::<BytesMut, ()>::new(pipeline().add(encode(Silent)));
    let mut told = channel.channel().send(());
    channel.run();
    assert!(matches!(told.try_take(), Some(Ok(()))));
    assert!(channel.outbound_bytes().is_empty());
}
