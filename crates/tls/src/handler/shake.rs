//! The handshake: from the first byte to what was agreed on.
//!
//! Always true: while it lasts, this stage insists on being read to; while somebody else works on it, a resolver's future or a
//! worker, nothing is delivered.

use super::{Phase, Side, Tls};
use crate::{
    Handshake, Hello, Resolved, TlsError,
    acceptor::{Always, without_early_data},
    connection::{Connection, Driven, Progress, drive},
    hello::{is_before_tls_1_2, looks_like_answer, looks_like_tls, server_name_in},
};
use netwright_core::{CloseCause, Context, Event, Place};
use rustls::{
    AlertDescription, PeerIncompatible, client::UnbufferedClientConnection,
    server::UnbufferedServerConnection,
};
use std::sync::Arc;

impl Tls {
    pub(super) fn begin<P: Place>(&mut self, cx: &mut Context<'_, Self, P>) {
        let Some(setup) = &mut self.setup else { return };
        if self.phase != Phase::Idle {
            return;
        }
        setup.deadline = Some(cx.arm(setup.common.limits.handshake_deadline));
        setup.insists = Some(cx.insist());
        match &setup.side {
            Side::Server(_) => {
                self.phase = Phase::Hello;
                if !self.inbox.is_empty() {
                    self.shake_hands(cx, None);
                }
            }
            Side::Client(connector, name) => {
                self.phase = Phase::Handshaking;
                match UnbufferedClientConnection::new(connector.0.config.clone(), name.clone()) {
                    Ok(connection) => self.run_here(cx, Box::new(Connection::client(connection))),
                    Err(error) => self.fail(cx, error.into()),
                }
            }
        }
    }

    /// More has come, `news` of it not seen by anybody.
    pub(super) fn shake_hands<P: Place>(&mut self, cx: &mut Context<'_, Self, P>, news: Option<usize>) {
        let Some(setup) = &mut self.setup else { return };
        if !setup.is_tls {
            let looks = match setup.side {
                Side::Server(_) => looks_like_tls,
                Side::Client(..) => looks_like_answer,
            };
            let first = self.inbox.first();
            match looks(&first) {
                Some(true) => setup.is_tls = true,
                Some(false) => {
                    return self.refuse(cx, AlertDescription::UnexpectedMessage, TlsError::NotTls { first });
                }
                None => {} // what reads hellos can start nevertheless
            }
        }
        match self.phase {
            Phase::Hello => self.read_hello(cx, news),
            Phase::Handshaking => {
                if let Some(connection) = self.connection.take() {
                    self.run(cx, connection);
                }
            }
            _ => {}
        }
    }

