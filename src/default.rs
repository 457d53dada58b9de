//! What files leave out: a choice that is the default. So files of earlier versions stay the same
//! bytes when a choice is added.

/// Whether a choice is the default of its type.
pub fn is_default<T: Default + PartialEq>(choice: &T) -> bool {
    *choice == T::default()
}
