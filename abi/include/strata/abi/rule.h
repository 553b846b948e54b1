/* SPDX-License-Identifier: MIT */
/*
 * rule.h - event rules as text, and which tracepoints they select. Processes and tracers compile this
 * same code, so that a tracepoint of a library loaded later is selected as one that was there before.
 *
 *   rules = rule { ',' rule }
 *   rule  = [ '!' ] provider ':' event [ '@' [ '=' ] level ]
 *
 * provider and event may contain '*', which stands for any bytes, none included, and '?', which stands for one
 * character: a byte and all bytes 10xxxxxx behind it; '\' takes the next byte literally. A level is a number 0..14: that severe or more; with '=', exactly that. A tracepoint is
 * selected if a rule without '!' matches and none with '!' does; where all rules have '!', everything
 * else is selected. No rule selects nothing.
 */
#ifndef STRATA_ABI_RULE_H
#define STRATA_ABI_RULE_H

#include <stddef.h>
#include <stdint.h>

struct strata_abi_rule_subject {
	const char *provider;
	size_t provider_bytes;
	const char *name;
	size_t name_bytes;
	uint32_t level;
};

/*
 * Returns whether the pattern [p, p_end) matches all of [s, s_end). crates/strata-filter's Pattern is the same. Time
 * is at most the product of the lengths: on a mismatch only the last '*' takes one byte more.
 */
static inline int strata_abi_glob(const char *p, const char *p_end, const char *s,
				  const char *s_end)
{
	const char *star = NULL, *again = NULL;

	for (;;) {
		if (p < p_end && *p == '*') {
			star = ++p;
			again = s;
			continue;
		}
		if (s == s_end) {
			if (p == p_end)
				return 1;
		} else if (p < p_end && *p == '?') {
			p++;
			for (s++; s < s_end && (*s & 0xc0) == 0x80; s++)
				;
			continue;
		} else if (p < p_end) {
			const char *literal = *p == '\\' && p + 1 < p_end ? p + 1 : p;

			if (*literal == *s) {
				p = literal + 1;
				s++;
				continue;
			}
		}
		if (!star || again == s_end)
			return 0;
		p = star;
		s = ++again;
	}
}

/* Returns the first @c in [p, end) that no '\' makes literal; @end if there is none. */
static inline const char *strata_abi_rule_find(const char *p, const char *end, char c)
{
	for (; p < end && *p != c; p++)
		if (*p == '\\' && p + 1 < end)
			p++;
	return p;
}

/* Returns 1 if one rule, without its '!', matches. A rule that is not well formed matches nothing. */
static inline int strata_abi_rule_matches(const char *p, const char *end,
					  const struct strata_abi_rule_subject *subject)
{
	const char *colon = strata_abi_rule_find(p, end, ':');
	const char *at = strata_abi_rule_find(p, end, '@');
	const char *digit = at + 1;
	uint32_t level = 0;
	int exactly = 0;

	if (colon >= at)
		return 0;
	if (at < end) {
		if (digit < end && *digit == '=') {
			exactly = 1;
			digit++;
		}
		if (digit == end || end - digit > 2)
			return 0;
		for (; digit < end; digit++) {
			if (*digit < '0' || *digit > '9')
				return 0;
			level = level * 10 + (uint32_t)(*digit - '0');
		}
		if (exactly ? subject->level != level : subject->level > level)
			return 0;
	}
	return strata_abi_glob(p, colon, subject->provider,
			       subject->provider + subject->provider_bytes) &&
	       strata_abi_glob(colon + 1, at, subject->name, subject->name + subject->name_bytes);
}

/** strata_abi_rules_select() - do the rules in [rules, rules + bytes) select @subject? 1 or 0. */
static inline int strata_abi_rules_select(const char *rules, size_t bytes,
					  const struct strata_abi_rule_subject *subject)
{
	const char *p = rules, *end = rules + bytes;
	int selected = 0, only_exclusions = 1;

	if (!bytes)
		return 0;
	for (;;) {
		const char *comma = strata_abi_rule_find(p, end, ',');

		if (p < comma && *p == '!') {
			if (strata_abi_rule_matches(p + 1, comma, subject))
				return 0;
		} else {
			only_exclusions = 0;
			selected |= strata_abi_rule_matches(p, comma, subject);
		}
		if (comma == end)
			return selected | only_exclusions;
		p = comma + 1;
	}
}

#endif /* STRATA_ABI_RULE_H */
