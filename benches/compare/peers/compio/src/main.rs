//! compio on io_uring, with the flags that a ring of one thread can have (`--driver uring`), or on epoll (`--driver polling`).
//! HTTP is `httparse`, as for the loops written by hand.

use compio::{
    BufResult,
    driver::{DriverType, ProactorBuilder},
    io::{AsyncRead, AsyncWriteExt},
    net::TcpStream,
    runtime::Runtime,
};
use kit::{Mode, Task, http::Pages};
use std::{cell::RefCell, io, net::TcpListener, rc::Rc};

const ENTRIES: u32 = 4096;

fn main() {
    let task = Task::from_args();
    if !matches!(task.mode, Mode::Echo | Mode::Http) {
        task.refuse();
    }
    task.on_threads(|listener| {
        let mut proactor = ProactorBuilder::new();
        match &*task.driver {
            "uring" => {
                proactor.driver_type(DriverType::IoUring).capacity(ENTRIES);
                proactor.single_issuer(true).coop_taskrun(true).defer_taskrun(true);
            }
            "polling" => {
                proactor.driver_type(DriverType::Poll);
            }
            _ => task.refuse(),
        }
        Runtime::builder().with_proactor(proactor).build()?.block_on(serve(listener, task.mode))
    });
}

async fn serve(listener: TcpListener, mode: Mode) -> io::Result<()> {
    let listener = compio::net::TcpListener::from_std(listener)?;
    let shared = Rc::new(RefCell::new(Pages::default()));
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        stream.set_nodelay(true)?;
        if mode == Mode::Echo {
            compio::runtime::spawn(echo(stream)).detach();
        } else {
            compio::runtime::spawn(pages(stream, shared.clone())).detach();
        }
    }
}

async fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(kit::BUFFER);
    loop {
        let BufResult(got, full) = stream.read(buffer).await;
        if got? == 0 {
            return Ok(());
        }
        let BufResult(sent, back) = stream.write_all(full).await;
        sent?;
        buffer = back;
        buffer.clear();
    }
}

async fn pages(mut stream: TcpStream, shared: Rc<RefCell<Pages>>) -> io::Result<()> {
    let (mut buffer, mut rest, mut answers) = (Vec::with_capacity(kit::BUFFER), Vec::new(), Vec::new());
    loop {
        let BufResult(got, full) = stream.read(buffer).await;
        if got? == 0 {
            return Ok(());
        }
        if shared.borrow_mut().answer_next(&full, &mut rest, &mut answers).is_err() {
            return Ok(());
        }
        buffer = full;
        buffer.clear();
        if !answers.is_empty() {
            let BufResult(sent, back) = stream.write_all(answers).await;
            sent?;
            answers = back;
            answers.clear();
        }
    }
}
