//! Compiles `strata/abi/rule.h`, so that tracers and processes select tracepoints by the same code.

fn main() {
    let headers = "../../abi/include";
    cc::Build::new()
        .file("src/rule.c")
        .include(headers)
        .std("c11")
        .flag("-Wall")
        .flag("-Wextra")
        .opt_level(2)
        .compile("strata_user_rule");
    for path in ["src/rule.c", "../../abi/include/strata/abi/rule.h"] {
        println!("cargo:rerun-if-changed={path}");
    }
}
