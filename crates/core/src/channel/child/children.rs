//! What a stage has of its children.

use super::{
    super::{AnyShared, Channel, ChannelCore, ChannelId, CloseCause, Weight, kin::make_handle},
    Child, ChildError, ChildSettings, Family, ParentChannel,
    child::Finish,
    family::Kind,
    store::Store,
};
use crate::{
    driver::{Source, Token},
    event_loop::{LocalLoop, SourceTimer},
    pipeline::{Context, Handler, Segment},
    task_error::discard,
};
use std::{any::Any, fmt, marker::PhantomData, rc::Rc, sync::Arc};

/// Names a child of one stage, and nothing once that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChildKey(Token);

/// The children of a stage: several conversations in one connection, each with a pipeline `P` of its own that reads `R` and writes
/// `W`. What HTTP/2 does with streams, in general.
///
/// ```text
///   the stage: open, with, end ──▶ a child
///              next_ready      ◀── who has something to say: after each call of children, and in `children_ready`
/// ```
/// A stage calls its children and is never called by them. It looks who has something to say at the end of each of its own
/// calls in which it opened, called or ended one, and in [`Handler::children_ready`] for those that ran by themselves:
///
/// ```
/// use netwright_core::{ChildKey, Children, Context, EmbeddedChannel, Handler, Outgoing, Segment, WritePromise, pipeline};
/// use bytes::{Bytes, BytesMut};
/// use std::{collections::HashMap, convert::Infallible};
///
/// /// The first byte of each packet says which conversation it belongs to.
/// struct Switchboard<F, P: Segment<BytesMut, Outgoing>> {
///     children: Children<P, BytesMut, Outgoing>,
///     lines: HashMap<u8, ChildKey>,
///     build: F,
/// }
///
/// impl<F, P> Switchboard<F, P>
/// where
///     F: FnMut() -> P + 'static,
///     P: Segment<BytesMut, Outgoing>,
/// {
///     /// Sends what children have to say.
///     fn look(&mut self, cx: &mut Context<'_, Self>) {
///         while let Some(key) = self.children.next_ready() {
///             let line = self.lines.iter().find(|(_, known)| **known == key).map_or(0, |(line, _)| *line);
///             let ended = self.children.with(key, |child| {
///                 while let Some((bytes, done)) = child.take_first() {
///                     cx.write(Bytes::copy_from_slice(&[line]));
///                     cx.write_with(bytes, done);
///                 }
///                 child.take_close()
///             });
///             if let Some(cause) = ended.flatten() {
///                 self.children.end(key, cause);
///             }
///         }
///         cx.flush();
///     }
/// }
///
/// impl<F, P> Handler for Switchboard<F, P>
/// where
///     F: FnMut() -> P + 'static,
///     P: Segment<BytesMut, Outgoing>,
/// {
///     type Read = BytesMut;
///     type ReadOut = Infallible;
///     type Write = Infallible;
///     type WriteOut = Outgoing;
///
///     fn read(&mut self, cx: &mut Context<'_, Self>, mut packet: BytesMut) {
///         let line = packet.split_to(1)[0];
///         let key = match self.lines.get(&line).copied() {
///             Some(key) => key,
///             None => match self.children.open(cx, &mut self.build) {
///                 Ok(key) => key,
///                 Err(error) => return cx.fire_error(error),
///             },
///         };
///         self.lines.insert(line, key);
///         self.children.with(key, |child| child.received(packet, 0));
///         self.look(cx);
///     }
///     fn children_ready(&mut self, cx: &mut Context<'_, Self>) {
///         self.look(cx);
///     }
///     fn write(&mut self, _: &mut Context<'_, Self>, never: Infallible, _: WritePromise) {
///         match never {}
///     }
/// }
///
/// let echo = || pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())).into_segment();
/// let switchboard = Switchboard { children: Children::default(), lines: HashMap::new(), build: echo };
/// let mut channel = EmbeddedChannel::new(pipeline().last(switchboard));
/// channel.write_inbound("1hello").write_inbound("2you").write_inbound("1world");
/// assert_eq!(channel.outbound_bytes(), b"1hello2you1world");
/// ```
pub struct Children<P: Segment<R, W>, R: 'static, W: 'static> {
    settings: ChildSettings<W>,
    /// From the first child on.
    family: Option<Rc<Family>>,
    store: Store<Box<Child<P, R, W>>>,
    /// Looks after the store while there is something in it.
    timer: Option<SourceTimer>,
    #[allow(clippy::type_complexity)] // a closure and its argument
    introduce: Option<Box<dyn FnMut(&Channel<P::Tail>)>>,
}

