//! Amounts in short lists, such as units by type: each key once, in the order in which it came.

use std::ops::DerefMut;

/// The amount of a key; of a new key it is the default.
pub(crate) fn amount_of<'a, K, V, L>(list: &'a mut L, key: K) -> &'a mut V
where
    K: PartialEq + 'a,
    V: Default + 'a,
    L: DerefMut<Target = [(K, V)]> + Extend<(K, V)>,
{
    let at = list.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
        list.extend([(key, V::default())]);
        list.len() - 1
    });
    &mut list[at].1
}

#[cfg(test)]
mod tests {
    use super::amount_of;

    #[test]
    fn a_key_is_listed_once_where_it_came_first() {
        let mut list = Vec::new();
        for (key, more) in [("cpu", 2), ("gpu", 1), ("cpu", 3)] {
            *amount_of(&mut list, key) += more;
        }
        assert_eq!(list, [("cpu", 5), ("gpu", 1)]);
        assert_eq!((*amount_of(&mut list, "ssd"), list.len()), (0, 3));
    }
}
