//! What the behaviours share: servers, a scripted application, peers, and ways to wait.

mod chance;
mod guestbook;
mod mortal;
mod own_peer;
mod peers;
mod places;
mod process;
mod rest;
mod script;
mod servers;
mod unix;
mod waiting;

pub(super) use crate::hostile::Unanswering;
pub(super) use chance::{Random, pattern, pattern_at};
pub(super) use guestbook::{Guestbook, Told, guestbook};
pub(super) use mortal::Mortals;
pub(super) use peers::{
    NARROW, Peer, assert_nobody_listens, break_off, expect, expect_end, reset, round_trip,
};
pub(super) use places::{ForeignListener, Refusing};
pub(super) use process::{
    child, in_own_process, is_child, open_sockets, set_descriptor_limit, wait_for_sockets,
};
pub(super) use rest::assert_rests;
pub(super) use script::{Cx, Events, Script, Seen, script};
pub(super) use servers::{Echo, Loops, Running, loops_of};
pub(super) use waiting::{Hold, PATIENCE, Soon, assert_quiet, settle, wait_until};
