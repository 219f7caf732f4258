/* From the parts that the codec reads to a value of PHP. Rust calls these; each may leave by a
 * jump, and then everything here is Zend's to free. */
#include "tidemark.h"
#include "ext/standard/php_incomplete_class.h"
#include "zend_enum.h"
#include "zend_exceptions.h"
#include "zend_interfaces.h"

/* Keys of arrays are the same few in all values of a site. They are made once in a thread and stay:
 * a place that is taken is never given away, because values refer to it. */
#define TM_KEYS 4096
#define TM_KEY_BYTES 64
ZEND_TLS zend_string *tm_keys[TM_KEYS];

static zend_string *tm_key_string(const char *bytes, size_t length)
{
	if (length <= 1) {
		return length ? ZSTR_CHAR((zend_uchar)*bytes) : ZSTR_EMPTY_ALLOC();
	}
	if (length > TM_KEY_BYTES) {
		return zend_string_init(bytes, length, 0);
	}
	zend_ulong hash = zend_inline_hash_func(bytes, length);
	zend_string **place = &tm_keys[hash % TM_KEYS];
	if (*place) {
		bool is_it = ZSTR_LEN(*place) == length && !memcmp(ZSTR_VAL(*place), bytes, length);
		return is_it ? *place : zend_string_init(bytes, length, 0);
	}
	zend_string *made = malloc(_ZSTR_STRUCT_SIZE(length));
	if (!made) {
		return zend_string_init(bytes, length, 0);
	}
	GC_SET_REFCOUNT(made, 1);
	GC_TYPE_INFO(made) = GC_STRING
		| ((IS_STR_INTERNED | IS_STR_PERSISTENT | IS_STR_PERMANENT) << GC_FLAGS_SHIFT);
	ZSTR_H(made) = hash;
	ZSTR_LEN(made) = length;
	memcpy(ZSTR_VAL(made), bytes, length);
	ZSTR_VAL(made)[length] = 0;
	return *place = made;
}

void tm_keys_free(void)
{
	for (int place = 0; place < TM_KEYS; ++place) {
		free(tm_keys[place]);
		tm_keys[place] = NULL;
	}
}

static void tm_row_begin(tm_row *row)
{
	row->items = row->few;
	row->count = 0;
	row->room  = TM_ROW;
}

void tm_build_begin(tm_build *build)
{
	ZVAL_UNDEF(&build->result);
	ZVAL_UNDEF(&build->delayed);
	build->key   = NULL;
	build->copy  = NULL;
	build->depth = 0;
	tm_row_begin(&build->objects);
	tm_row_begin(&build->references);
}

static void tm_row_add(tm_row *row, void *item)
{
	if (row->count == row->room) {
		uint32_t room = row->room * 4;
		void **items = safe_erealloc(row->items == row->few ? NULL : row->items, room,
			sizeof(void *), 0);
		if (row->items == row->few) {
			memcpy(items, row->few, sizeof(row->few));
		}
		row->items = items;
		row->room  = room;
	}
	GC_ADDREF((zend_refcounted *)item);
	row->items[row->count++] = item;
}

static void tm_rows_drop(tm_build *build)
{
	for (uint32_t at = 0; at < build->objects.count; ++at) {
		OBJ_RELEASE((zend_object *)build->objects.items[at]);
	}
	for (uint32_t at = 0; at < build->references.count; ++at) {
		zval reference;
		ZVAL_REF(&reference, (zend_reference *)build->references.items[at]);
		zval_ptr_dtor(&reference);
	}
	if (build->objects.items != build->objects.few) {
		efree(build->objects.items);
	}
	if (build->references.items != build->references.few) {
		efree(build->references.items);
	}
}

/* Objects that were never whole have no destructor to be called. */
static void tm_objects_spoil(tm_build *build)
{
	for (uint32_t at = 0; at < build->objects.count; ++at) {
		GC_ADD_FLAGS((zend_object *)build->objects.items[at], IS_OBJ_DESTRUCTOR_CALLED);
	}
}

