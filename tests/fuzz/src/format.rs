//! The kernel's descriptions of its events, and operands of USDT probes.

use strata_kernel::format::EventFormat;
use strata_kernel::usdt::operand::{OperandSymbols, UsdtOperand};
use strata_model::EventClass;

/// What can be recorded can be described in a trace.
pub fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    operand(&text);
    let enumerator = |name: &str| Some(name.len() as i128);
    match EventFormat::parse_with(&text, &enumerator) {
        Ok(format) => {
            for field in &format.fields {
                let _ = format.field(&field.name);
            }
            match format.layout(|field| field.name.clone()) {
                Ok(layout) => described(layout.fields),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn described(fields: Vec<strata_model::Field>) {
    let class = EventClass {
        id: 0,
        provider: String::new(),
        name: "e".into(),
        loglevel: None,
        emf_uri: None,
        context: Vec::new(),
        fields,
    };
    // A kernel's own descriptions are valid; of others it must be said what is not.
    if let Err(error) = class.validate() {
        assert!(!error.to_string().is_empty());
    }
}

fn operand(text: &str) {
    let Ok(operand) = UsdtOperand::parse(text) else { return };
    for is_fixed in [false, true] {
        let find = |name: &str| (name.len() % 2 == 0).then_some(u64::MAX - name.len() as u64);
        let _ = operand.part(&OperandSymbols { find: &find, is_fixed, at: 0x1000 });
    }
}
