//! may_minihttp: coroutines with stacks, and an HTTP server that is made for this kind of benchmark.
//! It writes `Server` and `Date` by itself. TCP_NODELAY it neither sets nor can be told to; it answers all that a read brought by one
//! write, so nothing waits for an acknowledgement here.

use kit::{Mode, Task};
use may_minihttp::{HttpServer, HttpService, Request, Response};
use std::io;

#[derive(Clone)]
struct Pages;

impl HttpService for Pages {
    fn call(&mut self, request: Request, response: &mut Response) -> io::Result<()> {
        match request.path() {
            "/" => {
                response.header("Content-Type: text/plain").body(kit::http::HELLO);
            }
            "/json" => {
                response.header("Content-Type: application/json").body_vec(kit::http::json());
            }
            _ => {
                response.status_code(404, "Not Found");
            }
        }
        Ok(())
    }
}

fn main() -> io::Result<()> {
    let task = Task::from_args();
    if task.mode != Mode::Http {
        task.refuse();
    }
    may::config().set_workers(task.threads);
    let address = kit::free_address();
    let server = HttpServer(Pages).start(address)?;
    kit::announce(address);
    server.join().map_err(|_| io::Error::other("the server has panicked"))
}
