//! No framework: an edge-triggered epoll loop (`--driver epoll`) or an io_uring loop (`--driver uring`), for one purpose each.
//! The floor that everybody is compared with. The loops themselves are those of the other benches
//! (`benches/src/reference`); HTTP is `httparse` and answers that are ready but for their date.

use kit::{Mode, Task, http::Pages};
use netwright_benches::reference::{
    epoll_echo::{self, Inlined},
    epoll_http, uring_echo, uring_http,
};

fn main() {
    let task = Task::from_args();
    task.on_threads(|listener| {
        let mut pages = Pages::default();
        let parse = |bytes: &[u8], answers: &mut Vec<u8>| pages.answer(bytes, answers).ok();
        match (&*task.driver, task.mode) {
            ("epoll", Mode::Echo) => epoll_echo::serve::<Inlined>(&listener),
            ("epoll", Mode::Http) => epoll_http::serve_with(&listener, parse),
            ("uring", Mode::Echo) => uring_echo::serve(&listener),
            ("uring", Mode::Http) => uring_http::serve_with(&listener, parse),
            _ => task.refuse(),
        }
    });
}
