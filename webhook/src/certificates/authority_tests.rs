use super::*;

const DAY: i64 = 24 * 3600;
const START: i64 = 1_800_000_000;
const LIFETIMES: Lifetimes = Lifetimes { authority_secs: 300 * DAY, serving_secs: 30 * DAY };

fn names() -> Vec<String> {
    vec!["fluxqueue-webhook.fluxqueue-system.svc".to_owned(), "localhost".to_owned()]
}

fn next(kept: Option<&Material>, now: i64) -> Option<Material> {
    renewed(kept, &names(), LIFETIMES, now).unwrap()
}

fn new() -> Material {
    next(None, START).unwrap()
}

fn authorities(material: &Material) -> Vec<String> {
    certificates(&material.authorities).collect()
}

#[test]
fn the_first_certificates_fit_and_stay() {
    let made = new();
    let facts = serving_facts(&made, &names()).unwrap();
    assert_eq!((facts.made, facts.expires), (START, START + 30 * DAY));
    assert_eq!(authorities(&made).len(), 1);
    assert_eq!(next(Some(&made), START), None);
    assert_eq!(next(Some(&made), START + 19 * DAY), None);
}

#[test]
fn a_certificate_is_replaced_when_a_third_of_its_life_is_left() {
    let made = new();
    let later = next(Some(&made), START + 20 * DAY).unwrap();
    assert_ne!(later.certificate, made.certificate);
    assert_eq!(later.authorities, made.authorities);
    assert_eq!(serving_facts(&later, &names()).unwrap().expires, START + 50 * DAY);
}

#[test]
fn an_authority_is_trusted_before_it_signs_and_for_as_long_as_it_lives() {
    let mut kept = new();
    let (first, mut certificates_seen) = (authorities(&kept)[0].clone(), 1);
    let mut announced = None;
    for now in (START..START + 600 * DAY).step_by(3600) {
        let before = kept.clone();
        if let Some(next) = next(Some(&kept), now) {
            kept = next;
        }
        // Any client that trusts the authorities of an hour ago accepts the present certificate,
        // and the other way round.
        let facts = serving_facts(&kept, &names()).expect("it is trusted");
        assert!(!facts.is_expired(now));
        let mixed = Material { authorities: before.authorities.clone(), ..kept.clone() };
        assert!(serving_facts(&mixed, &names()).is_some(), "trusted before it is served");
        let mixed = Material { authorities: kept.authorities.clone(), ..before.clone() };
        assert!(serving_facts(&mixed, &names()).is_some(), "trusted while it is served");
        certificates_seen += usize::from(kept.certificate != before.certificate);
        if authorities(&kept).len() == 2 && announced.is_none() {
            announced = Some(now);
            assert_eq!(kept.certificate, before.certificate, "it signs later");
            assert_eq!(authorities(&kept)[1], first);
        }
    }
    assert_eq!(announced, Some(START + 200 * DAY));
    assert!(!authorities(&kept).contains(&first), "it has expired");
    assert!(certificates_seen > 25, "{certificates_seen}");
}

#[test]
fn no_certificate_outlives_the_authority_that_signed_it() {
    let short = Lifetimes { authority_secs: 10 * DAY, serving_secs: 30 * DAY };
    let made = renewed(None, &names(), short, START).unwrap().unwrap();
    assert_eq!(serving_facts(&made, &names()).unwrap().expires, START + 10 * DAY);
}

#[test]
fn unusable_certificates_are_replaced() {
    let (made, other) = (new(), new());
    let broken = [
        Material { certificate: "nonsense".to_owned(), ..made.clone() },
        Material { key: other.key.clone(), ..made.clone() },
        Material { certificate: other.certificate.clone(), key: other.key.clone(), ..made.clone() },
    ];
    for broken in broken {
        let mended = next(Some(&broken), START).unwrap();
        assert_eq!(mended.authorities, made.authorities, "the authority is fine");
        assert!(serving_facts(&mended, &names()).is_some());
    }
    let lost = [
        Material { authorities: String::new(), ..made.clone() },
        Material { authority_key: String::new(), ..made.clone() },
        Material { authority_key: other.authority_key, ..made.clone() },
    ];
    for lost in lost {
        let mended = next(Some(&lost), START).unwrap();
        assert_ne!(mended.authorities, made.authorities);
        assert!(serving_facts(&mended, &names()).is_some());
    }
    // No replica ran for a year.
    let mended = next(Some(&made), START + 400 * DAY).unwrap();
    assert_eq!(authorities(&mended).len(), 1);
    assert!(serving_facts(&mended, &names()).is_some());
}

#[test]
fn another_name_needs_another_certificate() {
    let made = new();
    let moved = [names(), vec!["fluxqueue-webhook.elsewhere.svc".to_owned()]].concat();
    let next = renewed(Some(&made), &moved, LIFETIMES, START).unwrap().unwrap();
    assert_eq!(serving_facts(&next, &moved).unwrap().names, moved);
}

#[test]
fn keys_are_not_printed() {
    let made = new();
    let key = made.key.lines().nth(1).unwrap();
    assert!(!format!("{made:?}").contains(key));
}
