/* SPDX-License-Identifier: MIT */
/* strata_jni.c - the functions of libstrata for Java before 22, which has no java.lang.foreign. */
#define _GNU_SOURCE
#include <errno.h>
#include <jni.h>

/* Library.java prints what STRATA_VERBOSE asks for. */
#define STRATA_LOADER_SILENT
#include "../../../../loader/strata_loader.h"

/* Words of a record: two for each of 64 fields. */
#define WORDS_MAX 128

static struct strata_loader loader;
static const struct strata_loader *strata;

#define NATIVE(type, name) JNIEXPORT type JNICALL Java_strata_events_Native_##name
#define ADDRESS(number)	   ((void *)(uintptr_t)(number))

NATIVE(jstring, open)(JNIEnv *env, jclass class_)
{
	char why[512] = "";

	(void)class_;
	strata = strata_loader_open(&loader, why, sizeof(why));
	return strata ? NULL : (*env)->NewStringUTF(env, why);
}

NATIVE(jlong, address)(JNIEnv *env, jclass class_, jobject buffer)
{
	(void)class_;
	return (jlong)(uintptr_t)(*env)->GetDirectBufferAddress(env, buffer);
}

NATIVE(jobject, view)(JNIEnv *env, jclass class_, jlong address, jint bytes)
{
	(void)class_;
	return (*env)->NewDirectByteBuffer(env, ADDRESS(address), bytes);
}

NATIVE(jint, registerProvider)
(JNIEnv *env, jclass class_, jlong name, jlong out, jlong why, jlong why_bytes)
{
	(void)env;
	(void)class_;
	return strata->provider_register(ADDRESS(name), ADDRESS(out), ADDRESS(why),
					 (size_t)why_bytes);
}

NATIVE(jint, registerEvent)
(JNIEnv *env, jclass class_, jlong provider, jlong description, jlong out, jlong why,
 jlong why_bytes)
{
	(void)env;
	(void)class_;
	return strata->event_register(ADDRESS(provider), ADDRESS(description), ADDRESS(out),
				      ADDRESS(why), (size_t)why_bytes);
}

NATIVE(jint, registerSpan)
(JNIEnv *env, jclass class_, jlong provider, jlong description, jint flags, jlong out, jlong why,
 jlong why_bytes)
{
	(void)env;
	(void)class_;
	return strata->span_register(ADDRESS(provider), ADDRESS(description), (uint32_t)flags,
				     ADDRESS(out), ADDRESS(why), (size_t)why_bytes);
}

NATIVE(jlong, spanEnabled)(JNIEnv *env, jclass class_, jlong span)
{
	(void)env;
	(void)class_;
	return (jlong)(uintptr_t)strata->span_enabled(ADDRESS(span));
}

/* Copies the words of a record. Returns how many they are; 0 for a number that no record has. */
static uint32_t words_of(JNIEnv *env, jlongArray array, jint nr, union strata_value *words)
{
	if (nr <= 0 || nr > WORDS_MAX || (*env)->GetArrayLength(env, array) < nr)
		return 0;
	(*env)->GetLongArrayRegion(env, array, 0, nr, (jlong *)words);
	return (uint32_t)nr;
}

NATIVE(jint, record)(JNIEnv *env, jclass class_, jlong event, jlongArray array, jint nr)
{
	union strata_value words[WORDS_MAX];

	(void)class_;
	return strata->event_record(ADDRESS(event), words, words_of(env, array, nr, words));
}

NATIVE(jint, recordThree)
(JNIEnv *env, jclass class_, jlong event, jint nr, jlong one, jlong two, jlong three)
{
	const union strata_value words[3] = { { .i = one }, { .i = two }, { .i = three } };

	(void)env;
	(void)class_;
	return nr < 0 || nr > 3 ? -EINVAL :
				  strata->event_record(ADDRESS(event), words, (uint32_t)nr);
}

NATIVE(jint, beginKey)
(JNIEnv *env, jclass class_, jlong span, jlong key, jlongArray array, jint nr)
{
	union strata_value words[WORDS_MAX];

	(void)class_;
	return strata->span_begin_key(ADDRESS(span), (uint64_t)key, words,
				      words_of(env, array, nr, words));
}

NATIVE(jint, endKey)(JNIEnv *env, jclass class_, jlong span, jlong key)
{
	(void)env;
	(void)class_;
	return strata->span_end_key(ADDRESS(span), (uint64_t)key);
}

NATIVE(jlong, newKey)(JNIEnv *env, jclass class_)
{
	(void)env;
	(void)class_;
	return (jlong)strata->span_new_key();
}
