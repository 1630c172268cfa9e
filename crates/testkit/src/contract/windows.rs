//! What of the contract does not hold on Windows, and why: these cases count as skipped there, with the reason.

use super::Behaviour;

/// Behaviours that are shown by means which Windows does not have.
const NOT_HERE: &[(&str, &str)] = &[
    (
        "accept::without_a_descriptor_left_the_listener_refuses_survives_and_recovers",
        "a process has no limit on its sockets",
    ),
    ("accept::no_descriptor_is_left_when_connections_have_ended", COUNT),
    ("linger::loops_run_and_no_thread_is_started_while_many_closes_linger", COUNT),
    ("signals::a_wait_that_a_signal_ends_is_no_premature_wake_up", "there are no signals"),
];

const COUNT: &str = "nobody tells how many sockets or threads a process has";

/// Why this machine cannot show a behaviour, if it cannot.
pub(super) fn missing(behaviour: &Behaviour) -> Option<String> {
    let name = format!("{behaviour:?}");
    NOT_HERE.iter().find(|(not_here, _)| *not_here == name).map(|(_, why)| (*why).to_owned())
}
