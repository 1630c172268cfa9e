//! Every frame decoder against the verifier: whole, split anywhere, byte by byte, cut off, paused, hostile.

use netwright_codec::LineFrames;
use netwright_testkit::verify_decoder;

#[test]
fn lines() {
    verify_decoder!(LineFrames::max(8);
        b"one\r\n" => [Ok("one")],
        b"\n" => [Ok("")],
        b"thr\ree\r\r\n" => [Ok("thr\ree\r")],
        b"much too long\r\n" => [Err("a frame of 13 bytes or more, the limit is 8")],
        b"12345678\n\r\n" => [Ok("12345678"), Ok("")],
    );
    verify_decoder!(LineFrames::max(4).fail_fast(true).keep_ends(true);
        b"one\r\n" => [Ok("one\r\n")],
        b"too long\n" => [Err("the limit is 4")],
        b"1234\n" => [Ok("1234\n")],
    );
}
