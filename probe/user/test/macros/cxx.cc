/* SPDX-License-Identifier: MIT */
/* cxx.cc - where only C++ can put a tracepoint. */
#include "capture.h"
#include "shared.h"

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

enum class gear : signed char {
	reverse = -1,
	first = 1
};

namespace inner
{
STRATA_ENUM(gears, strata_label(REVERSE, -1), strata_label(FIRST, gear::first));
STRATA_CLASS(pair, (const std::pair<int, long> &p, std::string name), strata_int(first, p.first),
	     strata_int(second, p.second), strata_string(name, name.c_str()));
STRATA_EVENT(cxx, paired, INFO, pair);

static void trace_pair()
{
	STRATA_TRACE_EVENT(cxx, paired, std::make_pair(1, 2L), std::string("temporary") + "!");
	STRATA_TRACE(cxx, gears, INFO, strata_enum(g, gears, gear::reverse));
}
} // namespace inner

struct machine {
	int speed = 4;
	unsigned int three : 3;
	gear in = gear::first;
	std::vector<double> loads{ 0.5, 2 };

	machine() : three(6)
	{
		STRATA_TRACE(cxx, made, INFO, strata_int(speed, speed),
			     strata_int(three, this->three), strata_int(gear, in),
			     strata_int(twice, twice()),
			     strata_sequence(loads, loads.data(), loads.size()));
	}
	~machine()
	{
		STRATA_TRACE(cxx, unmade, INFO, strata_pointer(here, this));
	}
	int twice() const
	{
		return 2 * speed;
	}
	static void nothing(int &n)
	{
		STRATA_TRACE(cxx, nothing, INFO, strata_int(n, n++));
	}
};

template <class T, int N> static void trace_template(T value)
{
	STRATA_TRACE(cxx, generic, INFO, strata_int(v, value), strata_int(n, N),
		     strata_array(both, (std::pair<T, T>(value, value), &value), 1));
}

static void members_and_constructors_reach_this()
{
	capture_switch("cxx", "made", 1);
	machine made;
	expect("cxx:made[6] speed=4 three=6 gear=1 twice=8 loads=[0.5,2]\n");
	int n = 1;
	capture_switch("cxx", "nothing", 1);
	machine::nothing(n);
	check(n == 2);
	expect("cxx:nothing[6] n=1\n");
}

static void instances_of_a_template_are_tracepoints_of_their_own_type()
{
	check(capture_switch("cxx", "generic", 1) == 3);
	trace_template<signed char, 1>(-1);
	trace_template<unsigned long, 2>(3);
	trace_template<bool, 3>(true);
	expect("cxx:generic[6] v=-1 n=1 both=[-1]\ncxx:generic[6] v=3 n=2 both=[3]\n"
	       "cxx:generic[6] v=1 n=3 both=[1]\n");
}

static void lambdas_and_nested_functions_trace()
{
	capture_switch("cxx", "lambda", 1);
	int captured = 5;
	auto plain = [&](auto more) {
		STRATA_TRACE(cxx, lambda, INFO, strata_int(s, captured + more));
	};
#if __cplusplus >= 201703L
	const auto [left, right] = std::make_pair(1, 'r');
#else
	const auto both = std::make_pair(1, 'r');
	const auto &left = both.first;
	const auto &right = both.second;
#endif

	plain(1);
	plain(2L);
	STRATA_TRACE(cxx, lambda, INFO, strata_int(s, left), strata_int(right, right));
	expect("cxx:lambda[6] s=6\ncxx:lambda[6] s=7\ncxx:lambda[6] s=1 right=114\n");
#if __cplusplus > 201703L
	STRATA_TRACE(cxx, lambda, INFO, strata_int(in, [] { return 9; }()));
	expect("cxx:lambda[6] in=9\n");
#endif
}

#if __cpp_exceptions
static int throws(bool early)
{
	const auto thrown = [&]() -> int { throw early; };

	STRATA_SPAN(cxx, outer, INFO);
	STRATA_SPAN(cxx, thrown, INFO, strata_int(n, early ? thrown() : 7));
	return thrown();
}
#endif

