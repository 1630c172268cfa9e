//! A transport that was written outside keeps the contract: `pipe_transport`, with its own stream and with that of Netwright, by every means of waiting.
//!
//! Names are `transport::model::group::behaviour`, as of `crates/transport/tests/contract.rs`. Only with debug assertions, as the whole
//! contract: optimised, two thousand cases take minutes to compile.

#[cfg(all(target_os = "linux", debug_assertions))]
fn main() -> std::process::ExitCode {
    use netwright_testkit::contract::{cases_of, run};
    run(subjects::ALL.iter().flat_map(|subject| cases_of(*subject)).collect())
}

#[cfg(not(all(target_os = "linux", debug_assertions)))]
fn main() {
    println!(
        "ignored: of systems with pipes the contract is written for Linux, and runs with debug assertions"
    );
}

#[cfg(all(target_os = "linux", debug_assertions))]
mod subjects {
    use netwright::{
        Backend,
        client::ClientBuilder,
        server::ServerBuilder,
        transport::{Pipes, open::Connection},
    };
    use netwright_examples::pipe_transport::{Ends, PipeTransport};
    use netwright_testkit::contract::{Model, Need, Subject};
    use std::sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    };

    /// A transport over pipes, and what its loops wait by.
    pub(super) struct OverPipes<C: Connection> {
        name: &'static str,
        backend: Backend,
        transport: LazyLock<PipeTransport<C>>,
    }

    pub(super) static ALL: &[&dyn Subject] = &[&OWN, &OWN_BLOCKING, &STOCK_URING];
    static OWN: OverPipes<Ends> = OverPipes {
        name: "own_pipes",
        backend: Backend::Readiness,
        transport: LazyLock::new(PipeTransport::new),
    };
    static OWN_BLOCKING: OverPipes<Ends> = OverPipes {
        name: "own_pipes_blocking",
        backend: Backend::Blocking,
        transport: LazyLock::new(PipeTransport::new),
    };
    static STOCK_URING: OverPipes<Pipes> = OverPipes {
        name: "pipes_uring",
        backend: Backend::Uring,
        transport: LazyLock::new(PipeTransport::of_pipes),
    };

    impl<C: Connection> Subject for OverPipes<C> {
        fn name(&self) -> &'static str {
            self.name
        }

        fn address(&self) -> String {
            static NEXT: AtomicU64 = AtomicU64::new(0);
            format!("pipe:{}-{}", self.name, NEXT.fetch_add(1, Ordering::Relaxed))
        }

        fn server(&self, builder: ServerBuilder) -> ServerBuilder {
            builder.scheme("pipe", self.transport.clone())
        }

        fn client(&self, builder: ClientBuilder) -> ClientBuilder {
            builder.scheme("pipe", self.transport.clone())
        }

        fn lacks(&self, need: Need) -> Option<&'static str> {
            match need {
                Need::Reset => Some("a pipe has no reset"),
                Need::Descriptors => Some("a pipe is no socket"),
                _ => None,
            }
        }

        fn backend(&self) -> Backend {
            self.backend
        }

        fn models(&self) -> &'static [Model] {
            match self.backend {
                Backend::Readiness => &Model::ALL[..2],
                Backend::Blocking => &[Model::ThreadPerChannel],
                _ => &[Model::OneLoop],
            }
        }

        fn missing(&self) -> Option<String> {
            self.backend.event_loops(1).err().map(|error| error.to_string())
        }
    }
}
