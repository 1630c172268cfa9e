//! What clients say of how urgent replies are (RFC 9218).

/// How urgent a reply is, and whether it can be used piece by piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Priority {
    /// 0 is the most urgent, 7 the least.
    urgency: u8,
    /// Replies of the same urgency take turns.
    pub(crate) incremental: bool,
}

impl Default for Priority {
    fn default() -> Self {
        Self { urgency: 3, incremental: false }
    }
}

impl Priority {
    #[inline]
    pub(crate) fn urgency(self) -> u8 {
        self.urgency
    }

    /// What a `priority` field or a PRIORITY_UPDATE says: `u=1, i`. What is not understood is as if it was not said.
    pub(crate) fn parse(text: &[u8]) -> Self {
        let mut priority = Self::default();
        for item in text.split(|byte| *byte == b',') {
            let item = item.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
            match item {
                [b'u', b'=', digit @ b'0'..=b'7'] => priority.urgency = digit - b'0',
                b"i" | b"i=?1" => priority.incremental = true,
                b"i=?0" => priority.incremental = false,
                _ => {}
            }
        }
        priority
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_priority_is_understood_or_ignored() {
        let said = |text: &str| Priority::parse(text.as_bytes());
        assert_eq!(said("u=5, i"), Priority { urgency: 5, incremental: true });
        assert_eq!(said(" i ;x=1 , u=0 "), Priority { urgency: 0, incremental: true });
        assert_eq!(said("i=?0"), Priority::default());
        for nonsense in ["", "u=8", "u=", "u=12", "x", ",,,", "\u{0}", "u=-1"] {
            assert_eq!(said(nonsense), Priority::default(), "{nonsense:?}");
        }
    }
}
