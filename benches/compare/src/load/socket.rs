//! A client's connection: TCP, or TLS on it, to a server on this machine.
//!
//! Connecting, the TLS handshake and a protocol's greeting block, within a limit; from then on nothing does.

use super::talk::{BUFFER, Talk};
use rustix::{
    fs::{OFlags, fcntl_setfl},
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SendFlags, SocketType, bind, connect, recv, send, socket,
        sockopt::{Timeout, set_socket_linger, set_socket_timeout, set_tcp_nodelay},
    },
};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::ring::default_provider,
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

/// A server that takes longer for a connection or an answer never will.
pub(crate) const SILENCE: Duration = Duration::from_secs(10);

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// By a reset, which leaves no port behind that waits for its time to pass.
    Reset,
    /// As clients do.
    Orderly,
}

/// Connects from an address of this machine: the ports of one run out.
pub(crate) fn open(server: SocketAddr, source: u8, ending: Ending) -> Result<OwnedFd, String> {
    let try_it = || {
        let own = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        set_socket_timeout(&own, Timeout::Send, Some(SILENCE))?;
        set_socket_timeout(&own, Timeout::Recv, Some(SILENCE))?;
        bind(&own, &SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, source), 0))?;
        connect(&own, &server)?;
        set_tcp_nodelay(&own, true)?;
        if ending == Ending::Reset {
            set_socket_linger(&own, Some(Duration::ZERO))?;
        }
        Ok::<_, Errno>(own)
    };
    try_it().map_err(|error| format!("cannot connect to {server} from 127.0.0.{source}: {error}"))
}

pub(crate) fn do_not_block(socket: &OwnedFd) -> Result<(), String> {
    fcntl_setfl(socket, OFlags::NONBLOCK)
        .map_err(|error| format!("cannot make a socket non-blocking: {error}"))
}

/// What a send or a receive came to.
pub(crate) enum Moved {
    Bytes(usize),
    /// Not now.
    Nothing,
}

pub(crate) struct Socket {
    tcp: OwnedFd,
    tls: Option<Box<Tls>>,
}

struct Tls {
    session: ClientConnection,
    /// Records that the socket did not take, from `sent` on.
    records: Vec<u8>,
    sent: usize,
}

impl Socket {
    /// Connects, and says what has to be said before the first message.
    pub(crate) fn connect(
        server: SocketAddr,
        source: u8,
        tls: Option<&Arc<ClientConfig>>,
        talk: Talk,
    ) -> Result<Self, String> {
        let mut stream = TcpStream::from(open(server, source, Ending::Reset)?);
        let tls = match tls {
            None => None,
            Some(config) => {
                let name = ServerName::try_from("localhost").expect("a name");
                let mut session =
                    ClientConnection::new(config.clone(), name).map_err(|error| error.to_string())?;
                while session.is_handshaking() {
                    session.complete_io(&mut stream).map_err(|error| format!("TLS handshake: {error}"))?;
                }
                Some(Box::new(Tls { session, records: Vec::new(), sent: 0 }))
            }
        };
        if let Some(hello) = talk.hello() {
            greet(&mut stream, hello)?;
        }
        let tcp = OwnedFd::from(stream);
        do_not_block(&tcp)?;
        Ok(Self { tcp, tls })
    }

    /// How many of these bytes are on their way. By TLS it is all of them: what the socket does not take waits here.
    #[inline]
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<Moved, String> {
        let Some(tls) = &mut self.tls else { return send_some(&self.tcp, bytes) };
        if tls.sent < tls.records.len() && !tls.flush(&self.tcp)? {
            return Ok(Moved::Nothing);
        }
        tls.session.writer().write_all(bytes).map_err(|error| format!("TLS: {error}"))?;
        while tls.session.wants_write() {
            tls.session.write_tls(&mut tls.records).map_err(|error| format!("TLS: {error}"))?;
        }
        tls.flush(&self.tcp)?;
        Ok(Moved::Bytes(bytes.len()))
    }

