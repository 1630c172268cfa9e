//! A parent of messages: what a multiplexer does, without a wire format.

use bytes::BytesMut;
use netwright_core::{
    Channel, ChannelId, ChildKey, ChildSettings, Children, CloseCause, Context, EmbeddedChannel, Handler,
    Outgoing, Segment, WritePromise, pipeline,
};
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    convert::Infallible,
    rc::Rc,
};

/// What the peer says.
#[derive(Debug, Clone)]
pub(crate) enum In {
    Open(u32),
    Data(u32, &'static str),
    Fin(u32),
    Reset(u32, u64),
    /// Ends the child without a reason of the peer's.
    End(u32),
    Panic,
    /// Closes the parent.
    Close,
    /// Opens a child and panics while it is called.
    PanicWithChild(u32),
    /// All of it at once, before the parent looks who has something to say.
    AtOnce(Vec<In>),
}

/// What it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Out {
    Data(u32, String),
    Credit(u32, usize),
    Fin(u32),
    End(u32, String),
}

pub(crate) fn data(id: u32, text: &str) -> Out {
    Out::Data(id, text.to_owned())
}

pub(crate) fn end(id: u32, why: &str) -> Out {
    Out::End(id, why.to_owned())
}

/// What a test knows of the parent's stage.
#[derive(Default)]
pub(crate) struct Seen {
    /// How often it was told that children are ready.
    pub(crate) pokes: Cell<u32>,
    pub(crate) built: Cell<u32>,
    pub(crate) channels: RefCell<BTreeMap<ChannelId, Channel>>,
    pub(crate) living: Cell<usize>,
    /// Messages are left where they are.
    pub(crate) blocked: Cell<bool>,
}

impl Seen {
    /// The handle of the child that was opened last.
    pub(crate) fn last(&self) -> Channel {
        self.channels.borrow().values().next_back().expect("a child").clone()
    }
}

pub(crate) struct Mux<P: Segment<BytesMut, Outgoing, Tail = Outgoing>> {
    children: Children<P, BytesMut, Outgoing>,
    keys: BTreeMap<u32, ChildKey>,
    build: Box<dyn FnMut(u32) -> P>,
    seen: Rc<Seen>,
}

impl<P: Segment<BytesMut, Outgoing, Tail = Outgoing>> Mux<P> {
    fn open(&mut self, cx: &mut Context<'_, Self>, id: u32) {
        let (build, seen) = (&mut self.build, &self.seen);
        let opened = self.children.open(cx, || {
            seen.built.set(seen.built.get() + 1);
            build(id)
        });
        match opened {
            Ok(key) => drop(self.keys.insert(id, key)),
            Err(error) => cx.fire_error(error),
        }
    }

    fn end(&mut self, cx: &mut Context<'_, Self>, id: u32, cause: CloseCause) {
        let Some(key) = self.keys.remove(&id) else { return };
        let text = cause.to_string();
        let credit = self.children.end(key, cause);
        if credit > 0 {
            cx.write(Out::Credit(id, credit));
        }
        cx.write(Out::End(id, text));
    }

    fn look(&mut self, cx: &mut Context<'_, Self>) {
        while let Some(key) = self.children.next_ready() {
            let Some(id) = self.keys.iter().find(|(_, known)| **known == key).map(|(id, _)| *id) else {
                continue;
            };
            self.look_at(cx, id, key);
        }
        self.seen.living.set(self.children.len());
        cx.flush();
    }

    fn look_at(&mut self, cx: &mut Context<'_, Self>, id: u32, key: ChildKey) {
        let blocked = self.seen.blocked.get();
        let close = self.children.with(key, |child| {
            while !blocked && let Some((bytes, done)) = child.take_first() {
                cx.write_with(
                    Out::Data(id, String::from_utf8_lossy(bytes.as_bytes().unwrap()).into_owned()),
                    done,
                );
            }
            match child.take_credit() {
                0 => {}
                credit => cx.write(Out::Credit(id, credit)),
            }
            if child.take_output_end() {
                cx.write(Out::Fin(id));
            }
            child.take_close()
        });
        if let Some(cause) = close.flatten() {
            self.end(cx, id, cause);
        }
    }
}

