//! Building the servers: each by itself, so that no server's features change another's dependencies.

use crate::{
    roster::{Make, Mode, Peer},
    system,
};
use std::{
    collections::HashMap,
    env, fs,
    io::{IsTerminal, stderr},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

/// This workspace.
const HOME: &str = env!("CARGO_MANIFEST_DIR");
const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
const DEBIAN_JARS: &str = "/usr/share/java";
/// The password of a key that is made for the run and worth nothing.
const PASSWORD: &str = "compare";
/// As Netty's own entries to benchmarks have them: checks off that are on for finding mistakes.
const JVM: [&str; 10] = [
    "-server",
    "-XX:+UseParallelGC",
    "-Xms1g",
    "-Xmx1g",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.leakDetection.level=disabled",
    "-Dio.netty.buffer.checkAccessible=false",
    "-Dio.netty.buffer.checkBounds=false",
];

/// A server that can be started.
#[derive(Debug, Clone)]
pub(crate) struct Built {
    pub(crate) peer: &'static Peer,
    program: PathBuf,
    /// Before the arguments that all servers have.
    args: Vec<String>,
    /// What the lock file does not tell.
    pub(crate) version: Option<String>,
}

impl Built {
    pub(crate) fn command(&self, mode: Mode, threads: usize) -> Command {
        if let Make::System(name) = self.peer.make {
            return system::command(name, &self.program);
        }
        let mut command = Command::new(&self.program);
        command.args(&self.args).args(["--mode", mode.word(), "--threads", &threads.to_string()]);
        if !self.peer.driver.is_empty() {
            command.args(["--driver", self.peer.driver]);
        }
        command
    }
}

/// The target directory that this program was built into.
pub(crate) fn target() -> PathBuf {
    let own = env::current_exe().unwrap_or_default();
    own.parent().and_then(Path::parent).map_or(Path::new(HOME).join("target"), Path::to_owned)
}

/// Builds all; a server that cannot be built is left out with a line that says so.
pub(crate) fn build(peers: &[&'static Peer], netty_jars: Option<&Path>) -> Vec<Built> {
    let place = target().join("compare-servers");
    let mut done: HashMap<String, Result<PathBuf, String>> = HashMap::new();
    let mut all = Vec::new();
    for peer in peers {
        let built = match peer.make {
            Make::Cargo { package, feature } => {
                let name = [package, feature.unwrap_or_default()].join("-").trim_end_matches('-').to_owned();
                let built =
                    done.entry(name.clone()).or_insert_with(|| cargo(package, feature, &place.join(&name)));
                built.clone().map(|program| Built { peer, program, args: Vec::new(), version: None })
            }
            Make::Netty => netty(peer, netty_jars, &place.join("netty")),
            Make::System(name) => system::find(name).map(|(program, version)| Built {
                peer,
                program,
                args: Vec::new(),
                version: Some(version),
            }),
        };
        match built {
            Ok(built) => all.push(built),
            Err(why) => eprintln!("{} is left out: {why}", peer.name),
        }
    }
    all
}

fn cargo(package: &str, feature: Option<&str>, to: &Path) -> Result<PathBuf, String> {
    eprintln!("building {package}{}", feature.map_or(String::new(), |feature| format!(", {feature}")));
    let start = Instant::now();
    let mut command = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    command.args(["build", "--release", "--locked", "--manifest-path", MANIFEST, "--package", package]);
    command.arg("--target-dir").arg(target());
    if let Some(feature) = feature {
        command.args(["--features", feature]);
    }
    if !stderr().is_terminal() {
        command.arg("--quiet");
    }
    let status = command.stdin(Stdio::null()).status().map_err(|error| format!("cargo: {error}"))?;
    if !status.success() {
        return Err(format!("{package} does not build ({status})"));
    }
    let from = target().join("release").join(package);
    let parent = to.parent().unwrap_or(to);
    fs::create_dir_all(parent)
        .and_then(|()| fs::copy(&from, to))
        .map_err(|error| format!("cannot copy {} to {}: {error}", from.display(), to.display()))?;
    eprintln!("built {package} in {:.0} s", start.elapsed().as_secs_f64());
    Ok(to.to_owned())
}

/// `javac`, and a key for TLS.
fn netty(peer: &'static Peer, jars: Option<&Path>, to: &Path) -> Result<Built, String> {
    let folder = jars.unwrap_or(Path::new(DEBIAN_JARS));
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| is_netty_jar(path))
        .collect();
    found.sort();
    if found.is_empty() {
        let hint = "install libnetty-java, or name a folder by --netty-jars";
        return Err(format!("no netty-*.jar in {}: {hint}", folder.display()));
    }
    eprintln!("building netty, with {} jars", found.len());
    fs::create_dir_all(to).map_err(|error| format!("cannot make {}: {error}", to.display()))?;
    let jars = env::join_paths(&found).map_err(|error| format!("the names of the jars: {error}"))?;
    let source = Path::new(HOME).join("peers/netty/Peer.java");
    run(Command::new("javac").arg("-nowarn").arg("-cp").arg(&jars).arg("-d").arg(to).arg(source))?;
    let keys = to.join("keys.p12");
    if !keys.exists() {
        run(Command::new("keytool")
            .args(["-genkeypair", "-alias", "compare", "-keyalg", "EC", "-groupname", "secp256r1"])
            .args(["-dname", "CN=localhost", "-validity", "3650", "-storetype", "PKCS12"])
            .args(["-storepass", PASSWORD, "-keystore"])
            .arg(&keys))?;
    }
    let classes = env::join_paths([to.to_owned()].iter().chain(&found)).map_err(|error| error.to_string())?;
    let mut args: Vec<String> = JVM.iter().map(|flag| (*flag).to_owned()).collect();
    args.extend(["-cp".to_owned(), classes.to_string_lossy().into_owned(), "Peer".to_owned()]);
    args.extend(["--keys".to_owned(), keys.to_string_lossy().into_owned()]);
    let version =
        found.iter().find_map(|path| netty_version(path)).unwrap_or("of unknown version".to_owned());
    Ok(Built { peer, program: "java".into(), args, version: Some(format!("Netty {version}")) })
}

fn is_netty_jar(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with("netty") && name.ends_with(".jar")
}

/// `netty-common-4.2.0.Final.jar`
fn netty_version(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?.strip_suffix(".jar")?;
    let version = name.strip_prefix("netty-common-").or(name.strip_prefix("netty-all-"))?;
    version.starts_with(|first: char| first.is_ascii_digit()).then(|| version.to_owned())
}

fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let said = command.stdin(Stdio::null()).output().map_err(|error| format!("{program}: {error}"))?;
    match said.status.success() {
        true => Ok(()),
        false => Err(format!("{program} fails: {}", String::from_utf8_lossy(&said.stderr).trim())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jar_tells_its_version() {
        assert_eq!(netty_version(Path::new("x/netty-all-4.1.48.Final.jar")).as_deref(), Some("4.1.48.Final"));
        assert_eq!(netty_version(Path::new("netty-common.jar")), None);
        assert!(is_netty_jar(Path::new("/a/netty-buffer.jar")) && !is_netty_jar(Path::new("/a/guava.jar")));
    }
}
