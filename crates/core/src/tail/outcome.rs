//! What the output of an async tail says about the end of its channel.

use crate::channel::{CloseCause, Fault};
use std::error::Error;

/// The output of an async tail: `()`, or a `Result` whose error becomes the channel's close cause.
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
