//! Two channels that pass on to each other what they read.
//!
//! ```text
//!   peer ◀──▶ one end ── read, pause ──▶ Shared ──▶ write, flush ── other end ◀──▶ peer
//!                     ◀─ resume ──────────────────── writable again
//! ```
//! Always true, in both directions:
//! 1. An end is not read before the other one is connected: what comes early waits where it is. Nor while the other one is not writable:
//!    who does not read slows down who writes, and what we hold is bounded by the water marks plus one read.
//! 2. The end of one's input becomes the end of the other's output, behind everything that was read before. When both inputs have
//!    ended, both ends close once all is sent.
//! 3. An end that is over for another reason takes the other one with it, in order if it was closed in order, else at once and with
//!    [`RelayError::OtherEnd`]. One that is dropped without a word does so too. A reset is passed on as a reset.
//! 4. No lock is held while a channel is called.
//!
//! The two ends may live on different loops: they reach each other through their channels' handles only.

mod error;

pub use error::RelayError;

use bytes::BytesMut;
use netwright_core::{
    AppContext, Application, Carries, Channel, CloseCause, Fault, HalfClosure, Outgoing, Promised,
};
use netwright_transport::{Client, ClientBuilder, ConnectError};
use std::{
    fmt, io,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

/// One end of a relay, as the last stage of a channel: what is read here is written to the other end, and the other way round, each as fast
/// as the other one takes it.
///
/// [`to`](Self::to) connects the other end when this one is active; [`connecting`](Self::connecting) leaves that to a closure, for TLS or other
/// stages on the way; [`pair`](Self::pair) joins two channels wherever they come from.
///
/// Bytes are passed on as they come. For messages of another type, `R` is what both ends read, and `W` what they write.
///
/// ```
/// use netwright_core::pipeline;
/// use netwright_handler::Relay;
/// use netwright_transport::{Client, Server, event_loops};
/// # use std::{io::{Read, Write}, net::{Shutdown, TcpStream}};
///
/// let loops = event_loops(1)?;
/// let echo = Server::builder()
///     .group(loops.clone())
///     .pipeline(|_| pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())))
///     .bind("127.0.0.1:0")
///     .wait()?;
///
/// let target = echo.address().clone();
/// let proxy = Server::builder()
///     .group(loops.clone())
///     .pipeline(move |_| pipeline().app(Relay::to(Client::builder().group(loops.clone()), &target)))
///     .bind("127.0.0.1:0")
///     .wait()?;
///
/// let mut stream = TcpStream::connect(proxy.local_addr().unwrap())?;
/// stream.write_all(b"there and back")?;
/// stream.shutdown(Shutdown::Write)?; // passed on as well
/// let mut back = String::new();
/// stream.read_to_string(&mut back)?;
/// assert_eq!(back, "there and back");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "proxy")]
#[doc(alias = "tunnel")]
#[doc(alias = "copy_bidirectional")]
pub struct Relay<R: 'static = BytesMut, W: Carries<R> + Send + 'static = Outgoing> {
    shared: Arc<Shared<W>>,
    side: Side,
    connect: Option<Connect<R, W>>,
    connecting: Option<Promised<Channel<W>, ConnectError>>,
    /// What there is to be said to the other end has been said.
    over: bool,
}

type Connect<R, W> =
    Box<dyn FnOnce(OtherEnd<R, W>) -> Result<Promised<Channel<W>, ConnectError>, ConnectError>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    One,
    Other,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::One => Self::Other,
            Self::Other => Self::One,
        }
    }
}

/// What both ends know.
struct Shared<W: Send + 'static> {
    ends: Mutex<[End<W>; 2]>,
    /// Loops that were made for it end with a client, and connections with their loops: it stays as long as one of the ends.
    client: OnceLock<Client<W>>,
}

struct End<W> {
    channel: Option<Channel<W>>,
    input_ended: bool,
    /// How it was before the other end was there to be told.
    over: Option<CloseCause>,
}

impl<W: Send + 'static> Shared<W> {
    fn new() -> Arc<Self> {
        let end = || End { channel: None, input_ended: false, over: None };
        Arc::new(Self { ends: Mutex::new([end(), end()]), client: OnceLock::new() })
    }

    /// For an end whose other end has gone before this one was made.
    fn gone() -> Arc<Self> {
        let shared = Self::new();
        shared.lock()[Side::One as usize].over = Some(CloseCause::Fault(RelayError::Gone.into()));
        shared
    }

    fn lock(&self) -> MutexGuard<'_, [End<W>; 2]> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the other end of a relay, for the pipeline that [`Relay::connecting`] connects.
pub struct OtherEnd<R: 'static = BytesMut, W: Carries<R> + Send + 'static = Outgoing> {
    shared: Arc<Shared<W>>,
    reads: std::marker::PhantomData<fn(R)>,
}

