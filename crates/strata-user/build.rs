//! Compiles `strata/abi/rule.h`, so that tracers and processes select tracepoints by the same code; and what
//! libstrata does with filters, for the tests.

fn main() {
    cc::Build::new()
        .files(["src/decide/event_rules.c", "src/decide/filter/runtime.c"])
        .includes(["../../abi/include", "../../probe/user/include", "../../probe/user/runtime"])
        .std("c11")
        .flag("-Wall")
        .flag("-Wextra")
        .opt_level(2)
        .compile("strata_user_c");
    for path in [
        "src/decide/event_rules.c",
        "src/decide/filter/runtime.c",
        "../../abi/include/strata/abi/rule.h",
    ] {
        println!("cargo:rerun-if-changed={path}");
    }
    for header in ["filter_test.h", "filter_bind.h", "filter_compare.h", "filter.h"] {
        println!("cargo:rerun-if-changed=../../probe/user/runtime/{header}");
    }
}
