use proptest::prelude::*;

use super::*;
use crate::time::Timestamp;

fn edition(head: &str, told: u32) -> Edition {
    Edition { head: Some(Oid::sample(head)), told }
}

fn seen(link: Link, at: At, judged: Option<Edition>) -> LinkStatus {
    LinkStatus { link, at, judged }
}

#[test]
fn what_follows_from_what_links_have_said() {
    use At::{Asks, Gone, Open, Passed, Stuck};
    use Link::{Accept, Review, Verify};
    let now = || Some(edition("h2", 1));
    let old = || Some(edition("h1", 0));
    let check = |links: Vec<LinkStatus>, expected: &[Action]| {
        let picture = Picture { build: Build::Done(edition("h2", 1)), lands: true, links };
        assert_eq!(decide(&picture), expected, "{picture:?}");
        let elsewhere = Picture { build: Build::Elsewhere, ..picture.clone() };
        assert_eq!(decide(&elsewhere), [], "{picture:?}");
        let stays = decide(&Picture { lands: false, ..picture.clone() });
        assert_eq!(
            stays,
            expected.iter().copied().filter(|action| *action != Action::Land).collect::<Vec<_>>()
        );
    };
    check(vec![], &[]);
    check(vec![seen(Verify, Open, None), seen(Review, Open, None)], &[]);
    check(vec![seen(Verify, Passed, now()), seen(Review, Passed, now())], &[Action::Land]);
    check(vec![seen(Verify, Passed, now()), seen(Review, Open, now())], &[]);
    check(vec![seen(Verify, Passed, now()), seen(Review, Asks, now())], &[Action::SendBack(Review)]);
    // A pass on another edition does not count; every link that judged it runs again, the first one first.
    check(
        vec![seen(Verify, Passed, old()), seen(Review, Asks, old()), seen(Accept, Open, None)],
        &[Action::Restart(Verify), Action::Restart(Review)],
    );
    check(
        vec![seen(Verify, Passed, now()), seen(Review, Passed, old()), seen(Accept, Stuck, old())],
        &[Action::Restart(Review), Action::Restart(Accept)],
    );
    check(vec![seen(Review, Passed, None)], &[Action::Restart(Review)]);
    // The chain waits for a user.
    check(vec![seen(Verify, Passed, now()), seen(Review, Stuck, now())], &[]);
    check(vec![seen(Verify, Stuck, None), seen(Review, Open, old())], &[]);
    check(vec![seen(Verify, Passed, now()), seen(Review, Gone, old())], &[]);
    // The same head is judged again after the builder received a follow-up.
    check(vec![seen(Review, Asks, Some(edition("h2", 0)))], &[Action::Restart(Review)]);
}

#[test]
fn rounds_are_counted_from_the_last_word_of_a_person() {
    let prompt = |n: usize, by: &str| Prompt {
        n: u32::try_from(n).unwrap(),
        text: "x".into(),
        by: by.into(),
        at: Timestamp::from_millis(0),
        state: PromptState::Told,
        attempt: None,
    };
    let said = |by: &[&str]| by.iter().enumerate().map(|(n, by)| prompt(n, by)).collect::<Vec<_>>();
    assert_eq!(rounds(&said(&[])), 0);
    assert_eq!(rounds(&said(&[SPEAKER, SPEAKER])), 2);
    assert_eq!(rounds(&said(&[SPEAKER, SPEAKER, "ann", SPEAKER])), 1);
    assert_eq!(rounds(&said(&[SPEAKER, "ann"])), 0);
}

