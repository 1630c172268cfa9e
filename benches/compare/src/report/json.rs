//! Everything, for whoever wants to calculate by themselves: each round of each server in each scenario.

use super::{Head, Ranking};
use crate::measure::{Entry, Outcome, Sample};
use serde_json::{Value, json};

pub(super) fn text(head: &Head, outcomes: &[Outcome]) -> String {
    let versions: serde_json::Map<String, Value> =
        head.versions.iter().map(|(name, versions)| (name.clone(), json!(versions))).collect();
    let all = json!({
        "when": head.when,
        "command": head.command,
        "machine": {
            "cpu": head.machine.cpu,
            "cores": head.machine.cores,
            "kernel": head.machine.kernel,
            "rustc": head.machine.rustc,
        },
        "versions": versions,
        "rounds": head.rounds,
        "seconds": head.seconds,
        "scenarios": outcomes.iter().map(scenario).collect::<Vec<_>>(),
    });
    format!("{all:#}\n")
}

fn scenario(outcome: &Outcome) -> Value {
    let ranking = Ranking::of(outcome);
    json!({
        "name": outcome.scenario.name,
        "title": outcome.scenario.title,
        "threads": outcome.scenario.threads,
        "fixed_rate": outcome.rate,
        "compared_with": ranking.reference.map(|reference| reference.peer),
        "best_framework": ranking.best,
        "servers": ranking.entries.iter().map(|entry| server(entry, &ranking)).collect::<Vec<_>>(),
    })
}

fn server(entry: &Entry, ranking: &Ranking<'_>) -> Value {
    let ratio = ranking.ratio(entry);
    json!({
        "name": entry.peer,
        "cpu_us": entry.spread(|sample| sample.cpu_us).map(|spread| spread.median),
        "ratio": ratio.map(|ratio| ratio.median),
        "ratio_middle_half": ratio.map(|ratio| [ratio.low, ratio.high]),
        "failures": entry.failures,
        "rounds": entry.samples.iter().map(sample).collect::<Vec<_>>(),
    })
}

fn sample(sample: &Sample) -> Value {
    json!({
        "round": sample.round,
        "cpu_us": sample.cpu_us,
        "requests_per_second": sample.rate,
        "cores_busy": sample.busy,
        "p50_us": sample.p50_us,
        "p99_us": sample.p99_us,
        "p999_us": sample.p999_us,
        "resident_bytes": sample.resident,
        "bytes_per_connection": sample.per_connection,
        "other_cores_busy": sample.other,
        "core_distance_ns": sample.distance,
        "disturbed": sample.disturbed,
    })
}
