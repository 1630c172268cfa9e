//! Children: channels that a stage of another channel has, in place of a socket.
//!
//! ```text
//!                                 ┌ Child ───────────────────┐
//!   [ stage ] ── with(key, …) ──▶ │ inbox ─▶ Host, pipeline  │     a plain call: one source of the loop enters another
//!       ▲                         └──────────┬───────────────┘
//!       │                                    │ flushed, wants more, done, ended
//!   next_ready ◀── Family: who has news ◀────┘
//!       ▲                  │
//!       └ children_ready ◀─┘ a poke, if the child ran by itself: a timer, a future, a command
//! ```
//! Always true:
//! 1. A parent calls its children; a child never calls its parent. It is put on a list, once, and a parent that is not
//!    looking already is poked, once for all that are on the list. Neither allocates nor locks.
//! 2. A child is a source of its parent's loop with a token of its own: timers, futures, handles, workers and the
//!    containment of panics are those of every channel.
//! 3. A message that nobody has asked for waits in the child, and what it counts for is not given back before. So who does not
//!    ask holds up nobody else, and no more than its parent granted it.
//! 4. The end of a channel is that of its children, with its cause. A child that has ended and still holds messages, or has
//!    something on workers, lives on by itself until that is over, as every channel does.
//! 5. What is kept of a child that has ended in order is its stages; see `Host::start_over`.
//!
//! | file | what it is |
//! | --- | --- |
//! | `children` | [`Children`], what a stage has of its children |
//! | `child` | [`Child`], one of them, as its parent sees it |
//! | `family` | what siblings share: who they are, the way to their parent |
//! | `news` | the list of those who have news |
//! | `store` | stages that wait for another conversation |
//! | `settings` | [`ChildSettings`] |
//! | `parent` | [`ParentChannel`], a parent as its children's handles see it |
//! | `error` | [`ChildError`], why there is no child |

// A file that is called what its folder is: the thing itself.
#[allow(clippy::module_inception)]
mod child;
mod children;
mod error;
mod family;
mod news;
mod parent;
mod settings;
mod store;

pub use child::Child;
pub use children::{ChildKey, Children};
pub use error::ChildError;
pub(crate) use family::Family;
pub(super) use family::STORE_DUE;
pub use parent::ParentChannel;
pub use settings::ChildSettings;
