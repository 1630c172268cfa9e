//! Thrift, by the `thrift` crate: the binary and the compact protocol, one message in each frame.
//!
//! ```text
//!   framed transport:  length (4 bytes, big endian) │ message
//!                      └ a frame stage does this    └ this stage
//!   a call's message:  name, kind, sequence number │ struct          ThriftCall<T>
//! ```
//! Code that the Thrift compiler generates believes the lengths that it reads, and goes by a field's number without a look at
//! its type. So every length is held to the length of the frame before it gets there.

use super::{Format, SerialError, Typed};
use crate::base::MessageCoded;
use ::thrift::{
    ApplicationError, Error, ProtocolErrorKind, TConfiguration,
    protocol::{
        TBinaryInputProtocol, TBinaryOutputProtocol, TCompactInputProtocol, TCompactOutputProtocol,
        TInputProtocol, TMessageIdentifier, TMessageType, TOutputProtocol, TSerializable,
    },
};
use bytes::{BufMut, Bytes, BytesMut};

/// How deep structs may nest: what all of Thrift's own libraries allow.
const DEPTH_MAX: usize = TConfiguration::DEFAULT_RECURSION_LIMIT;

/// Frames of Thrift as values of type `R`, and values of type `W` as frames. Types are what the Thrift compiler generates, or
/// whatever else is [`TSerializable`]; calls of a service are [`ThriftCall`]s.
///
/// The binary protocol, unless [`ThriftFormat::compact`] says otherwise:
/// `pipeline().add(frames).add(Thrift::<Request, Reply>::with(ThriftFormat::compact()))`.
///
/// ```
/// use bytes::{Bytes, BytesMut};
/// use netwright_codec::serial::{Format, ThriftFormat};
/// use thrift::{ApplicationError, ApplicationErrorKind, Error, protocol::{TInputProtocol, TOutputProtocol, TSerializable}};
///
/// /// What a service says when it cannot do something.
/// #[derive(Debug, PartialEq)]
/// struct Complaint(ApplicationError);
///
/// impl TSerializable for Complaint {
///     fn read_from_in_protocol(input: &mut dyn TInputProtocol) -> thrift::Result<Self> {
///         Error::read_application_error_from_in_protocol(input).map(Complaint)
///     }
///     fn write_to_out_protocol(&self, output: &mut dyn TOutputProtocol) -> thrift::Result<()> {
///         Error::write_application_error_to_out_protocol(&self.0, output)
///     }
/// }
///
/// let complaint = Complaint(ApplicationError::new(ApplicationErrorKind::UnknownMethod, "do what?"));
/// let (mut format, mut bytes) = (ThriftFormat::compact(), BytesMut::new());
/// Format::<Complaint, Complaint>::write(&mut format, &complaint, &mut bytes)?;
/// let read: Complaint = Format::<Complaint, Complaint>::read(&mut format, bytes.freeze())?;
/// assert_eq!(read, complaint);
/// # Ok::<(), netwright_codec::serial::SerialError>(())
/// ```
pub type Thrift<R, W = R, B = Bytes> = MessageCoded<Typed<ThriftFormat, R, W, B>>;

/// The format of [`Thrift`].
///
/// ```
/// use netwright_codec::serial::ThriftFormat;
///
/// let formats = [ThriftFormat::binary(), ThriftFormat::compact()]; // both ends have to agree
/// # let _ = formats;
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ThriftFormat {
    protocol: Protocol,
    depth: usize,
    trailing: bool,
}

#[derive(Debug, Clone, Copy)]
enum Protocol {
    Binary { strict: bool },
    Compact,
}

impl ThriftFormat {
    /// The binary protocol.
    pub fn binary() -> Self {
        Self { protocol: Protocol::Binary { strict: true }, depth: DEPTH_MAX, trailing: false }
    }

    /// The binary protocol with calls that may lack the version in front, as very old peers send them. Calls are written
    /// without it.
    pub fn binary_without_version() -> Self {
        Self { protocol: Protocol::Binary { strict: false }, ..Self::binary() }
    }

    /// The compact protocol.
    pub fn compact() -> Self {
        Self { protocol: Protocol::Compact, ..Self::binary() }
    }

    /// Structs inside each other, at most so many. Each level takes stack: thousands need a thread with a large one.
    /// Default: 64, as in Thrift's own libraries. Fields that a type does not know are skipped up to a depth of 64.
    pub fn depth(mut self, max: usize) -> Self {
        self.depth = max;
        self
    }

    /// Whether bytes behind the value are ignored. Default: an error.
    pub fn ignore_trailing(mut self, ignore: bool) -> Self {
        self.trailing = ignore;
        self
    }

    #[cold]
    fn not_read(&self, len: usize, error: Error) -> SerialError {
        match error {
            Error::Protocol(error) if error.kind == ProtocolErrorKind::DepthLimit => SerialError::TooDeep {
                format: "Thrift",
                limit: self.depth,
                got: self.depth.saturating_add(1),
            },
            // Its own text leaves out the numbers.
            Error::Protocol(error) => {
                SerialError::malformed("Thrift", len, format!("{error}: {}", error.message).into())
            }
            error => SerialError::malformed("Thrift", len, error.into()),
        }
    }
}

impl Default for ThriftFormat {
    fn default() -> Self {
        Self::binary()
    }
}