/// Children of one type, for those who do not know it.
struct Of<P, R, W>(PhantomData<(P, R, W)>);

impl<P: Segment<R, W>, R: 'static, W: 'static> Kind for Of<P, R, W> {
    fn handle_of(&self, core: &ChannelCore, weight: Option<&dyn Any>) -> Arc<dyn AnyShared> {
        let weight = weight.and_then(|weight| weight.downcast_ref::<Weight<P::Tail>>());
        make_handle::<P::Tail>(core, weight.copied().unwrap_or_default())
    }

    fn end(&self, child: &mut dyn Any, cause: CloseCause) -> bool {
        let Some(child) = child.downcast_mut::<Child<P, R, W>>() else { return false };
        if child.is_alone() {
            return false; // it ends by itself
        }
        let finished = child.finish(cause).finished;
        if finished {
            child.remove();
        }
        finished
    }

    fn id(&self, child: &dyn Any) -> Option<ChannelId> {
        child.downcast_ref::<Child<P, R, W>>().filter(|child| !child.is_alone()).map(Child::id)
    }
}

/// A child that is out of its loop's table for the time of a call, also if that panics.
struct Lent<'a> {
    local: &'a LocalLoop,
    token: Token,
    source: Option<Box<dyn Source>>,
}

impl<'a> Lent<'a> {
    fn of(local: &'a LocalLoop, token: Token) -> Option<Self> {
        Some(Self { local, token, source: Some(local.lend(token)?) })
    }

    fn child<P, R, W>(&mut self, family: &Rc<Family>) -> Option<&mut Child<P, R, W>>
    where
        P: Segment<R, W>,
        R: 'static,
        W: 'static,
    {
        let source: &mut dyn Any = &mut **self.source.as_mut()?;
        source.downcast_mut::<Child<P, R, W>>().filter(|child| child.belongs_to(family))
    }

    /// It does not come back to its place.
    fn keep<P, R, W>(mut self) -> Option<Box<Child<P, R, W>>>
    where
        P: Segment<R, W>,
        R: 'static,
        W: 'static,
    {
        let source: Box<dyn Any> = self.source.take()?;
        self.local.release(self.token);
        source.downcast().ok()
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some(source) = self.source.take() {
            self.local.give_back(self.token, source);
        }
    }
}

/// A child that comes to its place on the loop for the first time, also if its introduction or its parent's first call panics.
struct Newborn<'a, P: Segment<R, W>, R: 'static, W: 'static> {
    local: &'a LocalLoop,
    token: Token,
    child: Option<Box<Child<P, R, W>>>,
}

impl<P: Segment<R, W>, R: 'static, W: 'static> Drop for Newborn<'_, P, R, W> {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            self.local.give_back(self.token, child);
        }
    }
}

impl<P: Segment<R, W>, R: 'static, W: 'static> Children<P, R, W> {
    /// No children yet.
    pub fn new(settings: ChildSettings<W>) -> Self {
        Self { settings, family: None, store: Store::new(), timer: None, introduce: None }
    }

