//! The checksum of every RDB: CRC-64 with the Jones polynomial, as Redis computes it.

/// The polynomial, its lowest power in the highest bit.
const POLYNOMIAL: u64 = 0x95AC_9329_AC4B_C9B5;

static TABLE: [u64; 256] = table();

const fn table() -> [u64; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut word, mut bit) = (byte as u64, 0);
        while bit < 8 {
            word = if word & 1 == 1 { (word >> 1) ^ POLYNOMIAL } else { word >> 1 };
            bit += 1;
        }
        table[byte] = word;
        byte += 1;
    }
    table
}

/// The checksum of these bytes.
pub fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |crc, byte| TABLE[(crc as u8 ^ byte) as usize] ^ (crc >> 8))
}

#[test]
fn the_checksum_is_that_of_its_definition() {
    assert_eq!(crc64(b"123456789"), 0xE9C6_D914_C4B8_D9CA);
}
