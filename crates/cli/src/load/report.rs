//! What a load came to: for people, and as JSON.

use hdrhistogram::Histogram;
use serde_json::{Value, json};
use std::{fmt, time::Duration};

pub(super) struct Report {
    pub(super) protocol: &'static str,
    /// The bytes that are counted came, and were not sent.
    pub(super) one_way: bool,
    /// The address or URL.
    pub(super) name: String,
    pub(super) connections: usize,
    pub(super) size: usize,
    pub(super) depth: usize,
    /// Between the first message and the order to finish.
    pub(super) time: Duration,
    /// Messages that came back in that time.
    pub(super) requests: u64,
    /// All messages that came back, also those after it.
    pub(super) latencies: Histogram<u64>,
    pub(super) errors: Errors,
}

/// What went wrong, by kind, and one of each kind in words.
#[derive(Debug, Default)]
pub(super) struct Errors {
    pub(super) not_connected: u64,
    /// Connections whose server did not agree to speak what was asked for.
    pub(super) refused: u64,
    pub(super) wrong_bytes: u64,
    pub(super) ended_early: u64,
    /// Connections whose last messages had not come back when we stopped waiting.
    pub(super) unanswered: u64,
    pub(super) examples: Vec<String>,
}

impl Errors {
    pub(super) fn total(&self) -> u64 {
        self.not_connected + self.refused + self.wrong_bytes + self.ended_early + self.unanswered
    }
}

impl Report {
    fn per_second(&self) -> f64 {
        self.requests as f64 / self.time.as_secs_f64().max(1e-9)
    }

    fn mebibytes_per_second(&self) -> f64 {
        self.per_second() * self.size as f64 / (1 << 20) as f64
    }

    fn percentile_us(&self, percent: f64) -> f64 {
        self.latencies.value_at_percentile(percent) as f64 / 1e3
    }

    pub(super) fn json(&self) -> Value {
        let us = |ns: u64| ns as f64 / 1e3;
        let rate =
            if self.one_way { "mebibytes_per_second_received" } else { "mebibytes_per_second_each_way" };
        json!({
            "protocol": self.protocol,
            "address": self.name,
            "connections": self.connections,
            "size": self.size,
            "depth": self.depth,
            "seconds": self.time.as_secs_f64(),
            "requests": self.requests,
            "requests_per_second": self.per_second(),
            rate: self.mebibytes_per_second(),
            "latency_us": {
                "min": us(self.latencies.min()),
                "p50": self.percentile_us(50.0),
                "p99": self.percentile_us(99.0),
                "p99_9": self.percentile_us(99.9),
                "max": us(self.latencies.max()),
                "mean": self.latencies.mean() / 1e3,
            },
            "errors": {
                "total": self.errors.total(),
                "not_connected": self.errors.not_connected,
                "refused": self.errors.refused,
                "wrong_bytes": self.errors.wrong_bytes,
                "ended_early": self.errors.ended_early,
                "unanswered": self.errors.unanswered,
                "examples": self.errors.examples,
            },
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { protocol, name, connections, size, depth, requests, errors, .. } = self;
        writeln!(f, "{protocol} {name}: {connections} connections, {size} bytes, {depth} on their way each")?;
        writeln!(
            f,
            "requests  {requests} in {:.2} s: {:.0}/s, {:.1} MiB/s {}, every byte compared",
            self.time.as_secs_f64(),
            self.per_second(),
            self.mebibytes_per_second(),
            if self.one_way { "received" } else { "each way" },
        )?;
        writeln!(
            f,
            "latency   p50 {}  p99 {}  p99.9 {}  max {}",
            Micros(self.percentile_us(50.0)),
            Micros(self.percentile_us(99.0)),
            Micros(self.percentile_us(99.9)),
            Micros(self.latencies.max() as f64 / 1e3),
        )?;
        if errors.total() == 0 {
            return write!(f, "errors    none");
        }
        write!(
            f,
            "errors    {}: {} not connected, {} refused, {} with wrong bytes, {} ended early, {} unanswered",
            errors.total(),
            errors.not_connected,
            errors.refused,
            errors.wrong_bytes,
            errors.ended_early,
            errors.unanswered,
        )?;
        errors.examples.iter().try_for_each(|example| write!(f, "\n          {example}"))
    }
}

/// A time with three digits that count.
struct Micros(f64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            us if us < 1e3 => write!(f, "{us:.1} µs"),
            us if us < 1e6 => write!(f, "{:.2} ms", us / 1e3),
            us => write!(f, "{:.2} s", us / 1e6),
        }
    }
}