    /// Has somebody know each child before anything happens to it: to put it into a [group](crate::ChannelGroup), or to attach
    /// something to it.
    ///
    /// ```
    /// use netwright_core::{ChannelGroup, Children, Outgoing, Segment};
    /// use bytes::BytesMut;
    ///
    /// fn in_group<P: Segment<BytesMut, Outgoing, Tail = Outgoing>>(group: ChannelGroup) -> Children<P, BytesMut, Outgoing> {
    ///     Children::default().introduce(move |channel| _ = group.add(channel.clone()))
    /// }
    /// ```
    #[must_use]
    pub fn introduce(mut self, to: impl FnMut(&Channel<P::Tail>) + 'static) -> Self {
        self.introduce = Some(Box::new(to));
        self
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.family.as_ref().map_or(0, |family| family.len())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many have ended and are not finished yet: they still have messages that nobody has asked for, or something on workers. Who limits how
    /// many conversations a peer may have counts them too: a peer that opens one and breaks it off, again and again, has work done all
    /// the same.
    pub fn parting(&self) -> usize {
        self.family.as_ref().map_or(0, |family| family.parting())
    }

    /// All of them, in no order.
    pub fn keys(&self) -> Vec<ChildKey> {
        let tokens = self.family.as_ref().map(|family| family.tokens());
        tokens.unwrap_or_default().into_iter().map(ChildKey).collect()
    }

    /// Opens a child, which becomes active in this call. `build` makes its pipeline, unless there is one that a child has left
    /// behind and that can start over.
    ///
    /// # Errors
    /// The parent has ended, or its loop shuts down.
    pub fn open<H: Handler>(
        &mut self,
        cx: &mut Context<'_, H>,
        build: impl FnOnce() -> P,
    ) -> Result<ChildKey, ChildError> {
        self.open_with(cx, build, |_| ())
    }

    /// The same, and what the child is told first: cheaper than a call of its own.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with<H: Handler>(
        &mut self,
        cx: &mut Context<'_, H>,
        build: impl FnOnce() -> P,
        call: impl FnOnce(&mut Child<P, R, W>),
    ) -> Result<ChildKey, ChildError> {
        let family = self.family(cx)?;
        let (child, token) = match self.store.take() {
            Some(mut child) => match family.local().reserve() {
                Ok(token) => {
                    child.begin_again(token);
                    (child, token)
                }
                Err(why) => {
                    self.store.put(child);
                    return Err(why.into());
                }
            },
            None => self.make(&family, build())?,
        };
        self.begin(&family, child, token, call);
        Ok(ChildKey(token))
    }

    #[allow(clippy::type_complexity)] // a child and its place
    fn make(&self, family: &Rc<Family>, pipeline: P) -> Result<(Box<Child<P, R, W>>, Token), ChildError> {
        let token = family.local().reserve()?;
        let mut child =
            Box::new(Child::new(family, pipeline, &self.settings.host, self.settings.weight, token));
        child.link();
        Ok((child, token))
    }

    fn begin(
        &mut self,
        family: &Rc<Family>,
        child: Box<Child<P, R, W>>,
        token: Token,
        call: impl FnOnce(&mut Child<P, R, W>),
    ) {
        let mut newborn = Newborn { local: family.local(), token, child: Some(child) };
        if let Some(child) = &mut newborn.child {
            if let Some(introduce) = &mut self.introduce {
                introduce(&child.host().channel());
            }
            child.begin();
            call(child);
            child.settle();
        }
    }

    /// The family; founded with its first child.
    #[inline]
    fn family<H: Handler>(&mut self, cx: &mut Context<'_, H>) -> Result<Rc<Family>, ChildError> {
        match &self.family {
            Some(family) if !family.is_over() => Ok(family.clone()),
            _ => self.found(cx),
        }
    }

    #[cold]
    fn found<H: Handler>(&mut self, cx: &mut Context<'_, H>) -> Result<Rc<Family>, ChildError> {
        self.clear_store(); // what is in there belongs to another conversation of the parent
        let family = cx.found_family(|parent: ParentChannel, local, token, stage| {
            Family::new(parent, local, token, stage, const { &Of::<P, R, W>(PhantomData) })
        })?;
        self.family = Some(family.clone());
        Ok(family)
    }

    /// Calls a child. `None` if it has ended.
    pub fn with<T>(&mut self, key: ChildKey, call: impl FnOnce(&mut Child<P, R, W>) -> T) -> Option<T> {
        let family = self.family.as_ref()?;
        let mut lent = Lent::of(family.local(), key.0)?;
        let child = lent.child(family)?;
        child.looked_at();
        let result = call(child);
        child.settle();
        Some(result)
    }

