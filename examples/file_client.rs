//! Fetches one file from `file_server` and writes it to standard output.

use bytes::{Buf, Bytes, BytesMut};
use netwright::{AppContext, Application, Client, CloseCause, Outgoing, pipeline};
use std::{
    error::Error,
    io::{self, Write},
};

struct Fetch {
    name: String,
    head: Vec<u8>,
    /// How much of the file is still to come; `None` before the head.
    left: Option<u64>,
}

impl Application for Fetch {
    type Read = BytesMut;
    type Write = Outgoing;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.write_and_flush(Bytes::from(format!("{}\n", self.name)));
    }

    fn read(&mut self, cx: &mut AppContext<'_, Self>, mut bytes: BytesMut) {
        while self.left.is_none() && bytes.has_remaining() {
            match bytes.get_u8() {
                b'\n' => {
                    let head = String::from_utf8_lossy(&self.head).into_owned();
                    match head.parse() {
                        Ok(len) => self.left = Some(len),
                        Err(_) => return cx.fire_error(io::Error::other(head)),
                    }
                }
                byte => self.head.push(byte),
            }
        }
        let Some(left) = &mut self.left else { return };
        *left = left.saturating_sub(bytes.len() as u64);
        let done = *left == 0;
        if let Err(error) = io::stdout().write_all(&bytes) {
            return cx.fire_error(error);
        }
        if done {
            cx.close();
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let address = args.next().unwrap_or_else(|| "127.0.0.1:7010".to_owned());
    let name = args.next().ok_or("which file? file_client ADDRESS NAME")?;
    let client = Client::builder()
        .pipeline(move || pipeline().app(Fetch { name: name.clone(), head: Vec::new(), left: None }))?;
    match client.connect(address).wait()?.closed().wait()? {
        CloseCause::Requested => Ok(()),
        cause => Err(cause.into()),
    }
}
