/* SPDX-License-Identifier: MIT */
/* event_rules.c - the functions of strata/abi/rule.h for callers that are not C; see event_rules.rs. */
#include <strata/abi/rule.h>

int strata_user_rules_select(const char *rules, size_t bytes,
			     const struct strata_abi_rule_subject *subject);
int strata_user_rule_matches(const char *rule, size_t bytes,
			     const struct strata_abi_rule_subject *subject);

int strata_user_rules_select(const char *rules, size_t bytes,
			     const struct strata_abi_rule_subject *subject)
{
	return strata_abi_rules_select(rules, bytes, subject);
}

int strata_user_rule_matches(const char *rule, size_t bytes,
			     const struct strata_abi_rule_subject *subject)
{
	return strata_abi_rule_matches(rule, rule + bytes, subject);
}