static void span_ends_when_an_exception_passes_it()
{
#if __cpp_exceptions
	for (const char *event : { "outer_begin", "outer_end", "thrown_begin", "thrown_end" })
		capture_switch("cxx", event, 1);
	for (bool early : { false, true }) {
		try {
			throws(early);
		} catch (bool) {
		}
		expect(early ? "cxx:outer_begin[6]\ncxx:outer_end[6]\n" :
			       "cxx:outer_begin[6]\ncxx:thrown_begin[6] n=7\ncxx:thrown_end[6]\n"
			       "cxx:outer_end[6]\n");
	}
#endif
}

template <int N> static inline void spanned_template()
{
	STRATA_SPAN(cxx, generic_span, INFO, strata_int(n, N));
	[] { STRATA_SPAN(cxx, generic_span, INFO, strata_int(n, -N)); }();
}

static void spans_of_templates_and_lambdas_are_their_own()
{
	check(capture_switch("cxx", "generic_span_begin", 1) == 4);
	check(capture_switch("cxx", "generic_span_end", 1) == 4);
	spanned_template<1>();
	spanned_template<2>();
	expect("cxx:generic_span_begin[6] n=1\ncxx:generic_span_begin[6] n=-1\n"
	       "cxx:generic_span_end[6]\ncxx:generic_span_end[6]\n"
	       "cxx:generic_span_begin[6] n=2\ncxx:generic_span_begin[6] n=-2\n"
	       "cxx:generic_span_end[6]\ncxx:generic_span_end[6]\n");
}

struct counted {
	static int alive;
	counted()
	{
		alive++;
	}
	counted(const counted &) = delete;
	~counted()
	{
		alive--;
	}
	const char *text() const
	{
		return alive ? "alive" : "gone";
	}
};
int counted::alive;

static int object_between_two_tracepoints_is_destroyed()
{
	STRATA_TRACE(cxx, between, INFO);
	counted first;
	std::string text = "a long enough text to be allocated";
	STRATA_TRACE(cxx, between, INFO, strata_string(text, text.c_str()));
	counted second;
	STRATA_TRACE(cxx, between, INFO, strata_string(text, second.text()),
		     strata_int(n, counted::alive));
	return counted::alive;
}

#ifdef __cpp_exceptions
static int thrower(int n)
{
	if (n)
		throw n;
	return n;
}

static void exception_of_an_expression_passes_and_nothing_is_recorded()
{
	int caught = 0;

	capture_switch("cxx", "throwing", 1);
	for (int n = 0; n < 2; n++) {
		try {
			STRATA_TRACE(cxx, throwing, INFO, strata_string(before, "s"),
				     strata_int(n, thrower(n)));
		} catch (int thrown) {
			caught += thrown;
		}
	}
	check(caught == 1 && capture_staged == capture_unstaged);
	expect("cxx:throwing[6] before=\"s\" n=0\n");
}
#endif

int main()
{
	members_and_constructors_reach_this();
	instances_of_a_template_are_tracepoints_of_their_own_type();
	lambdas_and_nested_functions_trace();
	span_ends_when_an_exception_passes_it();
	spans_of_templates_and_lambdas_are_their_own();

	capture_switch("cxx", "between", 1);
	check(object_between_two_tracepoints_is_destroyed() == 2 && !counted::alive);
	expect("cxx:between[6]\ncxx:between[6] text=\"a long enough text to be allocated\"\n"
	       "cxx:between[6] text=\"alive\" n=2\n");

	capture_switch("cxx", "paired", 1);
	capture_switch("cxx", "gears", 1);
	inner::trace_pair();
	expect("cxx:paired[6] first=1 second=2 name=\"temporary!\"\ncxx:gears[6] g=gears:REVERSE(-1)\n");

	/* An inline function of two units: the linker keeps one function, with one site and tracepoint. */
	capture_switch("app", "in_header", 1);
	in_header(1);
	other_unit(2);
	expect("app:in_header[6] n=1\napp:in_header[6] n=2\n");
#ifdef __cpp_exceptions
	exception_of_an_expression_passes_and_nothing_is_recorded();
#endif
	strata_tracelog(INFO, "%s", std::string("text").c_str());
	std::puts("cxx: passed");
	return 0;
}
