//! A channel for tests: no socket, no thread, a clock moved by hand.

use super::{Channel, ChannelState, CloseCause, Host, HostSettings, Outgoing};
use crate::{
    ManualLoop,
    driver::{self, Source},
    event_loop::LocalLoop,
    pipeline::{AppContext, Application, ApplicationStage, Ending, Handler, Link, PipelineBuilder, Segment},
};
use bytes::{Bytes, BytesMut};
use std::{cell::RefCell, collections::VecDeque, fmt, rc::Rc, time::Duration};

/// Runs a pipeline by hand: bytes in at the wire's end, messages out at the application's, and back.
///
/// Behind the last stage of the pipeline it puts a collector: what that stage passes on is kept for
/// [`read_inbound`](Self::read_inbound).
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use std::time::Duration;
///
/// let mut channel = EmbeddedChannel::new(pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())));
/// channel.write_inbound(b"hello");
/// assert_eq!(channel.read_outbound().unwrap(), "hello");
/// channel.advance(Duration::from_secs(3600));
/// assert!(channel.is_open());
/// channel.finish().expect_nothing();
/// ```
pub struct EmbeddedChannel<R, W> {
    manual: ManualLoop,
    host: Rc<RefCell<dyn AnyHost>>,
    channel: Channel<W>,
    inbound: Rc<RefCell<VecDeque<R>>>,
    wire: VecDeque<Bytes>,
    blocked: bool,
}

impl<R: 'static, W: 'static> EmbeddedChannel<R, W> {
    /// A connected channel that runs this pipeline.
    pub fn new<S, H, E, P, O>(pipeline: PipelineBuilder<(S, H), E>) -> Self
    where
        H: Handler<ReadOut = R, Write = W>,
        ((S, H), ApplicationStage<Collector<R, W>>): Link<crate::pipeline::End, Linked = P>,
        P: Segment<BytesMut, O, Tail = W>,
        O: Into<Outgoing> + 'static,
    {
        Self::with_settings(pipeline, HostSettings::default())
    }

    /// The same with settings of one's own.
    pub fn with_settings<S, H, E, P, O>(pipeline: PipelineBuilder<(S, H), E>, settings: HostSettings) -> Self
    where
        H: Handler<ReadOut = R, Write = W>,
        ((S, H), ApplicationStage<Collector<R, W>>): Link<crate::pipeline::End, Linked = P>,
        P: Segment<BytesMut, O, Tail = W>,
        O: Into<Outgoing> + 'static,
    {
        let inbound = Rc::new(RefCell::new(VecDeque::new()));
        let collector = Collector { inbound: inbound.clone(), writes: std::marker::PhantomData };
        let segment = pipeline.collect(ApplicationStage(collector)).into_segment();
        Self::host(segment, inbound, settings)
    }

    fn host<P, O>(segment: P, inbound: Rc<RefCell<VecDeque<R>>>, settings: HostSettings) -> Self
    where
        P: Segment<BytesMut, O, Tail = W>,
        O: Into<Outgoing> + 'static,
    {
        let mut manual = ManualLoop::new();
        let (host, channel) = manual.enter(|| {
            let local = LocalLoop::current().expect("inside the loop");
            let host = Rc::new(RefCell::new(Host::new(local.clone(), segment, settings)));
            let token = local.register(HostSource(host.clone())).expect("a new loop takes sources");
            host.borrow_mut().register(token);
            host.borrow_mut().activate(None, None);
            let channel = host.borrow().channel();
            (host as Rc<RefCell<dyn AnyHost>>, channel)
        });
        let mut embedded = Self { manual, host, channel, inbound, wire: VecDeque::new(), blocked: false };
        embedded.settle();
        embedded
    }

    /// A connected channel whose pipeline ends in a joint, or is sealed. Nothing is collected: what is behind a joint ends
    /// there.
    pub fn with_joint<S, E, P, O>(pipeline: PipelineBuilder<S, E>) -> Self
    where
        E: Ending,
        S: Link<E::Segment, Linked = P>,
        P: Segment<BytesMut, O, Tail = W>,
        O: Into<Outgoing> + 'static,
    {
        Self::with_joint_and_settings(pipeline, HostSettings::default())
    }

