//! Typed pipelines and channels, as people who know Netty expect them, and where they are stricter. No sockets here: a
//! pipeline runs in an [`EmbeddedChannel`].
//!
//! | no. | behaviour | test |
//! | --- | --- | --- |
//! | 25 | `added` fails | `panics::a_panic_in_any_method_closes_the_channel_with_what_it_said` (first row): there is no pipeline without one of its stages, so the channel closes, and the cause says why |
//! | 26 | added and removed before registration | moot: a pipeline is built whole and linked at registration. Once each: `lifecycle::every_stage_is_added_once_in_order_and_removed_once_from_the_last_to_the_first` |
//! | 27 | what a removed handler holds goes to the right neighbour | `tests/joints.rs`; that it cannot be lost by accident: `compile_fail/dropped_leftover.rs` |
//! | 28 | a cancelled write is skipped | `write::cancelled_writes_are_left_out_and_the_others_stay_in_order`; a cancelled bind or connect: `netwright-transport` |
//! | 29 | promise of another channel, void promise where not allowed | moot: a write makes its own promise, and a [`WritePromise`] belongs to no channel; no promise at all is a type of its own. Completed twice: `compile_fail/promise_completed_twice.rs` |
//! | 30 | `write` fails and nobody tracks it | `panics::a_panic_in_any_method_closes_the_channel_with_what_it_said`, `write::a_stage_that_cannot_encode_fails_the_promise_and_raises_the_error_itself` |
//! | 31 | `error` fails itself | `panics::a_panic_while_an_error_is_handled_ends_there` |
//! | 32 | the same executor for a channel's stages | every stage of a pipeline runs on its channel's loop, or as if it did: `tests/pipeline_on_workers` |
//! | 33 | methods that are not overridden are not called | moot: defaults are inlined calls that pass on; the stages say by their types what they see |
//! | 34 | what nobody handled reaches the end | `lifecycle::an_error_that_nobody_takes_care_of_closes_the_channel_with_it`, `order::a_message_that_no_stage_took_ends_quietly_at_the_end` |
//! | 35 | order of nested initialisers | moot: there are none, a pipeline is a value. Declared order is call order: `order::inbound_calls_go_depth_first` |
//! | 36 | `active` comes once | `lifecycle::active_comes_once_and_after_added` |
//! | 37 | water marks flip once each way | `write::above_the_high_mark_it_says_false_once_and_below_the_low_one_true_once`; overhead per entry: `channel::outbound` unit tests |
//! | 38 | user's writability bits | `channel::outbound` unit tests |
//! | 39 | flush in write and write in flush | `write::writes_in_flush_and_flushes_in_write_keep_their_order_and_the_stack_flat` |
//! | 40 | close from a write's listener | `write::a_close_asked_for_when_a_write_is_done_comes_after_write_and_flush` |
//! | 41 | pending writes that fail fail in order, also when that causes new ones | `write::writes_that_fail_with_the_close_fail_in_order_and_so_do_those_that_this_causes` |
//! | 42 | connect is done before `active` | `netwright-transport`: there is no connect without a socket |
//! | 43 | writes after the close fail at once | `write::a_write_after_the_close_fails_at_once_and_lets_its_message_go` |
//! | 44 | options and attributes are there from the start | attributes: `handle::attributes_are_kept_by_type`; options and names: `netwright-transport` |
//! | 45 | bind or connect on another loop's task | `netwright-transport` |
//! | 46, 47 | pools | with the connection pool |
//! | 48 | adaptive receive sizes | moot: all sockets of a loop are read into one buffer of one size, so there is nothing to guess |
//!
//! Everything here also runs with its stages on workers: `tests/pipeline_on_workers`.
//!
//! Beyond the list: demand is strict and events never overtake messages (`demand`), a panic costs one channel (`panics`),
//! stages have timers (`timers`), and any thread may hold a channel (`handle`).
#![cfg(not(loom))]

mod demand;
mod handle;
mod lifecycle;
mod optional;
mod order;
mod panics;
mod support;
mod timers;
mod write;

use netwright_core::{EmbeddedChannel, OnLoop, pipeline};
use support::*;

/// Where the stages run.
type Here = OnLoop;

/// What makes sense only if every stage is on the loop: see `pipeline_on_workers`, which runs everything else.
macro_rules! on_the_loop_only {
    ($($item:item)*) => { $($item)* };
}
use on_the_loop_only;