impl<R: 'static, W: Carries<R> + Send + 'static> OtherEnd<R, W> {
    /// The last stage of the other end. For one channel: a second one would take the place of the first.
    pub fn stage(&self) -> Relay<R, W> {
        Relay::end(self.shared.clone(), Side::Other)
    }
}

impl Relay {
    /// Passes on to this address, by a connection of its own for each channel, with what `client` is set up with: loops (else each connection
    /// brings a thread), a limit of time, options, where names are looked up. A connection that does not come about closes this end with
    /// [`RelayError::Connect`].
    pub fn to(client: ClientBuilder, address: impl ToString) -> Self {
        let address = address.to_string();
        Self::connecting(move |other| {
            let shared = Arc::downgrade(&other.shared); // or the client that is kept there would keep itself
            let client = client.pipeline(move || {
                let shared = shared.upgrade().unwrap_or_else(Shared::gone);
                netwright_core::pipeline().app(Relay::end(shared, Side::Other))
            })?;
            let connecting = client.connect(address);
            let _ = other.shared.client.set(client);
            Ok(connecting)
        })
    }

    /// Has a closure connect the other end as soon as this one is active. The last stage there is [`OtherEnd::stage`]. Its connection ends with its loop: give the
    /// client a group that stays, for one that it makes itself ends with the client.
    ///
    /// ```
    /// use netwright_core::pipeline;
    /// use netwright_handler::Relay;
    /// use netwright_transport::{Client, Server, event_loops};
    /// # use std::{io::{Read, Write}, net::TcpStream};
    ///
    /// let loops = event_loops(1)?;
    /// # let echo = Server::builder().group(loops.clone())
    /// #     .pipeline(|_| pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze()))).bind("127.0.0.1:0").wait()?;
    /// # let target = echo.address().clone();
    /// let proxy = Server::builder()
    ///     .group(loops.clone())
    ///     .pipeline(move |_| {
    ///         let (loops, target) = (loops.clone(), target.clone());
    ///         pipeline().app(Relay::connecting(move |other| {
    ///             // TLS, a log, a recorder: any stages, and the relay as the last one
    ///             let client = Client::builder().group(loops).pipeline(move || pipeline().app(other.stage()))?;
    ///             Ok(client.connect(target))
    ///         }))
    ///     })
    ///     .bind("127.0.0.1:0")
    ///     .wait()?;
    /// # let mut stream = TcpStream::connect(proxy.local_addr().unwrap())?;
    /// # stream.write_all(b"hello")?;
    /// # let mut back = [0; 5];
    /// # stream.read_exact(&mut back)?;
    /// # assert_eq!(&back, b"hello");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn connecting(
        connect: impl FnOnce(OtherEnd) -> Result<Promised<Channel, ConnectError>, ConnectError> + 'static,
    ) -> Self {
        Self::connecting_of(connect)
    }

    /// Both ends, for two channels that are made otherwise: two that were accepted, or a child process and a connection. Nothing is read from
    /// one before the other one is active; if one is dropped before it was, so is the other.
    ///
    /// ```
    /// use netwright_core::{EmbeddedChannel, pipeline};
    /// use netwright_handler::Relay;
    ///
    /// let (one, other) = Relay::pair();
    /// let mut one = EmbeddedChannel::new(pipeline().app(one));
    /// one.write_inbound("early");
    /// let mut other = EmbeddedChannel::new(pipeline().app(other));
    /// one.run();
    /// assert_eq!(other.run().outbound_bytes(), b"early");
    /// ```
    pub fn pair() -> (Self, Self) {
        Self::pair_of()
    }
}

impl<R: 'static, W: Carries<R> + Send + 'static> Relay<R, W> {
    /// [`connecting`](Relay::connecting) for messages of any type.
    pub fn connecting_of(
        connect: impl FnOnce(OtherEnd<R, W>) -> Result<Promised<Channel<W>, ConnectError>, ConnectError> + 'static,
    ) -> Self {
        let mut one = Self::end(Shared::new(), Side::One);
        one.connect = Some(Box::new(connect));
        one
    }

    /// [`pair`](Relay::pair) for messages of any type.
    ///
    /// ```
    /// use netwright_core::{EmbeddedChannel, pipeline};
    /// use netwright_handler::Relay;
    ///
    /// let (one, other) = Relay::<u32, u32>::pair_of();
    /// # let _ = (one, other);
    /// ```
    pub fn pair_of() -> (Self, Self) {
        let shared = Shared::new();
        (Self::end(shared.clone(), Side::One), Self::end(shared, Side::Other))
    }

    fn end(shared: Arc<Shared<W>>, side: Side) -> Self {
        Self { shared, side, connect: None, connecting: None, over: false }
    }

    fn other(&self) -> Option<Channel<W>> {
        self.shared.lock()[self.side.other() as usize].channel.clone()
    }