/* Throws away what was built. */
void tm_build_drop(tm_build *build)
{
	tm_objects_spoil(build);
	while (build->depth > 0) {
		tm_frame *frame = &build->frames[--build->depth];
		zval_ptr_dtor(&frame->state);
	}
	if (build->key) {
		zend_string_release(build->key);
	}
	if (build->copy) {
		zend_string_release(build->copy);
	}
	zval_ptr_dtor(&build->result);
	zval_ptr_dtor(&build->delayed);
	tm_rows_drop(build);
	tm_build_begin(build);
}

static bool tm_wake(zend_object *object, zval *state)
{
	if (Z_TYPE_P(state) == IS_ARRAY) {
		if (!object->ce->__unserialize) {
			return false;
		}
		zend_call_known_instance_method_with_1_params(
			object->ce->__unserialize, object, NULL, state);
	} else {
		zend_function *wakeup = zend_hash_str_find_ptr(
			&object->ce->function_table, "__wakeup", sizeof("__wakeup") - 1);
		zend_call_known_instance_method_with_0_params(wakeup, object, NULL);
	}
	return !EG(exception);
}

/* Wakes the objects in the order in which they became whole, and gives the value away. Runs what
 * classes say: the bytes of the value must not be needed any more. False after an exception. */
bool tm_build_finish(tm_build *build, zval *to)
{
	bool is_right = true;
	if (Z_TYPE(build->delayed) == IS_ARRAY) {
		HashTable *delayed = Z_ARRVAL(build->delayed);
		for (zend_ulong at = 0; is_right && at < zend_hash_num_elements(delayed); at += 2) {
			zval *object = zend_hash_index_find(delayed, at);
			is_right = tm_wake(Z_OBJ_P(object), zend_hash_index_find(delayed, at + 1));
		}
	}
	if (is_right) {
		ZVAL_COPY_VALUE(to, &build->result);
		ZVAL_UNDEF(&build->result);
		zval_ptr_dtor(&build->delayed);
		ZVAL_UNDEF(&build->delayed);
		if (build->copy) {
			zend_string_release(build->copy);
		}
		tm_rows_drop(build);
		return true;
	}
	tm_build_drop(build);
	return false;
}

/* The property that the class declares under the bare name of one that it does not have: its
 * visibility may have changed since. False where the name is none. */
static bool tm_declared(zend_class_entry *class, zend_string *name, zend_property_info **found)
{
	const char *of = NULL, *bare = ZSTR_VAL(name);
	size_t length = ZSTR_LEN(name);
	*found = NULL;
	if (length && !bare[0]
		&& zend_unmangle_property_name_ex(name, &of, &bare, &length) != SUCCESS) {
		return false;
	}
	/* That of a parent which is private stays the parent's. */
	if (!of || !strcmp(of, "*") || !strcasecmp(of, ZSTR_VAL(class->name))) {
		zend_property_info *declared = zend_hash_str_find_ptr(
			&class->properties_info, bare, length);
		*found = declared && !(declared->flags & ZEND_ACC_STATIC) ? declared : NULL;
	}
	return true;
}

/* Of the class of most objects of a site, which declares nothing and can be no other one. */
static bool tm_is_plain(zend_object *object)
{
	return object->ce == zend_standard_class_def;
}

