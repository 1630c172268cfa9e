//! Sends files by name, without copying them through the program: `cargo run --release --example file_server -- DIR`,
//! then `cargo run --release --example file_client -- 127.0.0.1:7010 README.md`.
//!
//! A request is a line with a file name. The answer is a line with the length, and that many bytes; or a line that begins
//! with `ERROR`.

use bytes::BytesMut;
use netwright::{
    AppContext, Application, CloseCause, Context, Fault, Outgoing, Server,
    channel::FileRegion,
    event_loops, pipeline,
    pipeline::{InboundOnly, InboundStage, inbound},
};
use std::{error::Error, fs::File, path::PathBuf, sync::Arc};

/// The longest name that is read.
const NAME_MAX: usize = 255;

/// Cuts names out of bytes. Files and bytes pass it on their way out.
#[derive(Default)]
struct Names {
    rest: BytesMut,
}

impl InboundOnly for Names {
    type Read = BytesMut;
    type ReadOut = String;
    type Write = Outgoing;

    fn read(&mut self, _: &mut Context<'_, InboundStage<Self>>, bytes: BytesMut) {
        self.rest.extend_from_slice(&bytes);
    }

    fn pull(&mut self, cx: &mut Context<'_, InboundStage<Self>>) -> Option<String> {
        let Some(end) = self.rest.iter().take(NAME_MAX + 2).position(|&byte| byte == b'\n') else {
            if self.rest.len() > NAME_MAX {
                let text = format!("a name of {} bytes and more, the limit is {NAME_MAX}", self.rest.len());
                self.rest.clear();
                cx.close_because(CloseCause::Fault(Fault::new(text)));
            }
            return None;
        };
        let line = self.rest.split_to(end + 1);
        Some(String::from_utf8_lossy(&line).trim_end().to_owned())
    }
}

struct Files {
    root: Arc<PathBuf>,
}

impl Files {
    /// A plain name of a plain file below the root: no way leads out.
    fn open(&self, name: &str) -> Result<FileRegion, String> {
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\', '\0']) {
            return Err(format!("ERROR {name:?} is not a plain file name"));
        }
        let file = File::open(self.root.join(name)).map_err(|error| format!("ERROR {name:?}: {error}"))?;
        FileRegion::whole(file).map_err(|error| format!("ERROR {name:?}: {error}"))
    }
}

impl Application for Files {
    type Read = String;
    type Write = Outgoing;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, name: String) {
        match self.open(&name) {
            Ok(region) => {
                cx.write(format!("{}\n", region.remaining()));
                cx.write_and_flush(region);
            }
            Err(error) => cx.write_and_flush(format!("{error}\n")),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let root = Arc::new(PathBuf::from(args.next().unwrap_or_else(|| ".".to_owned())));
    let address = args.next().unwrap_or_else(|| "127.0.0.1:7010".to_owned());
    let server = Server::builder()
        .group(event_loops(1)?)
        .pipeline(move |_| pipeline().add(inbound(Names::default())).app(Files { root: root.clone() }))
        .bind(address)
        .wait()?;
    println!("files on {}", server.address());
    Ok(server.group().termination().wait()?)
}
