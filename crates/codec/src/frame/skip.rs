//! Skipping a frame that is too long and whose length is known.

use super::FrameError;
use crate::base::DecodeError;
use bytes::{Buf, BytesMut};

/// What is left to be skipped of a frame that is too long.
#[derive(Debug, Clone, Default)]
pub(super) struct Skip {
    left: u64,
    /// How long the frame is, if that is still to be reported.
    report: Option<u64>,
}

impl Skip {
    /// Skips a frame of so many bytes, as far as it is there. The error comes now, or when it is gone.
    #[cold]
    pub(super) fn begin(
        &mut self,
        bytes: &mut BytesMut,
        frame: u64,
        limit: usize,
        fail_fast: bool,
    ) -> Result<(), DecodeError> {
        *self = Self { left: frame, report: (!fail_fast).then_some(frame) };
        let late = self.go_on(bytes, limit);
        if fail_fast { Err(too_long(limit, frame)) } else { late }
    }

    /// Whether a frame is being skipped.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.left > 0
    }

    /// Skips as much of the frame as is there.
    #[cold]
    pub(super) fn go_on(&mut self, bytes: &mut BytesMut, limit: usize) -> Result<(), DecodeError> {
        let here = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        bytes.advance(here);
        self.left -= here as u64;
        match self.report {
            Some(frame) if self.left == 0 => {
                self.report = None;
                Err(too_long(limit, frame))
            }
            _ => Ok(()),
        }
    }

    /// The stream has ended, and so has the frame: the error that was to come at its end.
    pub(super) fn end(&mut self, limit: usize) -> Result<(), DecodeError> {
        match self.report.take() {
            Some(frame) => Err(too_long(limit, frame)),
            None => Ok(()),
        }
    }
}

fn too_long(limit: usize, frame: u64) -> DecodeError {
    let got = usize::try_from(frame).unwrap_or(usize::MAX);
    DecodeError::recoverable(FrameError::TooLong { limit, got })
}
