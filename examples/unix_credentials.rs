//! A Unix socket that only its owner may use, a server that knows who connects, and a file that goes along with a message:
//! `cargo run --release --example unix_credentials`

#[cfg(unix)]
mod unix {
    use bytes::BytesMut;
    use netwright::{
        AppContext, Application, Client, Outgoing, Server,
        channel::{Envelope, PeerCredentials, ReceivedDescriptors},
        options::ListenerOptions,
        pipeline,
    };
    use std::{
        error::Error,
        fs::File,
        io::{Read, Seek, Write},
        sync::mpsc,
    };

    /// Reads the file that came along with a message, and says who sent it.
    struct Reader;

    impl Application for Reader {
        type Read = BytesMut;
        type Write = Outgoing;

        fn read(&mut self, cx: &mut AppContext<'_, Self>, message: BytesMut) {
            let channel = cx.channel();
            let (who, files) =
                (channel.attribute::<PeerCredentials>(), channel.attribute::<ReceivedDescriptors>());
            let mut answer = format!("{} from {who:?}: ", String::from_utf8_lossy(&message));
            for descriptor in files.iter().flat_map(|files| files.take()) {
                if let Err(error) = File::from(descriptor).read_to_string(&mut answer) {
                    answer += &error.to_string();
                }
            }
            cx.write_and_flush(Outgoing::from(answer));
        }
    }

    pub(crate) fn run() -> Result<(), Box<dyn Error>> {
        let path = std::env::temp_dir().join(format!("netwright-example-{}", std::process::id()));
        let server = Server::builder()
            .listener_options(ListenerOptions::new().unix_mode(0o600)) // nobody but us
            .receive_descriptors(1)
            .pipeline(|accepted| {
                println!("{:?} connects", accepted.credentials);
                pipeline().app(Reader)
            })
            .bind(format!("unix:{}", path.display()))
            .wait()?;

        let (tell, answers) = mpsc::channel();
        let client = Client::builder().pipeline(move || pipeline().app(Teller(tell.clone())))?;
        let channel = client.connect(server.address()).wait()?;
        let mut file =
            File::options().read(true).write(true).create_new(true).open(path.with_extension("txt"))?;
        std::fs::remove_file(path.with_extension("txt"))?; // it has no name any more: only who is given it can read it
        file.write_all(b"what the file says")?;
        file.rewind()?;
        channel.send(Envelope::new("a file").with_descriptor(file)).wait()?;
        println!("{}", String::from_utf8_lossy(&answers.recv()?));
        channel.close().wait()?;
        Ok(())
    }

    struct Teller(mpsc::Sender<BytesMut>);

    impl Application for Teller {
        type Read = BytesMut;
        type Write = Outgoing;

        fn read(&mut self, _: &mut AppContext<'_, Self>, answer: BytesMut) {
            self.0.send(answer).unwrap_or_default();
        }
    }
}

#[cfg(unix)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    unix::run()
}

#[cfg(not(unix))]
fn main() {
    println!("this system has no Unix sockets");
}
