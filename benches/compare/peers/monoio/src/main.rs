//! monoio on io_uring, with the flags that a ring of one thread can have (`--driver uring`), or on epoll (`--driver legacy`).
//! It has no HTTP of its own: `httparse`, as for the loops written by hand.

use kit::{Mode, Task, http::Pages};
use monoio::{
    IoUringDriver, LegacyDriver, RuntimeBuilder,
    io::{AsyncReadRent, AsyncWriteRentExt},
    net::TcpStream,
};
use std::{cell::RefCell, io, net::TcpListener, rc::Rc};

const ENTRIES: u32 = 4096;

fn main() {
    let task = Task::from_args();
    if !matches!(task.mode, Mode::Echo | Mode::Http) {
        task.refuse();
    }
    task.on_threads(|listener| match &*task.driver {
        "uring" => {
            let mut ring = io_uring::IoUring::builder();
            ring.setup_single_issuer().setup_coop_taskrun().setup_defer_taskrun();
            let builder = RuntimeBuilder::<IoUringDriver>::new().with_entries(ENTRIES).uring_builder(ring);
            builder.build()?.block_on(serve(listener, task.mode))
        }
        "legacy" => RuntimeBuilder::<LegacyDriver>::new().build()?.block_on(serve(listener, task.mode)),
        _ => task.refuse(),
    });
}

async fn serve(listener: TcpListener, mode: Mode) -> io::Result<()> {
    let listener = monoio::net::TcpListener::from_std(listener)?;
    let shared = Rc::new(RefCell::new(Pages::default()));
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        stream.set_nodelay(true)?;
        if mode == Mode::Echo {
            drop(monoio::spawn(echo(stream)));
        } else {
            drop(monoio::spawn(pages(stream, shared.clone())));
        }
    }
}

async fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(kit::BUFFER);
    loop {
        let (got, full) = stream.read(buffer).await;
        if got? == 0 {
            return Ok(());
        }
        let (sent, back) = stream.write_all(full).await;
        sent?;
        buffer = back;
        buffer.clear();
    }
}

async fn pages(mut stream: TcpStream, shared: Rc<RefCell<Pages>>) -> io::Result<()> {
    let (mut buffer, mut rest, mut answers) = (Vec::with_capacity(kit::BUFFER), Vec::new(), Vec::new());
    loop {
        let (got, full) = stream.read(buffer).await;
        if got? == 0 {
            return Ok(());
        }
        if shared.borrow_mut().answer_next(&full, &mut rest, &mut answers).is_err() {
            return Ok(());
        }
        buffer = full;
        buffer.clear();
        if !answers.is_empty() {
            let (sent, back) = stream.write_all(answers).await;
            sent?;
            answers = back;
            answers.clear();
        }
    }
}
