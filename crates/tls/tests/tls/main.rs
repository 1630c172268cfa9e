//! TLS between two channels without sockets: bytes are carried by hand, whole, one by one, cut anywhere.
//!
//! | no. | behaviour | test |
//! | --- | --- | --- |
//! | 109 | plain bytes: typed error, alert, closed | `faults::plain_bytes_get_an_alert_a_cause_that_shows_them_and_the_end` |
//! | 109 | a record that is cut off by the end | `closing::an_end_without_close_notify_is_told_as_truncation`, `closing::an_end_within_a_record_says_how_much_of_it_came` |
//! | 109 | handshake deadline of 10 s | `faults::a_handshake_that_takes_ten_seconds_fails_and_closes` |
//! | 110 | a failed handshake is one error, and queued writes fail | `faults::a_refused_certificate_is_one_error_on_each_side_and_queued_writes_fail` |
//! | 110 | removal fails the futures | `faults::a_stage_that_leaves_fails_its_futures` |
//! | 111 | writes before the handshake are sent after it | `basics::what_is_written_before_the_handshake_is_sent_after_it_in_order` |
//! | 111 | STARTTLS sends the first write in clear | `start_tls::the_first_answer_goes_out_in_clear_and_everything_after_it_in_tls` |
//! | 111 | renegotiation is refused | `faults::renegotiation_is_refused_and_a_flood_of_it_ends_the_connection` |
//! | 112 | fragmented ClientHello | `sni::a_client_hello_in_any_pieces_finds_its_certificate` |
//! | 112 | unknown name: default | `sni::names_find_their_certificates_and_unknown_ones_the_default` |
//! | 112 | too long: failure | `sni::a_client_hello_without_end_is_refused_at_the_limit` |
//! | 112 | asynchronous mapping | `sni::a_future_may_choose_the_certificate_while_nothing_more_is_read` |

mod alerts;
mod alpn;
mod basics;
mod closing;
mod deadlines;
mod faults;
mod files;
mod reload;
mod resumption;
mod rogue;
mod sni;
mod start_tls;
mod support;
mod workers;
