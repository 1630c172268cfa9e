//! TCP over the readiness driver.
//!
//! | file | what it is |
//! | --- | --- |
//! | `channel` | one connection: reads into the loop's scratch buffer, writes at flush |
//! | `listener` | accepts, and keeps listening when the system has no descriptor left |
//! | `connect` | opens a connection, within a time limit |
//! | `write` | gathering writes and files |
//! | `calls` | the system calls that come with every message |

mod calls;
mod channel;
mod connect;
mod listener;
mod write;

pub(crate) use channel::{Adoption, ChannelSettings, adopt};
pub(crate) use connect::{ConnectSettings, connect};
pub(crate) use listener::{Listener, ListenerFigures, OnAccept};
