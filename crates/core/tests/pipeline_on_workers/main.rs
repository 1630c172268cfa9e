//! Everything that is tested of pipelines, once more with every stage on workers: but for its thread, a stage must not be able
//! to tell where it runs. The tests are those of `tests/pipeline`; here `pipeline()` puts on workers what it is given, and the
//! channel waits until they are done.
//!
//! What stays on the loop, or out:
//!
//! | what | why |
//! | --- | --- |
//! | closures (`.handle(…)`) | they need not be `Send`, so they are the one stage that stays on the loop |
//! | the collector of the embedded channel | likewise |
//! | `panics::a_neighbour_on_the_same_loop_lives_on` | drives a host by hand, in one call: nobody waits for workers there |
//! | `order::replies_to_messages_fired_from_inside_a_call_wait_until_that_call_has_returned` | the call has returned when its messages go on, so what the first one causes behind it comes before the second one is looked at; each stage by itself sees the same |
//! | `demand::what_is_written_on_news_of_room_is_carried_out_although_delivery_is_paused` | the transport sends while a worker is busy, and news of room passes whatever waits for it |
//! | `write::up_to_the_high_mark_nothing_is_said` | counts to the byte, and a message on a worker counts for the room that it takes itself as well |
//! | `handle::a_handle_that_outlives_its_channel_answers_everything` | what is on a worker when its loop goes away gets its answer from there, a moment later: `tests/as_on_the_loop.rs` |
#![cfg(not(loom))]

#[path = "../pipeline/demand.rs"]
mod demand;
#[path = "../pipeline/handle.rs"]
mod handle;
#[path = "../pipeline/lifecycle.rs"]
mod lifecycle;
mod on_workers;
#[path = "../pipeline/optional.rs"]
mod optional;
#[path = "../pipeline/order.rs"]
mod order;
#[path = "../pipeline/panics.rs"]
mod panics;
#[path = "../pipeline/support.rs"]
mod support;
#[path = "../pipeline/timers.rs"]
mod timers;
#[path = "../pipeline/write.rs"]
mod write;

use netwright_core::OnWorker;
use on_workers::{EmbeddedChannel, pipeline};
use support::*;

/// Where the stages run.
type Here = OnWorker;

macro_rules! on_the_loop_only {
    ($($item:item)*) => {};
}
use on_the_loop_only;
