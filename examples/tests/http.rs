//! The HTTP programs as their users see them. `curl` plays the user; without it the tests say so and do nothing.
//!
//! `cargo test -p netwright-examples` builds the programs first; with `--test http` alone they are what was built before.

use std::{
    env, fs,
    io::{BufRead, BufReader, Read, Write},
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
};

struct Server {
    child: Child,
    /// Open for its last words.
    says: BufReader<ChildStdout>,
    address: String,
}

impl Server {
    /// Cargo builds examples before tests, beside them.
    fn start(name: &str, arguments: &[&str]) -> Self {
        let test = env::current_exe().expect("a program has a path");
        let folder = test.parent().and_then(|deps| deps.parent()).expect("…/deps/http");
        let mut command = Command::new(folder.join("examples").join(name));
        command
            .arg("127.0.0.1:0")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().expect("the example is built");
        let mut line = String::new();
        let mut says = BufReader::new(child.stdout.take().expect("piped"));
        says.read_line(&mut line).expect("it says where it listens");
        let address = line.split(" on ").nth(1).and_then(|rest| rest.split(';').next());
        Self { child, says, address: address.unwrap_or_else(|| panic!("no address in {line:?}")).to_owned() }
    }

    /// What curl prints with these arguments; `{}` is the server.
    fn curl(&self, arguments: &[&str]) -> String {
        let arguments = arguments.iter().map(|argument| argument.replace("{}", &self.address));
        let output =
            Command::new("curl").args(["-s", "-m", "30"]).args(arguments).output().expect("curl is there");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn has_curl() -> bool {
    let there = Command::new("curl").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !there {
        eprintln!("skipped: curl is not installed");
    }
    there
}

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("netwright-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn notes_are_kept_listed_and_removed() {
    if !has_curl() {
        return;
    }
    let mut server = Server::start("http_json_api", &[]);
    let created = server.curl(&["-i", "{}/notes", "-d", r#"{"text": "buy milk"}"#]);
    assert!(created.starts_with("HTTP/1.1 201 ") && created.contains("location: /notes/1\r\n"), "{created}");
    assert!(created.ends_with(r#"{"id":1,"text":"buy milk"}"#), "{created}");
    server.curl(&["{}/notes", "-d", r#"{"text": "sell bread"}"#]);
    assert_eq!(server.curl(&["{}/notes?like=mi%6ck"]), r#"[{"id":1,"text":"buy milk"}]"#);
    assert_eq!(server.curl(&["{}/notes/2"]), r#"{"id":2,"text":"sell bread"}"#);
    assert!(server.curl(&["-i", "-X", "DELETE", "{}/notes/1"]).starts_with("HTTP/1.1 204 "));
    assert!(server.curl(&["-i", "{}/notes/1"]).starts_with("HTTP/1.1 404 "));
    assert!(
        server.curl(&["-i", "-X", "PUT", "{}/notes/1"]).contains("allow: GET, HEAD, DELETE, OPTIONS\r\n")
    );
    assert!(server.curl(&["-i", "{}/notes", "-d", "nonsense"]).starts_with("HTTP/1.1 400 "));
    assert!(server.curl(&["-I", "{}/notes"]).contains("content-length: "));
    let many = ["{}/notes/2"; 20]; // one connection
    assert_eq!(server.curl(&many).matches("sell bread").count(), 20);
    let mut input = server.child.stdin.take().unwrap();
    input.write_all(b"\n").unwrap();
    let mut words = String::new();
    server.says.read_to_string(&mut words).unwrap();
    assert_eq!(words, "ended; 0 connections did not finish in time\n");
    assert!(server.child.wait().unwrap().success());
}

#[test]
fn files_come_whole_in_ranges_compressed_and_only_if_they_changed() {
    if !has_curl() {
        return;
    }
    let directory = Directory::new("http-files");
    let text = "0123456789".repeat(30_000);
    fs::write(directory.0.join("big.txt"), &text).unwrap();
    fs::write(directory.0.join("big.txt.br"), "not really").unwrap();
    let server = Server::start("http_files", &[directory.0.to_str().unwrap()]);
    assert_eq!(server.curl(&["{}/big.txt"]), text);
    assert_eq!(server.curl(&["-r", "10-14", "{}/big.txt"]), "01234");
    assert_eq!(server.curl(&["-r", "-3", "{}/big.txt"]), "789");
    let parts = server.curl(&["-r", "0-1,299999-", "{}/big.txt"]);
    assert!(parts.contains("Content-Range: bytes 299999-299999/300000\r\n\r\n9\r\n"), "{parts}");
    let packed = server.curl(&["-i", "-H", "accept-encoding: br", "{}/big.txt"]);
    assert!(packed.contains("content-encoding: br\r\n") && packed.ends_with("not really"), "{packed}");
    assert!(server.curl(&["-I", "{}/big.txt"]).contains("content-length: 300000\r\n"));
    let saved = directory.0.join("etag");
    let saved = saved.to_str().unwrap();
    server.curl(&["--etag-save", saved, "-o", "/dev/null", "{}/big.txt"]);
    assert!(server.curl(&["-i", "--etag-compare", saved, "{}/big.txt"]).starts_with("HTTP/1.1 304 "));
    for path in ["{}/../../etc/passwd", "{}/%2e%2e/%2e%2e/etc/passwd", "{}//etc/passwd", "{}/.", "{}/none"] {
        assert!(server.curl(&["-i", "--path-as-is", path]).starts_with("HTTP/1.1 404 "), "{path}");
    }
    assert!(server.curl(&["{}/"]).contains("<a href=\"./big.txt\">big.txt</a>"));
}
