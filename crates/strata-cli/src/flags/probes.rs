//! Parses probes on the command line of sessions that stay, in the forms of `strata record` and of LTTng.

use anyhow::bail;
use strata_kernel::uprobe::absolute;

/// Converts LTTng's `--userspace-probe=LOCATION NAME` to the form of `--probe`.
///
/// # Errors
/// The location is not valid, or has no counterpart.
pub(super) fn of_lttng(location: &str, names: &[String]) -> anyhow::Result<String> {
    let (kind, place) = match location.split_once(':') {
        Some(("elf", place)) => ("uprobe", place),
        Some(("sdt", place)) => ("usdt", place),
        _ => ("uprobe", location),
    };
    if place.contains('\\') {
        bail!(
            "--userspace-probe={location}: what is behind a '\\' there is a part of a name, and names have neither ':' nor \
             '\\' here. Use a link to the file that has none"
        );
    }
    let wanted = if kind == "usdt" { 3 } else { 2 };
    let parts: Vec<&str> = place.split(':').collect();
    if parts.len() != wanted || parts.contains(&"") {
        bail!(
            "--userspace-probe={location}: write elf:PATH:SYMBOL or sdt:PATH:PROVIDER:NAME; or use --probe, which has \
             arguments and returned values, too: --probe 'uprobe:PATH:SYMBOL(count:u64)'"
        );
    }
    let name = match names {
        [] => String::new(),
        [name] => format!("{name}="),
        _ => bail!(
            "--userspace-probe={location}: behind it is the name of its event, and there are {}. Write one, and rules in a \
             command of their own",
            names.len()
        ),
    };
    Ok(absolute(&format!("{name}{kind}:{place}"))?)
}

/// Makes paths of probes absolute, since the session may run in another folder.
///
/// # Errors
/// A text is no probe.
pub(super) fn for_session(texts: &[String]) -> anyhow::Result<Vec<String>> {
    texts.iter().map(|text| Ok(absolute(text)?)).collect()
}

/// Converts probes to disable to the form in which they were enabled; a text that is no probe may be the name of a
/// probe's event.
pub(super) fn as_enabled(texts: &[String]) -> Vec<String> {
    texts.iter().map(|text| absolute(text).unwrap_or_else(|_| text.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_of_lttng_s_is_one_of_ours_or_refused() {
        let of = |location: &str, names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            of_lttng(location, &names).map_err(|error| error.to_string())
        };
        for (location, names, wanted) in [
            ("elf:/bin/app:f", &[][..], "uprobe:/bin/app:f"),
            ("/bin/app:f", &["slow"], "slow=uprobe:/bin/app:f"),
            ("elf:app:f", &["slow"], "slow=uprobe:app:f"),
            ("sdt:/bin/app:shop:sold", &["sold"], "sold=usdt:/bin/app:shop:sold"),
        ] {
            assert_eq!(of(location, names).unwrap(), wanted, "{location}");
        }
        let here = std::env::current_dir().unwrap();
        let wanted = format!("usdt:{}/app:shop:sold", here.display());
        assert_eq!(of("sdt:./app:shop:sold", &[]).unwrap(), wanted);
        for (location, names, said) in [
            ("elf:/bin/app", &[][..], "write elf:PATH:SYMBOL"),
            ("sdt:/bin/app:shop", &[], "write elf:PATH:SYMBOL"),
            ("uprobe:/bin/app:f", &[], "use --probe"),
            ("elf::f", &[], "write elf:PATH:SYMBOL"),
            ("elf:/a\\:b:f", &[], "Use a link"),
            ("elf:/bin/app:f", &["a", "b"], "there are 2"),
            ("elf:/bin/app:f", &["a-b"], "'a-b' is no name"),
        ] {
            let text = of(location, names).unwrap_err();
            assert!(text.contains(said), "{location}: {text}");
        }
    }

    #[test]
    fn probe_to_be_disabled_is_written_as_the_session_has_it() {
        let here = std::env::current_dir().unwrap();
        let texts = ["uprobe:./x:f(a:u8)", "slow", "usdt:c:libc:*"].map(str::to_owned);
        let first = format!("uprobe:{}/x:f(a:u8)", here.display());
        assert_eq!(as_enabled(&texts), [first.as_str(), "slow", "usdt:c:libc:*"]);
        assert!(for_session(&texts)
            .unwrap_err()
            .to_string()
            .contains("'slow' is no kind of probe"));
        assert_eq!(for_session(&texts[2..]).unwrap(), ["usdt:c:libc:*"]);
    }
}
