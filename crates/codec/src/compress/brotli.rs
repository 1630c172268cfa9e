//! Brotli (RFC 7932), by the `brotli` crate, which is written in Rust.

use super::{Broken, DecompressLimits, Expand, Flush, Moved, Reach, Shrink};
use brotli::{
    BrotliDecompressStream, BrotliResult, BrotliState,
    enc::{
        StandardAlloc,
        encode::{BrotliEncoderOperation, BrotliEncoderParameter, BrotliEncoderStateStruct},
    },
};

/// For what is compressed while somebody waits: about as fast as gzip's default, and smaller.
const LEVEL: i32 = 5;

type Alloc = StandardAlloc;

pub(super) struct Unbrotli {
    state: Box<BrotliState<Alloc, Alloc, Alloc>>,
    window_max: u64,
    begun: bool,
}

impl Unbrotli {
    pub(super) fn new(limits: &DecompressLimits) -> Self {
        Self { state: fresh(), window_max: limits.window_max(), begun: false }
    }
}

fn fresh() -> Box<BrotliState<Alloc, Alloc, Alloc>> {
    // Strict: without the large windows of up to 1 GiB, which are not in the RFC.
    Box::new(BrotliState::new_strict(Alloc::default(), Alloc::default(), Alloc::default()))
}

impl Expand for Unbrotli {
    fn expand(&mut self, input: &[u8], output: &mut [u8]) -> Result<Moved, Broken> {
        if let (false, Some(&first)) = (self.begun, input.first()) {
            self.begun = true;
            let window = 1 << window_log(first);
            if window > self.window_max {
                return Err(Broken::Window { got: window, limit: self.window_max });
            }
        }
        let (mut taken, mut made, mut total) = (0, 0, 0);
        let (mut available_in, mut available_out) = (input.len(), output.len());
        let result = BrotliDecompressStream(
            &mut available_in,
            &mut taken,
            input,
            &mut available_out,
            &mut made,
            output,
            &mut total,
            &mut self.state,
        );
        let reach = match result {
            BrotliResult::ResultSuccess => Reach::End,
            BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => Reach::Inside,
            BrotliResult::ResultFailure => {
                return Err(Broken::Corrupt(format!("{:?}", self.state.error_code)));
            }
        };
        Ok(Moved { taken, made, reach })
    }

    fn restart(&mut self) -> Result<(), Broken> {
        self.state = fresh();
        self.begun = false;
        Ok(())
    }
}

/// The window that the first byte of a stream asks for, as a binary logarithm (RFC 7932, section 9.1). What is not
/// allowed there is left to the library to refuse.
fn window_log(first: u8) -> u32 {
    match (first & 1, first >> 1 & 7, first >> 4 & 7) {
        (0, ..) => 16,
        (_, 0, 0) => 17,
        (_, 0, n) => 8 + u32::from(n),
        (_, n, _) => 17 + u32::from(n),
    }
}

pub(super) struct Brotli(Box<BrotliEncoderStateStruct<Alloc>>);

impl Brotli {
    pub(super) fn new(level: Option<i32>, window_log: u32) -> Self {
        let mut state = Box::new(BrotliEncoderStateStruct::new(Alloc::default()));
        let quality = level.unwrap_or(LEVEL) as u32; // checked where it was set
        state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_QUALITY, quality);
        state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_LGWIN, window_log);
        Self(state)
    }
}

impl Shrink for Brotli {
    fn shrink(&mut self, input: &[u8], output: &mut [u8], flush: Flush) -> Result<Moved, String> {
        let operation = match flush {
            Flush::None => BrotliEncoderOperation::BROTLI_OPERATION_PROCESS,
            Flush::Sync => BrotliEncoderOperation::BROTLI_OPERATION_FLUSH,
            Flush::Finish => BrotliEncoderOperation::BROTLI_OPERATION_FINISH,
        };
        let (mut taken, mut made) = (0, 0);
        let (mut available_in, mut available_out) = (input.len(), output.len());
        let went = self.0.compress_stream(
            operation,
            &mut available_in,
            input,
            &mut taken,
            &mut available_out,
            output,
            &mut made,
            &mut None,
            &mut |_, _, _, _| (),
        );
        if !went {
            return Err("the encoder refused".to_owned());
        }
        let over = taken == input.len()
            && !self.0.has_more_output()
            && (flush != Flush::Finish || self.0.is_finished());
        Ok(Moved { taken, made, reach: if over { Reach::End } else { Reach::Inside } })
    }
}
