//! TCP channels over real sockets: behaviours 42 to 67, as people who know Netty expect them, in every reactor model.
//!
//! A test that is listed here runs once for each model unless it concerns clients alone: one loop for all, one loop that
//! accepts for two workers, two that accept for two workers, two workers that share the port. The name of a failed test
//! ends in the model. Peers are plain blocking sockets and channels of our own, both on loopback.
//!
//! | no. | behaviour | test |
//! | --- | --- | --- |
//! | 42 | connect resolves before the channel is active | different on purpose: a handle is given out when there is a channel behind it that works, so the pipeline is active when the connect resolves: `lifecycle::a_client_channel_is_active_when_its_connect_resolves` |
//! | 43 | a write to a closed channel fails at once | `lifecycle::a_write_to_a_closed_channel_fails_at_once_and_releases_its_message`, `lifecycle::every_write_that_races_with_the_end_is_answered`, `lifecycle::nobody_waits_for_ever_for_a_channel_that_is_over` |
//! | 44 | options hold, attributes are there, a failing resolver fails the connect | `connect::options_are_set_before_the_handshake`, `half_close::a_linger_of_zero_resets_the_peer`, `half_close::a_client_with_a_linger_of_zero_resets_the_server`, `accept::settings_that_cannot_work_are_refused_before_anybody_connects`, `lifecycle::attributes_belong_to_one_channel`, `connect::a_resolver_that_fails_fails_the_connect_and_one_that_finds_nothing_as_well`; each option by itself: unit tests of `options` |
//! | 45 | bind and connect inside a loop's task do not deadlock | `lifecycle::bind_and_connect_on_a_loop_do_not_block_it` |
//! | 46, 47 | connection pools | tests of `pool` |
//! | 48 | the size of reads adapts | moot: all channels of a loop read into one buffer of 64 KiB, so there is no size to guess (unit tests of `scratch`) |
//! | 49 | echo and gathering writes are byte-exact | `echo::*`, `write::many_small_pieces_of_one_flush_arrive_in_order`, `write::pieces_written_by_a_handler_arrive_in_order` |
//! | 50 | nothing before it is asked for; a pause in read means one read | `demand::without_auto_read_nothing_comes_before_it_is_asked_for`, `demand::a_handler_that_pauses_in_read_gets_exactly_one_message`, and the rest of `demand` |
//! | 51 | demand counts anew after each read, also if a handler fails | `demand::what_is_asked_for_in_advance_comes_when_it_is_there_and_no_more`; a handler that panics or an error that nobody handles ends its channel, so no further read: `faults::a_handler_that_panics_costs_its_own_channel_and_nothing_else`, `faults::an_error_that_nobody_handles_closes_the_channel_with_it` |
//! | 52 | a large transfer with small marks completes | `write::a_large_transfer_with_small_marks_completes_writing_only_when_writable`, `write::a_large_transfer_between_two_channels_of_ours_completes`, `write::a_writer_outside_that_waits_for_room_gets_all_through`, `demand::an_echo_that_pauses_while_there_is_no_room_holds_little_and_loses_nothing` |
//! | 53 | cancelled writes vanish | `write::writes_cancelled_before_the_flush_vanish`, `write::what_was_flushed_cannot_be_cancelled` |
//! | 54 | refused, timed out and cancelled connects | `connect::a_refused_connect_says_so_and_by_whom_and_no_channel_begins`, `connect::a_connect_that_is_not_answered_ends_at_its_limit_and_not_before`, `connect::a_cancelled_connect_is_given_up_at_once` |
//! | 55 | a second connect is refused | moot: each `Client::connect` opens a channel of its own |
//! | 56 | connect, then close: active and inactive once each | `lifecycle::connect_then_immediate_close_is_active_once_and_inactive_once`, `lifecycle::a_close_in_the_listener_of_the_connect_ends_the_channel_once` |
//! | 57 | closing twice succeeds twice | `lifecycle::closing_twice_succeeds_twice_and_tells_the_pipeline_once` |
//! | 58 | half closure: one event, all data first | `half_close::with_half_closure_the_end_of_input_is_told_once_and_writing_goes_on`, `half_close::without_half_closure_the_end_of_input_closes_the_channel_after_all_data`, `half_close::read_complete_comes_after_the_last_read_and_before_the_end` |
//! | 59 | output shut down: the peer sees the end, writes fail, reading goes on | `half_close::output_that_is_shut_down_ends_the_peers_input_and_reading_goes_on`, `half_close::shutting_output_down_waits_for_what_was_flushed_and_refuses_what_comes_later`, `half_close::a_channel_whose_both_directions_have_ended_is_closed` |
//! | 60 | a linger of 0 resets, without it a close is clean | `half_close::a_linger_of_zero_resets_the_peer`, `half_close::without_a_linger_a_close_is_clean`, `half_close::a_linger_with_time_does_not_hold_up_the_loop` |
//! | 61 | accepting pauses and resumes | a server cannot be told to; it pauses by itself when no descriptor is left: `accept::without_a_descriptor_left_the_listener_refuses_survives_and_recovers`; what waits meanwhile is drained: `accept::connections_that_wait_are_all_accepted_however_many` |
//! | 62 | files | `write::a_file_arrives_byte_for_byte_between_other_messages`, `write::a_region_longer_than_its_file_fails_and_the_channel_lives_on`, `write::a_file_that_cannot_be_read_fails_its_promise_and_not_the_channel` |
//! | 63 | a write before the connection is there | `lifecycle::what_is_written_before_the_channel_is_active_is_sent_when_it_is` |
//! | 64 | messages are released exactly once | `lifecycle::a_message_is_released_once_when_it_is_sent` |
//! | 65 | datagrams | for a later transport |
//! | 66 | descriptor numbers that are used again do not cross channels | `echo::many_short_connections_never_get_what_belongs_to_another`, `echo::descriptor_numbers_that_a_client_gets_again_never_cross_its_channels` |
//! | 67 | a peer's end is noticed without reading | `demand::a_peer_that_closes_is_noticed_without_reading`, `demand::a_peer_that_resets_is_noticed_without_reading`, `demand::what_a_peer_sent_before_it_closed_is_not_lost_while_nobody_reads` |
//!
//! Faults, beyond that list: resets at every point, panics in every call, exhausted descriptors (`faults`, `accept`), peers
//! that never read (`write`), graceful shutdown (`lifecycle`), which loop does what (`models`).
//!
//! No test sleeps. What must not happen is looked for after all loops have taken a few turns; a loop that must not spin
//! is given a short timer, and its turns are counted.

// What a full queue, a reset before accept or a descriptor limit look like is the system's affair, and these tests say
// how Linux has it.
#![cfg(target_os = "linux")]

mod accept;
mod connect;
mod demand;
mod echo;
mod faults;
mod half_close;
mod lifecycle;
mod models;
mod support;
mod write;
