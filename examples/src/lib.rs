//! What several examples share: the time protocol, the stock service, a transport of one's own, and many conversations in one connection. The programs are beside this folder; README.md has
//! them in order.

pub mod mux;
#[cfg(unix)]
pub mod pipe_transport;
pub mod stock;

/// The code on pages for people is built and run, here because pages outside of a crate are not published with it.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../README.md")]
    mod readme {}
    #[doc = include_str!("../../docs/guide.md")]
    mod guide {}
    #[doc = include_str!("../../docs/guide/from-netty.md")]
    mod from_netty {}
    #[doc = include_str!("../../docs/guide/from-tokio.md")]
    mod from_tokio {}
    #[doc = include_str!("../../docs/guide/websocket.md")]
    mod websocket {}
    #[doc = include_str!("../../docs/http.md")]
    mod http {}
    #[doc = include_str!("../../docs/compression.md")]
    mod compression {}
    #[doc = include_str!("../../docs/threads.md")]
    mod threads {}
    #[doc = include_str!("../../docs/io-models.md")]
    mod io_models {}
    #[doc = include_str!("../../docs/sticky-packets.md")]
    mod sticky_packets {}
    #[doc = include_str!("../../docs/simulation.md")]
    mod simulation {}
    #[doc = include_str!("../../docs/children.md")]
    mod children {}
    #[doc = include_str!("../../docs/ready-made.md")]
    mod ready_made {}
    #[doc = include_str!("../../docs/recording.md")]
    mod recording {}
    #[doc = include_str!("../../docs/verbs.md")]
    mod verbs {}
    #[doc = include_str!("../../docs/adding-a-stage.md")]
    mod adding_a_stage {}
    #[doc = include_str!("../../docs/adding-a-codec.md")]
    mod adding_a_codec {}
    #[doc = include_str!("../../docs/adding-a-protocol.md")]
    mod adding_a_protocol {}
    #[cfg(target_os = "linux")] // what it has of the contract suite is written for no other system with pipes
    #[doc = include_str!("../../docs/adding-a-transport.md")]
    mod adding_a_transport {}
}

use std::time::{SystemTime, UNIX_EPOCH};

/// The longest order that a time server reads.
pub const ORDER_MAX: usize = 1024;

/// The only order that a time server knows.
pub const QUERY: &str = "QUERY TIME ORDER";

/// What a time server answers to one line. Capital and small letters are the same to it.
pub fn answer(order: &str) -> String {
    if order.eq_ignore_ascii_case(QUERY) { now_text() } else { "BAD ORDER".to_owned() }
}

/// The present moment in UTC, as `2026-11-15 12:34:56`.
pub fn now_text() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date_of(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// Counts years from a March, so that the leap day is the last of its year.
fn date_of(days_since_1970: u64) -> (u64, u64, u64) {
    let days = days_since_1970 + 719_468; // since 0000-03-01
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let (month, day) =
        (if shifted < 10 { shifted + 3 } else { shifted - 9 }, day_of_year - (153 * shifted + 2) / 5 + 1);
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_around_leap_days_and_centuries() {
        assert_eq!(date_of(0), (1970, 1, 1));
        assert_eq!(date_of(11_016), (2000, 2, 29));
        assert_eq!(date_of(19_782), (2024, 2, 29));
        assert_eq!(date_of(20_772), (2026, 11, 15));
    }

    #[test]
    fn anything_but_the_query_is_a_bad_order() {
        for order in ["WHAT TIME IS IT", "QUERY TIME", "QUERY TIME ORDER ", ""] {
            assert_eq!(answer(order), "BAD ORDER", "{order:?}");
        }
    }

    #[test]
    fn the_query_is_taken_in_any_case() {
        for order in [QUERY, "query time order", "Query Time Order"] {
            assert_eq!(answer(order).len(), "2026-11-15 12:34:56".len(), "{order:?}");
        }
    }
}
