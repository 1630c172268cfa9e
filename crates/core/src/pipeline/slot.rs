//! A place for an observer that is put in, exchanged and taken out while the channel lives: a log or a recorder on one
//! connection, for as long as somebody is interested.
//!
//! An empty slot costs one relaxed load per message.

use super::{Context, Handler, Observer, Place, last_words};
use crate::channel::{CloseCause, Fault, WritePromise};
use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

type BoxedObserver<R, W> = Box<dyn Observer<Read = R, Write = W> + Send>;

/// The control of a slot, for any thread. Found by name through [`Channel::slot`](crate::Channel::slot).
///
/// ```
/// use netwright_core::{EmbeddedChannel, Observer, Slot, pipeline, slot};
/// use bytes::{Bytes, BytesMut};
///
/// struct Printer;
/// impl Observer for Printer {
///     type Read = BytesMut;
///     type Write = Bytes;
///     fn sees_read(&mut self, bytes: &BytesMut) {
///         println!("{bytes:?}");
///     }
/// }
///
/// let channel = EmbeddedChannel::new(pipeline().add(slot::<BytesMut, Bytes>("log")).handle(|_, _| {}));
/// let log: Slot<BytesMut, Bytes> = channel.channel().slot("log").expect("there is one of this name and type");
/// log.put(Printer); // from any thread, while the channel lives
/// log.clear();
/// ```
pub struct Slot<R, W> {
    shared: Arc<Shared<R, W>>,
}

struct Shared<R, W> {
    changed: AtomicBool,
    /// What to do next: put this in, or (`Some(None)`) take out what is there.
    wanted: Mutex<Option<Option<BoxedObserver<R, W>>>>,
}

impl<R: 'static, W: 'static> Slot<R, W> {
    /// Puts an observer in, or exchanges the one that is there. It sees everything from the next message on.
    pub fn put(&self, observer: impl Observer<Read = R, Write = W> + Send) {
        self.want(Some(Box::new(observer)));
    }

    /// Takes the observer out; it is dropped on the channel's loop, with the next message or event.
    pub fn clear(&self) {
        self.want(None);
    }

    fn want(&self, observer: Option<BoxedObserver<R, W>>) {
        let before = self.shared.wanted.lock().unwrap_or_else(PoisonError::into_inner).replace(observer);
        self.shared.changed.store(true, Ordering::Release);
        drop(before);
    }
}

impl<R, W> Clone for Slot<R, W> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<R, W> fmt::Debug for Slot<R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pending = self.shared.changed.load(Ordering::Relaxed);
        f.debug_struct("Slot").field("pending", &pending).finish()
    }
}

/// An empty slot of this name, as a stage.
///
/// ```
/// use netwright_core::{EmbeddedChannel, Observer, pipeline, slot};
/// use bytes::{Bytes, BytesMut};
/// use std::sync::{Arc, atomic::{AtomicUsize, Ordering}};
///
/// struct Count(Arc<AtomicUsize>);
/// impl Observer for Count {
///     type Read = BytesMut;
///     type Write = Bytes;
///     fn sees_read(&mut self, bytes: &BytesMut) {
///         self.0.fetch_add(bytes.len(), Ordering::Relaxed);
///     }
/// }
///
/// let echo = pipeline().add(slot::<BytesMut, Bytes>("recorder")).handle(|cx, bytes| cx.write(bytes.freeze()));
/// let mut channel = EmbeddedChannel::new(echo);
/// channel.write_inbound(b"nobody looks");
///
/// let seen = Arc::new(AtomicUsize::new(0));
/// let recorder = channel.channel().slot::<BytesMut, Bytes>("recorder").unwrap();
/// recorder.put(Count(seen.clone()));
/// channel.write_inbound(b"12345");
/// recorder.clear();
/// channel.write_inbound(b"nobody looks");
/// assert_eq!(seen.load(Ordering::Relaxed), 5);
/// ```
pub fn slot<R: 'static, W: 'static>(name: &'static str) -> SlotStage<R, W> {
    let shared = Arc::new(Shared { changed: AtomicBool::new(false), wanted: Mutex::new(None) });
    SlotStage { name, shared, observer: None }
}

