//! What the output of an async tail says about the end of its channel.

use crate::channel::{CloseCause, Fault};
use std::error::Error;

/// What an async function at the end of a pipeline may return: `()`, or a `Result<(), E>` whose error becomes the channel's close cause.
///
/// `E` is [`CloseCause`] for a function that only reads and writes. One that does other things too returns
/// `Box<dyn Error + Send + Sync>`, into which `?` turns every error; a `CloseCause` in such a box stays what it is.
///
/// ```
/// use netwright_core::{CloseCause, EmbeddedChannel, Peer, pipeline};
/// use bytes::{Bytes, BytesMut};
///
/// let mut channel = EmbeddedChannel::new(pipeline().serve(|mut peer: Peer| async move {
///     peer.read().await?;
///     Err::<(), _>(Box::<dyn std::error::Error + Send + Sync>::from("no more for today"))
/// }));
/// channel.write_inbound("hello");
/// let cause = channel.channel().close_cause().unwrap();
/// assert!(matches!(&cause, CloseCause::Fault(fault) if fault.to_string() == "no more for today"));
/// ```
#[diagnostic::on_unimplemented(
    message = "an async function at the end of a pipeline cannot return `{Self}`",
    label = "has to return `()` or `Result<(), E>`",
    note = "`E` is `CloseCause`, or any error that converts into `Box<dyn Error + Send + Sync>`"
)]
pub trait Outcome {
    #[doc(hidden)]
    fn into_result(self) -> Result<(), CloseCause>;
}

impl Outcome for () {
    fn into_result(self) -> Result<(), CloseCause> {
        Ok(())
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> Outcome for Result<(), E> {
    fn into_result(self) -> Result<(), CloseCause> {
        self.map_err(|error| match error.into().downcast::<CloseCause>() {
            Ok(cause) => *cause, // what `read` said is passed on as it is
            Err(error) => CloseCause::Fault(Fault::new(error)),
        })
    }
}
