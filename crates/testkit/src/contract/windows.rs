//! What of the contract does not hold on Windows, and why: these cases count as skipped there, with the reason.

use super::{Behaviour, Need};

/// Behaviours that are shown by means which Windows does not have.
const NOT_HERE: &[(&str, &str)] = &[
    ("accept::a_peer_that_resets_before_it_is_accepted_begins_and_ends_once_and_others_are_served", GONE),
    (
        "accept::without_a_descriptor_left_the_listener_refuses_survives_and_recovers",
        "a process has no limit on its sockets",
    ),
    ("accept::no_descriptor_is_left_when_connections_have_ended", COUNT),
    ("connect::options_are_set_before_the_handshake", "nobody tells how large a segment may be"),
    (
        "files::a_file_that_breaks_fails_alone_whichever_call_finds_out",
        "there is no file that opens and cannot be read",
    ),
    ("linger::a_close_that_lingers_ends_at_once_if_the_peer_has_everything_already", TAKEN),
    ("linger::a_close_that_lingers_ends_when_the_peer_has_everything", TAKEN),
    ("linger::loops_run_and_no_thread_is_started_while_many_closes_linger", COUNT),
    ("signals::a_wait_that_a_signal_ends_is_no_premature_wake_up", "there are no signals"),
];

const COUNT: &str = "nobody tells how many sockets or threads a process has";
const GONE: &str = "a connection that is gone is not handed over";
const TAKEN: &str = "nobody tells what a peer has got";

/// Set by those who run the contract under wine.
const WINE: &str = "NETWRIGHT_WINE";

/// Behaviours that wine gets wrong, beside those that need a reset.
const NOT_IN_WINE: &[(&str, &str)] = &[
    (
        "connect::thousands_of_addresses_that_fail_at_once_are_tried_one_after_the_other",
        "wine takes milliseconds for each socket",
    ),
    ("linger::a_close_that_lingers_ends_with_a_reset_when_its_time_is_over", RESET),
    ("pace::what_the_system_keeps_for_a_peer_that_is_cut_goes_with_it", RESET),
];

const RESET: &str = "wine ends a connection in order before it resets it";

/// Why this machine cannot show a behaviour, if it cannot.
pub(super) fn missing(behaviour: &Behaviour) -> Option<String> {
    let name = format!("{behaviour:?}");
    let of = |table: &[(&str, &'static str)]| table.iter().find(|(it, _)| *it == name).map(|(_, why)| *why);
    let wine = || {
        std::env::var_os(WINE)?;
        if behaviour.has_need(Need::Reset) { Some(RESET) } else { of(NOT_IN_WINE) }
    };
    of(NOT_HERE).or_else(wine).map(str::to_owned)
}
