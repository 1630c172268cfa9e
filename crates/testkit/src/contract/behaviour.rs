//! One behaviour as data: its sentence, what it shows, where it applies, and how it is shown.

use super::{Model, Need, Setup, Transport, Variation};
use std::fmt;

/// Something that people rely on, with the function that shows it.
#[derive(Clone, Copy)]
pub struct Behaviour {
    module: &'static str,
    name: &'static str,
    shows: &'static [u8],
    needs: &'static [Need],
    every_model: bool,
    not: &'static [Variation],
    run: fn(Setup),
}

impl Behaviour {
    pub(super) const fn new(module: &'static str, name: &'static str, run: fn(Setup)) -> Self {
        Self { module, name, shows: &[], needs: &[], every_model: true, not: &[], run }
    }

    /// The numbers in Netty's list that it shows, see [`netty`](super::netty).
    pub(super) const fn shows(mut self, numbers: &'static [u8]) -> Self {
        self.shows = numbers;
        self
    }

    /// What a transport must have for it.
    pub(super) const fn needs(mut self, needs: &'static [Need]) -> Self {
        self.needs = needs;
        self
    }

    /// It is about clients or loops alone, so the model of a server makes no difference.
    pub(super) const fn in_one_model(mut self) -> Self {
        self.every_model = false;
        self
    }

    /// It is about what these variations vary, or indifferent to it.
    pub(super) const fn not(mut self, variations: &'static [Variation]) -> Self {
        self.not = variations;
        self
    }

    /// The file it is in, which is what it is about: `half_close`.
    pub fn group(&self) -> &'static str {
        self.module.rsplit("::").next().unwrap_or(self.module)
    }

    /// The sentence, with underscores.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The numbers in Netty's list that it shows.
    pub fn numbers(&self) -> &'static [u8] {
        self.shows
    }

    /// Why it does not apply to a transport, if it does not.
    pub fn does_not_apply(&self, transport: Transport) -> Option<&'static str> {
        self.needs.iter().find_map(|need| transport.lacks(*need))
    }

    pub(super) fn has_need(&self, need: Need) -> bool {
        self.needs.contains(&need)
    }

    /// In which models it is shown: all of them, and each variation in one.
    pub fn models(&self, transport: Transport, variation: Variation) -> &'static [Model] {
        let all = transport.models();
        match variation {
            Variation::Plain if self.every_model => all,
            Variation::Plain => &all[..1],
            Variation::OurPeers if transport.lacks(Need::ForeignPeers).is_some() => &[], // it has no others
            _ if !self.every_model || self.not.contains(&variation) => &[],
            _ => &all[..1],
        }
    }

    pub(super) fn run(&self, setup: Setup) {
        (self.run)(setup);
    }
}

impl fmt::Debug for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.group(), self.name)
    }
}

/// A behaviour that is shown by the function of its name.
macro_rules! behaviour {
    ($name:ident) => {
        $crate::contract::Behaviour::new(module_path!(), stringify!($name), $name)
    };
}

pub(super) use behaviour;
