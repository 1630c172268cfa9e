//! HTTP/2 is asked by nghttp2's `h2load`: a client that others trust, which counts every answer that is not 200.

use std::{
    net::SocketAddr,
    path::PathBuf,
    process::{Command, Stdio},
};

/// A body that is sent is so long.
const BODY: usize = 1 << 20;

/// What one run came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Run {
    pub(crate) seconds: f64,
    /// Of the time for a request.
    pub(crate) mean_us: f64,
    pub(crate) max_us: f64,
}

/// So many requests; it runs where this thread runs.
pub(crate) fn run(
    to: SocketAddr,
    connections: usize,
    streams: usize,
    requests: usize,
    path: &str,
    post: bool,
) -> Result<Run, String> {
    let mut command = Command::new("h2load");
    command.args(["-n", &requests.to_string(), "-c", &connections.to_string(), "-m", &streams.to_string()]);
    if post {
        command.arg("-d").arg(body()?);
    }
    command.arg(format!("http://{to}{path}")).stdin(Stdio::null());
    let said = command.output().map_err(|error| format!("h2load (nghttp2-client): {error}"))?;
    let text = String::from_utf8_lossy(&said.stdout);
    let run = understand(&text, requests);
    run.ok_or_else(|| format!("h2load did not get what it asked for: {}", text.trim().replace('\n', "; ")))
}

fn body() -> Result<PathBuf, String> {
    let path = crate::making::target().join("compare-servers").join("body");
    if !path.is_file() {
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        let made = made.and_then(|()| std::fs::write(&path, vec![b'b'; BODY]));
        made.map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(path)
}

/// `None` if not every request was answered with 200.
fn understand(text: &str, requests: usize) -> Option<Run> {
    let line = |begin: &str| text.lines().find_map(|line| line.strip_prefix(begin));
    let words = |line: &'_ str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let good = line("status codes: ")?.split_whitespace().next()?.parse() == Ok(requests);
    let done = line("requests: ")?.contains(&format!("{requests} succeeded"));
    let times = words(line("time for request:")?);
    let seconds = micros(line("finished in ")?.split(',').next()?)? / 1e6;
    let (max_us, mean_us) = (micros(times.get(1)?)?, micros(times.get(2)?)?);
    (good && done).then_some(Run { seconds, mean_us, max_us })
}

/// `1.20s`, `888.73ms`, `91us`
fn micros(text: &str) -> Option<f64> {
    for (unit, factor) in [("us", 1.0), ("ms", 1e3), ("s", 1e6)] {
        if let Some(number) = text.strip_suffix(unit) {
            return number.parse::<f64>().ok().map(|number| number * factor);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "starting benchmark...\n\n\
        finished in 888.73ms, 225041.49 req/s, 10.09MB/s\n\
        requests: 200 total, 200 started, 200 done, 200 succeeded, 0 failed, 0 errored, 0 timeout\n\
        status codes: 200 2xx, 0 3xx, 0 4xx, 0 5xx\n\
        traffic: 8.97MB (9401328) total, 586.76KB (600840) headers (space savings 94.91%), 4.96MB (5200000) data\n\
        \u{20}                    min         max         mean         sd        +/- sd\n\
        time for request:       91us      2.51ms       940us       312us    71.30%\n";

    #[test]
    fn what_h2load_says_is_understood() {
        let run = understand(SAID, 200).unwrap();
        assert_eq!(run, Run { seconds: 0.88873, mean_us: 940.0, max_us: 2510.0 });
        assert_eq!(understand(SAID, 201), None);
        assert_eq!(understand(&SAID.replace("200 2xx", "199 2xx"), 200), None);
    }
}
