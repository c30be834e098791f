use proptest::prelude::*;

use super::*;

fn account(usd: Option<f64>, tokens: Option<u64>, spent: (f64, u64)) -> Account {
    Account::new(Scope::Run, Ceiling { usd, tokens }, Spent { usd: spent.0, tokens: spent.1 })
}

#[test]
fn a_sum_is_told_then_starts_nothing_then_stops() {
    let shares = Shares::default();
    for (usd, tokens, spent, expected) in [
        (None, None, (1e9, u64::MAX), BudgetStanding::Go),
        (Some(1.0), None, (0.79, 0), BudgetStanding::Go),
        (Some(1.0), None, (0.8, 0), BudgetStanding::Warn),
        (Some(1.0), None, (0.1 + 0.2 + 0.7, 0), BudgetStanding::Hold),
        (Some(1.0), None, (1.09, 0), BudgetStanding::Hold),
        (Some(1.0), None, (1.1, 0), BudgetStanding::Stop),
        (None, Some(1000), (99.0, 999), BudgetStanding::Warn),
        (None, Some(1000), (99.0, 1000), BudgetStanding::Hold),
        (Some(10.0), Some(1000), (9.0, 1100), BudgetStanding::Stop),
        (Some(10.0), Some(1000), (12.0, 3), BudgetStanding::Stop),
        // With a ceiling of zero, nothing starts.
        (Some(0.0), None, (0.0, 0), BudgetStanding::Stop),
    ] {
        let account = account(usd, tokens, spent);
        assert_eq!(account.standing(&shares), expected, "{account:?}");
    }
}

#[test]
fn a_budget_that_no_night_lifts_decides_over_one_that_does() {
    let day = Account {
        scope: Scope::Day { until: Timestamp::from_millis(5) },
        ..account(Some(1.0), None, (1.0, 0))
    };
    let run = account(Some(2.0), None, (2.0, 0));
    for accounts in [[&day, &run], [&run, &day]] {
        let (standing, decisive) = decisive(accounts, &Shares::default()).unwrap();
        assert_eq!((standing, &decisive.scope), (BudgetStanding::Hold, &Scope::Run));
    }
    assert_eq!(day.until(), Some(Timestamp::from_millis(5)));
    assert!(decisive([], &Shares::default()).is_none());
}

#[test]
fn figures_say_what_was_spent_of_what() {
    assert_eq!(account(Some(5.0), None, (4.2, 0)).figures(), "$4.20 of $5.00");
    assert_eq!(
        account(Some(0.05), Some(1000), (0.012, 900)).figures(),
        "$0.0120 of $0.0500, 900 of 1000 tokens"
    );
    let price = Price { input: 3.0, output: 15.0, cached_input: None };
    assert_eq!(price.of(1_000_000, 900_000, 100_000), 4.5);
    let price = Price { cached_input: Some(0.3), ..price };
    assert!((price.of(1_000_000, 900_000, 100_000) - 2.07).abs() < EPSILON);
}

#[test]
fn a_sum_of_nothing_has_no_sign() {
    let nothing: f64 = [0.0; 0].iter().sum();
    assert_eq!([dollars(nothing), dollars(-0.0), dollars(-0.00001)], ["$0.00"; 3]);
    assert_eq!(dollars(-1.5), "$-1.50");
}

#[test]
fn what_no_price_could_come_to_is_not_plausible() {
    assert!([(0.0, 0), (99.0, 0), (900.0, 1_000_000)].iter().all(|(usd, n)| is_plausible_usd(*usd, *n)));
    for (usd, tokens) in
        [(-0.01, 0), (f64::NAN, 0), (f64::INFINITY, 0), (1e308, u64::MAX), (101.0, 10), (1001.0, u64::MAX)]
    {
        assert!(!is_plausible_usd(usd, tokens), "{usd} {tokens}");
    }
}

#[test]
fn a_budget_is_raised_where_it_is_named() {
    let scope = Scope::Task(TaskId::parse("a").unwrap());
    let usd = |usd| Ceiling { usd: Some(usd), tokens: None };
    let spent = Spent { usd: 2.0, tokens: 5 };
    let by_config = Account::new(scope.clone(), usd(1.0), spent);
    assert!(by_config.how_to_raise().contains("regatta.yaml"));
    let by_plan = by_config.clone().ordered(usd(1.0), "plan.md:7");
    assert!(by_plan.how_to_raise().contains("in plan.md:7"), "{}", by_plan.how_to_raise());
    // The task sets a token limit; the dollar limit of the settings is the one that is spent.
    let tokens = Ceiling { usd: None, tokens: Some(1000) };
    let both = Account::new(scope, Ceiling { usd: Some(1.0), ..tokens }, spent).ordered(tokens, "plan.md:7");
    assert!(both.how_to_raise().contains("regatta.yaml"));
}

proptest! {
    #[test]
    fn more_spent_never_means_more_freedom(
        limit in 0.0f64..100.0,
        tokens in 0u64..10_000,
        usd in 0.0f64..200.0,
        used in 0u64..20_000,
        more in (0.0f64..50.0, 0u64..5_000),
        warn_at in 0.0f64..1.0,
        stop_at in 1.0f64..3.0,
    ) {
        let shares = Shares { warn_at, stop_at };
        let before = account(Some(limit), Some(tokens), (usd, used));
        let after = Account { spent: before.spent + Spent { usd: more.0, tokens: more.1 }, ..before.clone() };
        prop_assert!(before.standing(&shares) <= after.standing(&shares));
        // Nothing starts as soon as the ceiling is reached.
        let reached = usd + 1e-6 >= limit || used >= tokens;
        if reached && (usd - limit).abs() > 1e-3 {
            prop_assert!(before.standing(&shares) >= BudgetStanding::Hold);
        }
        if usd < limit - 1e-3 && used < tokens {
            prop_assert!(before.standing(&shares) < BudgetStanding::Hold);
        }
    }

    #[test]
    fn the_worst_of_many_decides(spent in proptest::collection::vec(0.0f64..3.0, 1..6)) {
        let accounts: Vec<Account> = spent.iter().map(|usd| account(Some(1.0), None, (*usd, 0))).collect();
        let shares = Shares::default();
        let (standing, _) = decisive(&accounts, &shares).unwrap();
        prop_assert_eq!(Some(standing), accounts.iter().map(|account| account.standing(&shares)).max());
    }
}
