//! A proxy as a blocking program: HTTP and all versions of SOCKS on one port. Names that end in `.test` are known to nobody else.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

/// Longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Toy {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Toy {
    /// One that lets everybody through, or those who say `ada` and `secret`.
    pub(crate) fn start(wants_credentials: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, asked) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<String>>>::default());
        let log = asked.clone();
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, log) = (client.unwrap(), log.clone());
                client.set_read_timeout(Some(PATIENCE)).unwrap();
                thread::spawn(move || Visit { client, log, wants_credentials }.serve());
            }
        });
        Self { address, asked }
    }

    /// What it was asked for, since this was asked last.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

struct Visit {
    client: TcpStream,
    log: Arc<Mutex<Vec<String>>>,
    wants_credentials: bool,
}

impl Visit {
    fn serve(mut self) -> io::Result<()> {
        let mut first = [0];
        self.client.read_exact(&mut first)?;
        match first[0] {
            4 => self.socks4(),
            5 => self.socks5(),
            first => self.http(first),
        }
    }

    fn bytes<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.client.read_exact(&mut bytes).map(|()| bytes)
    }

    fn word(&mut self) -> io::Result<String> {
        let [len] = self.bytes()?;
        let mut word = vec![0; len.into()];
        self.client.read_exact(&mut word)?;
        Ok(String::from_utf8(word).unwrap())
    }

    fn string(&mut self) -> io::Result<String> {
        let mut string = Vec::new();
        loop {
            match self.bytes()? {
                [0] => return Ok(String::from_utf8(string).unwrap()),
                [byte] => string.push(byte),
            }
        }
    }

    fn socks4(mut self) -> io::Result<()> {
        let [1, high, low, a, b, c, d] = self.bytes()? else { panic!("only connects") };
        let user = self.string()?;
        let host = if [a, b, c] == [0, 0, 0] { self.string()? } else { format!("{a}.{b}.{c}.{d}") };
        if self.wants_credentials && user != "ada" {
            return self.client.write_all(&[0, 93, 0, 0, 0, 0, 0, 0]);
        }
        let target = format!("{host}:{}", u16::from_be_bytes([high, low]));
        self.tunnel("socks4", &target, &[0, 90, 0, 0, 0, 0, 0, 0], &[0, 91, 0, 0, 0, 0, 0, 0])
    }

    fn socks5(mut self) -> io::Result<()> {
        let methods = self.word()?;
        if self.wants_credentials {
            if !methods.contains('\u{2}') {
                return self.client.write_all(&[5, 255]);
            }
            self.client.write_all(&[5, 2])?;
            assert_eq!(self.bytes()?, [1]);
            if (self.word()?, self.word()?) != ("ada".to_owned(), "secret".to_owned()) {
                return self.client.write_all(&[1, 1]);
            }
            self.client.write_all(&[1, 0])?;
        } else {
            self.client.write_all(&[5, 0])?;
        }
        let [5, 1, 0, kind] = self.bytes()? else { panic!("only connects") };
        let host = match kind {
            1 => std::net::Ipv4Addr::from(self.bytes::<4>()?).to_string(),
            3 => self.word()?,
            _ => format!("[{}]", std::net::Ipv6Addr::from(self.bytes::<16>()?)),
        };
        let target = format!("{host}:{}", u16::from_be_bytes(self.bytes()?));
        self.tunnel("socks5", &target, &[5, 0, 0, 1, 0, 0, 0, 0, 0, 0], &[5, 5, 0, 1, 0, 0, 0, 0, 0, 0])
    }

    fn http(mut self, first: u8) -> io::Result<()> {
        let mut head = vec![first];
        while !head.ends_with(b"\r\n\r\n") {
            head.extend(self.bytes::<1>()?);
        }
        let head = String::from_utf8(head).unwrap();
        let authorized = head.to_lowercase().contains("\r\nproxy-authorization: basic ywrhonnly3jlda==\r\n");
        if self.wants_credentials && !authorized {
            let refusal =
                "HTTP/1.1 407 Who?\r\nProxy-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n";
            return self.client.write_all(refusal.as_bytes());
        }
        let mut words = head.split(' ');
        let (method, target) = (words.next().unwrap(), words.next().unwrap().to_owned());
        if method == "CONNECT" {
            return self.tunnel(
                "connect",
                &target,
                b"HTTP/1.1 200 Go on\r\n\r\n",
                b"HTTP/1.1 502 No\r\n\r\n",
            );
        }
        // A whole URL: the head goes on as it is, and this connection is that server's from now on.
        let host = target.strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned();
        let mut server = self.dial("plain", &host)?;
        server.write_all(head.as_bytes())?;
        self.pass(server)
    }

    fn dial(&self, what: &str, target: &str) -> io::Result<TcpStream> {
        self.log.lock().unwrap().push(format!("{what} {target}"));
        let (host, port) = target.rsplit_once(':').unwrap();
        let host = if host.ends_with(".test") { "127.0.0.1" } else { host };
        TcpStream::connect(format!("{host}:{port}"))
    }

    fn tunnel(mut self, what: &str, target: &str, agreed: &[u8], refused: &[u8]) -> io::Result<()> {
        match self.dial(what, target) {
            Ok(server) => {
                self.client.write_all(agreed)?;
                self.pass(server)
            }
            Err(_) => self.client.write_all(refused),
        }
    }

    fn pass(self, mut server: TcpStream) -> io::Result<()> {
        let (mut from, mut to) = (self.client.try_clone()?, server.try_clone()?);
        thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
        let mut client = self.client;
        let _ = io::copy(&mut server, &mut client);
        client.shutdown(Shutdown::Write)
    }
}
