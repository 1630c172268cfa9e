//! Connections that have exchanged one message and then say nothing.

use super::{
    socket::{Ending, SILENCE, greet, open},
    source,
    talk::{Progress, Talk},
};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
};

/// Opens them one after the other, as they come in life, with one verified exchange on each. They are closed with the value.
pub(crate) fn hold(server: SocketAddr, talk: Talk, connections: usize) -> Result<Vec<TcpStream>, String> {
    let (asked, mut check, mut buffer) = (talk.asked(), talk.check(), vec![0; 4096]);
    let mut held = Vec::with_capacity(connections);
    for number in 0..connections {
        let failed = |why: String| format!("idle connection {number}: {why}");
        let mut stream = TcpStream::from(open(server, source(number), Ending::Reset).map_err(failed)?);
        if let Some(hello) = talk.hello() {
            greet(&mut stream, hello).map_err(failed)?;
        }
        let start = talk.start(number);
        let mut progress = Progress::from(start);
        let request = asked.at(start, asked.message);
        stream.write_all(request).map_err(|error| failed(error.to_string()))?;
        let mut answers = 0;
        while answers == 0 {
            match stream.read(&mut buffer) {
                Ok(0) => return Err(failed("the server has closed it".to_owned())),
                Ok(got) => answers = check.take(&mut progress, &buffer[..got]).map_err(failed)?,
                Err(error) => return Err(failed(format!("no answer within {SILENCE:?}: {error}"))),
            }
        }
        held.push(stream);
    }
    Ok(held)
}
