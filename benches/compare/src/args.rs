//! The command line.

use crate::{
    roster::{PEERS, Peer},
    scenario::{self, SCENARIOS, Scenario},
};
use std::{path::PathBuf, time::Duration};

pub(crate) const HELP: &str = "\
Builds and measures Netwright and the servers that one could take instead, side by side in one run.

usage: cargo run --release --manifest-path benches/compare/Cargo.toml -- [options]

  --quick             a first impression in about 5 minutes (2 rounds of 0.3 s); the full run takes about 35
  --scenario A,B      only these scenarios (see --list)
  --peers X,Y         only these servers (see --list)
  --rounds N          how often each server is measured in each scenario     (default 5, with --quick 2)
  --seconds S         for how long each time                                 (default 1.5, with --quick 0.3)
  --out DIR           where tables, JSON and plots go                        (default target/compare)
  --netty-jars DIR    folder with Netty's jars; without it those of Debian's libnetty-java are looked for
  --list              names all scenarios and servers, and ends
  --help              this

What it does: each server is built by itself with the same profile, runs alone on the first core, and is asked by a load on the
second one. Servers take turns, round after round, each time started anew (a JVM is kept for a scenario, and warmed up). Every
answer is verified: echoes byte by byte, HTTP by status, headers, date, length and body. One wrong byte fails the run.

What to read: CPU us/req is the server's own CPU time, kernel included, for one request. It holds when the load is what saturates.
Other work on the machine shows as `disturbed` runs, which are repeated once and left out if others exist.

Only loopback is used, and only processes that this one has started are ended. Linux, two cores, io_uring (6.1 or newer), about
3 GB in the target directory, 20,000 descriptors for the idle scenarios.
";

/// What to do.
#[derive(Debug)]
pub(crate) enum Command {
    Help,
    List,
    Measure(Options),
}

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) quick: bool,
    pub(crate) scenarios: Vec<&'static Scenario>,
    pub(crate) peers: Vec<&'static Peer>,
    pub(crate) rounds: usize,
    pub(crate) time: Duration,
    pub(crate) out: Option<PathBuf>,
    pub(crate) netty_jars: Option<PathBuf>,
}

const ROUNDS_MAX: usize = 100;
const SECONDS_MAX: f64 = 60.0;

/// Reads the arguments behind the program's name.
pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Result<Command, String> {
    let (mut quick, mut rounds, mut seconds) = (false, None, None);
    let mut options = Options {
        quick: false,
        scenarios: SCENARIOS.iter().collect(),
        peers: PEERS.iter().collect(),
        rounds: 0,
        time: Duration::ZERO,
        out: None,
        netty_jars: None,
    };
    let mut args = args.into_iter();
    while let Some(name) = args.next() {
        let mut value = || args.next().ok_or(format!("{name} needs a value"));
        match &*name {
            "--help" | "-h" => return Ok(Command::Help),
            "--list" => return Ok(Command::List),
            "--quick" => quick = true,
            "--scenario" => {
                let known = SCENARIOS.map(|scenario| scenario.name);
                options.scenarios = some_of(&value()?, "scenario", &known, scenario::find)?;
            }
            "--peers" => {
                let known = PEERS.map(|peer| peer.name);
                options.peers =
                    some_of(&value()?, "server", &known, |name| PEERS.iter().find(|peer| peer.name == name))?;
            }
            "--rounds" => {
                let value = value()?;
                let number = value.parse().ok().filter(|number| (1..=ROUNDS_MAX).contains(number));
                rounds = Some(number.ok_or(format!("--rounds {value}: a number from 1 to {ROUNDS_MAX}"))?);
            }
            "--seconds" => {
                let value = value()?;
                let number = value.parse().ok().filter(|number| (0.1..=SECONDS_MAX).contains(number));
                seconds =
                    Some(number.ok_or(format!("--seconds {value}: a number from 0.1 to {SECONDS_MAX}"))?);
            }
            "--out" => options.out = Some(value()?.into()),
            "--netty-jars" => options.netty_jars = Some(value()?.into()),
            _ => return Err(format!("unknown argument {name:?}; --help names all")),
        }
    }
    options.quick = quick;
    options.rounds = rounds.unwrap_or(if quick { 2 } else { 5 });
    options.time = Duration::from_secs_f64(seconds.unwrap_or(if quick { 0.3 } else { 1.5 }));
    Ok(Command::Measure(options))
}

/// In the order of our own list, each once.
fn some_of<T>(
    names: &str,
    what: &str,
    known: &[&'static str],
    find: impl Fn(&'static str) -> Option<T>,
) -> Result<Vec<T>, String> {
    let names: Vec<&str> = names.split(',').map(str::trim).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        return Err(format!("unknown {what} {unknown:?}; there are {}", known.join(", ")));
    }
    Ok(known.iter().filter(|name| names.contains(name)).filter_map(|name| find(name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(args: &str) -> Result<Options, String> {
        match parse(args.split_whitespace().map(str::to_owned))? {
            Command::Measure(options) => Ok(options),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn without_arguments_everything_is_measured() {
        let all = options("").unwrap();
        assert_eq!((all.scenarios.len(), all.peers.len()), (SCENARIOS.len(), PEERS.len()));
        assert_eq!((all.rounds, all.time), (5, Duration::from_millis(1500)));
    }

    #[test]
    fn what_is_said_goes_before_what_quick_means() {
        let some = options("--rounds 7 --quick --peers tokio,netwright --scenario json").unwrap();
        assert_eq!((some.rounds, some.time, some.quick), (7, Duration::from_millis(300), true));
        assert_eq!(some.peers.iter().map(|peer| peer.name).collect::<Vec<_>>(), ["netwright", "tokio"]);
        assert_eq!(some.scenarios[0].name, "json");
    }

    #[test]
    fn mistakes_are_named_with_what_would_be_right() {
        for (args, part) in [
            ("--peers tokyo", "may_minihttp"),
            ("--scenario x", "echo-1x64"),
            ("--rounds 0", "from 1 to"),
            ("--seconds nan", "from 0.1"),
            ("--out", "needs a value"),
            ("--fast", "--help"),
        ] {
            let said = options(args).unwrap_err();
            assert!(said.contains(part), "{args}: {said}");
        }
    }
}
