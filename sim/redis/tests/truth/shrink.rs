//! Shrinks a long random script that shows a difference to a short one.

use crate::hunt::{Move, play, said};
use crate::real::Real;

/// A script from which nothing can be removed without losing the difference.
pub fn shrink(real: &mut Real, mut moves: Vec<Move>, at: usize) -> Vec<Move> {
    moves.truncate(at + 1);
    let mut size = moves.len().div_ceil(2);
    loop {
        let before = moves.len();
        let mut from = 0;
        while from < moves.len() {
            let mut fewer = moves.clone();
            fewer.drain(from..(from + size).min(moves.len()));
            if play(real, &fewer).1.is_some() {
                moves = fewer;
            } else {
                from += size;
            }
        }
        if size == 1 && moves.len() == before {
            break;
        }
        size = size.div_ceil(2);
    }
    shorten(real, moves)
}

/// Removes words from the requests.
fn shorten(real: &mut Real, mut moves: Vec<Move>) -> Vec<Move> {
    for nth in 0..moves.len() {
        let mut word = 1;
        while let Move::Ask(_, words) = &moves[nth]
            && word < words.len()
        {
            let mut fewer = moves.clone();
            if let Move::Ask(_, words) = &mut fewer[nth] {
                words.remove(word);
            }
            if play(real, &fewer).1.is_some() {
                moves = fewer;
            } else {
                word += 1;
            }
        }
    }
    moves
}

/// The report of a difference: a script for a file of cases, and the result of its last request.
pub fn report(real: &mut Real, moves: &[Move]) -> String {
    let script: Vec<String> = moves.iter().map(said).collect();
    let what = play(real, moves).1.map_or("it came once only".to_owned(), |found| found.text);
    format!("{}\n\n{what}", script.join("\n"))
}
