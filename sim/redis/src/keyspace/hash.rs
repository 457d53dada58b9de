//! Hashes: fields with values.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::keyspace::limits::Small;

/// A hash whose fields are listed in the order in which they were added, as in a listpack.
#[derive(Clone, Debug, Default)]
pub struct Hash {
    fields: BTreeMap<Bytes, (u64, Bytes)>,
    added: u64,
    /// Length of the longest field or value that it ever had.
    longest: usize,
    /// Whether it has outgrown the listpack; it never returns.
    large: bool,
}

/// Equal by fields and values, in any encoding and order.
impl PartialEq for Hash {
    fn eq(&self, other: &Hash) -> bool {
        let same = |(field, (_, value)): (&Bytes, &(u64, Bytes))| other.get(field) == Some(value);
        self.len() == other.len() && self.fields.iter().all(same)
    }
}

impl Eq for Hash {}

impl Hash {
    /// The value of a field.
    pub fn get(&self, field: &[u8]) -> Option<&Bytes> {
        self.fields.get(field).map(|(_, value)| value)
    }

    /// Sets a field; whether it is new.
    pub fn set(&mut self, field: &[u8], value: Bytes) -> bool {
        self.longest = self.longest.max(field.len()).max(value.len());
        if let Some((_, old)) = self.fields.get_mut(field) {
            *old = value;
            return false;
        }
        self.added += 1;
        self.fields.insert(Bytes::copy_from_slice(field), (self.added, value));
        debug_assert!(self.len() as u64 <= self.added, "every field has a place of its own");
        true
    }

    /// Removes a field; whether it existed.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        self.fields.remove(field).is_some()
    }

    /// How many fields there are.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Leaves the listpack encoding if it exceeds these limits.
    pub fn settle(&mut self, bounds: Small) {
        self.large |= self.len() > bounds.entries || self.longest > bounds.longest;
    }

    /// Whether it is a listpack.
    pub fn is_small(&self) -> bool {
        !self.large
    }

    /// Its name in OBJECT ENCODING.
    pub fn encoding(&self) -> &'static str {
        if self.large { "hashtable" } else { "listpack" }
    }

    /// Fields and values in the order in which the fields were added.
    pub fn in_order(&self) -> Vec<(&Bytes, &Bytes)> {
        let mut fields: Vec<_> = self.fields.iter().collect();
        fields.sort_unstable_by_key(|(_, (place, _))| *place);
        fields.into_iter().map(|(field, (_, value))| (field, value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Hash;
    use bytes::Bytes;

    #[test]
    fn a_hash_lists_its_fields_as_they_were_added() {
        let mut hash = Hash::default();
        for field in [b"c", b"a", b"b", b"a"] {
            hash.set(field, Bytes::new());
        }
        hash.remove(b"c");
        hash.set(b"c", Bytes::new());
        let order: Vec<&[u8]> = hash.in_order().iter().map(|(field, _)| &field[..]).collect();
        assert_eq!(order, [b"a", b"b", b"c"]);
    }
}
