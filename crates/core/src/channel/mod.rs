//! Channels: a pipeline, its handle for the outside, and its outbound queue.
//!
//! | file | what it is |
//! | --- | --- |
//! | `handle`, `closed`, `waiting` | [`Channel`], what every thread may ask of a channel; its end; who waits for it |
//! | `shared` | what handles and the loop share |
//! | `kin` | what the channels of one server share, so that most of them need no handle |
//! | `inlet` | where messages enter that are written to a sealed segment |
//! | `host` | [`Host`], a channel without its socket; transports drive it |
//! | `core`, `demand` | what every stage can reach: timers, wishes to the transport; whether messages may be delivered |
//! | `weight` | [`Weight`], what messages count for while they are on their way |
//! | `taken` | what single stages have taken of a channel, and give back |
//! | `outgoing`, `file_region`, `envelope` | what can be sent |
//! | `carries` | [`Carries`], what can be written where something else is taken |
//! | `byte_source` | [`ByteSource`], bytes that come piece by piece, and their way into a channel |
//! | `outbound` | [`Outbound`], what was accepted and not yet sent: a line of messages, and its account |
//! | `water_marks`, `gather_cap` | how much that may be, and how much of it is offered at once |
//! | `half_closure` | [`HalfClosure`], whether a channel lives on when its peer sends no more |
//! | `least_rate` | [`LeastRate`], how fast a peer has to take what waits for it |
//! | `group` | [`ChannelGroup`], several channels as one |
//! | `child` | [`Children`], channels that a stage of another one has in place of a socket |
//! | `embedded` | [`EmbeddedChannel`], a channel for tests |
//! | `address` | where the two ends are |
//! | `cause` | who ended a channel and why; what became of a write |

mod address;
mod byte_source;
mod carries;
mod cause;
mod channel_hold;
mod child;
mod closed;
mod core;
mod demand;
mod embedded;
mod envelope;
mod file_region;
mod gather_cap;
mod group;
mod half_closure;
mod handle;
mod host;
mod id;
mod inlet;
mod kin;
mod least_rate;
mod outbound;
mod outgoing;
mod shared;
mod short_queue;
mod slow_member;
mod taken;
mod waiting;
mod water_marks;
mod weight;

pub(crate) use self::core::{Asked, Away, ChannelCore, Known, SideTable, TailEnded};
pub(crate) use self::short_queue::ShortQueue;
pub use address::{Address, AddressError, OtherAddress, UnixName};
pub use byte_source::ByteSource;
pub use carries::{CarriedBy, Carries};
pub use cause::{CloseCause, Fault, WriteError, WritePromise, Written};
pub use channel_hold::ChannelHold;
pub(crate) use child::Family;
pub use child::{Child, ChildError, ChildKey, ChildSettings, Children, ParentChannel};
pub use closed::Closed;
pub use embedded::{Collector, EmbeddedChannel, Finished};
pub use envelope::Envelope;
pub use file_region::{FileProgress, FileRegion};
pub use gather_cap::GatherCap;
pub use group::{ChannelGroup, GroupResult, GroupWritten};
pub use half_closure::HalfClosure;
pub use handle::{Channel, ChannelState, ShuttingDown};
pub use host::{AnyHost, AnyPipe, Host, HostOf, HostSettings, Inside, Pipe, PipeOf};
pub use id::ChannelId;
pub(crate) use inlet::Inlet;
pub use kin::Kin;
pub use least_rate::{LeastRate, Pace};
pub(crate) use outbound::{Account, MessageLine};
pub use outbound::{
    ENTRY_OVERHEAD, GATHER_BYTES_MAX, GATHER_PIECES_MAX, Gathered, Outbound, OutboundQueue, Pack, Parcel,
    Weighed,
};
pub use outgoing::{Outgoing, Special};
pub(crate) use shared::AnyShared;
pub use slow_member::{ConflationKey, SlowFigures, SlowMember, SlowMembers};
pub(crate) use taken::What;
pub use water_marks::WaterMarks;
pub use weight::Weight;
