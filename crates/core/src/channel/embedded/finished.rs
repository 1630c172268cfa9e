//! What an embedded channel collects, and what is left of it in the end.

use super::super::CloseCause;
use crate::pipeline::{AppContext, Application};
use bytes::Bytes;
use std::{cell::RefCell, collections::VecDeque, fmt, marker::PhantomData, rc::Rc};

/// What was left over at the end of an [`EmbeddedChannel`](crate::EmbeddedChannel).
///
/// ```
/// use netwright_core::{CloseCause, EmbeddedChannel, pipeline};
///
/// let channel = EmbeddedChannel::new(pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())));
/// let mut channel = channel;
/// channel.write_inbound("hello");
/// let left = channel.finish();
/// assert_eq!(left.outbound, ["hello"]); // nobody has read it
/// assert!(matches!(left.cause, Some(CloseCause::Requested)));
/// ```
#[derive(Debug)]
pub struct Finished<R, O = Bytes> {
    /// Messages that nobody read at the application's end.
    pub inbound: Vec<R>,
    /// Pieces of bytes, or messages, that were sent and not read at the wire's end.
    pub outbound: Vec<O>,
    /// Why the channel ended.
    pub cause: Option<CloseCause>,
}

impl<R: fmt::Debug, O: fmt::Debug> Finished<R, O> {
    /// Fails unless both ends are empty.
    #[track_caller]
    pub fn expect_nothing(self) {
        assert!(self.inbound.is_empty(), "left over at the application's end: {:?}", self.inbound);
        assert!(self.outbound.is_empty(), "left over at the wire's end: {:?}", self.outbound);
    }
}

/// Keeps what reaches the end of a pipeline.
#[doc(hidden)]
pub struct Collector<R, W> {
    inbound: Rc<RefCell<VecDeque<R>>>,
    writes: PhantomData<W>,
}

impl<R, W> Collector<R, W> {
    pub(super) fn into(inbound: Rc<RefCell<VecDeque<R>>>) -> Self {
        Self { inbound, writes: PhantomData }
    }
}

impl<R: 'static, W: 'static> Application for Collector<R, W> {
    type Read = R;
    type Write = W;

    fn read(&mut self, _: &mut AppContext<'_, Self>, msg: R) {
        self.inbound.borrow_mut().push_back(msg);
    }
}
