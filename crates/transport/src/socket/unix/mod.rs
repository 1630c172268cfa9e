//! What only Unix sockets have: files as addresses, credentials of the peer, and descriptors that go along with bytes.
//!
//! | file | what it is |
//! | --- | --- |
//! | `file` | the file of a listener: stale ones are replaced, ours is removed |
//! | `credentials` | who the peer is |
//! | `descriptors` | sent along with bytes, and received if asked for |

mod credentials;
mod descriptors;
mod file;

pub use credentials::PeerCredentials;
pub(crate) use credentials::credentials;
pub use descriptors::{DescriptorError, ReceivedDescriptors};
pub(crate) use descriptors::{receive, send_envelope};
pub(crate) use file::{SocketFile, bind};
