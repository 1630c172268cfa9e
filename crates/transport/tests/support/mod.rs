//! What the tests of local and of Unix channels share: the contract suite's scripted application, its ways to wait and its
//! random numbers, and an echo.

#[path = "../../../testkit/src/contract/support/chance.rs"]
mod chance;
#[path = "../../../testkit/src/contract/support/script.rs"]
mod script;
#[path = "../../../testkit/src/contract/support/waiting.rs"]
mod waiting;

pub(crate) use chance::*;
pub(crate) use script::*;
pub(crate) use waiting::*;

use bytes::{Bytes, BytesMut};
use netwright_core::{AppContext, Application, Outgoing};

/// Sends everything back: written as it is read, flushed when all is read.
pub(crate) struct Echo;

impl Application for Echo {
    type Read = BytesMut;
    type Write = Outgoing;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        cx.write(bytes.freeze());
    }
    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush();
    }
}
