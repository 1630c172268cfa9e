//! Proxies in front of us, which speak HTTP/2 to clients, and HTTP/2 or HTTP/1.1 to us.

use super::{
    load::h2load,
    servers::our_client_asks,
    site::{Site, numbered, sum_of},
    support::{Background, Folder, free_port, or_skip, program, run, succeeds},
};
use std::{fs, net::SocketAddr, path::Path, process::Command};

/// What everybody who passes through a proxy gets.
fn all_is_well(front: &str, version: &str, duplex: bool) {
    let (Some(curl), Some(load)) = (program("curl", "curl"), program("h2load", "nghttp2-client")) else {
        return;
    };
    let folder = Folder::new(&format!("front-{}", front.replace(['/', ':'], "-")));
    let bytes = numbered(3_000_000);
    let (upload, copy) = (folder.write("upload", &bytes), folder.join("copy"));
    let (upload, copy) = (upload.to_str().unwrap(), copy.to_str().unwrap());
    let way = if front.starts_with("https") { "--http2" } else { "--http2-prior-knowledge" };
    let ask = |arguments: &[&str]| {
        succeeds(Command::new(&curl).args(["-sSk", "--max-time", "60", way]).args(arguments))
    };
    assert_eq!(ask(&[&format!("{front}/")]), format!("hello by {version}\n"));
    ask(&["-o", copy, &format!("{front}/bytes/3000000")]);
    assert!(fs::read(copy).unwrap() == bytes);
    ask(&["-o", copy, "-T", upload, &format!("{front}/echo")]);
    assert!(fs::read(copy).unwrap() == bytes);
    assert_eq!(ask(&["-T", upload, &format!("{front}/sum")]), sum_of(&bytes));
    our_client_asks(front, duplex);
    h2load(&load, 1000, '2', &["-c", "4", "-m", "20", &format!("{front}/")]);
    h2load(&load, 100, '2', &["-c", "4", "-m", "20", &format!("{front}/bytes/100000")]);
    h2load(&load, 20, '2', &["-c", "2", "-m", "10", "-d", upload, &format!("{front}/sum")]);
}

pub(crate) fn local(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

/// A certificate for a proxy: chain and key.
pub(crate) fn certificate(folder: &Folder) -> Option<(String, String)> {
    let openssl = program("openssl", "openssl")?;
    let (chain, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    let mut made = Command::new(openssl);
    made.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
    made.args(["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]);
    made.arg("-keyout").arg(&key).arg("-out").arg(&chain);
    or_skip("a certificate by openssl", run(&mut made))?;
    Some((chain.to_str().unwrap().to_owned(), key.to_str().unwrap().to_owned()))
}

#[test]
fn haproxy_passes_http2_on_as_http2_and_as_http1() {
    let Some(haproxy) = program("haproxy", "haproxy") else { return };
    let folder = Folder::new("haproxy");
    let Some((chain, key)) = certificate(&folder) else { return };
    let both =
        folder.write("both.pem", fs::read_to_string(&chain).unwrap() + &fs::read_to_string(&key).unwrap());
    let (plain, secure) = (Site::plain(), Site::secure());
    let fronts = [free_port(), free_port(), free_port()];
    let [clear, one, tls] = fronts;
    let (both, plain, secure_at) = (both.display(), plain.address(), secure.address());
    let configuration = folder.write(
        "haproxy.cfg",
        format!(
            "global\n maxconn 1000\n\
             defaults\n mode http\n timeout connect 10s\n timeout client 60s\n timeout server 60s\n\
             frontend clear\n bind 127.0.0.1:{clear} proto h2\n default_backend clear\n\
             frontend one\n bind 127.0.0.1:{one} ssl crt {both} alpn h2\n default_backend one\n\
             frontend tls\n bind 127.0.0.1:{tls} ssl crt {both} alpn h2\n default_backend tls\n\
             backend clear\n server us {plain} proto h2\n\
             backend one\n server us {plain}\n\
             backend tls\n server us {secure_at} ssl verify none alpn h2\n"
        ),
    );
    let mut command = Command::new(haproxy);
    let _haproxy = Background::start(command.arg("-db").arg("-f").arg(configuration), local(tls));
    // haproxy 2.6 stands still when both directions of a stream are full, if it speaks HTTP/2 on both sides; with Node behind it, too. And a reply
    // that nobody reads holds up those that share its connection to the server.
    all_is_well(&format!("http://127.0.0.1:{clear}"), "HTTP/2.0", false);
    all_is_well(&format!("https://127.0.0.1:{one}"), "HTTP/1.1", true);
    all_is_well(&format!("https://127.0.0.1:{tls}"), "HTTP/2.0", false);
}

#[test]
fn nghttpx_passes_http2_on_as_http2_and_as_http1() {
    let Some(nghttpx) = program("nghttpx", "nghttp2-proxy") else { return };
    let (plain, secure) = (Site::plain(), Site::secure());
    let (at, secure_at) = (plain.address(), secure.address());
    let (at, secure_at) = (format!("127.0.0.1,{}", at.port()), format!("127.0.0.1,{}", secure_at.port()));
    for (backend, version) in [
        (format!("{at};;proto=h2"), "HTTP/2.0"),
        (format!("{at};;proto=http/1.1"), "HTTP/1.1"),
        (format!("{secure_at};;proto=h2;tls"), "HTTP/2.0"),
    ] {
        let front = free_port();
        let mut command = Command::new(&nghttpx);
        command.args(["--conf=/dev/null", "-k", "--workers=1", "--errorlog-file=/dev/null"]);
        command.arg(format!("--frontend=127.0.0.1,{front};no-tls")).arg(format!("--backend={backend}"));
        let _nghttpx = Background::start(&mut command, local(front));
        all_is_well(&format!("http://127.0.0.1:{front}"), version, true);
    }
}

#[test]
fn nginx_speaks_http2_to_clients_and_http1_to_us() {
    let Some(nginx) = program("nginx", "nginx-light") else { return };
    let folder = Folder::new("nginx");
    let Some((chain, key)) = certificate(&folder) else { return };
    let (site, front) = (Site::plain(), free_port());
    let (us, here) = (site.address(), folder.join(""));
    let here = here.display();
    let configuration = folder.write(
        "nginx.conf",
        format!(
            "daemon off; master_process off; pid {here}/pid; error_log {here}/error.log;\n\
             events {{ worker_connections 1000; }}\n\
             http {{\n access_log off; client_max_body_size 0; client_body_temp_path {here}/body; proxy_temp_path {here}/proxy;\n \
             fastcgi_temp_path {here}/fastcgi; uwsgi_temp_path {here}/uwsgi; scgi_temp_path {here}/scgi;\n \
             upstream us {{ server {us}; keepalive 4; }}\n \
             server {{ listen 127.0.0.1:{front} ssl http2; ssl_certificate {chain}; ssl_certificate_key {key};\n \
             location / {{ proxy_pass http://us; proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_request_buffering off; }} }}\n}}\n"
        ),
    );
    let mut command = Command::new(nginx);
    command.arg("-c").arg(configuration).arg("-p").arg(Path::new(&here.to_string()));
    let _nginx = Background::start(&mut command, local(front));
    all_is_well(&format!("https://127.0.0.1:{front}"), "HTTP/1.1", true);
}
