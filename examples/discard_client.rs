//! Sends as fast as the peer reads, for some seconds, with back pressure: it writes only while there is room.
//! `cargo run --release --example discard_client -- 127.0.0.1:7009 3`

use bytes::Bytes;
use netwright::{AppContext, Application, Client, Outgoing, pipeline, pipeline::StageTimer};
use std::{error::Error, time::Duration};

struct Flood {
    block: Bytes,
    time: Duration,
    sent: u64,
}

impl Flood {
    fn fill(&mut self, cx: &mut AppContext<'_, Self>) {
        // What was written counts only when the pipeline has carried it to the queue, so a few blocks per call.
        if cx.is_writable() {
            cx.write_and_flush(self.block.clone());
            self.sent += self.block.len() as u64;
        }
    }
}

impl Application for Flood {
    type Read = bytes::BytesMut;
    type Write = Outgoing;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.arm(self.time);
        self.fill(cx);
    }
    fn read(&mut self, _: &mut AppContext<'_, Self>, _: bytes::BytesMut) {}
    fn writability(&mut self, cx: &mut AppContext<'_, Self>, writable: bool) {
        if writable {
            self.fill(cx);
        }
    }
    fn timer(&mut self, cx: &mut AppContext<'_, Self>, _: StageTimer) {
        println!("{} MiB in {:?}", self.sent >> 20, self.time);
        cx.close();
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let address = args.next().unwrap_or_else(|| "127.0.0.1:7009".to_owned());
    let seconds = args.next().map_or(Ok(3), |seconds| seconds.parse())?;
    let client = Client::builder().pipeline(move || {
        // A block above the high water mark: after each, the channel says when there is room again.
        let block = Bytes::from(vec![0x5a; 128 * 1024]);
        pipeline().app(Flood { block, time: Duration::from_secs(seconds), sent: 0 })
    })?;
    client.connect(address).wait()?.closed().wait()?;
    Ok(())
}
