/* What the parts of the module in C, and Rust, share. */
#ifndef TIDEMARK_H
#define TIDEMARK_H

#include "php.h"

/* As DEPTH_MAX of the codec, and the value itself. */
#define TM_DEPTH 257

enum tm_kind { TM_LIST, TM_MAP, TM_OBJECT, TM_STATE, TM_REFERENCE };

/* What has begun and is not whole yet. */
typedef struct {
	enum tm_kind kind;
	union {
		HashTable *table;
		zend_object *object;
		zend_reference *reference;
	};
	/* Of a typed property that a reference stands in. */
	zend_property_info *info;
	/* What `__unserialize` is given. */
	zval state;
} tm_frame;

#define TM_ROW 4

/* Objects and references by their number; each is held until the value is finished. */
typedef struct {
	void **items;
	uint32_t count;
	uint32_t room;
	/* The first ones, as most values have few. */
	void *few[TM_ROW];
} tm_row;

/* A value that is being built. All its memory but this is Zend's, so that nothing is left of it
 * where PHP leaves by a jump. */
typedef struct {
	zval result;
	zend_string *key;
	zend_long index;
	/* The bytes of a value with classes, verified. */
	zend_string *copy;
	tm_row objects;
	tm_row references;
	/* Objects to be woken, each followed by its state or by nothing. */
	zval delayed;
	uint32_t depth;
	tm_frame frames[TM_DEPTH];
} tm_build;

void tm_build_begin(tm_build *build);
void tm_build_drop(tm_build *build);
bool tm_build_finish(tm_build *build, zval *to);
void tm_keys_free(void);
bool tm_has_threads(void);
zend_uchar tm_encode(void *encoding, zval *value);

/* Of Rust. None of these calls Zend but `tm_fetch`, through the functions of build.c. */
int tm_table(const char *path, size_t length, uint64_t bytes);
size_t tm_fault(int table, char *to, size_t room);
int tm_fetch(int table, const char *group, size_t group_length, const char *key,
	size_t key_length, tm_build *build, int64_t *expires);
int tm_delete(int table, const char *group, size_t group_length, const char *key,
	size_t key_length);
int tm_raise(int table, const char *group, size_t group_length, const char *key,
	size_t key_length, int64_t offset, int64_t *value, int64_t *expires);
int tm_flush(int table, const char *group, size_t length);
int tm_forget(int table, uint64_t hash, bool is_group);
void tm_end(int table);
void tm_renew(int table, const char *group, size_t group_length, const char *key,
	size_t key_length);
const char *tm_recall(const char *name, size_t length, size_t *text_length);
void tm_remember(const char *name, size_t length, const char *text, size_t text_length);
int tm_counts(int table, uint64_t *numbers);
int tm_sync(int table);
void tm_stats(int table, uint64_t *numbers);
int tm_store(int table, const char *group, size_t group_length, const char *key,
	size_t key_length, void *encoding, int when, int64_t expires);
void *tm_encoding_begin(void);
void tm_encoding_end(void *encoding);
void tm_request_end(void);
void tm_module_begin(void);

bool tm_put_null(void *encoding);
bool tm_put_bool(void *encoding, bool value);
bool tm_put_int(void *encoding, int64_t value);
bool tm_put_float(void *encoding, double value);
bool tm_put_text(void *encoding, const char *text, size_t length);
bool tm_put_case(void *encoding, const char *name, size_t length, const char *text,
	size_t text_length);
bool tm_put_begin(void *encoding, int kind, const char *name, size_t length, size_t count);
bool tm_put_key_int(void *encoding, int64_t key);
bool tm_put_key_text(void *encoding, const char *text, size_t length);
bool tm_put_same_reference(void *encoding, uint64_t number);
bool tm_put_same_object(void *encoding, uint64_t number);
bool tm_put_finish(void *encoding);

#endif