#[test]
fn findings_are_listed_below_the_summary() {
    let answer =
        r#"No. {"verdict":"block","summary":"bad","findings":["a:1: x {\"verdict\":1}"," b:2 ",7]} "#;
    assert_eq!(findings("bad", answer), "bad\n- a:1: x {\"verdict\":1}\n- b:2\n- 7");
    assert_eq!(findings(" bad ", "nothing"), "bad");
    assert_eq!(findings("bad", r#"{"verdict":"block","findings":"not a list"}"#), "bad");
    assert!(findings(&"ü".repeat(9000), "").len() <= MOST_FINDING_BYTES + 3);
}

/// A chain driven as the engine would, with a builder and links that act at random.
struct World {
    told: Vec<Prompt>,
    head: u32,
    build: Build,
    links: Vec<LinkStatus>,
    landed: Option<Edition>,
    cap: u32,
}

/// A random step.
#[derive(Clone, Copy, Debug)]
enum Chance {
    /// The running builder ends, with a new head or the same one.
    Built { changed: bool },
    /// The first link that can run does.
    Judged(u8),
    /// The engine acts, and may crash after the first action.
    Act { only_first: bool },
    /// A user sends the builder a follow-up.
    Person,
}

impl World {
    fn edition(&self) -> Edition {
        Edition::of(Some(Oid::sample(&format!("h{}", self.head))), &self.told)
    }

    fn say(&mut self, by: &str) {
        let n = u32::try_from(self.told.len()).unwrap() + 1;
        let at = Timestamp::from_millis(0);
        self.told.push(Prompt {
            n,
            text: "x".into(),
            by: by.into(),
            at,
            state: PromptState::Queued,
            attempt: None,
        });
        self.build = Build::Elsewhere;
    }

    fn act(&mut self, only_first: bool) -> bool {
        let picture = Picture { build: self.build.clone(), lands: true, links: self.links.clone() };
        let actions = decide(&picture);
        for action in actions.iter().take(if only_first { 1 } else { 9 }) {
            match action {
                Action::SendBack(_) => self.say(SPEAKER),
                Action::Restart(link) => {
                    let seen = self.links.iter_mut().find(|seen| seen.link == *link).unwrap();
                    seen.at = At::Open;
                }
                Action::Land => {
                    self.landed = Some(self.edition());
                    self.build = Build::Elsewhere;
                }
            }
        }
        !actions.is_empty()
    }

    fn step(&mut self, chance: Chance) {
        match chance {
            Chance::Act { only_first } => drop(self.act(only_first)),
            Chance::Person if self.landed.is_none() => self.say("ann"),
            Chance::Built { changed } if self.landed.is_none() && self.build == Build::Elsewhere => {
                self.head += u32::from(changed);
                self.told.iter_mut().for_each(|prompt| prompt.state = PromptState::Told);
                self.build = Build::Done(self.edition());
            }
            Chance::Judged(how) => {
                // A link runs once those before it have passed, even while the builder is running again.
                let open = self.links.iter().position(|seen| seen.at != At::Passed);
                let Some(n) = open.filter(|n| self.links[*n].at == At::Open) else { return };
                let may_go_back = rounds(&self.told) < self.cap;
                self.links[n].judged = Some(self.edition());
                self.links[n].at = match how % 4 {
                    0 | 1 => At::Passed,
                    2 if may_go_back => At::Asks,
                    _ => At::Stuck,
                };
            }
            Chance::Person | Chance::Built { .. } => {}
        }
    }
}

fn chance() -> impl Strategy<Value = Chance> {
    prop_oneof![
        3 => any::<bool>().prop_map(|changed| Chance::Built { changed }),
        6 => any::<u8>().prop_map(Chance::Judged),
        6 => any::<bool>().prop_map(|only_first| Chance::Act { only_first }),
        1 => Just(Chance::Person),
    ]
}

proptest! {
    #[test]
    fn nothing_lands_that_not_every_link_has_passed_and_every_chain_ends(
        chances in proptest::collection::vec(chance(), 0..80),
        n_links in 1usize..=3,
        cap in 0u32..4,
    ) {
        let links = Link::ALL.into_iter().take(n_links).map(|link| seen(link, At::Open, None)).collect();
        let mut world = World { told: Vec::new(), head: 1, build: Build::Elsewhere, links, landed: None, cap };
        let mut persons = 0;
        for chance in chances {
            let was = world.landed.is_some();
            world.step(chance);
            persons += u32::from(matches!(chance, Chance::Person));
            if let (false, Some(landed)) = (was, &world.landed) {
                prop_assert!(world.links.iter().all(|seen| seen.at == At::Passed && seen.judged.as_ref() == Some(landed)));
            }
            if world.landed.is_some() {
                break;
            }
        }
        let back = world.told.iter().filter(|prompt| prompt.by == SPEAKER).count();
        prop_assert!(back as u32 <= cap * (persons + 1), "{back} rounds, at most {cap} for each word of a person");
        // Without further input it comes to rest: landed, or with a link that waits for a user.
        for n in 0u8..=255 {
            world.step(Chance::Built { changed: true });
            world.step(Chance::Judged(2));
            if !world.act(false) && n > 100 {
                break;
            }
        }
        let rests = world.landed.is_some() || world.links.iter().any(|seen| seen.at == At::Stuck);
        prop_assert!(rests && !world.act(false), "{:?}", world.links);
    }
}