/// Made by [`slot`].
///
/// ```
/// use netwright_core::{EmbeddedChannel, SlotStage, pipeline, slot};
/// use bytes::{Bytes, BytesMut};
///
/// let place: SlotStage<BytesMut, Bytes> = slot("recorder");
/// let channel = EmbeddedChannel::new(pipeline().add(place).handle(|_, _| {}));
/// assert!(channel.channel().slot::<BytesMut, Bytes>("recorder").is_some());
/// ```
pub struct SlotStage<R, W> {
    name: &'static str,
    shared: Arc<Shared<R, W>>,
    observer: Option<BoxedObserver<R, W>>,
}

impl<R: 'static, W: 'static> SlotStage<R, W> {
    #[inline]
    fn current<P: Place>(&mut self, cx: &Context<'_, Self, P>) -> Option<&mut BoxedObserver<R, W>> {
        if self.shared.changed.load(Ordering::Relaxed) {
            self.exchange(cx);
        }
        self.observer.as_mut()
    }

    #[cold]
    fn exchange<P: Place>(&mut self, cx: &Context<'_, Self, P>) {
        if self.shared.changed.swap(false, Ordering::AcqRel) {
            let wanted = self.shared.wanted.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(wanted) = wanted {
                self.observer = wanted;
                if let Some(observer) = &mut self.observer {
                    observer.sees_channel(&cx.view());
                }
            }
        }
    }
}

impl<R: 'static, W: 'static, P: Place> Handler<P> for SlotStage<R, W> {
    type Read = R;
    type ReadOut = R;
    type Write = W;
    type WriteOut = W;

    fn added(&mut self, cx: &mut Context<'_, Self, P>) {
        cx.core.publish_slot(self.name, Box::new(Slot { shared: self.shared.clone() }));
    }
    fn active(&mut self, cx: &mut Context<'_, Self, P>) {
        if let Some(observer) = self.current(cx) {
            observer.sees_active();
        }
        cx.fire_active();
    }
    fn read(&mut self, cx: &mut Context<'_, Self, P>, msg: R) {
        if let Some(observer) = self.current(cx) {
            observer.sees_read(&msg);
        }
        cx.fire_read(msg);
    }
    fn writability(&mut self, cx: &mut Context<'_, Self, P>, writable: bool) {
        if let Some(observer) = self.current(cx) {
            observer.sees_writability(writable);
        }
        cx.fire_writability(writable);
    }
    fn input_closed(&mut self, cx: &mut Context<'_, Self, P>) {
        if let Some(observer) = self.current(cx) {
            observer.sees_input_closed();
        }
        cx.fire_input_closed();
    }
    fn error(&mut self, cx: &mut Context<'_, Self, P>, fault: Fault) {
        if let Some(observer) = self.current(cx) {
            observer.sees_error(&fault);
        }
        cx.fire_error(fault);
    }
    fn inactive(&mut self, cx: &mut Context<'_, Self, P>, cause: CloseCause) {
        if let Some(observer) = self.current(cx) {
            observer.sees_inactive(&cause);
        }
        cx.fire_inactive(cause);
    }
    fn write(&mut self, cx: &mut Context<'_, Self, P>, msg: W, done: WritePromise) {
        if let Some(observer) = self.current(cx) {
            observer.sees_write(&msg);
        }
        cx.write_with(msg, done);
    }
    fn flush(&mut self, cx: &mut Context<'_, Self, P>) {
        if let Some(observer) = self.current(cx) {
            observer.sees_flush();
        }
        cx.flush();
    }
    fn close(&mut self, cx: &mut Context<'_, Self, P>, cause: CloseCause, done: WritePromise) {
        if let Some(observer) = self.current(cx) {
            observer.sees_close(&cause);
        }
        cx.close_with(cause, done);
    }
    fn shut_down_output(&mut self, cx: &mut Context<'_, Self, P>, done: WritePromise) {
        if let Some(observer) = self.current(cx) {
            observer.sees_shut_down_output();
        }
        cx.shut_down_output_with(done);
    }
    fn panicked(&mut self, cx: &mut Context<'_, Self, P>) {
        if let Some(observer) = self.current(cx) {
            last_words::with_message(|message| observer.sees_panicked(message));
        }
    }
    /// A slot is found by its name in one conversation.
    fn start_over(&mut self) -> bool {
        false
    }
    fn name(&self) -> &'static str {
        self.name
    }
}