    /// The same with settings of one's own.
    pub fn with_joint_and_settings<S, E, P, O>(
        pipeline: PipelineBuilder<S, E>,
        settings: HostSettings,
    ) -> Self
    where
        E: Ending,
        S: Link<E::Segment, Linked = P>,
        P: Segment<BytesMut, O, Tail = W>,
        O: Into<Outgoing> + 'static,
    {
        Self::host(pipeline.into_segment(), Rc::default(), settings)
    }

    // ---- the wire's end ----

    /// Delivers bytes as one read, followed by `read_complete`. While reading is paused they wait.
    pub fn write_inbound(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        if !self.is_open() {
            return self; // as on a socket that is closed
        }
        let bytes = BytesMut::from(bytes.as_ref());
        self.drive(|host| {
            host.received(bytes);
            host.read_complete();
        })
    }

    /// The peer sends no more, with half-closure allowed.
    pub fn close_input(&mut self) -> &mut Self {
        if !self.is_open() {
            return self;
        }
        self.drive(|host| host.input_closed())
    }

    /// The peer closes the connection.
    pub fn close_by_peer(&mut self) -> &mut Self {
        self.drive(|host| host.closed(CloseCause::PeerClosed))
    }

    /// The next piece that was sent.
    pub fn read_outbound(&mut self) -> Option<Bytes> {
        self.settle();
        self.wire.pop_front()
    }

    /// Everything that was sent and not yet read, as one.
    pub fn outbound_bytes(&mut self) -> Vec<u8> {
        std::iter::from_fn(|| self.read_outbound()).flatten().collect()
    }

    /// A peer that does not read (`true`), or reads again (`false`): what is flushed meanwhile waits.
    pub fn block_output(&mut self, blocked: bool) -> &mut Self {
        self.blocked = blocked;
        self.settle();
        self
    }

    // ---- the application's end ----

    /// The next message that came out of the last stage.
    pub fn read_inbound(&mut self) -> Option<R> {
        self.settle();
        self.inbound.borrow_mut().pop_front()
    }

    /// Writes and flushes a message at the application's end.
    pub fn write_outbound(&mut self, msg: W) -> &mut Self {
        self.channel.send(msg);
        self.settle();
        self
    }

    /// The channel's handle, as the outside has it.
    pub fn channel(&self) -> &Channel<W> {
        &self.channel
    }

    // ---- time and end ----

    /// Moves the clock, and runs what becomes due.
    pub fn advance(&mut self, by: Duration) -> &mut Self {
        self.manual.advance(by);
        self.settle();
        self
    }

    /// Runs what was asked for through [`channel`](Self::channel).
    pub fn run(&mut self) -> &mut Self {
        self.settle();
        self
    }

    /// The loop under the channel.
    pub fn event_loop(&mut self) -> &mut ManualLoop {
        &mut self.manual
    }

    /// Whether the channel is not closed.
    pub fn is_open(&self) -> bool {
        self.channel.state() != ChannelState::Closed
    }

    /// Whether the pipeline wants bytes.
    pub fn wants_read(&self) -> bool {
        self.host.borrow().wants_read()
    }

