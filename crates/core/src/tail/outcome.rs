//! What the output of an async tail says about the end of its channel.

use crate::channel::{CloseCause, Fault};
use std::error::Error;

/// The output of an async tail: `()`, or a `Result` whose error becomes the channel's close cause.
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
