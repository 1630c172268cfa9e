//! Asks any of the time servers: `cargo run --release --example time_client -- 127.0.0.1:7001 3`. The same with nothing but the
//! standard library is `time_blocking_client`.

use netwright::{
    AppContext, Application, Client, CloseCause,
    codec::{LineFrames, Utf8},
    pipeline,
};
use netwright_examples::{ORDER_MAX, QUERY};
use std::error::Error;

/// Asks again after each answer, so many times; then closes.
struct Ask {
    left: usize,
}

impl Application for Ask {
    type Read = String;
    type Write = String;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.write_and_flush(QUERY.to_owned());
    }

    fn read(&mut self, cx: &mut AppContext<'_, Self>, now: String) {
        println!("now is {now}");
        self.left -= 1;
        if self.left == 0 {
            cx.close();
        } else {
            cx.write_and_flush(QUERY.to_owned());
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let address = args.next().unwrap_or_else(|| "127.0.0.1:7001".to_owned());
    let times = args.next().map_or(Ok(1), |times| times.parse())?;
    let client = Client::builder().pipeline(move || {
        pipeline().add(LineFrames::max(ORDER_MAX)).add(Utf8::strict()).app(Ask { left: times })
    })?;
    match client.connect(address).wait()?.closed().wait()? {
        CloseCause::Requested => Ok(()),
        cause => Err(cause.into()),
    }
}
