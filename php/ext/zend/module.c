/* The module as PHP sees it: its functions, the class `Tidemark\Cache`, and when Rust is called.
 * `tidemark.stub.php` says what each of them means. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "tidemark.h"

#include <time.h>
#include "ext/standard/info.h"
#include "zend_exceptions.h"

/* Raised when the meaning of a `tidemark_…` function changes: the drop-in compares it. */
#define TM_INTERFACE 2
#define TM_BYTES_MIN (8LL << 20)
#define TM_BYTES_MAX (64LL << 30)
#define TM_FAULT_BYTES 512
#define TM_STATS 6
#define TM_COUNTS 4

enum tm_when { TM_ALWAYS, TM_ABSENT, TM_PRESENT };
/* What a call of Rust says, as `said` of border.rs; a fault is reported by `tm_fault`. */
enum tm_said { TM_FAULT = -4, TM_UNFIT = -3, TM_BUSY = -2, TM_OVERTAKEN = -1, TM_NO = 0, TM_YES = 1 };

static zend_class_entry *tm_cache_class;
static zend_object_handlers tm_cache_handlers;

typedef struct {
	int table;
	zend_object object;
} tm_cache;

static tm_cache *tm_cache_of(zend_object *object)
{
	return (tm_cache *)((char *)object - XtOffsetOf(tm_cache, object));
}

static zend_object *tm_cache_create(zend_class_entry *class)
{
	tm_cache *cache = zend_object_alloc(sizeof(tm_cache), class);
	cache->table = -1;
	zend_object_std_init(&cache->object, class);
	object_properties_init(&cache->object, class);
	cache->object.handlers = &tm_cache_handlers;
	return &cache->object;
}

/* A table of this thread; nothing is opened yet. -1 where PHP may not go there. */
/* A number that no table has where it is none of an int. */
#define TM_NUMBER(table) ((table) == (int)(table) ? (int)(table) : -1)

static int tm_named(zend_string *file, zend_long bytes)
{
	/* What is preloaded runs in the master, whose children must not share a map. */
	if ((CG(compiler_options) & ZEND_COMPILE_PRELOAD) || CHECK_NULL_PATH(ZSTR_VAL(file), ZSTR_LEN(file))) {
		return -1;
	}
	if (ZSTR_VAL(file)[0] != '/' || php_check_open_basedir_ex(ZSTR_VAL(file), 0)) {
		return -1;
	}
	return tm_table(ZSTR_VAL(file), ZSTR_LEN(file), (uint64_t)bytes);
}

/* Finds a value and gives it to `to`. Where its class throws, the exception stays. */
static int tm_get(int table, zend_string *group, zend_string *key, zval *to, int64_t *expires)
{
	tm_build build;
	tm_build_begin(&build);
	int said = tm_fetch(table, ZSTR_VAL(group), ZSTR_LEN(group), ZSTR_VAL(key), ZSTR_LEN(key),
		&build, expires);
	if (said != TM_YES) {
		tm_build_drop(&build);
		return said;
	}
	return tm_build_finish(&build, to) ? TM_YES : TM_NO;
}

/* Stores a value. One that cannot be stored leaves the older one. */
static int tm_put(int table, zend_string *group, zend_string *key, zval *value, int when,
	int64_t expires)
{
	int said = TM_UNFIT;
	void *encoding = tm_encoding_begin();
	if (encoding && tm_encode(encoding, value)) {
		said = tm_store(table, ZSTR_VAL(group), ZSTR_LEN(group), ZSTR_VAL(key), ZSTR_LEN(key),
			encoding, when, expires);
	}
	if (encoding) {
		tm_encoding_end(encoding);
	}
	return said;
}

/* As `tm_put`, and an older value does not stay. */
static int tm_put_new(int table, zend_string *group, zend_string *key, zval *value, int when,
	int64_t expires)
{
	int said = tm_put(table, group, key, value, when, expires);
	if (said < TM_OVERTAKEN && when != TM_ABSENT) {
		tm_delete(table, ZSTR_VAL(group), ZSTR_LEN(group), ZSTR_VAL(key), ZSTR_LEN(key));
	}
	return said;
}

