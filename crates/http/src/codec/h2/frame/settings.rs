//! What the sides of a connection tell each other of what they take (RFC 9113, section 6.5).

use super::{FrameError, FrameFault, MAX_FRAME_DEFAULT, WINDOW_MAX};
use crate::codec::h2::code::ErrorCode;
use bytes::{BufMut, BytesMut};

/// More settings than that in a frame are refused. There are eight that we know, and peers send few that nobody knows.
const SETTINGS_MAX: usize = 64;
/// Bytes of one: what it is, and its value.
const LEN: usize = 6;

mod id {
    pub(super) const HEADER_TABLE_SIZE: u16 = 1;
    pub(super) const ENABLE_PUSH: u16 = 2;
    pub(super) const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub(super) const INITIAL_WINDOW_SIZE: u16 = 4;
    pub(super) const MAX_FRAME_SIZE: u16 = 5;
    pub(super) const MAX_HEADER_LIST_SIZE: u16 = 6;
    /// RFC 8441.
    pub(super) const ENABLE_CONNECT_PROTOCOL: u16 = 8;
    /// RFC 9218.
    pub(super) const NO_RFC7540_PRIORITIES: u16 = 9;
}

/// The settings of one frame: `None` where it says nothing. Of one that it says twice, the last one counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) header_table_size: Option<u32>,
    /// The smallest of the table sizes, if there are several: an encoder has to go down to it before it goes up again.
    pub(crate) header_table_least: Option<u32>,
    pub(crate) enable_push: Option<bool>,
    pub(crate) max_concurrent_streams: Option<u32>,
    /// At most 2³¹−1.
    pub(crate) initial_window_size: Option<u32>,
    /// From 16 KiB to 16 MiB − 1.
    pub(crate) max_frame_size: Option<u32>,
    pub(crate) max_header_list_size: Option<u32>,
    pub(crate) enable_connect_protocol: Option<bool>,
    pub(crate) no_rfc7540_priorities: Option<bool>,
}

impl Settings {
    /// Those of a payload. What is not known is passed over.
    pub(super) fn parse(payload: &[u8]) -> Result<Self, FrameError> {
        let (entries, rest) = payload.as_chunks::<LEN>();
        if !rest.is_empty() {
            return Err(FrameError::connection(ErrorCode::FRAME_SIZE_ERROR, FrameFault::Length));
        }
        if entries.len() > SETTINGS_MAX {
            return Err(FrameError::connection(ErrorCode::ENHANCE_YOUR_CALM, FrameFault::TooManySettings));
        }
        let mut settings = Self::default();
        for &[a, b, value @ ..] in entries {
            settings.take(u16::from_be_bytes([a, b]), u32::from_be_bytes(value))?;
        }
        Ok(settings)
    }

    /// Those of a payload that came as no frame. `None`: it is none.
    pub(crate) fn of_payload(payload: &[u8]) -> Option<Self> {
        Self::parse(payload).ok()
    }

    fn take(&mut self, id: u16, value: u32) -> Result<(), FrameError> {
        let bad = |code| FrameError::connection(code, FrameFault::Setting(id));
        let flag = || match value {
            0 | 1 => Ok(value == 1),
            _ => Err(bad(ErrorCode::PROTOCOL_ERROR)),
        };
        match id {
            id::HEADER_TABLE_SIZE => {
                self.header_table_size = Some(value);
                self.header_table_least =
                    Some(self.header_table_least.map_or(value, |least| least.min(value)));
            }
            id::ENABLE_PUSH => self.enable_push = Some(flag()?),
            id::MAX_CONCURRENT_STREAMS => self.max_concurrent_streams = Some(value),
            id::INITIAL_WINDOW_SIZE if value > WINDOW_MAX => return Err(bad(ErrorCode::FLOW_CONTROL_ERROR)),
            id::INITIAL_WINDOW_SIZE => self.initial_window_size = Some(value),
            id::MAX_FRAME_SIZE if !(MAX_FRAME_DEFAULT as u32..1 << 24).contains(&value) => {
                return Err(bad(ErrorCode::PROTOCOL_ERROR));
            }
            id::MAX_FRAME_SIZE => self.max_frame_size = Some(value),
            id::MAX_HEADER_LIST_SIZE => self.max_header_list_size = Some(value),
            id::ENABLE_CONNECT_PROTOCOL => self.enable_connect_protocol = Some(flag()?),
            id::NO_RFC7540_PRIORITIES => self.no_rfc7540_priorities = Some(flag()?),
            _ => {}
        }
        Ok(())
    }

    /// Bytes of the payload.
    pub(super) fn len(&self) -> usize {
        self.entries().count() * LEN
    }

    /// Appends the payload.
    pub(super) fn put(&self, out: &mut BytesMut) {
        for (id, value) in self.entries() {
            out.put_u16(id);
            out.put_u32(value);
        }
    }

    fn entries(&self) -> impl Iterator<Item = (u16, u32)> {
        let of = |value: Option<bool>| value.map(u32::from);
        [
            (id::HEADER_TABLE_SIZE, self.header_table_size),
            (id::ENABLE_PUSH, of(self.enable_push)),
            (id::MAX_CONCURRENT_STREAMS, self.max_concurrent_streams),
            (id::INITIAL_WINDOW_SIZE, self.initial_window_size),
            (id::MAX_FRAME_SIZE, self.max_frame_size),
            (id::MAX_HEADER_LIST_SIZE, self.max_header_list_size),
            (id::ENABLE_CONNECT_PROTOCOL, of(self.enable_connect_protocol)),
            (id::NO_RFC7540_PRIORITIES, of(self.no_rfc7540_priorities)),
        ]
        .into_iter()
        .filter_map(|(id, value)| Some((id, value?)))
    }
}