impl<R: TSerializable, W: TSerializable> Format<R, W> for ThriftFormat {
    fn name(&self) -> &'static str {
        "Thrift"
    }

    fn read(&mut self, message: Bytes) -> Result<R, SerialError> {
        let len = message.len();
        let bounds = TConfiguration::builder()
            .max_message_size(Some(len))
            .max_frame_size(None)
            .max_string_size(Some(len))
            .max_container_size(Some(len))
            .max_recursion_depth(Some(self.depth))
            .build();
        let mut rest = &message[..];
        let result = bounds.and_then(|bounds| match self.protocol {
            Protocol::Binary { strict } => {
                R::read_from_in_protocol(&mut TBinaryInputProtocol::with_config(&mut rest, strict, bounds))
            }
            Protocol::Compact => {
                R::read_from_in_protocol(&mut TCompactInputProtocol::with_config(&mut rest, bounds))
            }
        });
        let value = result.map_err(|error| self.not_read(len, error))?;
        if !rest.is_empty() && !self.trailing {
            return Err(SerialError::Trailing { format: "Thrift", used: len - rest.len(), len });
        }
        Ok(value)
    }

    fn write(&mut self, value: &W, out: &mut BytesMut) -> Result<(), SerialError> {
        let written = match self.protocol {
            Protocol::Binary { strict } => {
                value.write_to_out_protocol(&mut TBinaryOutputProtocol::new(out.writer(), strict))
            }
            Protocol::Compact => value.write_to_out_protocol(&mut TCompactOutputProtocol::new(out.writer())),
        };
        written.map_err(|error| SerialError::not_writable("Thrift", error.into()))
    }
}

/// A call of a service, or the answer to one: a name and a number in front of a struct.
///
/// The struct of a call has the method's arguments as its fields; that of an answer has the result as field 0, or a declared
/// exception as another. A service of several methods reads them with a type of its own, whose `read_from_in_protocol` begins
/// with `read_message_begin` and goes by the name.
///
/// ```
/// use netwright_codec::ThriftCall;
///
/// let call = ThriftCall::call("price", 7, "tea");
/// let reply = call.reply(250);
/// assert_eq!((reply.name.as_str(), reply.sequence), ("price", 7));
/// ```
#[derive(Debug, PartialEq)]
pub struct ThriftCall<T> {
    /// The method's name.
    pub name: String,
    /// The number by which the answer finds its call.
    pub sequence: i32,
    /// What kind of message it is, and what it holds.
    pub body: ThriftBody<T>,
}

/// What kind of message a [`ThriftCall`] is.
///
/// ```
/// use netwright_codec::{ThriftCall, serial::ThriftBody};
///
/// match ThriftCall::call("price", 1, "tea").body {
///     ThriftBody::Call(item) | ThriftBody::OneWay(item) => assert_eq!(item, "tea"),
///     ThriftBody::Reply(_) | ThriftBody::Exception(_) => unreachable!("it is a call"),
/// }
/// ```
#[derive(Debug, PartialEq)]
pub enum ThriftBody<T> {
    /// A call, with its arguments.
    Call(T),
    /// A call that wants no answer, with its arguments.
    OneWay(T),
    /// An answer, with its result.
    Reply(T),
    /// The service cannot do it: no such method, or it failed.
    Exception(ApplicationError),
}

impl<T> ThriftCall<T> {
    /// A call.
    pub fn call(name: impl Into<String>, sequence: i32, arguments: T) -> Self {
        Self { name: name.into(), sequence, body: ThriftBody::Call(arguments) }
    }

    /// The answer to this call.
    pub fn reply<U>(&self, result: U) -> ThriftCall<U> {
        ThriftCall { name: self.name.clone(), sequence: self.sequence, body: ThriftBody::Reply(result) }
    }

    /// The answer to this call, which cannot be done.
    pub fn exception<U>(&self, error: ApplicationError) -> ThriftCall<U> {
        ThriftCall { name: self.name.clone(), sequence: self.sequence, body: ThriftBody::Exception(error) }
    }
}

impl<T: TSerializable> TSerializable for ThriftCall<T> {
    fn read_from_in_protocol(input: &mut dyn TInputProtocol) -> ::thrift::Result<Self> {
        let TMessageIdentifier { name, message_type, sequence_number } = input.read_message_begin()?;
        let body = match message_type {
            TMessageType::Call => ThriftBody::Call(T::read_from_in_protocol(input)?),
            TMessageType::OneWay => ThriftBody::OneWay(T::read_from_in_protocol(input)?),
            TMessageType::Reply => ThriftBody::Reply(T::read_from_in_protocol(input)?),
            TMessageType::Exception => {
                ThriftBody::Exception(Error::read_application_error_from_in_protocol(input)?)
            }
        };
        input.read_message_end()?;
        Ok(Self { name, sequence: sequence_number, body })
    }

    fn write_to_out_protocol(&self, output: &mut dyn TOutputProtocol) -> ::thrift::Result<()> {
        let kind = match self.body {
            ThriftBody::Call(_) => TMessageType::Call,
            ThriftBody::OneWay(_) => TMessageType::OneWay,
            ThriftBody::Reply(_) => TMessageType::Reply,
            ThriftBody::Exception(_) => TMessageType::Exception,
        };
        output.write_message_begin(&TMessageIdentifier::new(&*self.name, kind, self.sequence))?;
        match &self.body {
            ThriftBody::Call(value) | ThriftBody::OneWay(value) | ThriftBody::Reply(value) => {
                value.write_to_out_protocol(output)?;
            }
            ThriftBody::Exception(error) => Error::write_application_error_to_out_protocol(error, output)?,
        }
        output.write_message_end()
    }
}