/* {{{ functions of the drop-in */
ZEND_BEGIN_ARG_INFO_EX(tm_arguments_none, 0, 0, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_INFO_EX(tm_arguments_open, 0, 0, 2)
	ZEND_ARG_TYPE_INFO(0, file, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, bytes, IS_LONG, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_INFO_EX(tm_arguments_table, 0, 0, 1)
	ZEND_ARG_TYPE_INFO(0, table, IS_LONG, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_INFO_EX(tm_arguments_get, 0, 0, 3)
	ZEND_ARG_TYPE_INFO(0, table, IS_LONG, 0)
	ZEND_ARG_TYPE_INFO(0, group, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_INFO_EX(tm_arguments_put, 0, 0, 6)
	ZEND_ARG_TYPE_INFO(0, table, IS_LONG, 0)
	ZEND_ARG_TYPE_INFO(0, group, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
	ZEND_ARG_INFO(0, value)
	ZEND_ARG_TYPE_INFO(0, expires, IS_LONG, 0)
	ZEND_ARG_TYPE_INFO(0, when, IS_LONG, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_INFO_EX(tm_arguments_delete, 0, 0, 3)
	ZEND_ARG_TYPE_INFO(0, table, IS_LONG, 0)
	ZEND_ARG_TYPE_INFO(0, group, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_INFO_EX(tm_arguments_raise, 0, 0, 4)
	ZEND_ARG_TYPE_INFO(0, table, IS_LONG, 0)
	ZEND_ARG_TYPE_INFO(0, group, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, offset, IS_LONG, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_INFO_EX(tm_arguments_flush, 0, 0, 1)
	ZEND_ARG_TYPE_INFO(0, table, IS_LONG, 0)
	ZEND_ARG_TYPE_INFO(0, group, IS_STRING, 1)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_INFO_EX(tm_arguments_recall, 0, 0, 1)
	ZEND_ARG_TYPE_INFO(0, name, IS_STRING, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_INFO_EX(tm_arguments_remember, 0, 0, 2)
	ZEND_ARG_TYPE_INFO(0, name, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, text, IS_STRING, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_INFO_EX(tm_arguments_forget, 0, 0, 3)
	ZEND_ARG_TYPE_INFO(0, table, IS_LONG, 0)
	ZEND_ARG_TYPE_INFO(0, hash, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, is_group, _IS_BOOL, 0)
ZEND_END_ARG_INFO()

static void tm_return_known(zval *return_value, int said)
{
	if (said == TM_FAULT) {
		ZVAL_NULL(return_value);
	} else {
		ZVAL_BOOL(return_value, said == TM_YES);
	}
}

PHP_FUNCTION(tidemark_interface)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_LONG(TM_INTERFACE);
}

PHP_FUNCTION(tidemark_open)
{
	zend_string *file;
	zend_long bytes;
	ZEND_PARSE_PARAMETERS_START(2, 2)
		Z_PARAM_STR(file)
		Z_PARAM_LONG(bytes)
	ZEND_PARSE_PARAMETERS_END();
	if (bytes < TM_BYTES_MIN || bytes > TM_BYTES_MAX) {
		zend_argument_value_error(2, "must be from 8 MiB to 64 GiB");
		RETURN_THROWS();
	}
	RETURN_LONG(tm_named(file, bytes));
}

PHP_FUNCTION(tidemark_fault)
{
	zend_long table;
	char text[TM_FAULT_BYTES];
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_LONG(table)
	ZEND_PARSE_PARAMETERS_END();
	size_t length = tm_fault(TM_NUMBER(table), text, sizeof(text));
	RETURN_STRINGL(text, length);
}

PHP_FUNCTION(tidemark_get)
{
	zend_long table;
	zend_string *group, *key;
	zval value;
	int64_t until = 0;
	ZEND_PARSE_PARAMETERS_START(3, 3)
		Z_PARAM_LONG(table)
		Z_PARAM_STR(group)
		Z_PARAM_STR(key)
	ZEND_PARSE_PARAMETERS_END();
	int said = tm_get(TM_NUMBER(table), group, key, &value, &until);
	if (EG(exception)) {
		RETURN_THROWS();
	}
	if (said != TM_YES) {
		tm_return_known(return_value, said);
		return;
	}
	/* An array costs less than two parameters that are references. */
	array_init_size(return_value, 2);
	zend_hash_real_init_packed(Z_ARRVAL_P(return_value));
	ZEND_HASH_FILL_PACKED(Z_ARRVAL_P(return_value)) {
		zval expires;
		ZVAL_LONG(&expires, (zend_long)until);
		ZEND_HASH_FILL_ADD(&value);
		ZEND_HASH_FILL_ADD(&expires);
	} ZEND_HASH_FILL_END();
}

PHP_FUNCTION(tidemark_put)
{
	zend_long table, expires, when;
	zend_string *group, *key;
	zval *value;
	ZEND_PARSE_PARAMETERS_START(6, 6)
		Z_PARAM_LONG(table)
		Z_PARAM_STR(group)
		Z_PARAM_STR(key)
		Z_PARAM_ZVAL(value)
		Z_PARAM_LONG(expires)
		Z_PARAM_LONG(when)
	ZEND_PARSE_PARAMETERS_END();
	if (when < TM_ALWAYS || when > TM_PRESENT) {
		zend_argument_value_error(6, "must be 0, 1 or 2");
		RETURN_THROWS();
	}
	int said = tm_put(TM_NUMBER(table), group, key, value, (int)when, expires);
	if (EG(exception)) {
		RETURN_THROWS();
	}
	if (said == TM_FAULT) {
		RETURN_NULL();
	}
	if (said == TM_UNFIT) {
		RETURN_FALSE;
	}
	RETURN_LONG(said);
}

PHP_FUNCTION(tidemark_delete)
{
	zend_long table;
	zend_string *group, *key;
	ZEND_PARSE_PARAMETERS_START(3, 3)
		Z_PARAM_LONG(table)
		Z_PARAM_STR(group)
		Z_PARAM_STR(key)
	ZEND_PARSE_PARAMETERS_END();
	tm_return_known(return_value, tm_delete(TM_NUMBER(table), ZSTR_VAL(group), ZSTR_LEN(group),
		ZSTR_VAL(key), ZSTR_LEN(key)));
}

PHP_FUNCTION(tidemark_raise)
{
	zend_long table, offset;
	zend_string *group, *key;
	int64_t value = 0, expires = 0;
	ZEND_PARSE_PARAMETERS_START(4, 4)
		Z_PARAM_LONG(table)
		Z_PARAM_STR(group)
		Z_PARAM_STR(key)
		Z_PARAM_LONG(offset)
	ZEND_PARSE_PARAMETERS_END();
	int said = tm_raise(TM_NUMBER(table), ZSTR_VAL(group), ZSTR_LEN(group), ZSTR_VAL(key),
		ZSTR_LEN(key), offset, &value, &expires);
	if (said != TM_YES) {
		tm_return_known(return_value, said);
		return;
	}
	array_init_size(return_value, 2);
	add_next_index_long(return_value, value);
	add_next_index_long(return_value, expires);
}

PHP_FUNCTION(tidemark_flush)
{
	zend_long table;
	zend_string *group = NULL;
	ZEND_PARSE_PARAMETERS_START(1, 2)
		Z_PARAM_LONG(table)
		Z_PARAM_OPTIONAL
		Z_PARAM_STR_OR_NULL(group)
	ZEND_PARSE_PARAMETERS_END();
	int said = group ? tm_flush(TM_NUMBER(table), ZSTR_VAL(group), ZSTR_LEN(group))
		: tm_flush(TM_NUMBER(table), NULL, 0);
	tm_return_known(return_value, said);
}

PHP_FUNCTION(tidemark_forget)
{
	zend_long table;
	zend_string *hash;
	bool is_group;
	uint64_t number = 0;
	ZEND_PARSE_PARAMETERS_START(3, 3)
		Z_PARAM_LONG(table)
		Z_PARAM_STR(hash)
		Z_PARAM_BOOL(is_group)
	ZEND_PARSE_PARAMETERS_END();
	if (ZSTR_LEN(hash) != sizeof(number)) {
		zend_argument_value_error(2, "must have 8 bytes");
		RETURN_THROWS();
	}
	for (size_t at = 0; at < sizeof(number); ++at) {
		number = number << 8 | (unsigned char)ZSTR_VAL(hash)[at];
	}
	tm_return_known(return_value, tm_forget(TM_NUMBER(table), number, is_group));
}

PHP_FUNCTION(tidemark_end)
{
	zend_long table;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_LONG(table)
	ZEND_PARSE_PARAMETERS_END();
	tm_end(TM_NUMBER(table));
}

static void tm_return_numbers(zval *return_value, const char *const *names, const uint64_t *numbers,
	uint32_t count)
{
	array_init_size(return_value, count);
	for (uint32_t at = 0; at < count; ++at) {
		add_assoc_long(return_value, names[at], (zend_long)numbers[at]);
	}
}

PHP_FUNCTION(tidemark_counts)
{
	static const char *const names[TM_COUNTS] = { "entries", "bytes", "damaged", "file" };
	uint64_t numbers[TM_COUNTS];
	zend_long table;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_LONG(table)
	ZEND_PARSE_PARAMETERS_END();
	if (tm_counts(TM_NUMBER(table), numbers) == TM_YES) {
		tm_return_numbers(return_value, names, numbers, TM_COUNTS);
	}
}

PHP_FUNCTION(tidemark_sync)
{
	zend_long table;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_LONG(table)
	ZEND_PARSE_PARAMETERS_END();
	tm_return_known(return_value, tm_sync(TM_NUMBER(table)));
}

static void tm_return_stats(zval *return_value, int table)
{
	static const char *const names[TM_STATS] = { "hits", "misses", "stored", "refused", "faults",
		"bytes" };
	uint64_t numbers[TM_STATS] = { 0 };
	tm_stats(table, numbers);
	tm_return_numbers(return_value, names, numbers, TM_STATS);
}

PHP_FUNCTION(tidemark_stats)
{
	zend_long table;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_LONG(table)
	ZEND_PARSE_PARAMETERS_END();
	tm_return_stats(return_value, TM_NUMBER(table));
}

/* One thread may serve programs that must not reach each other's files, and which differ in this
 * setting alone: none of them tells another one where its files are. */
static zend_string *tm_name_within(zend_string *name)
{
	const char *within = PG(open_basedir) ? PG(open_basedir) : "";
	return zend_string_concat3(within, strlen(within), "\0", 1, ZSTR_VAL(name), ZSTR_LEN(name));
}

PHP_FUNCTION(tidemark_recall)
{
	zend_string *name;
	size_t length = 0;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_STR(name)
	ZEND_PARSE_PARAMETERS_END();
	zend_string *within = tm_name_within(name);
	const char *text = tm_recall(ZSTR_VAL(within), ZSTR_LEN(within), &length);
	zend_string_release(within);
	if (text) {
		RETURN_STRINGL(text, length);
	}
}

PHP_FUNCTION(tidemark_remember)
{
	zend_string *name, *text;
	ZEND_PARSE_PARAMETERS_START(2, 2)
		Z_PARAM_STR(name)
		Z_PARAM_STR(text)
	ZEND_PARSE_PARAMETERS_END();
	zend_string *within = tm_name_within(name);
	tm_remember(ZSTR_VAL(within), ZSTR_LEN(within), ZSTR_VAL(text), ZSTR_LEN(text));
	zend_string_release(within);
}

static const zend_function_entry tm_functions[] = {
	ZEND_NAMED_FE(tidemark_interface, ZEND_FN(tidemark_interface), tm_arguments_none)
	ZEND_NAMED_FE(tidemark_open, ZEND_FN(tidemark_open), tm_arguments_open)
	ZEND_NAMED_FE(tidemark_fault, ZEND_FN(tidemark_fault), tm_arguments_table)
	ZEND_NAMED_FE(tidemark_get, ZEND_FN(tidemark_get), tm_arguments_get)
	ZEND_NAMED_FE(tidemark_put, ZEND_FN(tidemark_put), tm_arguments_put)
	ZEND_NAMED_FE(tidemark_delete, ZEND_FN(tidemark_delete), tm_arguments_delete)
	ZEND_NAMED_FE(tidemark_raise, ZEND_FN(tidemark_raise), tm_arguments_raise)
	ZEND_NAMED_FE(tidemark_flush, ZEND_FN(tidemark_flush), tm_arguments_flush)
	ZEND_NAMED_FE(tidemark_forget, ZEND_FN(tidemark_forget), tm_arguments_forget)
	ZEND_NAMED_FE(tidemark_end, ZEND_FN(tidemark_end), tm_arguments_table)
	ZEND_NAMED_FE(tidemark_recall, ZEND_FN(tidemark_recall), tm_arguments_recall)
	ZEND_NAMED_FE(tidemark_remember, ZEND_FN(tidemark_remember), tm_arguments_remember)
	ZEND_NAMED_FE(tidemark_counts, ZEND_FN(tidemark_counts), tm_arguments_table)
	ZEND_NAMED_FE(tidemark_sync, ZEND_FN(tidemark_sync), tm_arguments_table)
	ZEND_NAMED_FE(tidemark_stats, ZEND_FN(tidemark_stats), tm_arguments_table)
	ZEND_FE_END
};
/* }}} */

/* {{{ Tidemark\Cache */
ZEND_BEGIN_ARG_INFO_EX(tm_cache_construct, 0, 0, 1)
	ZEND_ARG_TYPE_INFO(0, file, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, bytes, IS_LONG, 0, "268435456")
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(tm_cache_get, 0, 1, IS_MIXED, 0)
	ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, default, IS_MIXED, 0, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, group, IS_STRING, 0, "\"\"")
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(tm_cache_put, 0, 2, _IS_BOOL, 0)
	ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO(0, value, IS_MIXED, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, ttl, IS_LONG, 0, "0")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, group, IS_STRING, 0, "\"\"")
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(tm_cache_delete, 0, 1, _IS_BOOL, 1)
	ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, group, IS_STRING, 0, "\"\"")
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(tm_cache_raise, 0, 1, MAY_BE_LONG | MAY_BE_FALSE)
	ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, offset, IS_LONG, 0, "1")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, group, IS_STRING, 0, "\"\"")
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(tm_cache_get_multiple, 0, 1, IS_ARRAY, 0)
	ZEND_ARG_TYPE_INFO(0, keys, IS_ARRAY, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, default, IS_MIXED, 0, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, group, IS_STRING, 0, "\"\"")
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(tm_cache_set_multiple, 0, 1, IS_ARRAY, 0)
	ZEND_ARG_TYPE_INFO(0, values, IS_ARRAY, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, ttl, IS_LONG, 0, "0")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, group, IS_STRING, 0, "\"\"")
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(tm_cache_delete_multiple, 0, 1, IS_ARRAY, 0)
	ZEND_ARG_TYPE_INFO(0, keys, IS_ARRAY, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, group, IS_STRING, 0, "\"\"")
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(tm_cache_bool, 0, 0, _IS_BOOL, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(tm_cache_group, 0, 1, _IS_BOOL, 0)
	ZEND_ARG_TYPE_INFO(0, group, IS_STRING, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(tm_cache_array, 0, 0, IS_ARRAY, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(tm_cache_text, 0, 0, IS_STRING, 0)
ZEND_END_ARG_INFO()

#define TM_TABLE (tm_cache_of(Z_OBJ_P(ZEND_THIS))->table)

/* Seconds from now, as the time at which they are over; 0 is never. */
static int64_t tm_expires(zend_long ttl)
{
	struct timespec clock;
	clock_gettime(CLOCK_REALTIME, &clock);
	/* A second that has begun would be missing from the lifetime. */
	int64_t now = (int64_t)clock.tv_sec + (clock.tv_nsec > 0);
	return ttl <= 0 || ttl > INT64_MAX - now ? 0 : now + ttl;
}

ZEND_METHOD(Tidemark_Cache, __construct)
{
	zend_string *file;
	zend_long bytes = 256LL << 20;
	ZEND_PARSE_PARAMETERS_START(1, 2)
		Z_PARAM_STR(file)
		Z_PARAM_OPTIONAL
		Z_PARAM_LONG(bytes)
	ZEND_PARSE_PARAMETERS_END();
	if (bytes < TM_BYTES_MIN || bytes > TM_BYTES_MAX) {
		zend_argument_value_error(2, "must be from 8 MiB to 64 GiB");
		RETURN_THROWS();
	}
	int table = tm_named(file, bytes);
	if (table < 0) {
		zend_argument_value_error(1, "must be an absolute path within open_basedir, not used while "
			"preloading, and one of at most 16 files of a request");
		RETURN_THROWS();
	}
	tm_cache_of(Z_OBJ_P(ZEND_THIS))->table = table;
}

static void tm_get_or(int table, zend_string *group, zend_string *key, zval *given, zval *to)
{
	int64_t expires;
	if (tm_get(table, group, key, to, &expires) == TM_YES || EG(exception)) {
		return;
	}
	if (given) {
		ZVAL_COPY_DEREF(to, given);
	} else {
		ZVAL_NULL(to);
	}
}

ZEND_METHOD(Tidemark_Cache, get)
{
	zend_string *key, *group = ZSTR_EMPTY_ALLOC();
	zval *given = NULL;
	ZEND_PARSE_PARAMETERS_START(1, 3)
		Z_PARAM_STR(key)
		Z_PARAM_OPTIONAL
		Z_PARAM_ZVAL(given)
		Z_PARAM_STR(group)
	ZEND_PARSE_PARAMETERS_END();
	tm_get_or(TM_TABLE, group, key, given, return_value);
}

static void tm_put_by(INTERNAL_FUNCTION_PARAMETERS, int when)
{
	zend_string *key, *group = ZSTR_EMPTY_ALLOC();
	zval *value;
	zend_long ttl = 0;
	ZEND_PARSE_PARAMETERS_START(2, 4)
		Z_PARAM_STR(key)
		Z_PARAM_ZVAL(value)
		Z_PARAM_OPTIONAL
		Z_PARAM_LONG(ttl)
		Z_PARAM_STR(group)
	ZEND_PARSE_PARAMETERS_END();
	int said = tm_put_new(TM_TABLE, group, key, value, when, tm_expires(ttl));
	if (said == TM_OVERTAKEN && when == TM_ABSENT) {
		/* Who tries again wants the key, and not a value that was computed before. */
		tm_renew(TM_TABLE, ZSTR_VAL(group), ZSTR_LEN(group), ZSTR_VAL(key), ZSTR_LEN(key));
	}
	RETURN_BOOL(said == TM_YES);
}

ZEND_METHOD(Tidemark_Cache, set)
{
	tm_put_by(INTERNAL_FUNCTION_PARAM_PASSTHRU, TM_ALWAYS);
}

ZEND_METHOD(Tidemark_Cache, add)
{
	tm_put_by(INTERNAL_FUNCTION_PARAM_PASSTHRU, TM_ABSENT);
}

ZEND_METHOD(Tidemark_Cache, replace)
{
	tm_put_by(INTERNAL_FUNCTION_PARAM_PASSTHRU, TM_PRESENT);
}

ZEND_METHOD(Tidemark_Cache, delete)
{
	zend_string *key, *group = ZSTR_EMPTY_ALLOC();
	ZEND_PARSE_PARAMETERS_START(1, 2)
		Z_PARAM_STR(key)
		Z_PARAM_OPTIONAL
		Z_PARAM_STR(group)
	ZEND_PARSE_PARAMETERS_END();
	tm_return_known(return_value, tm_delete(TM_TABLE, ZSTR_VAL(group), ZSTR_LEN(group),
		ZSTR_VAL(key), ZSTR_LEN(key)));
}

static void tm_raise_by(INTERNAL_FUNCTION_PARAMETERS, bool is_down)
{
	zend_string *key, *group = ZSTR_EMPTY_ALLOC();
	zend_long offset = 1;
	int64_t value, expires;
	ZEND_PARSE_PARAMETERS_START(1, 3)
		Z_PARAM_STR(key)
		Z_PARAM_OPTIONAL
		Z_PARAM_LONG(offset)
		Z_PARAM_STR(group)
	ZEND_PARSE_PARAMETERS_END();
	/* The smallest integer has no opposite. */
	offset = is_down ? -(offset == ZEND_LONG_MIN ? ZEND_LONG_MIN + 1 : offset) : offset;
	int said = tm_raise(TM_TABLE, ZSTR_VAL(group), ZSTR_LEN(group), ZSTR_VAL(key),
		ZSTR_LEN(key), offset, &value, &expires);
	if (said != TM_YES) {
		RETURN_FALSE;
	}
	RETURN_LONG(value);
}

ZEND_METHOD(Tidemark_Cache, increment)
{
	tm_raise_by(INTERNAL_FUNCTION_PARAM_PASSTHRU, false);
}

ZEND_METHOD(Tidemark_Cache, decrement)
{
	tm_raise_by(INTERNAL_FUNCTION_PARAM_PASSTHRU, true);
}

ZEND_METHOD(Tidemark_Cache, getMultiple)
{
	HashTable *keys;
	zend_string *group = ZSTR_EMPTY_ALLOC();
	zval *given = NULL, *one;
	ZEND_PARSE_PARAMETERS_START(1, 3)
		Z_PARAM_ARRAY_HT(keys)
		Z_PARAM_OPTIONAL
		Z_PARAM_ZVAL(given)
		Z_PARAM_STR(group)
	ZEND_PARSE_PARAMETERS_END();
	array_init_size(return_value, zend_hash_num_elements(keys));
	ZEND_HASH_FOREACH_VAL(keys, one) {
		zval value;
		zend_string *key = zval_try_get_string(one);
		if (!key) {
			RETURN_THROWS();
		}
		ZVAL_NULL(&value);
		tm_get_or(TM_TABLE, group, key, given, &value);
		zend_symtable_update(Z_ARRVAL_P(return_value), key, &value);
		zend_string_release(key);
		if (EG(exception)) {
			RETURN_THROWS();
		}
	} ZEND_HASH_FOREACH_END();
}

ZEND_METHOD(Tidemark_Cache, setMultiple)
{
	HashTable *values;
	zend_string *group = ZSTR_EMPTY_ALLOC(), *name;
	zend_long ttl = 0;
	zend_ulong index;
	zval *value;
	ZEND_PARSE_PARAMETERS_START(1, 3)
		Z_PARAM_ARRAY_HT(values)
		Z_PARAM_OPTIONAL
		Z_PARAM_LONG(ttl)
		Z_PARAM_STR(group)
	ZEND_PARSE_PARAMETERS_END();
	array_init_size(return_value, zend_hash_num_elements(values));
	ZEND_HASH_FOREACH_KEY_VAL(values, index, name, value) {
		zval stored;
		zend_string *key = name ? zend_string_copy(name) : zend_long_to_str((zend_long)index);
		int said = tm_put_new(TM_TABLE, group, key, value, TM_ALWAYS, tm_expires(ttl));
		ZVAL_BOOL(&stored, said == TM_YES);
		zend_symtable_update(Z_ARRVAL_P(return_value), key, &stored);
		zend_string_release(key);
		if (EG(exception)) {
			RETURN_THROWS();
		}
	} ZEND_HASH_FOREACH_END();
}

ZEND_METHOD(Tidemark_Cache, deleteMultiple)
{
	HashTable *keys;
	zend_string *group = ZSTR_EMPTY_ALLOC();
	zval *one;
	ZEND_PARSE_PARAMETERS_START(1, 2)
		Z_PARAM_ARRAY_HT(keys)
		Z_PARAM_OPTIONAL
		Z_PARAM_STR(group)
	ZEND_PARSE_PARAMETERS_END();
	array_init_size(return_value, zend_hash_num_elements(keys));
	ZEND_HASH_FOREACH_VAL(keys, one) {
		zval deleted;
		zend_string *key = zval_try_get_string(one);
		if (!key) {
			RETURN_THROWS();
		}
		tm_return_known(&deleted, tm_delete(TM_TABLE, ZSTR_VAL(group), ZSTR_LEN(group),
			ZSTR_VAL(key), ZSTR_LEN(key)));
		zend_symtable_update(Z_ARRVAL_P(return_value), key, &deleted);
		zend_string_release(key);
	} ZEND_HASH_FOREACH_END();
}

ZEND_METHOD(Tidemark_Cache, flush)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_BOOL(tm_flush(TM_TABLE, NULL, 0) == TM_YES);
}

ZEND_METHOD(Tidemark_Cache, flushGroup)
{
	zend_string *group;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_STR(group)
	ZEND_PARSE_PARAMETERS_END();
	RETURN_BOOL(tm_flush(TM_TABLE, ZSTR_VAL(group), ZSTR_LEN(group)) == TM_YES);
}

ZEND_METHOD(Tidemark_Cache, sync)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_BOOL(tm_sync(TM_TABLE) == TM_YES);
}

ZEND_METHOD(Tidemark_Cache, stats)
{
	ZEND_PARSE_PARAMETERS_NONE();
	tm_return_stats(return_value, TM_TABLE);
}

ZEND_METHOD(Tidemark_Cache, fault)
{
	char text[TM_FAULT_BYTES];
	ZEND_PARSE_PARAMETERS_NONE();
	size_t length = tm_fault(TM_TABLE, text, sizeof(text));
	RETURN_STRINGL(text, length);
}

#define TM_METHOD(name, arguments) \
	ZEND_ME(Tidemark_Cache, name, arguments, ZEND_ACC_PUBLIC)
static const zend_function_entry tm_cache_methods[] = {
	TM_METHOD(__construct, tm_cache_construct)
	TM_METHOD(get, tm_cache_get)
	TM_METHOD(set, tm_cache_put)
	TM_METHOD(add, tm_cache_put)
	TM_METHOD(replace, tm_cache_put)
	TM_METHOD(delete, tm_cache_delete)
	TM_METHOD(increment, tm_cache_raise)
	TM_METHOD(decrement, tm_cache_raise)
	TM_METHOD(getMultiple, tm_cache_get_multiple)
	TM_METHOD(setMultiple, tm_cache_set_multiple)
	TM_METHOD(deleteMultiple, tm_cache_delete_multiple)
	TM_METHOD(flush, tm_cache_bool)
	TM_METHOD(flushGroup, tm_cache_group)
	TM_METHOD(sync, tm_cache_bool)
	TM_METHOD(stats, tm_cache_array)
	TM_METHOD(fault, tm_cache_text)
	ZEND_FE_END
};
/* }}} */

PHP_MINIT_FUNCTION(tidemark)
{
	zend_class_entry class;
	INIT_NS_CLASS_ENTRY(class, "Tidemark", "Cache", tm_cache_methods);
	tm_cache_class = zend_register_internal_class(&class);
	tm_cache_class->ce_flags |= ZEND_ACC_FINAL | ZEND_ACC_NOT_SERIALIZABLE
		| ZEND_ACC_NO_DYNAMIC_PROPERTIES;
	tm_cache_class->create_object = tm_cache_create;
	memcpy(&tm_cache_handlers, &std_object_handlers, sizeof(tm_cache_handlers));
	tm_cache_handlers.offset    = XtOffsetOf(tm_cache, object);
	tm_cache_handlers.clone_obj = NULL;
	tm_module_begin();
	return SUCCESS;
}

PHP_MSHUTDOWN_FUNCTION(tidemark)
{
	tm_keys_free();
	return SUCCESS;
}

/* After every object and every value of the request is gone. */
static ZEND_RESULT_CODE tm_after_request(void)
{
	tm_request_end();
	return SUCCESS;
}

PHP_MINFO_FUNCTION(tidemark)
{
	php_info_print_table_start();
	php_info_print_table_row(2, "Tidemark cache", TIDEMARK_VERSION);
	php_info_print_table_end();
}

static zend_module_entry tm_module = {
	STANDARD_MODULE_HEADER,
	"tidemark",
	tm_functions,
	PHP_MINIT(tidemark),
	PHP_MSHUTDOWN(tidemark),
	NULL,
	NULL,
	PHP_MINFO(tidemark),
	TIDEMARK_VERSION,
	0,
	NULL,
	NULL,
	NULL,
	tm_after_request,
	STANDARD_MODULE_PROPERTIES_EX
};

/* Whether threads begin and end while PHP runs. */
bool tm_has_threads(void)
{
#ifdef ZTS
	return true;
#else
	return false;
#endif
}

zend_module_entry *tm_module_entry(void)
{
	return &tm_module;
}
