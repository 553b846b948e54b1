//! Compiles the ring library's inline functions into functions that Rust can call.

fn main() {
    let headers = ["../../abi/include", "../../ring/include"];
    cc::Build::new()
        .files(["src/shim.c", "src/pin.c", "src/producer.c"])
        .includes(headers)
        .std("c11")
        .define("_GNU_SOURCE", None)
        .flag("-Wall")
        .flag("-Wextra")
        // The sections of a producer are written for an optimizing compiler.
        .opt_level(2)
        .compile("strata_ring_shim");
    for path in ["src/shim.c", "src/shim.h", "src/pin.c", "src/producer.c", headers[0], headers[1]]
    {
        println!("cargo:rerun-if-changed={path}");
    }
}
