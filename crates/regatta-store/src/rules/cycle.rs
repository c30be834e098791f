//! Finds a path from a task back to itself.
//!
//! Depth first with an explicit stack: plans may be chains of any length.

use std::collections::HashMap;

use super::Rule;

/// A path `a → b → … → a` along `parents`, if one can be reached from `starts`. Visits every task once.
pub(crate) fn find(
    starts: impl Iterator<Item = u64>,
    mut parents: impl FnMut(u64) -> Rule<Vec<u64>>,
) -> Rule<Option<Vec<u64>>> {
    // True while on the path, false once it is known to lead to no cycle.
    let mut on_path: HashMap<u64, bool> = HashMap::new();
    for start in starts {
        if on_path.contains_key(&start) {
            continue;
        }
        on_path.insert(start, true);
        let mut path = vec![(start, parents(start)?)];
        while let Some((task, left)) = path.last_mut() {
            let Some(next) = left.pop() else {
                on_path.insert(*task, false);
                path.pop();
                continue;
            };
            match on_path.get(&next) {
                Some(false) => {}
                Some(true) => {
                    let mut cycle: Vec<u64> =
                        path.iter().map(|(task, _)| *task).skip_while(|task| *task != next).collect();
                    cycle.push(next);
                    return Ok(Some(cycle));
                }
                None => {
                    on_path.insert(next, true);
                    path.push((next, parents(next)?));
                }
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_is_found_wherever_it_hangs_and_printed_whole() {
        let check = |edges: &[(u64, u64)], expected: Option<&[u64]>| {
            let parents = |task| {
                Ok(edges.iter().filter(|(child, _)| *child == task).map(|(_, parent)| *parent).collect())
            };
            let found = find(1..=5, parents).unwrap();
            assert_eq!(found.as_deref(), expected, "{edges:?}");
        };
        check(&[], None);
        check(&[(1, 2), (1, 3), (2, 4), (3, 4)], None);
        check(&[(1, 1)], Some(&[1, 1]));
        check(&[(1, 2), (2, 3), (3, 2)], Some(&[2, 3, 2]));
        check(&[(2, 1), (3, 2), (1, 3)], Some(&[1, 3, 2, 1]));
        check(&[(4, 5), (5, 4)], Some(&[4, 5, 4]));
    }
}
