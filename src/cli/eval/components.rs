//! Connected regions of a binary picture.

/// The members of the largest 4-connected region; the first found of equals.
pub(super) fn largest_component(members: &[bool], width: usize) -> Vec<bool> {
    let mut region_of = vec![0_u32; members.len()];
    let (mut regions, mut largest, mut largest_size) = (0, 0, 0);
    let mut stack = Vec::new();
    for seed in 0..members.len() {
        if !members[seed] || region_of[seed] != 0 {
            continue;
        }
        regions += 1;
        region_of[seed] = regions;
        stack.push(seed);
        let mut size = 0;
        while let Some(at) = stack.pop() {
            size += 1;
            let x = at % width;
            let left = (x > 0).then(|| at - 1);
            let right = (x + 1 < width).then(|| at + 1);
            let (above, below) = (at.checked_sub(width), at.checked_add(width).filter(|&at| at < members.len()));
            for next in [left, right, above, below].into_iter().flatten() {
                if members[next] && region_of[next] == 0 {
                    region_of[next] = regions;
                    stack.push(next);
                }
            }
        }
        if size > largest_size {
            (largest, largest_size) = (regions, size);
        }
    }
    region_of.into_iter().map(|region| region != 0 && region == largest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_larger_of_two_regions_wins_and_corners_do_not_connect() {
        let picture = "##..#\n#..#.\n....#";
        let members: Vec<bool> = picture.chars().filter(|c| *c != '\n').map(|c| c == '#').collect();
        let largest = largest_component(&members, 5);
        assert_eq!((0..15).filter(|&i| largest[i]).collect::<Vec<_>>(), [0, 1, 5]);
        assert!(largest_component(&[false; 4], 2).iter().all(|member| !member));
    }
}