    /// Sends what waits here.
    pub(crate) fn flush(&mut self) -> Result<(), String> {
        match &mut self.tls {
            Some(tls) => tls.flush(&self.tcp).map(drop),
            None => Ok(()),
        }
    }

    /// What has come, and whether there may be more.
    #[inline]
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> Result<Moved, String> {
        let Some(tls) = &mut self.tls else { return receive_some(&self.tcp, buffer) };
        let mut records = [0; 16 * 1024];
        loop {
            match tls.session.reader().read(buffer) {
                Ok(0) => return Err("the server has closed the connection".to_owned()),
                Ok(got) => return Ok(Moved::Bytes(got)),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(format!("TLS: {error}")),
            }
            let Moved::Bytes(got) = receive_some(&self.tcp, &mut records)? else { return Ok(Moved::Nothing) };
            let mut rest = &records[..got];
            while !rest.is_empty() {
                tls.session.read_tls(&mut rest).map_err(|error| format!("TLS: {error}"))?;
                tls.session.process_new_packets().map_err(|error| format!("TLS: {error}"))?;
            }
        }
    }

    /// A short read has emptied a plain socket; TLS may hold more than was taken.
    #[inline]
    pub(crate) fn may_have_more(&self, got: usize) -> bool {
        self.tls.is_some() || got == BUFFER
    }
}

impl Tls {
    /// True if nothing is left.
    fn flush(&mut self, tcp: &OwnedFd) -> Result<bool, String> {
        while self.sent < self.records.len() {
            match send_some(tcp, &self.records[self.sent..])? {
                Moved::Bytes(sent) => self.sent += sent,
                Moved::Nothing => return Ok(false),
            }
        }
        self.records.clear();
        self.sent = 0;
        Ok(true)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tcp.as_fd()
    }
}

#[inline]
pub(crate) fn send_some(tcp: &OwnedFd, bytes: &[u8]) -> Result<Moved, String> {
    loop {
        match send(tcp, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => return Ok(Moved::Bytes(sent)),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(Moved::Nothing),
            Err(error) => return Err(format!("cannot send: {error}")),
        }
    }
}

#[inline]
fn receive_some(tcp: &OwnedFd, buffer: &mut [u8]) -> Result<Moved, String> {
    loop {
        match recv(tcp, &mut *buffer, RecvFlags::empty()) {
            Ok((0, _)) => return Err("the server has closed the connection".to_owned()),
            Ok((got, _)) => return Ok(Moved::Bytes(got)),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(Moved::Nothing),
            Err(error) => return Err(format!("cannot receive: {error}")),
        }
    }
}

/// The WebSocket handshake. No message of the server follows it unasked, so nothing behind its end can get lost.
pub(crate) fn greet(stream: &mut TcpStream, hello: &str) -> Result<(), String> {
    stream.write_all(hello.as_bytes()).map_err(|error| format!("greeting: {error}"))?;
    let (mut said, mut buffer) = (Vec::new(), [0; 4096]);
    while !said.ends_with(b"\r\n\r\n") {
        match stream.read(&mut buffer) {
            Ok(0) => return Err("the server has closed the connection instead of greeting".to_owned()),
            Ok(got) => said.extend_from_slice(&buffer[..got]),
            Err(error) => return Err(format!("greeting: {error}")),
        }
        if said.len() > buffer.len() {
            return Err(format!("a greeting of {} bytes, more than {}", said.len(), buffer.len()));
        }
    }
    match said.starts_with(b"HTTP/1.1 101") {
        true => Ok(()),
        false => Err(format!("instead of a greeting: {:?}", String::from_utf8_lossy(&said))),
    }
}

/// TLS 1.3 to a server whose certificate nobody knows: it is on this machine, and made for this run.
pub(crate) fn tls_config() -> Arc<ClientConfig> {
    let config = ClientConfig::builder_with_provider(default_provider().into())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("ring has TLS 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    Arc::new(config)
}

#[derive(Debug)]
struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}
