//! What stands between a `serde` format and a user's type, and keeps hostile messages in bounds.
//!
//! ```text
//!   T::deserialize ─▶ Guarded<Deserializer> ─▶ the format's own
//!      Visitor     ◀─ Guarded<Visitor>      ◀─ list, map, enum, Some: one level deeper
//! ```
//! Always true:
//! 1. `levels` is the number of lists, maps, structs, enums and `Some`s that are open; at most `depth`.
//! 2. No list is told to expect more elements than the message has bytes, so nothing is reserved for what is only claimed.
//! 3. Lists and maps of a length that the message says have at most `values` elements together: elements of no length cannot
//!    keep a loop busy.
//!
//! Formats that are told to skip something (`deserialize_ignored_any`) do it by themselves. Those that do it by recursion come
//! through here as well; those that do it by a loop may skip what is deeper.

use super::SerialError;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};
use std::{cell::Cell, fmt};

/// How many elements of no length a message may have beside those that its bytes pay for: there are types that have such
/// elements in good faith, and looping so often costs next to nothing.
const FREE_VALUES: usize = 1024;

/// Reads one value, within bounds. Says what it was that was broken, if it was one of them.
#[inline]
pub(super) fn read<'de, T, D>(
    format: &'static str,
    depth: usize,
    len: usize,
    deserializer: D,
) -> Result<T, SerialError>
where
    T: DeserializeOwned,
    D: Deserializer<'de>,
    D::Error: std::error::Error + Send + Sync + 'static,
{
    let guard = Guard {
        depth,
        levels: Cell::new(0),
        len,
        values: Cell::new(len.saturating_add(FREE_VALUES)),
        tripped: Cell::new(None),
    };
    let result = T::deserialize(Guarded { inner: deserializer, guard: &guard });
    result.map_err(|error| match guard.tripped.get() {
        Some(Trip::Deep) => SerialError::TooDeep { format, limit: depth, got: depth.saturating_add(1) },
        Some(Trip::Many) => {
            let limit = len.saturating_add(FREE_VALUES);
            SerialError::TooMany { format, limit, got: limit.saturating_add(1) }
        }
        None => SerialError::malformed(format, len, error.into()),
    })
}

struct Guard {
    depth: usize,
    levels: Cell<usize>,
    len: usize,
    /// How many elements may still come.
    values: Cell<usize>,
    tripped: Cell<Option<Trip>>,
}

#[derive(Clone, Copy)]
enum Trip {
    Deep,
    Many,
}

impl Guard {
    #[inline]
    fn deeper<E: Error>(&self) -> Result<Level<'_>, E> {
        let levels = self.levels.get();
        if levels == self.depth {
            self.tripped.set(Some(Trip::Deep));
            return Err(E::custom("too deep"));
        }
        self.levels.set(levels + 1);
        Ok(Level(self))
    }

    #[inline]
    fn one_more<E: Error>(&self) -> Result<(), E> {
        match self.values.get().checked_sub(1) {
            Some(left) => self.values.set(left),
            None => {
                self.tripped.set(Some(Trip::Many));
                return Err(E::custom("too many"));
            }
        }
        Ok(())
    }
}

/// A level that is open as long as this lives.
struct Level<'g>(&'g Guard);

impl Drop for Level<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.levels.set(self.0.levels.get() - 1);
    }
}

/// Any part of the conversation between a format and a type, with the guard in between.
struct Guarded<'g, T> {
    inner: T,
    guard: &'g Guard,
}

/// A visitor or an access to elements; `COUNTED` if the message itself says how many there are.
struct Elements<'g, T, const COUNTED: bool> {
    inner: T,
    guard: &'g Guard,
}

macro_rules! forward_deserialize {
    ($($name:ident)*) => {$(
        #[inline]
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$name(Elements::<_, false> { inner: visitor, guard: self.guard })
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Guarded<'_, D> {
    type Error = D::Error;

    forward_deserialize! {
        deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64
        deserialize_char deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf deserialize_option
        deserialize_unit deserialize_identifier deserialize_ignored_any
    }

    #[inline]
    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = Elements::<_, false> { inner: visitor, guard: self.guard };
        self.inner.deserialize_unit_struct(name, visitor)
    }
    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = Elements::<_, false> { inner: visitor, guard: self.guard };
        self.inner.deserialize_newtype_struct(name, visitor)
    }
    #[inline]
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_seq(Elements::<_, true> { inner: visitor, guard: self.guard })
    }
    #[inline]
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_map(Elements::<_, true> { inner: visitor, guard: self.guard })
    }
    #[inline]
    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, D::Error> {
        let visitor = Elements::<_, false> { inner: visitor, guard: self.guard };
        self.inner.deserialize_tuple(len, visitor)
    }
    #[inline]
    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = Elements::<_, false> { inner: visitor, guard: self.guard };
        self.inner.deserialize_tuple_struct(name, len, visitor)
    }
    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = Elements::<_, false> { inner: visitor, guard: self.guard };
        self.inner.deserialize_struct(name, fields, visitor)
    }
    #[inline]
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = Elements::<_, false> { inner: visitor, guard: self.guard };
        self.inner.deserialize_enum(name, variants, visitor)
    }
    #[inline]
    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

