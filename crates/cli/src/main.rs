//! The `netwright` program.
//!
//! ```text
//!   netwright            demo      time, echo, chat and a page on loopback, with figures
//!   netwright serve      serve     one of servers/*, in a chosen reactor model
//!   netwright connect    connect   standard input to a peer, the peer to standard output
//!   netwright load       load      verified load, with latencies
//!   netwright replay     replay    a recording of `serve --record`, played to the same server again
//!   netwright doctor     doctor    what works on this machine
//! ```
//! `running` shows and ends what was started, `stop` hears Ctrl-C and SIGTERM, `failure` decides on the exit code.

#![forbid(unsafe_code)]

mod address;
mod connect;
mod demo;
mod doctor;
mod failure;
mod figures;
mod guard;
mod load;
mod record;
mod replay;
mod running;
mod serve;
mod servers;
mod stop;
mod terminal;
mod through;
mod web;

use clap::{ArgAction, Parser, Subcommand};
use std::{io::IsTerminal, process::ExitCode};
use tracing_subscriber::filter::LevelFilter;

/// Servers, a line client and a verified load, built on Netwright.
///
/// Without a command it runs a demo: a time, an echo and a chat server on loopback ports, with hints on what to type to try
/// each of them, and a page with the same chat for browsers.
#[derive(Parser)]
#[command(name = "netwright", version, after_help = EXAMPLES)]
struct Arguments {
    /// Say more on standard error: -v for information, -vv for debugging, -vvv for everything
    #[arg(short, long, action = ArgAction::Count, global = true, display_order = 100)]
    verbose: u8,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    Serve(Box<serve::Arguments>), // it has many options
    Connect(connect::Arguments),
    Load(load::Arguments),
    Replay(replay::Arguments),
    Doctor(doctor::Arguments),
}

const EXAMPLES: &str = "\
Examples:
  netwright                                          the demo
  netwright serve echo --listen 127.0.0.1:7007       an echo server
  netwright connect 127.0.0.1:7007                   talk to it
  netwright load echo 127.0.0.1:7007 --seconds 5     measure it, and check every byte
  netwright replay recordings/recording-….nwr        what passed on a connection, and whether the replies are the same now
  netwright doctor                                   what works on this machine, and what to change

Exit codes: 0 done, 1 failed, 2 the command line cannot be carried out.";

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let tells = matches!(&arguments.command, Some(Command::Serve(arguments)) if arguments.tells());
    log_to_stderr(arguments.verbose.max(u8::from(tells)));
    let result = match arguments.command {
        None => demo::run(),
        Some(Command::Serve(arguments)) => serve::run(*arguments),
        Some(Command::Connect(arguments)) => connect::run(arguments),
        Some(Command::Load(arguments)) => load::run(arguments),
        Some(Command::Replay(arguments)) => replay::run(arguments),
        Some(Command::Doctor(arguments)) => doctor::run(arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn log_to_stderr(verbose: u8) {
    let level = match verbose {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_ansi(colours).init();
}
