//! Without the feature `blocking` there is no thread for each channel: nobody ever holds anything of it.

use netwright_core::{BuildError, EventLoop, EventLoopGroup};
use std::fmt;

#[derive(Debug, Clone)]
pub(crate) enum ThreadPerChannel {}

/// Nobody has one.
#[derive(Debug)]
#[allow(dead_code)]
pub(crate) struct Lease;

/// Why a channel got no thread: without the feature `blocking` none is asked for one.
#[derive(Debug, Clone)]
pub enum ThreadError {}

impl fmt::Display for ThreadError {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl std::error::Error for ThreadError {}

impl ThreadPerChannel {
    pub(crate) fn lease(&self) -> Result<(EventLoop, Lease), ThreadError> {
        match *self {}
    }

    pub(crate) fn loop_beside(&self) -> Result<EventLoopGroup, BuildError> {
        match *self {}
    }

    pub(crate) fn busy_loops(&self) -> Vec<EventLoop> {
        match *self {}
    }
}
