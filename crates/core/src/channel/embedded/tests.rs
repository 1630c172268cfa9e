//! The embedded channel's own ends, of bytes and of messages.

use super::*;
use crate::{
    FileRegion, WriteError,
    channel::file_region::tests::file_with,
    pipeline::{Context, Handler, pipeline},
};

/// Passes everything on, files too.
struct Through;

impl Handler for Through {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    type WriteOut = Outgoing;

    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, msg: Outgoing, done: crate::WritePromise) {
        cx.write_with(msg, done);
    }
}

#[test]
fn a_file_that_ends_early_closes_the_channel_if_a_part_of_it_was_sent_and_fails_its_write_else() {
    for sent in [5, 0] {
        let mut channel = EmbeddedChannel::new(pipeline().add(Through));
        let region = FileRegion::new(file_with(&vec![7; sent]), 0, 10);
        let mut file = channel.channel().send(region);
        let mut behind = channel.channel().send(Bytes::from("next"));
        channel.run();
        assert!(matches!(file.try_take(), Some(Err(WriteError::File(_)))));
        if sent == 0 {
            assert!(channel.is_open() && matches!(behind.try_take(), Some(Ok(()))));
            assert_eq!(channel.outbound_bytes(), b"next");
            continue;
        }
        let cause = channel.channel().close_cause();
        assert!(
            matches!(&cause, Some(CloseCause::Io(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof),
            "{cause:?}"
        );
        assert!(matches!(behind.try_take(), Some(Err(WriteError::Closed(_)))));
        assert_eq!(channel.outbound_bytes(), vec![7; sent], "nothing is taken for the rest of the file");
    }
}
