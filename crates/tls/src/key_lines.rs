//! Secrets of connections as lines, for whoever shows them to Wireshark.

use rustls::KeyLog;
use std::fmt;

/// Gives the secrets of connections to a function, as lines of `SSLKEYLOGFILE`: for a capture that is to be read.
///
/// **Whoever has a line can read everything that was sent on its connection.** Nothing makes one of these but you, and nothing uses it
/// but the builder that is given it.
///
/// ```
/// use netwright_core::{EmbeddedChannel, Handler, pipeline};
/// use netwright_tls::{Acceptor, Certificate, KeyLines};
/// use std::sync::{Arc, Mutex};
///
/// let lines = Arc::new(Mutex::new(Vec::new()));
/// let kept = lines.clone();
/// let acceptor = Acceptor::builder()
///     .certificate(&Certificate::self_signed(["localhost"])?)
///     .key_log(Arc::new(KeyLines::new(move |line| kept.lock().unwrap().push(line.to_owned()))))
///     .build()?;
/// assert!(lines.lock().unwrap().is_empty()); // before anybody connects
/// # drop(acceptor);
/// # Ok::<(), netwright_tls::TlsError>(())
/// ```
///
/// With a capture of `netwright_handler`, the function is `move |line| drop(capture.tls_secret_line(line))`. It is called on loops, or on workers where
/// they do handshakes, so it must not block.
pub struct KeyLines<F>(F);

impl<F: Fn(&str) + Send + Sync> KeyLines<F> {
    /// Calls this with each line, which has no end of a line in it.
    pub fn new(take: F) -> Self {
        Self(take)
    }
}

impl<F: Fn(&str) + Send + Sync> KeyLog for KeyLines<F> {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let mut line = String::with_capacity(label.len() + 2 * (client_random.len() + secret.len()) + 2);
        line.push_str(label);
        for bytes in [client_random, secret] {
            line.push(' ');
            for byte in bytes {
                [byte >> 4, byte & 15].iter().for_each(|&digit| {
                    line.push(char::from_digit(digit.into(), 16).unwrap_or('?'));
                });
            }
        }
        (self.0)(&line);
    }
}

/// Tells nothing of the function, which may own what it has been given.
impl<F> fmt::Debug for KeyLines<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyLines").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn a_line_has_a_label_and_two_rows_of_digits() {
        let lines = Mutex::new(String::new());
        let log = KeyLines::new(|line: &str| *lines.lock().unwrap() = line.to_owned());
        log.log("CLIENT_RANDOM", &[0, 0x1f, 0xa0], &[255]);
        assert_eq!(*lines.lock().unwrap(), "CLIENT_RANDOM 001fa0 ff");
        assert!(log.will_log("CLIENT_RANDOM"));
    }
}