    /// Calls a child, and ends it if the call says why, as [`end`](Self::end) does and cheaper than that: `Some` if so, with the
    /// credit that was not taken back; also, with none, if it had ended before.
    pub fn end_if(
        &mut self,
        key: ChildKey,
        call: impl FnOnce(&mut Child<P, R, W>) -> Option<CloseCause>,
    ) -> Option<usize> {
        let Some(family) = &self.family else { return Some(0) };
        let Some(mut lent) = Lent::of(family.local(), key.0) else { return Some(0) };
        let Some(child) = lent.child::<P, R, W>(family) else { return Some(0) };
        child.looked_at();
        let Some(cause) = call(child) else {
            child.settle();
            return None;
        };
        let in_order = matches!(cause, CloseCause::Requested | CloseCause::PeerClosed);
        let Finish { finished, credit } = child.finish(cause);
        if finished {
            // If not, it ends by itself.
            let again =
                in_order && self.store.len() < self.settings.keep && child.start_over(&self.settings.host);
            match lent.keep::<P, R, W>() {
                Some(child) if again => {
                    self.store.put(child);
                    if self.timer.is_none() {
                        self.timer = Some(family.arm(self.settings.keep_for));
                    }
                }
                Some(child) => remove(child),
                None => {}
            }
        }
        Some(credit)
    }

    /// The handle of a child, for any thread. `None` if it has ended.
    pub fn channel(&self, key: ChildKey) -> Option<Channel<P::Tail>> {
        let family = self.family.as_ref()?;
        let mut lent = Lent::of(family.local(), key.0)?;
        Some(lent.child::<P, R, W>(family)?.host().channel())
    }

    /// The next child that may have something to say: messages to send, credit to return, an end. It is to be looked at by
    /// [`with`](Self::with), where it first hears that all has been delivered ([`Child::read_complete`]).
    ///
    /// Each is named once for what it has: who cannot take all of it now comes back to it by itself, when there is room again.
    /// One that was ended meanwhile and still has messages delivered may be named as well: [`with`](Self::with) is `None` then.
    pub fn next_ready(&mut self) -> Option<ChildKey> {
        let family = self.family.as_ref()?;
        while let Some(token) = family.news().next() {
            if family.local().has(token) {
                return Some(ChildKey(token));
            }
        }
        if family.take_store_due() {
            self.look_at_store();
        }
        None
    }

    /// Ends a child. What it has read and not been asked for is delivered as it asks, unless the cause is a
    /// [reset](CloseCause::Reset); its writes fail. Returns the credit that was not [taken back](Child::take_credit).
    pub fn end(&mut self, key: ChildKey, cause: CloseCause) -> usize {
        self.end_if(key, |_| Some(cause)).unwrap_or(0)
    }

    /// Ends all children.
    pub fn end_all(&mut self, cause: &CloseCause) {
        for key in self.keys() {
            self.end(key, cause.clone());
        }
    }

    // ---- the store ----

    /// Some time has passed: what nobody has needed goes.
    #[cold]
    fn look_at_store(&mut self) {
        self.timer = None;
        remove_each(self.store.look());
        if let (Some(family), 1..) = (&self.family, self.store.len()) {
            self.timer = Some(family.arm(self.settings.keep_for));
        }
    }

    fn clear_store(&mut self) {
        if let (Some(timer), Some(family)) = (self.timer.take(), &self.family) {
            family.local().disarm(timer);
        }
        remove_each(self.store.take_all());
    }
}

fn remove_each<P: Segment<R, W>, R: 'static, W: 'static>(children: Vec<Box<Child<P, R, W>>>) {
    children.into_iter().for_each(remove);
}

fn remove<P: Segment<R, W>, R: 'static, W: 'static>(mut child: Box<Child<P, R, W>>) {
    child.remove();
    discard(child);
}

impl<P: Segment<R, W>, R: 'static, W: 'static> Default for Children<P, R, W> {
    fn default() -> Self {
        Self::new(ChildSettings::default())
    }
}

/// The stage goes, and with it its children: with the channel's cause if that has ended.
impl<P: Segment<R, W>, R: 'static, W: 'static> Drop for Children<P, R, W> {
    fn drop(&mut self) {
        self.clear_store();
        if let Some(family) = self.family.take() {
            let cause = family.parent().close_cause().unwrap_or(CloseCause::Requested);
            family.end_all(&cause);
        }
    }
}

impl<P: Segment<R, W>, R: 'static, W: 'static> fmt::Debug for Children<P, R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Children").field("len", &self.len()).finish_non_exhaustive()
    }
}