    /// Reads the ClientHello on the side: who decides about certificates wants to know it, and rustls gets it afterwards.
    pub(super) fn read_hello<P: Place>(&mut self, cx: &mut Context<'_, Self, P>, news: Option<usize>) {
        let Some(setup) = &mut self.setup else { return };
        let max = setup.common.limits.hello_max;
        let all = self.inbox.len();
        if news.is_none_or(|news| news == all)
            && all <= max
            && matches!(&setup.side, Side::Server(acceptor) if acceptor.0.resolver.is_none())
            && let Some(name) = server_name_in(self.inbox.in_one())
        {
            // Nearly always: it came in one piece, and nobody else has to know what is in it.
            setup.server_name = name;
            return self.accept(cx, Resolved::Default);
        }
        // Only one piece can be in the inbox before this one is, so what is new is at its end.
        let mut rest = self.inbox.tail(news.unwrap_or(all));
        let reader = setup.reader.get_or_insert_default();
        let accepted = loop {
            match reader.accept() {
                Ok(Some(accepted)) => break accepted,
                Ok(None) if rest.is_empty() && all <= max => return self.inbox.come_to_rest(),
                Ok(None) if all <= max && reader.read_tls(&mut rest).is_ok() => {}
                Ok(None) => {
                    let error = TlsError::HandshakeTooLong { limit: "hello_max", max, got: all };
                    return self.refuse(cx, AlertDescription::DecodeError, error);
                }
                Err((error, mut alert)) => {
                    let unsigned = PeerIncompatible::SignatureAlgorithmsExtensionRequired.into();
                    if error == unsigned && is_before_tls_1_2(self.inbox.bytes()) {
                        let error = rustls::Error::from(PeerIncompatible::Tls12NotOffered);
                        return self.refuse(cx, AlertDescription::ProtocolVersion, error.into());
                    }
                    let mut out = Vec::new();
                    if alert.write_all(&mut out).is_err() || out.is_empty() {
                        // It says nothing of records, or messages, that must not be there.
                        return self.refuse(cx, AlertDescription::UnexpectedMessage, error.into());
                    }
                    cx.write(out);
                    cx.flush();
                    return self.fail(cx, error.into());
                }
            }
        };
        let hello = Hello::of(&accepted.client_hello());
        drop(accepted);
        setup.reader = None;
        setup.server_name.clone_from(&hello.server_name);
        let Side::Server(acceptor) = &setup.side else { return };
        match &acceptor.0.resolver {
            None => self.accept(cx, Resolved::Default),
            Some(resolve) => {
                let resolve = resolve.clone();
                self.phase = Phase::Resolving;
                setup.held = Some(cx.hold());
                self.inbox.come_to_rest();
                let then = |tls: &mut Self, cx: &mut Context<'_, Self, P>, answer| {
                    if tls.phase == Phase::Resolving {
                        tls.let_go(cx);
                        match answer {
                            Ok(resolved) => tls.accept(cx, resolved),
                            Err(fault) => {
                                tls.refuse(cx, AlertDescription::UnrecognisedName, TlsError::Resolver(fault))
                            }
                        }
                    }
                };
                P::spawn_with(cx, move || resolve(hello), then);
            }
        }
    }

    /// It is known how this client is to be served.
    pub(super) fn accept<P: Place>(&mut self, cx: &mut Context<'_, Self, P>, resolved: Resolved) {
        let Some(setup) = &mut self.setup else { return };
        let Side::Server(acceptor) = &setup.side else { return };
        let config = match resolved {
            Resolved::Default => acceptor.0.config.clone(),
            Resolved::Certificate(certificate) => {
                let mut config = rustls::ServerConfig::clone(&acceptor.0.config);
                config.cert_resolver = Arc::new(Always(certificate));
                Arc::new(config)
            }
            Resolved::Config(config) => without_early_data(config),
        };
        self.phase = Phase::Handshaking;
        match UnbufferedServerConnection::new(config) {
            Ok(connection) => self.run(cx, Box::new(Connection::server(connection))),
            Err(error) => self.refuse(cx, AlertDescription::InternalError, error.into()),
        }
    }

    /// Takes the handshake on, here or on a worker: if this is one, here.
    pub(super) fn run<P: Place>(&mut self, cx: &mut Context<'_, Self, P>, connection: Box<Connection>) {
        let workers = self.setup.as_ref().and_then(|setup| setup.common.workers.clone());
        let Some(workers) = workers.filter(|_| !P::IS_WORKER && self.inbox.has_news()) else {
            return self.run_here(cx, connection);
        };
        let inbox = std::mem::take(&mut self.inbox);
        self.phase = Phase::Away;
        if let Some(setup) = &mut self.setup {
            setup.held = Some(cx.hold());
        }
        let submitted = workers.submit(move || drive(connection, inbox));
        let back = async move {
            match submitted {
                Ok(driven) => driven.await.map_err(|error| error.to_string()),
                Err(refused) => Err(refused.why.to_string()),
            }
        };
        let then = |tls: &mut Self, cx: &mut Context<'_, Self, P>, driven| {
            if tls.phase != Phase::Away {
                return; // the deadline was faster
            }
            tls.let_go(cx);
            tls.phase = Phase::Handshaking;
            match driven {
                Ok(driven) => tls.came_back(cx, driven),
                Err(why) => tls.refuse(cx, AlertDescription::InternalError, TlsError::Workers(why)),
            }
        };
        P::spawn_with(cx, move || back, then);
    }

    pub(super) fn run_here<P: Place>(&mut self, cx: &mut Context<'_, Self, P>, connection: Box<Connection>) {
        let driven = drive(connection, std::mem::take(&mut self.inbox));
        self.came_back(cx, driven);
    }

    pub(super) fn came_back<P: Place>(&mut self, cx: &mut Context<'_, Self, P>, driven: Driven) {
        let later = std::mem::replace(&mut self.inbox, driven.inbox);
        let news = !later.is_empty();
        self.inbox.append(later);
        if !driven.out.is_empty() {
            cx.write(driven.out.into_bytes());
            cx.flush();
        }
        let shaking = driven.connection.is_handshaking();
        self.connection = Some(driven.connection);
        match driven.result {
            Err(error) => self.fail(cx, error.into()),
            Ok(Progress::PeerClosed) if shaking => {
                self.fail(cx, TlsError::ClosedInHandshake(CloseCause::PeerClosed));
            }
            Ok(_) if shaking && news => self.shake_hands(cx, None),
            Ok(_) if shaking => {
                self.wait_for_more(cx);
            }
            Ok(progress) => self.opened(cx, progress),
        }
    }

    /// The handshake is done.
    pub(super) fn opened<P: Place>(&mut self, cx: &mut Context<'_, Self, P>, progress: Progress) {
        let (Some(mut setup), Some(connection)) = (self.setup.take(), &self.connection) else { return };
        self.phase = Phase::Open;
        if let Some(insists) = setup.insists.take() {
            insists.release(cx);
        }
        if let Some(deadline) = setup.deadline.take() {
            cx.disarm(deadline);
        }
        let handshake = Handshake::of(connection, setup.server_name.take());
        if let Some(promise) = setup.promise.take() {
            promise.succeed(handshake.clone());
        }
        cx.fire_event(Event::new(handshake));
        if self.queue.has_flushed() {
            self.drain(cx);
            cx.flush();
        }
        match progress {
            Progress::Data(data) => self.ready = Some(data),
            Progress::PeerClosed => self.peer_closed(cx),
            Progress::Ready | Progress::Blocked => {}
        }
    }

    pub(super) fn let_go<P: Place>(&mut self, cx: &mut Context<'_, Self, P>) {
        if let Some(setup) = &mut self.setup
            && let Some(held) = setup.held.take()
        {
            held.release(cx);
        }
    }
}