    /// Whether a stage on workers has something under way: [`run`](Self::run) goes on with it once it is back.
    ///
    /// ```
    /// use netwright_core::{EmbeddedChannel, Workers, inbound, pipeline};
    /// # use netwright_core::{Context, InboundOnly, InboundStage};
    /// # use bytes::{Bytes, BytesMut};
    /// # struct Counts;
    /// # impl InboundOnly for Counts {
    /// #     type Read = BytesMut;
    /// #     type ReadOut = usize;
    /// #     type Write = Bytes;
    /// #     fn read(&mut self, cx: &mut Context<'_, InboundStage<Self>>, bytes: BytesMut) { cx.fire_read(bytes.len()); }
    /// # }
    ///
    /// let workers = Workers::new(1)?;
    /// let mut channel = EmbeddedChannel::new(pipeline().add_on(&workers, inbound(Counts)));
    /// channel.write_inbound("hello");
    /// while channel.is_busy() {
    ///     channel.run();
    /// }
    /// assert_eq!(channel.read_inbound(), Some(5));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_busy(&self) -> bool {
        self.host.borrow().is_busy()
    }

    /// Closes the channel and tells what was left over at both ends.
    pub fn finish(mut self) -> Finished<R> {
        self.settle_workers();
        self.channel.resume(); // what is held is left over as well
        self.settle_workers();
        drop(self.channel.close());
        self.settle_workers();
        Finished {
            inbound: self.inbound.borrow_mut().drain(..).collect(),
            outbound: self.wire.drain(..).flatten().collect(),
            cause: self.channel.close_cause(),
        }
    }

    fn drive(&mut self, f: impl FnOnce(&mut dyn AnyHost)) -> &mut Self {
        let host = self.host.clone();
        self.manual.enter(|| f(&mut *host.borrow_mut()));
        self.settle();
        self
    }

    /// Waits for what is on workers, too.
    fn settle_workers(&mut self) {
        self.settle();
        while self.is_busy() {
            std::thread::yield_now();
            self.settle();
        }
    }

    /// Does what a transport would do.
    fn settle(&mut self) {
        loop {
            self.manual.run_until_idle();
            let host = self.host.clone();
            let (wire, blocked) = (&mut self.wire, self.blocked);
            let busy = self.manual.enter(|| host.borrow_mut().act(wire, blocked));
            if !busy {
                break;
            }
        }
    }
}

impl<R, W: 'static> fmt::Debug for EmbeddedChannel<R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedChannel").field("channel", &self.channel).finish_non_exhaustive()
    }
}

/// What was left over at the end of an [`EmbeddedChannel`].
///
/// ```
/// use netwright_core::{CloseCause, EmbeddedChannel, pipeline};
///
/// let channel = EmbeddedChannel::new(pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())));
/// let mut channel = channel;
/// channel.write_inbound("hello");
/// let left = channel.finish();
/// assert_eq!(left.outbound, b"hello"); // nobody has read it
/// assert!(matches!(left.cause, Some(CloseCause::Requested)));
/// ```
#[derive(Debug)]
pub struct Finished<R> {
    /// Messages that nobody read at the application's end.
    pub inbound: Vec<R>,
    /// Bytes that were sent and not read at the wire's end.
    pub outbound: Vec<u8>,
    /// Why the channel ended.
    pub cause: Option<CloseCause>,
}

impl<R: fmt::Debug> Finished<R> {
    /// Fails unless both ends are empty.
    #[track_caller]
    pub fn expect_nothing(self) {
        assert!(self.inbound.is_empty(), "left over at the application's end: {:?}", self.inbound);
        let text = String::from_utf8_lossy(&self.outbound);
        assert!(self.outbound.is_empty(), "left over at the wire's end: {text:?}");
    }
}

/// Keeps what reaches the end of a pipeline.
#[doc(hidden)]
pub struct Collector<R, W> {
    inbound: Rc<RefCell<VecDeque<R>>>,
    writes: std::marker::PhantomData<W>,
}

impl<R: 'static, W: 'static> Application for Collector<R, W> {
    type Read = R;
    type Write = W;

    fn read(&mut self, _: &mut AppContext<'_, Self>, msg: R) {
        self.inbound.borrow_mut().push_back(msg);
    }
}

/// A host of any pipeline, as the embedded channel sees it.
trait AnyHost {
    fn received(&mut self, bytes: BytesMut);
    fn read_complete(&mut self);
    fn input_closed(&mut self);
    fn closed(&mut self, cause: CloseCause);
    fn wants_read(&self) -> bool;
    fn is_busy(&self) -> bool;
    fn act(&mut self, wire: &mut VecDeque<Bytes>, blocked: bool) -> bool;
}

