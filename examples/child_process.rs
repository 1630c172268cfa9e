//! A child process as a channel: what is written is its standard input, what is read its standard output.
//! `cargo run --release --example child_process`, or with a program of your own: `… -- sort -r`

#[cfg(unix)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use bytes::Bytes;
    use netwright::{Client, pipeline, transport::Pipes};
    use std::{
        env,
        process::{Command, Stdio},
        sync::mpsc,
    };

    let mut words = env::args().skip(1);
    let program = words.next().unwrap_or_else(|| "sort".to_owned());
    let mut child = Command::new(program).args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;

    let (tell, said) = mpsc::channel();
    let client = Client::builder().half_closure(true).pipeline(move || {
        let tell = tell.clone();
        pipeline().handle(move |_, bytes| tell.send(bytes).unwrap_or_default())
    })?;
    let channel = client.adopt(Pipes::of_child(&mut child)?).wait()?;
    for line in ["pear\n", "apple\n", "quince\n"] {
        channel.write_and_flush(Bytes::from_static(line.as_bytes()));
    }
    channel.shut_down_output_tracked().wait()?; // the end of its input; its output is still read
    channel.closed().wait()?;
    for bytes in said.try_iter() {
        print!("{}", String::from_utf8_lossy(&bytes));
    }
    println!("the program ended with {}", child.wait()?);
    Ok(())
}

#[cfg(not(unix))]
fn main() {
    println!("only Unix lets us wait for pipes");
}
