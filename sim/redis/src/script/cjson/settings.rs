//! The settings of `cjson` that a script may change, and a limit that holds regardless.

/// Maximum nesting, whatever a script's setting. A real server stops where its C stack of 8000
/// slots does, at 3999 or 7998 levels; a level here holds references, of which there are fewer.
pub const MAX_LEVELS: i32 = 3000;

/// The settings of one `cjson` table.
#[derive(Clone, Copy, Debug)]
pub struct CjsonSettings {
    pub sparse_convert: bool,
    pub sparse_ratio: i32,
    pub sparse_safe: i32,
    pub encode_max_depth: i32,
    pub encode_number_precision: i32,
    pub encode_keep_buffer: bool,
    pub encode_invalid_numbers: InvalidNumbers,
    pub decode_max_depth: i32,
    pub decode_invalid_numbers: bool,
}

/// The handling of NaN and the infinities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidNumbers {
    Refused,
    Written,
    Null,
}

impl Default for CjsonSettings {
    fn default() -> CjsonSettings {
        CjsonSettings {
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_max_depth: 1000,
            encode_number_precision: 14,
            encode_keep_buffer: true,
            encode_invalid_numbers: InvalidNumbers::Refused,
            decode_max_depth: 1000,
            decode_invalid_numbers: true,
        }
    }
}