impl<P, O> AnyHost for Host<P, O>
where
    P: Segment<BytesMut, O>,
    O: Into<Outgoing> + 'static,
{
    fn received(&mut self, bytes: BytesMut) {
        Host::received(self, bytes);
    }
    fn read_complete(&mut self) {
        Host::read_complete(self);
    }
    fn input_closed(&mut self) {
        Host::input_closed(self);
    }
    fn closed(&mut self, cause: CloseCause) {
        Host::closed(self, cause);
    }
    fn wants_read(&self) -> bool {
        Host::wants_read(self)
    }
    fn is_busy(&self) -> bool {
        Host::is_busy(self)
    }

    fn act(&mut self, wire: &mut VecDeque<Bytes>, blocked: bool) -> bool {
        let mut busy = self.take_flush();
        while !blocked && self.outbound().has_flushed() {
            busy = true;
            let outbound = self.outbound();
            if let Some(bytes) = outbound.first_bytes().cloned() {
                if !bytes.is_empty() {
                    wire.push_back(bytes.clone());
                }
                outbound.advance(bytes.len());
            } else if outbound.first_envelope().is_some() {
                outbound.open_first_envelope();
            } else if let Some(file) = outbound.first_file() {
                match file.read_chunk(64 * 1024) {
                    Ok(bytes) => {
                        wire.push_back(bytes.clone());
                        outbound.advance(bytes.len());
                    }
                    Err(error) => {
                        let breaks_off = file.breaks_off(&error);
                        outbound.fail_first(super::WriteError::File(error.into()));
                        if let Some(error) = breaks_off {
                            Host::closed(self, CloseCause::io(error));
                        }
                    }
                }
            }
        }
        self.wrote();
        if self.take_output_shutdown() {
            busy = true;
            self.output_shut_down(Ok(()));
        }
        if let Some(cause) = self.take_close() {
            busy = true;
            Host::closed(self, cause);
        }
        busy |= self.has_last_words();
        if self.is_finished() {
            self.remove();
        }
        busy
    }
}

struct HostSource<H: ?Sized>(Rc<RefCell<H>>);

impl<P, O> Source for HostSource<Host<P, O>>
where
    P: Segment<BytesMut, O>,
    O: Into<Outgoing> + 'static,
{
    fn ready(&mut self, _: driver::Event) {
        self.0.borrow_mut().run_commands();
    }
    fn signal(&mut self, signal: u64) {
        self.0.borrow_mut().signal(signal);
    }
    fn shut_down(&mut self) {
        let mut host = self.0.borrow_mut();
        host.closed(CloseCause::ShutDown);
        host.forsake();
        if host.is_finished() {
            host.remove();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{
        FileRegion, WriteError,
        channel::file_region::tests::file_with,
        pipeline::{Context, pipeline},
    };

    /// Passes everything on, files too.
    struct Through;

    impl Handler for Through {
        type Read = BytesMut;
        type ReadOut = BytesMut;
        type Write = Outgoing;
        type WriteOut = Outgoing;

        fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
            cx.fire_read(bytes);
        }
        fn write(&mut self, cx: &mut Context<'_, Self>, msg: Outgoing, done: crate::WritePromise) {
            cx.write_with(msg, done);
        }
    }

    #[test]
    fn a_file_that_ends_early_closes_the_channel_if_a_part_of_it_was_sent_and_fails_its_write_else() {
        for sent in [5, 0] {
            let mut channel = EmbeddedChannel::new(pipeline().add(Through));
            let region = FileRegion::new(file_with(&vec![7; sent]), 0, 10);
            let mut file = channel.channel().write_and_flush(region.into());
            let mut behind = channel.channel().write_and_flush(Bytes::from("next").into());
            channel.run();
            assert!(matches!(file.try_take(), Some(Err(WriteError::File(_)))));
            if sent == 0 {
                assert!(channel.is_open() && matches!(behind.try_take(), Some(Ok(()))));
                assert_eq!(channel.outbound_bytes(), b"next");
                continue;
            }
            let cause = channel.channel().close_cause();
            assert!(
                matches!(&cause, Some(CloseCause::Io(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof),
                "{cause:?}"
            );
            assert!(matches!(behind.try_take(), Some(Err(WriteError::Closed(_)))));
            assert_eq!(channel.outbound_bytes(), vec![7; sent], "nothing is taken for the rest of the file");
        }
    }
}