macro_rules! forward_visit {
    ($($name:ident($value:ty))*) => {$(
        #[inline]
        fn $name<E: Error>(self, value: $value) -> Result<V::Value, E> {
            self.inner.$name(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>, const COUNTED: bool> Visitor<'de> for Elements<'_, V, COUNTED> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    forward_visit! {
        visit_bool(bool) visit_i8(i8) visit_i16(i16) visit_i32(i32) visit_i64(i64) visit_i128(i128)
        visit_u8(u8) visit_u16(u16) visit_u32(u32) visit_u64(u64) visit_u128(u128) visit_f32(f32) visit_f64(f64)
        visit_char(char) visit_str(&str) visit_borrowed_str(&'de str) visit_string(String)
        visit_bytes(&[u8]) visit_borrowed_bytes(&'de [u8]) visit_byte_buf(Vec<u8>)
    }

    #[inline]
    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }
    #[inline]
    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }
    #[inline]
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        let _level = self.guard.deeper()?;
        self.inner.visit_some(Guarded { inner: deserializer, guard: self.guard })
    }
    #[inline]
    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.inner.visit_newtype_struct(Guarded { inner: deserializer, guard: self.guard })
    }
    #[inline]
    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<V::Value, A::Error> {
        let _level = self.guard.deeper()?;
        self.inner.visit_seq(Elements::<_, COUNTED> { inner: elements, guard: self.guard })
    }
    #[inline]
    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<V::Value, A::Error> {
        let _level = self.guard.deeper()?;
        self.inner.visit_map(Elements::<_, COUNTED> { inner: entries, guard: self.guard })
    }
    #[inline]
    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        let _level = self.guard.deeper()?;
        self.inner.visit_enum(Guarded { inner: variant, guard: self.guard })
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Guarded<'_, S> {
    type Value = S::Value;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.inner.deserialize(Guarded { inner: deserializer, guard: self.guard })
    }
}

impl<'de, A: SeqAccess<'de>, const COUNTED: bool> SeqAccess<'de> for Elements<'_, A, COUNTED> {
    type Error = A::Error;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, A::Error> {
        let next = self.inner.next_element_seed(Guarded { inner: seed, guard: self.guard })?;
        if COUNTED && next.is_some() {
            self.guard.one_more()?;
        }
        Ok(next)
    }
    #[inline]
    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint().map(|claimed| claimed.min(self.guard.len))
    }
}

impl<'de, A: MapAccess<'de>, const COUNTED: bool> MapAccess<'de> for Elements<'_, A, COUNTED> {
    type Error = A::Error;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let next = self.inner.next_key_seed(Guarded { inner: seed, guard: self.guard })?;
        if COUNTED && next.is_some() {
            self.guard.one_more()?;
        }
        Ok(next)
    }
    #[inline]
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.next_value_seed(Guarded { inner: seed, guard: self.guard })
    }
    #[inline]
    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint().map(|claimed| claimed.min(self.guard.len))
    }
}

impl<'de, 'g, A: EnumAccess<'de>> EnumAccess<'de> for Guarded<'g, A> {
    type Error = A::Error;
    type Variant = Guarded<'g, A::Variant>;

    #[inline]
    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self::Variant), A::Error> {
        let guard = self.guard;
        let (value, variant) = self.inner.variant_seed(Guarded { inner: seed, guard })?;
        Ok((value, Guarded { inner: variant, guard }))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Guarded<'_, A> {
    type Error = A::Error;

    #[inline]
    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }
    #[inline]
    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.newtype_variant_seed(Guarded { inner: seed, guard: self.guard })
    }
    #[inline]
    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.inner.tuple_variant(len, Elements::<_, false> { inner: visitor, guard: self.guard })
    }
    #[inline]
    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.inner.struct_variant(fields, Elements::<_, false> { inner: visitor, guard: self.guard })
    }
}
