//! A global allocator that counts, per thread, how often it was asked, for how much, and how much is in use.
//!
//! Counting is per thread, so tests that run in parallel do not see each other's allocations.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<u64> = const { Cell::new(0) };
    /// Bytes that this thread has allocated and not freed. Negative on a thread that frees what others allocated.
    static IN_USE: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

/// The system's allocator with a counter in front.
///
/// ```
/// use netwright_testkit::{CountingAllocator, allocations_during};
///
/// #[global_allocator]
/// static ALLOCATOR: CountingAllocator = CountingAllocator;
///
/// assert_eq!(allocations_during(|| 1 + 1), (0, 2));
/// assert_eq!(allocations_during(|| drop(Box::new(1))).0, 1);
/// ```
pub struct CountingAllocator;

/// How often this thread allocated or grew memory while `f` ran, and what `f` returned. Without
/// [`CountingAllocator`] as the global allocator the count is always 0.
pub fn allocations_during<R>(f: impl FnOnce() -> R) -> (u64, R) {
    let before = COUNT.get();
    let result = f();
    (COUNT.get() - before, result)
}

/// How many bytes this thread asked for while `f` ran, freed ones included, and what `f` returned: for "a length that is only
/// claimed makes nobody allocate". Without [`CountingAllocator`] as the global allocator the count is always 0.
///
/// ```
/// use netwright_testkit::{CountingAllocator, bytes_allocated_during};
///
/// #[global_allocator]
/// static ALLOCATOR: CountingAllocator = CountingAllocator;
///
/// assert_eq!(bytes_allocated_during(|| Vec::<u8>::with_capacity(100).len()), (100, 0));
/// ```
pub fn bytes_allocated_during<R>(f: impl FnOnce() -> R) -> (u64, R) {
    let before = BYTES.get();
    let result = f();
    (BYTES.get() - before, result)
}

/// How many bytes more than before were in use at most while `f` ran, as far as this thread allocated and freed them, and what
/// `f` returned. What libraries of other languages allocate does not count.
///
/// ```
/// use netwright_testkit::{CountingAllocator, peak_during};
///
/// #[global_allocator]
/// static ALLOCATOR: CountingAllocator = CountingAllocator;
///
/// let (peak, ()) = peak_during(|| (0..10).for_each(|_| drop(std::hint::black_box(vec![0u8; 1000]))));
/// assert_eq!(peak, 1000, "one after the other");
/// ```
pub fn peak_during<R>(f: impl FnOnce() -> R) -> (u64, R) {
    let (before, outer) = (IN_USE.get(), PEAK.get());
    PEAK.set(before);
    let result = f();
    let peak = PEAK.get();
    PEAK.set(outer.max(peak));
    (u64::try_from(peak - before).unwrap_or(0), result)
}

/// How many bytes this thread has allocated and not freed: for "an idle connection keeps no buffer", as a difference. Negative
/// on a thread that frees what others allocated.
///
/// ```
/// use netwright_testkit::{CountingAllocator, bytes_in_use};
///
/// #[global_allocator]
/// static ALLOCATOR: CountingAllocator = CountingAllocator;
///
/// let before = bytes_in_use();
/// let kept = std::hint::black_box(vec![0u8; 1000]);
/// assert_eq!(bytes_in_use() - before, 1000);
/// drop(kept);
/// assert_eq!(bytes_in_use(), before);
/// ```
pub fn bytes_in_use() -> i64 {
    IN_USE.get()
}

/// How often this thread has allocated or grown memory so far: for code that cannot be wrapped in a closure, such as
/// what a loop does between two of its tasks. Asking allocates nothing.
pub fn allocations_so_far() -> u64 {
    COUNT.get()
}

/// Fails unless an expression allocates so often, or at most so often. Its value is the macro's.
///
/// ```
/// use netwright_testkit::{CountingAllocator, assert_allocations};
///
/// #[global_allocator]
/// static ALLOCATOR: CountingAllocator = CountingAllocator;
///
/// assert_eq!(assert_allocations!(0, 1 + 1), 2);
/// assert_allocations!(1, drop(Box::new(1)));
/// let text = assert_allocations!(at most 2, "a".repeat(3));
/// assert_eq!(text, "aaa");
/// ```
///
/// Without [`CountingAllocator`](crate::CountingAllocator) as the global allocator it fails: a count that is always 0 shows
/// nothing.
#[macro_export]
macro_rules! assert_allocations {
    (at most $most:expr, $what:expr) => {
        $crate::assert_allocations!(@check $most, $what, <=, "at most ")
    };
    ($exactly:expr, $what:expr) => {
        $crate::assert_allocations!(@check $exactly, $what, ==, "")
    };
    (@check $limit:expr, $what:expr, $compare:tt, $most:literal) => {{
        let (counted, probe) = $crate::allocations_during(|| Box::new(0u8));
        assert!(std::hint::black_box(probe).as_ref() == &0 && counted == 1, "the counting allocator is not in use");
        let limit: u64 = $limit;
        let (allocations, value) = $crate::allocations_during(|| $what);
        assert!(
            allocations $compare limit,
            "{} allocated {allocations} times instead of {}{limit}", stringify!($what), $most
        );
        value
    }};
}

fn count(bytes: usize) {
    // A thread that is ending has no counter any more, and nobody who would read it.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
    let _ = BYTES.try_with(|count| count.set(count.get() + bytes as u64));
    grow(bytes as i64);
}

fn grow(bytes: i64) {
    let _ = IN_USE.try_with(|in_use| {
        let now = in_use.get() + bytes;
        in_use.set(now);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(now)));
    });
}

// SAFETY: every call is passed on unchanged to the system's allocator, which upholds the contract; the counters are
// const-initialised thread-locals without destructors, so counting neither allocates nor runs foreign code.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size);
        grow(-(layout.size() as i64));
        // SAFETY: `ptr` came from this allocator, and so from the system's, with `layout`.
        unsafe { System.realloc(ptr, layout, new_size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        grow(-(layout.size() as i64));
        // SAFETY: as above.
        unsafe { System.dealloc(ptr, layout) }
    }
}
