//! Values that files omit because they are the default. So files of earlier versions keep the same
//! bytes when a field is added.

/// Whether a value is the default of its type.
pub fn is_default<T: Default + PartialEq>(choice: &T) -> bool {
    *choice == T::default()
}

/// The default of a count of which there is always one.
pub fn one() -> u32 {
    1
}

/// Whether a count is that default.
pub fn is_one(count: &u32) -> bool {
    *count == 1
}
