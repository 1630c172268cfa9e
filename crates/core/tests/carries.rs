//! What can be written where something else is taken.
#![cfg(not(loom))]

use bytes::{Bytes, BytesMut};
use netwright_core::{
    AppContext, Application, Carries, CloseCause, Context, EmbeddedChannel, FileRegion, Handler,
    IntoPipeline, Outgoing, Switch, WriteError, WritePromise, pipeline,
};
use std::{convert::Infallible, io::Write};

/// Passes on whatever comes, as stages do that look at nothing.
struct Pass;

impl Handler for Pass {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    type WriteOut = Outgoing;
    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, out: Outgoing, done: WritePromise) {
        cx.write_with(out, done);
    }
}

/// Writes bytes, and knows of nothing else.
struct Echo;

impl Application for Echo {
    type Read = BytesMut;
    type Write = Bytes;
    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        cx.write_and_flush(bytes);
        cx.write(", and more");
        cx.flush();
    }
}

fn file_with(text: &str) -> FileRegion {
    let path = std::env::temp_dir().join(format!("netwright-carries-{}-{}", std::process::id(), text.len()));
    std::fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
    let region = FileRegion::whole(std::fs::File::open(&path).unwrap()).unwrap();
    std::fs::remove_file(&path).unwrap();
    region
}

#[test]
fn whatever_bytes_are_made_of_is_written_as_it_is() {
    let mut channel = EmbeddedChannel::new(pipeline().add(Pass).handle(|cx, read: BytesMut| {
        cx.write("text ");
        cx.write("owned ".to_owned());
        cx.write(b"array ");
        cx.write(b"slice ".as_slice());
        cx.write(b"vector ".to_vec());
        cx.write(b"box ".to_vec().into_boxed_slice());
        cx.write(Bytes::from("bytes "));
        cx.write(file_with("file "));
        cx.write_and_flush(read);
    }));
    channel.write_inbound("buffer");
    assert_eq!(channel.outbound_bytes(), b"text owned array slice vector box bytes file buffer");
    channel.write_outbound("from outside, ").write_outbound(file_with("a file as well"));
    assert_eq!(channel.outbound_bytes(), b"from outside, a file as well");
}

#[test]
fn a_stage_that_writes_bytes_fits_where_files_may_pass() {
    let mut channel = EmbeddedChannel::new(pipeline().add(Pass).add(Pass).app(Echo));
    channel.write_inbound("hello");
    assert_eq!(channel.outbound_bytes(), b"hello, and more");
}

#[test]
fn a_segment_that_writes_bytes_fits_behind_a_joint_and_everything_it_asks_for_comes_in_order() {
    let way: std::rc::Rc<std::cell::RefCell<Option<Switch<Bytes>>>> = std::rc::Rc::default();
    let keep = way.clone();
    let mut channel = EmbeddedChannel::<(), Bytes>::with_joint(pipeline().add(Pass).joint(|switch| {
        keep.replace(Some(switch));
        pipeline().app(Echo).named("echo")
    }));
    channel.write_inbound("one");
    assert_eq!(channel.outbound_bytes(), b"one, and more");
    let mut sent = channel.channel().send("two");
    assert_eq!(channel.run().outbound_bytes(), b"two");
    assert!(matches!(sent.try_take(), Some(Ok(()))));
    let mut stages = channel.channel().stages();
    channel.run();
    assert_eq!(stages.wait().unwrap().iter().map(|stage| stage.name).collect::<Vec<_>>(), ["Pass", "echo"]);
    way.borrow().as_ref().unwrap().to(pipeline().app(Echo));
    channel.write_inbound("three");
    assert_eq!(channel.outbound_bytes(), b"three, and more");
    let mut late = channel.channel().write_tracked("never flushed");
    channel.run().close_by_peer();
    assert!(matches!(late.try_take(), Some(Err(WriteError::Closed(CloseCause::PeerClosed)))));
}

#[test]
fn what_is_said_of_a_panic_passes_a_joint_that_takes_another_type() {
    /// Says goodbye when the application panics.
    struct Polite;
    impl Handler for Polite {
        type Read = BytesMut;
        type ReadOut = BytesMut;
        type Write = Bytes;
        type WriteOut = Bytes;
        fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
            cx.fire_read(bytes);
        }
        fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Bytes, done: WritePromise) {
            cx.write_with(bytes, done);
        }
        fn panicked(&mut self, cx: &mut Context<'_, Self>) {
            cx.write_and_flush("sorry");
        }
    }
    let mut channel =
        EmbeddedChannel::<(), _>::with_joint(pipeline().joint(|_| {
            pipeline().add(Polite).handle(|_, _| std::panic::resume_unwind(Box::new("oh"))).sealed()
        }));
    channel.write_inbound("hello");
    assert_eq!(channel.outbound_bytes(), b"sorry");
    assert!(matches!(channel.channel().close_cause(), Some(CloseCause::Panicked(_))));
}

#[test]
fn a_type_of_ones_own_carries_what_it_says() {
    #[derive(Debug, PartialEq)]
    enum Reply {
        Text(String),
        Number(u64),
    }
    impl Carries<String> for Reply {
        fn carry(text: String) -> Self {
            Self::Text(text)
        }
    }
    /// Writes text, where replies are taken.
    struct Says;
    impl Application for Says {
        type Read = u64;
        type Write = String;
        fn read(&mut self, cx: &mut AppContext<'_, Self>, number: u64) {
            cx.write_and_flush(format!("number {number}"));
        }
    }
    /// Takes replies.
    struct Replies;
    impl Handler for Replies {
        type Read = u64;
        type ReadOut = u64;
        type Write = Reply;
        type WriteOut = Reply;
        fn read(&mut self, cx: &mut Context<'_, Self>, number: u64) {
            cx.write(Reply::Number(number));
            cx.fire_read(number);
        }
        fn write(&mut self, cx: &mut Context<'_, Self>, reply: Reply, done: WritePromise) {
            cx.write_with(reply, done);
        }
    }
    let mut channel = EmbeddedChannel::<_, _, u64, Reply>::of_messages(pipeline().add(Replies).app(Says));
    channel.receive(7);
    assert_eq!(channel.read_outbound(), Some(Reply::Number(7)));
    assert_eq!(channel.read_outbound(), Some(Reply::Text("number 7".to_owned())));
}

/// A function returns a pipeline, and another takes any.
fn echo() -> impl IntoPipeline<Bytes> {
    pipeline().add(Pass).app(Echo)
}

fn run<W: 'static>(pipeline: impl IntoPipeline<W>) -> EmbeddedChannel<Infallible, W> {
    EmbeddedChannel::with_joint(pipeline)
}

#[test]
fn a_function_returns_a_pipeline_and_another_takes_any() {
    let mut channel = run(echo());
    channel.write_inbound("hello");
    assert_eq!(channel.outbound_bytes(), b"hello, and more");
    let mut channel = run(pipeline().joint(|_| echo()).sealed());
    channel.write_inbound("behind a joint");
    assert_eq!(channel.outbound_bytes(), b"behind a joint, and more");
}
