use super::*;

#[test]
fn the_template_reads_back_as_the_defaults() {
    let (config, diagnostics) = parse("regatta.yaml", &template());
    assert_eq!(diagnostics, []);
    assert_eq!(Config { origins: Default::default(), ..config }, Config::default());
}
