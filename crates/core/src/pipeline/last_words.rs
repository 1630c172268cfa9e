//! What a handler panicked with, for the time in which the other stages of its channel are asked for last words.
//!
//! Kept for the thread and not in the channel: nearly no channel ever has it, and an idle one would keep room for it.

use std::cell::RefCell;

thread_local! {
    static MESSAGE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Has `ask` run with the message known.
pub(crate) fn after<T>(message: &str, ask: impl FnOnce() -> T) -> T {
    /// Also if what is asked panics.
    struct Forget;
    impl Drop for Forget {
        fn drop(&mut self) {
            let _ = MESSAGE.try_with(RefCell::take);
        }
    }
    let _ = MESSAGE.try_with(|known| known.replace(Some(message.to_owned())));
    let forget = Forget;
    let result = ask();
    drop(forget);
    result
}

/// The message, if a panic is being told of.
pub(super) fn with_message<T>(tell: impl FnOnce(Option<&str>) -> T) -> T {
    let message = MESSAGE.try_with(|known| known.borrow().clone()).ok().flatten();
    tell(message.as_deref())
}