/* The place of a property, and its type. Null where there is none of this name. */
static zval *tm_property(zend_object *object, zend_string *name, zend_property_info **info)
{
	if (tm_is_plain(object) && ZSTR_LEN(name) && ZSTR_VAL(name)[0]) {
		zval null;
		ZVAL_NULL(&null);
		return zend_hash_add(zend_std_get_properties(object), name, &null);
	}
	HashTable *properties = zend_std_get_properties(object);
	zval *place = zend_hash_find(properties, name);
	if (!place) {
		zend_property_info *declared;
		if (!tm_declared(object->ce, name, &declared)) {
			return NULL;
		}
		place = declared ? zend_hash_find(properties, declared->name) : NULL;
	}
	if (!place) {
		if (object->ce->ce_flags & ZEND_ACC_NO_DYNAMIC_PROPERTIES) {
			return NULL;
		}
		zval null;
		ZVAL_NULL(&null);
		return zend_hash_add(properties, name, &null);
	}
	/* One that is not declared and is there already came twice: where others have their flag, its
	 * bucket has the chain of the table. */
	if (Z_TYPE_P(place) != IS_INDIRECT) {
		return NULL;
	}
	place = Z_INDIRECT_P(place);
	if (Z_ISREF_P(place)) {
		return NULL;
	}
	*info = zend_get_typed_property_info_for_slot(object, place);
	zval_ptr_dtor(place);
	ZVAL_NULL(place);
	Z_PROP_FLAG_P(place) = 0;
	return place;
}

static zval *tm_element(HashTable *table, zend_string *key, zend_long index)
{
	zval null;
	zend_ulong number = (zend_ulong)index;
	ZVAL_NULL(&null);
	if (key && !ZEND_HANDLE_NUMERIC(key, number)) {
		return zend_hash_add(table, key, &null);
	}
	return zend_hash_index_add(table, number, &null);
}

/* Where the next part belongs; null where there is no place for it. */
static zval *tm_place(tm_build *build, zend_property_info **info)
{
	if (build->depth == 0) {
		return Z_ISUNDEF(build->result) ? &build->result : NULL;
	}
	tm_frame *frame = &build->frames[build->depth - 1];
	zend_string *key = build->key;
	zval *place = NULL;
	zval null;
	build->key = NULL;
	ZVAL_NULL(&null);
	switch (frame->kind) {
		case TM_LIST:
			return zend_hash_next_index_insert(frame->table, &null);
		case TM_MAP:
			place = tm_element(frame->table, key, build->index);
			break;
		case TM_OBJECT:
			if (key && Z_TYPE(frame->state) == IS_ARRAY) {
				place = tm_element(Z_ARRVAL(frame->state), key, 0);
			} else if (key) {
				place = tm_property(frame->object, key, info);
			}
			break;
		case TM_STATE:
			return &frame->state;
		case TM_REFERENCE:
			return &frame->reference->val;
	}
	if (key) {
		zend_string_release(key);
	}
	return place;
}

/* Takes over the value. A reference in a typed property is checked when its value is whole. */
static bool tm_add(tm_build *build, zval *value, zend_property_info **into)
{
	zend_property_info *info = NULL;
	zval *place = tm_place(build, &info);
	if (!place) {
		zval_ptr_dtor(value);
		return false;
	}
	if (info && !Z_ISREF_P(value) && !zend_verify_property_type(info, value, 1)) {
		zend_clear_exception();
		zval_ptr_dtor(value);
		return false;
	}
	ZVAL_COPY_VALUE(place, value);
	if (into) {
		*into = info;
	}
	return true;
}

static bool tm_type_reference(zend_reference *reference, zend_property_info *info)
{
	if (!info) {
		return true;
	}
	if (!zend_verify_property_type(info, &reference->val, 1)) {
		zend_clear_exception();
		return false;
	}
	return true;
}

bool tm_add_scalar(tm_build *build, int kind, int64_t number, double fraction)
{
	zval value;
	switch (kind) {
		case 0: ZVAL_NULL(&value); break;
		case 1: ZVAL_BOOL(&value, number != 0); break;
		case 2: ZVAL_LONG(&value, number); break;
		default: ZVAL_DOUBLE(&value, fraction);
	}
	return tm_add(build, &value, NULL);
}

