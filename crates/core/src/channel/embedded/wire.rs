//! The wire's end of an embedded channel: what a transport would do.

use super::super::{CloseCause, Host, Outbound, Outgoing, Pack, Parcel, Weighed, WriteError};
use crate::{
    driver::{self, Source},
    pipeline::Segment,
};
use bytes::Bytes;
use std::{cell::RefCell, collections::VecDeque, rc::Rc};

/// The most that is read of a file at once.
const FILE_CHUNK: usize = 64 * 1024;

/// What leaves a line as `O`.
pub(super) trait OnWire<O>: Parcel {
    /// Sends something of the first message. An error ends the channel.
    fn send_first(outbound: &mut Outbound<'_, Self>, wire: &mut VecDeque<O>) -> Result<(), CloseCause>
    where
        Self: Sized;
}

impl OnWire<Bytes> for Outgoing {
    fn send_first(outbound: &mut Outbound<'_>, wire: &mut VecDeque<Bytes>) -> Result<(), CloseCause> {
        if let Some(bytes) = outbound.first_bytes().cloned() {
            let len = bytes.len();
            if len > 0 {
                wire.push_back(bytes);
            }
            outbound.advance(len);
        } else if outbound.first_envelope().is_some() {
            outbound.open_first_envelope();
        } else if let Some(file) = outbound.first_file() {
            match file.read_chunk(FILE_CHUNK) {
                Ok(bytes) => {
                    let len = bytes.len();
                    wire.push_back(bytes);
                    outbound.advance(len);
                }
                Err(error) => {
                    let breaks_off = file.breaks_off(&error);
                    outbound.fail_first(WriteError::File(error.into()));
                    if let Some(error) = breaks_off {
                        return Err(CloseCause::io(error));
                    }
                }
            }
        }
        Ok(())
    }
}

impl<O: 'static> OnWire<O> for Weighed<O> {
    fn send_first(outbound: &mut Outbound<'_, Self>, wire: &mut VecDeque<O>) -> Result<(), CloseCause> {
        if let Some((Weighed { message, .. }, done)) = outbound.take_first() {
            wire.push_back(message);
            done.succeed();
        }
        Ok(())
    }
}

/// A host of any pipeline, as the embedded channel sees it.
pub(super) trait AnyHost<I, O> {
    fn received(&mut self, message: I);
    fn read_complete(&mut self);
    fn input_closed(&mut self);
    fn allows_half_closure(&self) -> bool;
    fn closed(&mut self, cause: CloseCause);
    fn wants_read(&self) -> bool;
    fn is_busy(&self) -> bool;
    /// Does what is asked of a transport. Tells whether there was anything.
    fn act(&mut self, wire: &mut VecDeque<O>, blocked: bool) -> bool;
}

impl<P, W, I, M, O> AnyHost<I, O> for Host<P, W, I, M>
where
    P: Segment<I, W>,
    W: 'static,
    I: 'static,
    M: Pack<W> + OnWire<O>,
{
    fn received(&mut self, message: I) {
        Host::received(self, message);
    }
    fn read_complete(&mut self) {
        Host::read_complete(self);
    }
    fn input_closed(&mut self) {
        Host::input_closed(self);
    }
    fn allows_half_closure(&self) -> bool {
        Host::allows_half_closure(self)
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

    fn act(&mut self, wire: &mut VecDeque<O>, blocked: bool) -> bool {
        let mut busy = self.take_flush();
        while !blocked && self.outbound().has_flushed() {
            busy = true;
            if let Err(cause) = M::send_first(&mut self.outbound(), wire) {
                Host::closed(self, cause);
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

/// The host's place on its loop.
pub(super) struct HostSource<H: ?Sized>(pub(super) Rc<RefCell<H>>);

impl<P, W, I, M> Source for HostSource<Host<P, W, I, M>>
where
    P: Segment<I, W>,
    W: 'static,
    I: 'static,
    M: Pack<W>,
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