impl<P: Segment<BytesMut, Outgoing, Tail = Outgoing>> Handler for Mux<P> {
    type Read = In;
    type ReadOut = Infallible;
    type Write = Infallible;
    type WriteOut = Out;

    fn read(&mut self, cx: &mut Context<'_, Self>, said: In) {
        match said {
            In::AtOnce(all) => all.into_iter().for_each(|said| self.read(cx, said)),
            In::Open(id) => self.open(cx, id),
            In::Data(id, text) => {
                if let Some(key) = self.keys.get(&id) {
                    self.children.with(*key, |child| child.received(BytesMut::from(text), text.len()));
                }
            }
            In::Fin(id) => {
                if let Some(key) = self.keys.get(&id) {
                    self.children.with(*key, |child| child.input_closed());
                }
            }
            In::Reset(id, code) => self.end(cx, id, CloseCause::Reset(code)),
            In::End(id) => self.end(cx, id, CloseCause::PeerClosed),
            In::Panic => panic!("the parent"),
            In::Close => cx.close(),
            In::PanicWithChild(id) => {
                self.open(cx, id);
                self.children.with(self.keys[&id], |_| panic!("the parent, in its child"));
            }
        }
    }
    fn read_complete(&mut self, cx: &mut Context<'_, Self>) {
        self.look(cx);
    }
    fn children_ready(&mut self, cx: &mut Context<'_, Self>) {
        self.seen.pokes.set(self.seen.pokes.get() + 1);
        if !self.seen.blocked.get() {
            // What was left where it was.
            for (id, key) in self.keys.clone() {
                self.look_at(cx, id, key);
            }
        }
        self.look(cx);
    }
    fn write(&mut self, _: &mut Context<'_, Self>, never: Infallible, _: WritePromise) {
        match never {}
    }
}

/// A parent that a test drives.
pub(crate) struct Parent {
    pub(crate) embedded: EmbeddedChannel<Infallible, Infallible, In, Out>,
    pub(crate) seen: Rc<Seen>,
}

impl Parent {
    pub(crate) fn of<P>(build: impl FnMut(u32) -> P + 'static) -> Self
    where
        P: Segment<BytesMut, Outgoing, Tail = Outgoing>,
    {
        Self::with(ChildSettings::default(), build)
    }

    /// Handles of children are made, and so seen.
    pub(crate) fn of_known<P>(build: impl FnMut(u32) -> P + 'static) -> Self
    where
        P: Segment<BytesMut, Outgoing, Tail = Outgoing>,
    {
        let seen = Rc::<Seen>::default();
        let to = seen.clone();
        let children = Children::new(ChildSettings::default())
            .introduce(move |channel| drop(to.channels.borrow_mut().insert(channel.id(), channel.clone())));
        Self::run(children, seen, build)
    }

    pub(crate) fn with<P>(settings: ChildSettings<Outgoing>, build: impl FnMut(u32) -> P + 'static) -> Self
    where
        P: Segment<BytesMut, Outgoing, Tail = Outgoing>,
    {
        Self::run(Children::new(settings), Rc::default(), build)
    }

    pub(crate) fn run<P>(
        children: Children<P, BytesMut, Outgoing>,
        seen: Rc<Seen>,
        build: impl FnMut(u32) -> P + 'static,
    ) -> Self
    where
        P: Segment<BytesMut, Outgoing, Tail = Outgoing>,
    {
        let mux = Mux { children, keys: BTreeMap::new(), build: Box::new(build), seen: seen.clone() };
        Self { embedded: EmbeddedChannel::of_messages(pipeline().last(mux)), seen }
    }

    /// What it is told because of this.
    pub(crate) fn say(&mut self, said: In) -> Vec<Out> {
        self.embedded.receive(said);
        self.heard()
    }

    pub(crate) fn heard(&mut self) -> Vec<Out> {
        std::iter::from_fn(|| self.embedded.read_outbound()).collect()
    }

    /// The loop's sources: the parent and its children.
    pub(crate) fn sources(&mut self) -> u64 {
        self.embedded.event_loop().handle().figures().sources
    }
}

/// Everything comes back.
pub(crate) fn echo() -> impl Segment<BytesMut, Outgoing, Tail = Outgoing> {
    pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())).into_segment()
}