/* Room for a text of so many bytes, already in its place; null where there is none. */
char *tm_add_text(tm_build *build, size_t length)
{
	zval value;
	ZVAL_STR(&value, zend_string_alloc(length, 0));
	char *bytes = Z_STRVAL(value);
	bytes[length] = 0;
	return tm_add(build, &value, NULL) ? bytes : NULL;
}

bool tm_add_short_text(tm_build *build, const char *bytes, size_t length)
{
	zval value;
	ZVAL_INTERNED_STR(&value, length ? ZSTR_CHAR((zend_uchar)*bytes) : ZSTR_EMPTY_ALLOC());
	return tm_add(build, &value, NULL);
}

void tm_set_index(tm_build *build, int64_t index)
{
	build->key   = NULL;
	build->index = index;
}

void tm_set_key(tm_build *build, const char *bytes, size_t length)
{
	build->key = tm_key_string(bytes, length);
}

char *tm_set_long_key(tm_build *build, size_t length)
{
	build->key = zend_string_alloc(length, 0);
	ZSTR_VAL(build->key)[length] = 0;
	return ZSTR_VAL(build->key);
}

/* Room for a copy of the whole value. */
char *tm_copy_room(tm_build *build, size_t length)
{
	if (build->copy) {
		zend_string_release(build->copy);
		build->copy = NULL;
	}
	build->copy = zend_string_alloc(length, 0);
	return ZSTR_VAL(build->copy);
}

/* The loader of classes may run what the program says. An exception in it leaves the call. */
static zend_class_entry *tm_class(const char *bytes, size_t length)
{
	/* That of most objects of a site; no program can declare another one of this name. */
	if (zend_string_equals_cstr(zend_standard_class_def->name, bytes, length)) {
		return EG(exception) ? NULL : zend_standard_class_def;
	}
	zend_string *name = zend_string_init(bytes, length, 0);
	zend_class_entry *class = EG(exception) ? NULL : zend_lookup_class(name);
	zend_string_release(name);
	return class;
}

bool tm_add_case(tm_build *build, const char *class_bytes, size_t class_length,
	const char *bytes, size_t length)
{
	zend_class_entry *class = tm_class(class_bytes, class_length);
	if (!class || !(class->ce_flags & ZEND_ACC_ENUM)) {
		return false;
	}
	zend_string *name = zend_string_init(bytes, length, 0);
	zend_class_constant *constant = zend_hash_find_ptr(CE_CONSTANTS_TABLE(class), name);
	zend_object *object = NULL;
	if (constant && (ZEND_CLASS_CONST_FLAGS(constant) & ZEND_CLASS_CONST_IS_CASE)) {
		object = zend_enum_get_case(class, name);
	}
	zend_string_release(name);
	if (!object || EG(exception)) {
		return false;
	}
	zval value;
	ZVAL_OBJ_COPY(&value, object);
	return tm_add(build, &value, NULL);
}

static bool tm_make_object(zval *value, const char *bytes, size_t length)
{
	zend_class_entry *class = tm_class(bytes, length);
	if (EG(exception)) {
		return false;
	}
	if (!class) {
		object_init_ex(value, PHP_IC_ENTRY);
		zend_string *name = zend_string_init(bytes, length, 0);
		php_store_class_name(value, name);
		zend_string_release(name);
		return true;
	}
	uint32_t barred = ZEND_ACC_NOT_SERIALIZABLE | ZEND_ACC_ENUM | ZEND_ACC_INTERFACE
		| ZEND_ACC_TRAIT | ZEND_ACC_IMPLICIT_ABSTRACT_CLASS | ZEND_ACC_EXPLICIT_ABSTRACT_CLASS;
	return !(class->ce_flags & barred) && object_init_ex(value, class) == SUCCESS;
}

