//! How large the parts of a ring are.

/// Sizes of one loop's ring. The defaults take some 100 KiB of memory that the kernel locks, and a quarter of a megabyte of buffers
/// that grows to 4 MiB under load.
///
/// ```
/// use netwright_core::EventLoopGroup;
/// use netwright_transport::uring::{UringSeed, UringSettings};
///
/// let settings = UringSettings::new().submissions(1024).completions(8192);
/// let group = EventLoopGroup::builder().loops(1).driver(move |_| UringSeed::with(settings)).build();
/// if let Err(error) = group {
///     println!("{error}"); // where io_uring is forbidden, it says so
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "settings do nothing until a seed is made with them"]
pub struct UringSettings {
    pub(super) submissions: u32,
    pub(super) completions: u32,
    pub(super) buffer_len: usize,
    pub(super) buffers_min: u16,
    pub(super) buffers_max: u16,
    pub(super) zero_copy_from: usize,
    pub(super) file_operations: usize,
    pub(super) file_bytes: usize,
}

impl UringSettings {
    /// The defaults.
    pub const fn new() -> Self {
        Self {
            submissions: 512,
            completions: 4096,
            buffer_len: 4 * 1024,
            buffers_min: 64,
            buffers_max: 1024,
            zero_copy_from: usize::MAX,
            file_operations: 64,
            file_bytes: 512 * 1024,
        }
    }

    /// Operations that are queued before the kernel is entered in the middle of a turn. A power of two.
    /// Default: 512, of 64 bytes each.
    pub const fn submissions(mut self, entries: u32) -> Self {
        self.submissions = clamp_power(entries, 8, 32_768);
        self
    }

    /// Completions that one turn can take up; more wait in the kernel, and are counted. A power of two. Default: 4,096, of
    /// 16 bytes each.
    pub const fn completions(mut self, entries: u32) -> Self {
        self.completions = clamp_power(entries, 16, 65_536);
        self
    }

    /// How much one buffer takes. Default: 4 KiB.
    /// What comes in larger amounts is received without them.
    pub const fn buffer_len(mut self, bytes: usize) -> Self {
        self.buffer_len = if bytes < 512 { 512 } else { bytes };
        self
    }

    /// How many buffers the kernel has to receive into, at least and at most: both are powers of two. It starts with the
    /// fewest, and doubles when they do not last for a turn. Default: 64 and 1,024.
    pub const fn buffers(mut self, min: u16, max: u16) -> Self {
        self.buffers_max = clamp_power(max as u32, 2, 32_768) as u16; // no more than 32,768, so it fits
        self.buffers_min = clamp_power(min as u32, 1, self.buffers_max as u32) as u16;
        self
    }

    /// Sends of at least so many bytes leave without a copy, and their memory is held until the peer has everything.
    /// Default: never, because over loopback it costs half as much again, at any size from 16 KiB to 1 MiB. Over a
    /// network card that can gather it may pay.
    pub const fn zero_copy_from(mut self, bytes: usize) -> Self {
        self.zero_copy_from = if bytes == 0 { 1 } else { bytes };
        self
    }

    /// Operations on [files](crate::files) that the kernel has at a time, at least one, and the bytes that these read and write; what
    /// exceeds that waits. Default: 64 and 512 KiB. What is in the system's cache is copied in the call that hands it over, so the
    /// bytes are how long a turn of the loop may take: half a megabyte is some 60 µs. What is read and written in parts counts part by
    /// part, and what is appended, as a whole and by a thread of the kernel, for no more than a part, which is 192 KiB.
    pub const fn files(mut self, operations: usize, bytes: usize) -> Self {
        self.file_operations = if operations == 0 { 1 } else { operations };
        self.file_bytes = bytes;
        self
    }
}

const fn clamp_power(value: u32, min: u32, max: u32) -> u32 {
    let value = if value < min { min } else { value };
    let power = value.next_power_of_two();
    if power > max { max } else { power }
}

impl Default for UringSettings {
    fn default() -> Self {
        Self::new()
    }
}