    /// Connects the other end; its first act will be to let this one read.
    fn connect(&mut self, cx: &mut AppContext<'_, Self>) {
        let Some(connect) = self.connect.take() else { return };
        let other = OtherEnd { shared: self.shared.clone(), reads: std::marker::PhantomData };
        match connect(other) {
            Ok(connecting) => {
                let this = cx.channel();
                connecting.listen(move |result| {
                    if let Err(error) = result
                        && !matches!(error, ConnectError::Cancelled)
                    {
                        drop(
                            this.close_because(CloseCause::Fault(RelayError::Connect(error.clone()).into())),
                        );
                    }
                });
                self.connecting = Some(connecting);
            }
            Err(error) => cx.close_because(CloseCause::Fault(RelayError::Connect(error).into())),
        }
    }

    /// This end is over.
    fn end_other(&mut self, cause: CloseCause) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        if let Some(connecting) = &self.connecting {
            connecting.cancel();
        }
        let mut ends = self.shared.lock();
        // Noted first: an other end that comes from now on finds it.
        ends[self.side as usize].over = Some(cause.clone());
        let other = ends[self.side.other() as usize].channel.clone();
        drop(ends);
        if let Some(other) = other {
            pass_on(&other, cause);
        }
    }
}

/// One end is over with this cause, and so is the other.
fn pass_on<W: 'static>(other: &Channel<W>, cause: CloseCause) {
    match cause {
        CloseCause::Requested | CloseCause::PeerClosed => {
            other.flush();
            drop(other.close_when_flushed());
        }
        CloseCause::Fault(fault) if fault.downcast_ref::<RelayError>().is_some() => {
            drop(other.close_because(CloseCause::Fault(fault)));
        }
        // Passed on as one, or the beginning of something would look like all of it.
        CloseCause::Io(error) if error.kind() == io::ErrorKind::ConnectionReset => {
            let why = RelayError::OtherEnd(CloseCause::Io(error));
            let reset = io::Error::new(io::ErrorKind::ConnectionReset, why);
            drop(other.close_because(CloseCause::io(reset)));
        }
        cause => drop(other.close_because(CloseCause::Fault(Fault::from(RelayError::OtherEnd(cause))))),
    }
}

impl<R: 'static, W: Carries<R> + Send + 'static> Application for Relay<R, W> {
    type Read = R;
    type Write = W;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        let this = cx.channel();
        let mut ends = self.shared.lock();
        ends[self.side as usize].channel = Some(this.clone());
        let End { channel, input_ended, over } = &ends[self.side.other() as usize];
        let (other, input_ended, over) = (channel.clone(), *input_ended, over.clone());
        drop(ends);
        if let Some(cause) = over {
            self.over = true;
            return pass_on(&this, cause);
        }
        let Some(other) = other else {
            cx.pause(); // whoever comes last resumes both
            return self.connect(cx);
        };
        if input_ended {
            this.shut_down_output();
        }
        other.resume();
    }

    fn read(&mut self, cx: &mut AppContext<'_, Self>, msg: R) {
        let Some(other) = self.other() else { return };
        other.write(msg);
        if !other.is_writable() {
            other.flush();
            cx.pause(); // its end of the relay resumes us; that comes later than this, even from another thread
        }
    }

    fn read_complete(&mut self, _: &mut AppContext<'_, Self>) {
        if let Some(other) = self.other() {
            other.flush();
        }
    }

    fn writability(&mut self, _: &mut AppContext<'_, Self>, writable: bool) {
        if let (true, Some(other)) = (writable, self.other()) {
            other.resume();
        }
    }

    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Needs
    }

    fn input_closed(&mut self, cx: &mut AppContext<'_, Self>) {
        let mut ends = self.shared.lock();
        ends[self.side as usize].input_ended = true;
        let End { channel, input_ended, .. } = &ends[self.side.other() as usize];
        let (other, both) = (channel.clone(), *input_ended);
        drop(ends);
        let Some(other) = other else { return };
        other.flush();
        if both {
            // Ours through the handle, too: behind what the other end has written and what is still on its way here.
            drop(cx.channel().close_when_flushed());
            drop(other.close_when_flushed());
        } else {
            other.shut_down_output();
        }
    }

    fn inactive(&mut self, _: &mut AppContext<'_, Self>, cause: CloseCause) {
        self.end_other(cause);
    }
}

/// Nobody said that it is over: a stage in front has panicked, its loop has died, or it never came to be a channel's.
impl<R: 'static, W: Carries<R> + Send + 'static> Drop for Relay<R, W> {
    fn drop(&mut self) {
        self.end_other(CloseCause::Fault(RelayError::Gone.into()));
    }
}

impl<R: 'static, W: Carries<R> + Send + 'static> fmt::Debug for Relay<R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("side", &self.side).field("over", &self.over).finish_non_exhaustive()
    }
}

impl<R: 'static, W: Carries<R> + Send + 'static> fmt::Debug for OtherEnd<R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtherEnd").finish_non_exhaustive()
    }
}