/* `class_bytes` lie in the copy, which outlives what this runs. */
bool tm_add_begin(tm_build *build, int kind, const char *class_bytes, size_t class_length,
	size_t count)
{
	zval value;
	if (build->depth >= TM_DEPTH || count > UINT32_MAX / 4) {
		return false;
	}
	tm_frame *frame = &build->frames[build->depth];
	frame->kind = (enum tm_kind)kind;
	frame->info = NULL;
	ZVAL_UNDEF(&frame->state);
	switch (frame->kind) {
		case TM_LIST:
		case TM_MAP:
			array_init_size(&value, (uint32_t)count);
			frame->table = Z_ARRVAL(value);
			if (count) {
				zend_hash_real_init(frame->table, frame->kind == TM_LIST);
			}
			break;
		case TM_OBJECT:
		case TM_STATE:
			if (!tm_make_object(&value, class_bytes, class_length)) {
				return false;
			}
			frame->object = Z_OBJ(value);
			if (count && frame->kind == TM_OBJECT && tm_is_plain(frame->object)) {
				frame->object->properties = zend_new_array((uint32_t)count);
			}
			tm_row_add(&build->objects, frame->object);
			break;
		case TM_REFERENCE:
			ZVAL_NEW_EMPTY_REF(&value);
			ZVAL_NULL(Z_REFVAL(value));
			frame->reference = Z_REF(value);
			tm_row_add(&build->references, frame->reference);
			break;
	}
	if (!tm_add(build, &value, &frame->info)) {
		return false;
	}
	/* At once: Zend takes the source away again where the object dies before it is whole. */
	if (frame->kind == TM_REFERENCE && frame->info) {
		ZEND_REF_ADD_TYPE_SOURCE(frame->reference, frame->info);
	}
	/* A class that is given its state decides what it does with properties, too. */
	if (frame->kind == TM_OBJECT && frame->object->ce->__unserialize) {
		array_init(&frame->state);
	}
	++build->depth;
	return true;
}

static void tm_delay(tm_build *build, zend_object *object, zval *state)
{
	zval value;
	if (Z_ISUNDEF(build->delayed)) {
		array_init(&build->delayed);
	}
	ZVAL_OBJ_COPY(&value, object);
	zend_hash_next_index_insert(Z_ARRVAL(build->delayed), &value);
	if (Z_ISUNDEF_P(state)) {
		ZVAL_NULL(state);
	}
	zend_hash_next_index_insert(Z_ARRVAL(build->delayed), state);
	ZVAL_UNDEF(state);
}

bool tm_add_end(tm_build *build)
{
	tm_frame *frame = &build->frames[--build->depth];
	switch (frame->kind) {
		case TM_OBJECT:
			if (tm_is_plain(frame->object)) {
				return true;
			}
			if (Z_TYPE(frame->state) == IS_ARRAY || zend_hash_str_exists(
				&frame->object->ce->function_table, "__wakeup", sizeof("__wakeup") - 1)) {
				tm_delay(build, frame->object, &frame->state);
			}
			return true;
		case TM_STATE:
			tm_delay(build, frame->object, &frame->state);
			return true;
		case TM_REFERENCE:
			return tm_type_reference(frame->reference, frame->info);
		default:
			return true;
	}
}

bool tm_add_same_object(tm_build *build, uint64_t number)
{
	zval value;
	if (number >= build->objects.count) {
		return false;
	}
	ZVAL_OBJ_COPY(&value, (zend_object *)build->objects.items[number]);
	return tm_add(build, &value, NULL);
}

bool tm_add_same_reference(tm_build *build, uint64_t number)
{
	zval value;
	zend_property_info *info = NULL;
	if (number >= build->references.count) {
		return false;
	}
	zend_reference *reference = build->references.items[number];
	GC_ADDREF(reference);
	ZVAL_REF(&value, reference);
	if (!tm_add(build, &value, &info)) {
		return false;
	}
	if (info) {
		ZEND_REF_ADD_TYPE_SOURCE(reference, info);
	}
	return tm_type_reference(reference, info);
}
