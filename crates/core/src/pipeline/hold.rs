//! What a stage holds back, or has of its channel, as values that let go.
//!
//! ```text
//!   let hold = cx.hold();     nothing is delivered …
//!   hold.release(cx)          … until now: at once, inside of a call of the stage
//!   drop(hold)                … or soon: wherever it is dropped, its channel is called for it
//! ```
//! Always true:
//! 1. What a stage has taken it has no more when it leaves, whether its guards live on or not.
//! 2. A guard allocates nothing, and letting go by [`release`](Hold::release) takes no lock. What changes with every message is counted by
//!    one [`Kept`] that stays.
//! 3. A guard may go to any thread and be dropped there, or on the worker where its stage runs.

use super::{Context, Handler, Place};
use crate::{
    channel::{ChannelCore, SideTable, What},
    event_loop::SourceCaller,
};
use std::{fmt, mem, sync::PoisonError};

/// The way from a guard to its stage.
struct ToStage {
    table: SideTable,
    channel: Option<SourceCaller>,
    stage: u32,
}

impl ToStage {
    fn of(core: &ChannelCore, stage: u32) -> Self {
        Self { table: core.side().clone(), channel: core.source_caller(), stage }
    }

    /// Whether it leads to the stage whose context this is.
    fn is_to<H: Handler<P>, P: Place>(&self, cx: &Context<'_, H, P>) -> bool {
        self.stage == cx.stage && cx.core.is_side(&self.table)
    }

    /// Has the channel give back what the stage has no more.
    #[cold]
    fn let_go(&self, what: What, amount: usize) {
        let Some(channel) = &self.channel else { return }; // it had ended before
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let left = table.call((self.stage, what, amount), |rare, let_go| rare.let_go.push_back(let_go));
        drop(table);
        if let Ok(true) = left {
            channel.call();
        }
    }
}

/// Something that a stage holds back, or insists on, until this is dropped: [`Context::hold`], [`Context::hold_input`],
/// [`Context::insist`].
///
/// ```
/// use netwright_core::{Context, EmbeddedChannel, Handler, Hold, Outgoing, StageTimer, WritePromise, pipeline};
/// # use bytes::BytesMut;
/// use std::time::Duration;
///
/// /// Lets one message pass in a second.
/// #[derive(Default)]
/// struct Slow { hold: Option<Hold> }
///
/// impl Handler for Slow {
/// #     type Read = BytesMut;
/// #     type ReadOut = BytesMut;
/// #     type Write = Outgoing;
/// #     type WriteOut = Outgoing;
///     fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
///         cx.fire_read(bytes);
///         self.hold = Some(cx.hold());
///         cx.arm(Duration::from_secs(1));
///     }
///     fn timer(&mut self, _: &mut Context<'_, Self>, _: StageTimer) {
///         self.hold = None;
///     }
///     // …
/// #     fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Outgoing, done: WritePromise) { cx.write_with(bytes, done); }
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(Slow::default()));
/// channel.write_inbound("one").write_inbound("two");
/// assert_eq!((channel.read_inbound().unwrap(), channel.read_inbound()), ("one".into(), None));
/// channel.advance(Duration::from_secs(1));
/// assert_eq!(channel.read_inbound().unwrap(), "two");
/// ```
#[must_use = "what is held is let go when this is dropped"]
pub struct Hold {
    way: ToStage,
    what: What,
}

impl Hold {
    pub(super) fn take<H: Handler<P>, P: Place>(cx: &mut Context<'_, H, P>, what: What) -> Self {
        cx.core.take(cx.stage, what, 1);
        Self { way: ToStage::of(cx.core, cx.stage), what }
    }

    /// Lets go at once. Dropped, it lets go as soon as the channel's loop comes to it.
    ///
    /// The context is that of the stage that holds: a guard of another one lets go as if it was dropped.
    pub fn release<H: Handler<P>, P: Place>(self, cx: &mut Context<'_, H, P>) {
        if self.way.is_to(cx) {
            cx.core.give_back(cx.stage, self.what, 1);
            self.forget();
        }
    }

    /// It has let go: nothing is left to be done by its drop.
    fn forget(mut self) {
        self.way.channel = None;
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.way.let_go(self.what, 1);
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").field("what", &self.what).field("stage", &self.way.stage).finish()
    }
}

/// Bytes that were written and that a stage keeps: they count as pending, so that writers hear of it when they are too many. Made by
/// [`Context::keep`]; given back when it is dropped.
///
/// ```
/// use netwright_core::{Context, EmbeddedChannel, Handler, Kept, Outgoing, WritePromise, pipeline};
/// use bytes::BytesMut;
///
/// /// Keeps what is written until it is flushed.
/// #[derive(Default)]
/// struct Gathers { waiting: Vec<Outgoing>, kept: Option<Kept> }
///
/// impl Handler for Gathers {
///     type Read = BytesMut;
///     type ReadOut = BytesMut;
///     type Write = Outgoing;
///     type WriteOut = Outgoing;
///     fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
///         cx.fire_read(bytes);
///     }
///     fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Outgoing, _: WritePromise) {
///         self.kept.get_or_insert_with(|| cx.keep(0)).add(cx, bytes.len() as usize);
///         self.waiting.push(bytes);
///     }
///     fn flush(&mut self, cx: &mut Context<'_, Self>) {
///         if let Some(kept) = &mut self.kept {
///             kept.sub(cx, kept.bytes());
///         }
///         self.waiting.drain(..).for_each(|bytes| cx.write(bytes));
///         cx.flush();
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(Gathers::default()));
/// channel.channel().write(vec![b'x'; 100_000]);
/// assert!(!channel.run().channel().is_writable());
/// channel.channel().flush();
/// assert_eq!(channel.outbound_bytes().len(), 100_000);
/// assert!(channel.channel().is_writable());
/// ```
#[must_use = "the bytes count for as long as this lives"]
pub struct Kept {
    way: ToStage,
    bytes: usize,
}

impl Kept {
    pub(super) fn new<H: Handler<P>, P: Place>(cx: &mut Context<'_, H, P>, bytes: usize) -> Self {
        let mut kept = Self { way: ToStage::of(cx.core, cx.stage), bytes: 0 };
        kept.add(cx, bytes);
        kept
    }

    /// So many bytes count at the moment.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// So many more are kept. The context is that of the stage that keeps them: with another one nothing happens.
    pub fn add<H: Handler<P>, P: Place>(&mut self, cx: &mut Context<'_, H, P>, bytes: usize) {
        if bytes > 0 && self.way.is_to(cx) {
            self.bytes += bytes;
            cx.core.take(self.way.stage, What::Pending, bytes);
        }
    }

    /// So many have been passed on, or never will be; at most as many as there are.
    pub fn sub<H: Handler<P>, P: Place>(&mut self, cx: &mut Context<'_, H, P>, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        if bytes > 0 && self.way.is_to(cx) {
            self.bytes -= bytes;
            cx.core.give_back(self.way.stage, What::Pending, bytes);
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let bytes = mem::take(&mut self.bytes);
        if bytes > 0 {
            self.way.let_go(What::Pending, bytes);
        }
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").field("bytes", &self.bytes).field("stage", &self.way.stage).finish()
    }
}
