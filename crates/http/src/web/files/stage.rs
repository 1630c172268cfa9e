//! Files as the last stage of a pipeline.

use super::{FileReply, Files};
use crate::{HttpPart, ReplyPart, RequestPart};
use netwright_core::{AppContext, Application, ApplicationStage, Workers};

/// Answers all requests of a connection with files. Made by [`Files::server`].
///
/// Disks are slow and loops must not wait: files are opened by workers, one request of a connection after the other, while
/// reading is held. What is sent then is sent by the system where it can; the next request is looked at when the file
/// before it is sent, so a connection never has more than one open, whatever it asks for at once.
///
/// ```no_run
/// use netwright_http::web::Files;
///
/// # fn main() -> std::io::Result<()> {
/// let files = Files::below("public")?.listing(true);
/// // for each connection: pipeline().add(HttpServer::new()).app(files.server())
/// let last_stage = files.server();
/// # let _ = last_stage;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct FileServer {
    files: Files,
    workers: Option<Workers>,
}

impl FileServer {
    pub(super) fn new(files: Files) -> Self {
        Self { files, workers: None }
    }

    /// Lets these workers open files, instead of those that all share.
    pub fn on(mut self, workers: Workers) -> Self {
        self.workers = Some(workers);
        self
    }
}

type Stage = ApplicationStage<FileServer>;

impl Application for FileServer {
    type Read = RequestPart;
    type Write = ReplyPart;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, part: RequestPart) {
        let (HttpPart::Head(head) | HttpPart::Whole(head, _)) = part else { return }; // bodies mean nothing here
        let files = self.files.clone();
        let work = move || files.answer(&head);
        let hold = cx.hold(); // so that replies stay in order
        let then = move |_: &mut Stage, cx: &mut AppContext<'_, Self>, reply: FileReply| {
            let has_file = reply.has_file();
            let mut parts = reply.into_parts().peekable();
            while let Some(part) = parts.next() {
                if has_file && parts.peek().is_none() {
                    let sent = cx.write_tracked(part);
                    cx.flush();
                    cx.spawn(sent, move |_, cx, _| hold.release(cx));
                    return;
                }
                cx.write(part);
            }
            cx.flush();
            hold.release(cx);
        };
        match &self.workers {
            Some(workers) => cx.offload_to(workers, work, then),
            None => cx.offload(work, then),
        };
    }
}
