//! What people who know Netty expect of sockets: the list that behaviours refer to by number.

/// One expectation.
#[derive(Debug, Clone, Copy)]
pub struct Expectation {
    /// Its number in the list that this project keeps.
    pub number: u8,
    /// What is expected.
    pub sentence: &'static str,
    /// What is different here, or where else it is shown.
    pub note: Option<&'static str>,
}

const fn expect(number: u8, sentence: &'static str) -> Expectation {
    Expectation { number, sentence, note: None }
}

const fn noted(number: u8, sentence: &'static str, note: &'static str) -> Expectation {
    Expectation { number, sentence, note: Some(note) }
}

/// Those that concern transports.
pub const EXPECTATIONS: &[Expectation] = &[
    noted(
        42,
        "connect resolves before the channel is active",
        "different on purpose: a handle is given out when there is a channel behind it that works, so the pipeline is \
         active when the connect resolves",
    ),
    expect(43, "a write to a closed channel fails at once"),
    noted(
        44,
        "options hold, attributes are there, a failing resolver fails the connect",
        "each option by itself: unit tests of `options`",
    ),
    expect(45, "bind and connect inside a loop's task do not deadlock"),
    noted(46, "a pool has a bound, and a policy for those who wait", "tests of `pool`"),
    noted(47, "a pool does not hand out an unhealthy channel", "tests of `pool`"),
    noted(
        48,
        "the size of reads adapts",
        "moot: all channels of a loop read into one buffer of 64 KiB, so there is no size to guess (unit tests of \
         `scratch`)",
    ),
    expect(49, "echo and gathering writes are byte-exact"),
    expect(50, "nothing before it is asked for; a pause in read means one read"),
    noted(
        51,
        "demand counts anew after each read, also if a handler fails",
        "a handler that panics or an error that nobody handles ends its channel, so there is no further read",
    ),
    expect(52, "a large transfer with small marks completes"),
    expect(53, "cancelled writes vanish"),
    expect(54, "refused, timed out and cancelled connects say so, and no channel begins"),
    noted(55, "a second connect is refused", "moot: each `Client::connect` opens a channel of its own"),
    expect(56, "connect, then close: active and inactive once each"),
    expect(57, "closing twice succeeds twice"),
    expect(58, "half closure: one event, all data first"),
    expect(59, "output shut down: the peer sees the end, writes fail, reading goes on"),
    expect(60, "a linger of 0 resets, without it a close is clean"),
    expect(61, "accepting pauses and resumes, and what waited is drained"),
    expect(62, "files go out byte for byte, and a region longer than its file fails"),
    expect(63, "a write before the connection is there is sent when it is"),
    expect(64, "messages are released exactly once"),
    noted(65, "datagrams", "not streams: tests of their own"),
    expect(66, "descriptor numbers that are used again do not cross channels"),
    expect(67, "a peer's end is noticed without reading"),
];
