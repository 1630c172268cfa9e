//! A conversation that fails is recorded, and becomes a test: `cargo run --release --example record`
//!
//! A server that keeps a score has a bug. A client runs into it; the recording is played to the same stages, and to those
//! without the bug.

use netwright::{
    AppContext, Application, Server,
    codec::{LineFrames, Utf8},
    event_loops, pipeline,
    pipeline::IntoPipeline,
    record::{FlightRecorder, NewRecording, Recording, When},
};
use std::{
    error::Error,
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    sync::mpsc,
    time::Duration,
};

/// Adds and takes points away, one order in a line.
struct Score {
    points: u8,
    mended: bool,
}

impl Application for Score {
    type Read = String;
    type Write = String;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, order: String) {
        self.points = match (order.as_str(), self.mended) {
            ("more", _) => self.points.saturating_add(1),
            ("less", true) => self.points.saturating_sub(1),
            ("less", false) => self.points.checked_sub(1).expect("nobody has less than nothing"),
            _ => return cx.write_and_flush("more or less?".to_owned()),
        };
        cx.write_and_flush(format!("{} points", self.points));
    }
}

/// What stands behind the recorder, in the server and in a test.
fn score(mended: bool) -> impl IntoPipeline<String> {
    pipeline().add(LineFrames::max(100)).add(Utf8::strict()).app(Score { points: 0, mended })
}

/// In production: a client takes away what is not there. What the recorder makes of it.
fn in_production() -> Result<Recording, Box<dyn Error>> {
    let (send, files) = mpsc::channel();
    let flight = FlightRecorder::builder()
        .when(When::TROUBLE)
        .label("score")
        .to(move |file: &NewRecording| {
            println!("a recording because of: {}", file.why);
            let _ = send.send(file.recording()?);
            Ok(())
        })
        .build();
    let server = Server::builder()
        .group(event_loops(1)?)
        .pipeline(move |_| pipeline().add(flight.stage()).joint(|_| score(false)))
        .bind("127.0.0.1:0")
        .wait()?;

    let mut client = TcpStream::connect(server.address().to_string())?;
    client.write_all(b"more\nless\n")?;
    for line in BufReader::new(client.try_clone()?).lines().take(2) {
        println!("the client hears: {}", line?);
    }
    client.write_all(b"less\n")?;
    Ok(files.recv_timeout(Duration::from_secs(30))?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let recording = in_production()?;
    println!("\n{}", recording.show());

    // The test that fails as production did.
    let again = recording.replay().run(score(false));
    again.compare(&recording).with_the_same_end().check()?;
    println!("again: {}", again.cause().expect("it ended"));

    // And once it is mended.
    let mended = recording.replay().run(score(true));
    println!("mended: {:?}", String::from_utf8_lossy(&mended.sent_bytes()));
    assert_eq!(mended.sent_bytes(), b"1 points\n0 points\n0 points\n");
    Ok(())
}
