//! Servers that are programs of the system: they are found, given a configuration of their own, and told where to listen.
//!
//! A shell says the address on a line, as all servers do, and becomes the server: so its process is the server's.

use std::{
    env, fs, io,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
};

/// Where Debian puts them, beside where programs are looked for.
const PLACES: [&str; 3] = ["/usr/sbin", "/usr/bin", "/usr/local/sbin"];
const LONG: usize = 64 * 1024;

/// Whether it reads a body before it answers: servers of files refuse it, or do not read it.
pub(crate) fn takes_posts(name: &str) -> bool {
    !["nghttpd", "nginx", "h2o"].contains(&name)
}

/// The program and its version.
pub(crate) fn find(name: &str) -> Result<(PathBuf, String), String> {
    let path = env::var_os("PATH").unwrap_or_default();
    let places = env::split_paths(&path).chain(PLACES.iter().map(PathBuf::from));
    let program = places.map(|place| place.join(name)).find(|program| program.is_file());
    let program = program.ok_or_else(|| format!("{name} is not installed"))?;
    let said = Command::new(&program).arg(if name == "nginx" { "-v" } else { "--version" }).output();
    let said = said.map_err(|error| format!("{}: {error}", program.display()))?;
    let text = [said.stdout, said.stderr].concat();
    let line = String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_owned();
    Ok((program, line))
}

/// Starts it.
pub(crate) fn command(name: &str, program: &Path) -> Command {
    let mut command = Command::new("sh");
    match prepare(name, program) {
        Ok((port, words)) => {
            // The program takes a moment until it listens; whoever connects sooner is refused.
            command.args([
                "-c",
                "(sleep 0.4; echo \"$0\") & exec \"$@\" > /dev/null",
                &format!("127.0.0.1:{port}"),
            ]);
            command.args(words);
        }
        Err(error) => {
            command.args(["-c", "echo \"$0\" >&2", &error.to_string()]);
        }
    }
    command
}

/// Files, a configuration, a port that is free, and what is started.
fn prepare(name: &str, program: &Path) -> io::Result<(u16, Vec<String>)> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let home = super::making::target().join("compare-servers").join(name);
    let pages = home.join("pages");
    fs::create_dir_all(&pages)?;
    fs::write(pages.join("index.html"), "Hello, World!")?;
    fs::write(pages.join("64k"), vec![b'x'; LONG])?;
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let program = text(program);
    let (root, configuration) = (text(&pages), home.join("configuration"));
    let words = match name {
        "nghttpd" => vec![program, "--no-tls".into(), "-n1".into(), "-d".into(), root, port.to_string()],
        "nginx" => {
            let nginx = format!(
                "daemon off; master_process off; pid {pid}; error_log stderr crit;\n\
                 events {{ worker_connections 1024; }}\n\
                 http {{ access_log off; keepalive_requests 100000000; default_type text/plain; tcp_nodelay on;\n\
                 server {{ listen 127.0.0.1:{port} http2 reuseport; root {root};\n\
                 location = / {{ return 200 \"Hello, World!\"; }} }} }}\n",
                pid = text(&home.join("pid")),
            );
            fs::write(&configuration, nginx)?;
            vec![program, "-c".into(), text(&configuration)]
        }
        _ => {
            let h2o = format!(
                "listen:\n  host: 127.0.0.1\n  port: {port}\nnum-threads: 1\nmax-connections: 1024\n\
                 hosts:\n  default:\n    paths:\n      /:\n        file.dir: {root}\n"
            );
            fs::write(&configuration, h2o)?;
            vec![program, "-c".into(), text(&configuration)]
        }
    };
    Ok((port, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_installed_is_said_so() {
        assert!(find("no-such-server").unwrap_err().contains("no-such-server"));
        assert!(takes_posts("netwright") && !takes_posts("nginx"));
    }
}
