//! The smallest multiplexer: frames of three bytes and what they carry, to and from children.
//!
//! ```text
//!   peer:    [b'd'][child][length] bytes     for a child; the first of a number opens it
//!            [b'e'][child][0]                the child hears no more
//!            [b'r'][child][0]                it is broken off, with code 7
//!            [b'x'][0][0]                    the parent panics
//!   server:  [b'd'][child][length] bytes     of a child
//!            [b'c'][child][credit]           the child has read so many bytes
//!            [b'e'][child][0]                it has ended
//! ```

use super::super::ON_PURPOSE;
use bytes::{Buf, Bytes, BytesMut};
use netwright_core::{Channel, ChildKey, Children, CloseCause, Context, Handler, Segment, WritePromise};
use std::{collections::BTreeMap, convert::Infallible};

/// A frame as it is on the wire.
pub(super) fn frame(kind: u8, child: u8, bytes: &[u8]) -> Vec<u8> {
    [&[kind, child, bytes.len() as u8], bytes].concat()
}

/// What the server says when a child has read this and sends it back.
pub(super) fn echoed(child: u8, bytes: &[u8]) -> Vec<u8> {
    [frame(b'd', child, bytes), vec![b'c', child, bytes.len() as u8]].concat()
}

/// Has a child for each number.
pub(super) struct Board<P: Segment<BytesMut, Bytes>, F> {
    children: Children<P, BytesMut, Bytes>,
    keys: BTreeMap<u8, ChildKey>,
    build: F,
    rest: BytesMut,
}

impl<P: Segment<BytesMut, Bytes>, F: FnMut(u8) -> P + 'static> Board<P, F> {
    /// `know` is given each child before anything happens to it.
    pub(super) fn new(build: F, know: impl FnMut(&Channel<P::Tail>) + 'static) -> Self {
        let children = Children::default().introduce(know);
        Self { children, keys: BTreeMap::new(), build, rest: BytesMut::new() }
    }

    fn take(&mut self, cx: &mut Context<'_, Self>, kind: u8, number: u8, bytes: BytesMut) {
        assert_ne!(kind, b'x', "{ON_PURPOSE}: the parent");
        if kind == b'd' && !self.keys.contains_key(&number) {
            let build = &mut self.build;
            match self.children.open(cx, || build(number)) {
                Ok(key) => drop(self.keys.insert(number, key)),
                Err(error) => return cx.fire_error(error),
            }
        }
        let Some(&key) = self.keys.get(&number) else { return };
        let length = bytes.len();
        match kind {
            b'd' => drop(self.children.with(key, |child| child.received(bytes, length))),
            b'e' => drop(self.children.with(key, |child| child.input_closed())),
            _ => self.end(cx, number, CloseCause::Reset(7)),
        }
    }

    fn end(&mut self, cx: &mut Context<'_, Self>, number: u8, cause: CloseCause) {
        if let Some(key) = self.keys.remove(&number) {
            self.children.end(key, cause);
            cx.write(frame(b'e', number, &[]));
        }
    }

    fn look(&mut self, cx: &mut Context<'_, Self>) {
        while let Some(key) = self.children.next_ready() {
            let Some(number) = self.keys.iter().find(|(_, known)| **known == key).map(|(number, _)| *number)
            else {
                continue;
            };
            let close = self.children.with(key, |child| {
                while let Some((bytes, done)) = child.take_first() {
                    cx.write_with(frame(b'd', number, &bytes), done);
                }
                match child.take_credit() {
                    0 => {}
                    credit => cx.write(vec![b'c', number, credit as u8]),
                }
                child.take_close()
            });
            if let Some(cause) = close.flatten() {
                self.end(cx, number, cause);
            }
        }
        cx.flush();
    }
}

impl<P: Segment<BytesMut, Bytes>, F: FnMut(u8) -> P + 'static> Handler for Board<P, F> {
    type Read = BytesMut;
    type ReadOut = Infallible;
    type Write = Bytes;
    type WriteOut = Bytes;

    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        self.rest.extend_from_slice(&bytes);
        while let Some(&[kind, number, length]) = self.rest.first_chunk()
            && self.rest.len() >= 3 + usize::from(length)
        {
            self.rest.advance(3);
            let bytes = self.rest.split_to(length.into());
            self.take(cx, kind, number, bytes);
        }
        self.look(cx);
    }
    fn children_ready(&mut self, cx: &mut Context<'_, Self>) {
        self.look(cx);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Bytes, done: WritePromise) {
        cx.write_with(bytes, done);
    }
}
