//! An encoder: one message in, its bytes appended to those of the messages before it.

use super::{Batch, short_name};
use netwright_core::{Fault, Weight};

/// Makes bytes of messages.
///
/// As a stage: [`encode`](super::encode).
///
/// ```
/// use bytes::BufMut;
/// use netwright_codec::{Batch, Encoder, encode};
/// use netwright_core::{EmbeddedChannel, Fault, pipeline};
///
/// /// Numbers of four bytes.
/// struct Numbers;
///
/// impl Encoder for Numbers {
///     type Message = u32;
///     fn encode(&mut self, number: u32, out: &mut Batch) -> Result<(), Fault> {
///         out.put_u32(number);
///         Ok(())
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(encode(Numbers)));
/// channel.channel().write(1);
/// channel.channel().write(2);
/// assert!(channel.read_outbound().is_none(), "gathered until the flush");
/// channel.channel().flush();
/// assert_eq!(&channel.read_outbound().unwrap()[..], [0, 0, 0, 1, 0, 0, 0, 2]);
/// ```
pub trait Encoder: Sized + 'static {
    /// What it takes.
    type Message: 'static;

    /// What a message counts for while it waits to be written; see [`Handler::WEIGHT`](netwright_core::Handler::WEIGHT).
    const WEIGHT: Weight<Self::Message> = Weight::unsaid();

    /// Appends the message. With an error nothing of it is sent: who wrote it is told, or, if nobody waits to hear of it,
    /// the pipeline gets the error. Every error converts into a [`Fault`] by `?`.
    fn encode(&mut self, message: Self::Message, out: &mut Batch) -> Result<(), Fault>;

    /// What to call it in listings.
    fn name(&self) -> &'static str {
        short_name::<Self>()
    }
}
