/* From a value of PHP to the parts that the codec writes. `__serialize` and `__sleep` run what
 * classes say; the bytes belong to the thread, so nothing is lost where PHP leaves by a jump. */
#include "tidemark.h"
#include "ext/standard/php_incomplete_class.h"
#include "zend_enum.h"
#include "zend_interfaces.h"

typedef struct {
	void *encoding;
	/* Address of an object or reference => its number, and what keeps the address its own. */
	zval numbers;
	zval held;
	uint32_t objects;
	uint32_t references;
} tm_walk;

static bool tm_walk_value(tm_walk *walk, zval *value);

/* The number of what was met before; else -1, and it gets the next one of its kind. */
static zend_long tm_number(tm_walk *walk, zend_refcounted *item, zval *value, uint32_t *next)
{
	zend_ulong address = (zend_ulong)(uintptr_t)item;
	if (Z_ISUNDEF(walk->numbers)) {
		array_init(&walk->numbers);
		array_init(&walk->held);
	}
	zval *known = zend_hash_index_find(Z_ARRVAL(walk->numbers), address);
	if (known) {
		return Z_LVAL_P(known);
	}
	zval number, held;
	ZVAL_LONG(&number, (zend_long)(*next)++);
	zend_hash_index_add_new(Z_ARRVAL(walk->numbers), address, &number);
	ZVAL_COPY(&held, value);
	zend_hash_next_index_insert(Z_ARRVAL(walk->held), &held);
	return -1;
}

static bool tm_walk_array(tm_walk *walk, zval *value)
{
	HashTable *table = Z_ARRVAL_P(value);
	uint32_t count = zend_array_count(table);
	bool is_list = zend_array_is_list(table) && count == zend_hash_num_elements(table);
	if (!tm_put_begin(walk->encoding, is_list ? TM_LIST : TM_MAP, NULL, 0, count)) {
		return false;
	}
	bool is_right = true;
	zend_ulong index;
	zend_string *key;
	zval *element;
	/* What a class runs may change the array; with one owner more it changes a copy. */
	GC_TRY_ADDREF(table);
	ZEND_HASH_FOREACH_KEY_VAL_IND(table, index, key, element) {
		if (!is_list) {
			is_right = key ? tm_put_key_text(walk->encoding, ZSTR_VAL(key), ZSTR_LEN(key))
				: tm_put_key_int(walk->encoding, (int64_t)index);
		}
		is_right = is_right && tm_walk_value(walk, element);
		if (!is_right) {
			break;
		}
	} ZEND_HASH_FOREACH_END();
	zval held;
	ZVAL_ARR(&held, table);
	if (!(GC_FLAGS(table) & GC_IMMUTABLE)) {
		zval_ptr_dtor(&held);
	}
	return is_right;
}

static bool tm_put_name(tm_walk *walk, zend_string *key, zend_ulong index)
{
	if (key) {
		return tm_put_key_text(walk->encoding, ZSTR_VAL(key), ZSTR_LEN(key));
	}
	char digits[MAX_LENGTH_OF_LONG + 1];
	int length = snprintf(digits, sizeof(digits), ZEND_LONG_FMT, (zend_long)index);
	return tm_put_key_text(walk->encoding, digits, (size_t)length);
}

static bool tm_walk_properties(tm_walk *walk, zend_string *class, HashTable *table)
{
	uint32_t count = 0;
	zend_ulong index;
	zend_string *key;
	zval *element;
	ZEND_HASH_FOREACH_VAL_IND(table, element) {
		count += Z_TYPE_P(element) != IS_UNDEF;
	} ZEND_HASH_FOREACH_END();
	if (!tm_put_begin(walk->encoding, TM_OBJECT, ZSTR_VAL(class), ZSTR_LEN(class), count)) {
		return false;
	}
	/* An object that its own property changes meanwhile may have another count: then it has no
	 * bytes, because the encoder compares the two. */
	ZEND_HASH_FOREACH_KEY_VAL_IND(table, index, key, element) {
		if (!tm_put_name(walk, key, index) || !tm_walk_value(walk, element)) {
			return false;
		}
	} ZEND_HASH_FOREACH_END();
	return true;
}

/* The property that `__sleep` names: as it is, or private or protected. */
static bool tm_select(HashTable *from, HashTable *to, zend_class_entry *class, zend_string *name)
{
	zend_string *names[3] = {
		zend_string_copy(name),
		zend_mangle_property_name(ZSTR_VAL(class->name), ZSTR_LEN(class->name), ZSTR_VAL(name),
			ZSTR_LEN(name), 0),
		zend_mangle_property_name("*", 1, ZSTR_VAL(name), ZSTR_LEN(name), 0),
	};
	bool is_found = false;
	for (int at = 0; at < 3; ++at) {
		zval *value = is_found ? NULL : zend_hash_find_ind(from, names[at]);
		if (value && Z_TYPE_P(value) != IS_UNDEF) {
			zval copy;
			ZVAL_COPY(&copy, value);
			zend_hash_update(to, names[at], &copy);
			is_found = true;
		}
		zend_string_release(names[at]);
	}
	return is_found;
}

/* Those of the properties that `__sleep` names, as an array; false where it gives no names. It may
 * change them, so they are taken after it. */
static bool tm_asleep(zval *value, zval *to)
{
	zend_object *object = Z_OBJ_P(value);
	zval names;
	zval *name;
	zend_function *sleep = zend_hash_str_find_ptr(
		&object->ce->function_table, "__sleep", sizeof("__sleep") - 1);
	ZVAL_UNDEF(&names);
	zend_call_known_instance_method_with_0_params(sleep, object, &names);
	if (EG(exception) || Z_TYPE(names) != IS_ARRAY) {
		zval_ptr_dtor(&names);
		return false;
	}
	HashTable *properties = zend_get_properties_for(value, ZEND_PROP_PURPOSE_SERIALIZE);
	bool is_right = properties != NULL;
	array_init(to);
	ZEND_HASH_FOREACH_VAL(Z_ARRVAL(names), name) {
		if (!is_right) {
			break;
		}
		ZVAL_DEREF(name);
		is_right = Z_TYPE_P(name) == IS_STRING
			&& tm_select(properties, Z_ARRVAL_P(to), object->ce, Z_STR_P(name));
	} ZEND_HASH_FOREACH_END();
	if (properties) {
		zend_release_properties(properties);
	}
	zval_ptr_dtor(&names);
	return is_right;
}

static bool tm_walk_state(tm_walk *walk, zend_object *object)
{
	zend_string *class = object->ce->name;
	zval state;
	ZVAL_UNDEF(&state);
	zend_call_known_instance_method_with_0_params(object->ce->__serialize, object, &state);
	if (EG(exception) || Z_TYPE(state) != IS_ARRAY) {
		zval_ptr_dtor(&state);
		return false;
	}
	/* Its objects keep their addresses until the value ends. */
	zend_hash_next_index_insert(Z_ARRVAL(walk->held), &state);
	if (!object->ce->__unserialize) {
		return tm_walk_properties(walk, class, Z_ARRVAL(state));
	}
	return tm_put_begin(walk->encoding, TM_STATE, ZSTR_VAL(class), ZSTR_LEN(class), 1)
		&& tm_walk_value(walk, &state);
}

/* What the object has for its bytes: in `chosen` where that is an array of our own, else null or
 * to be released. */
static HashTable *tm_properties_of(zval *value, zval *chosen, bool is_lost)
{
	if (!is_lost && zend_hash_str_exists(
			&Z_OBJCE_P(value)->function_table, "__sleep", sizeof("__sleep") - 1)) {
		if (!tm_asleep(value, chosen)) {
			zval_ptr_dtor(chosen);
			ZVAL_UNDEF(chosen);
		}
		return NULL;
	}
	HashTable *found = zend_get_properties_for(value, ZEND_PROP_PURPOSE_SERIALIZE);
	if (found && is_lost) {
		ZVAL_ARR(chosen, zend_array_dup(found));
		zend_hash_str_del(Z_ARRVAL_P(chosen), MAGIC_MEMBER, sizeof(MAGIC_MEMBER) - 1);
	}
	return found;
}

static bool tm_walk_plain(tm_walk *walk, zend_object *object)
{
	bool is_lost = object->ce == PHP_IC_ENTRY;
	zend_string *class = is_lost ? php_lookup_class_name(object) : NULL;
	if (!class) {
		class = zend_string_copy(object->ce->name);
	}
	/* It is held; where it stood may change meanwhile. */
	zval own, chosen;
	ZVAL_OBJ(&own, object);
	ZVAL_UNDEF(&chosen);
	HashTable *found = tm_properties_of(&own, &chosen, is_lost);
	HashTable *table = found;
	if (Z_TYPE(chosen) == IS_ARRAY) {
		table = Z_ARRVAL(chosen);
		Z_ADDREF(chosen);
		zend_hash_next_index_insert(Z_ARRVAL(walk->held), &chosen);
	}
	bool is_right = table && tm_walk_properties(walk, class, table);
	zval_ptr_dtor(&chosen);
	if (found) {
		zend_release_properties(found);
	}
	zend_string_release(class);
	return is_right;
}

static bool tm_walk_object(tm_walk *walk, zval *value)
{
	zend_object *object = Z_OBJ_P(value);
	zend_class_entry *class = object->ce;
	if (class->ce_flags & ZEND_ACC_ENUM) {
		zval *name = zend_enum_fetch_case_name(object);
		return tm_put_case(walk->encoding, ZSTR_VAL(class->name), ZSTR_LEN(class->name),
			Z_STRVAL_P(name), Z_STRLEN_P(name));
	}
	/* What has the old interface alone has no array to give. */
	bool is_old = class->serialize && !class->__serialize;
	if ((class->ce_flags & ZEND_ACC_NOT_SERIALIZABLE) || is_old) {
		return false;
	}
	zend_long number = tm_number(walk, (zend_refcounted *)object, value, &walk->objects);
	if (number >= 0) {
		return tm_put_same_object(walk->encoding, (uint64_t)number);
	}
	return class->__serialize ? tm_walk_state(walk, object) : tm_walk_plain(walk, object);
}

static bool tm_walk_value(tm_walk *walk, zval *value)
{
	if (Z_ISREF_P(value) && Z_REFCOUNT_P(value) > 1) {
		zend_refcounted *item = Z_COUNTED_P(value);
		zend_long number = tm_number(walk, item, value, &walk->references);
		if (number >= 0) {
			return tm_put_same_reference(walk->encoding, (uint64_t)number);
		}
		if (!tm_put_begin(walk->encoding, TM_REFERENCE, NULL, 0, 1)) {
			return false;
		}
	}
	ZVAL_DEREF(value);
	switch (Z_TYPE_P(value)) {
		case IS_NULL: return tm_put_null(walk->encoding);
		case IS_FALSE: return tm_put_bool(walk->encoding, false);
		case IS_TRUE: return tm_put_bool(walk->encoding, true);
		case IS_LONG: return tm_put_int(walk->encoding, Z_LVAL_P(value));
		case IS_DOUBLE: return tm_put_float(walk->encoding, Z_DVAL_P(value));
		case IS_STRING:
			return tm_put_text(walk->encoding, Z_STRVAL_P(value), Z_STRLEN_P(value));
		case IS_ARRAY: return tm_walk_array(walk, value);
		case IS_OBJECT: return tm_walk_object(walk, value);
		default: return false;
	}
}

/* Whether the value has bytes. An exception of a class stays. */
zend_uchar tm_encode(void *encoding, zval *value)
{
	tm_walk walk = { .encoding = encoding };
	ZVAL_UNDEF(&walk.numbers);
	ZVAL_UNDEF(&walk.held);
	ZVAL_DEREF(value);
	bool is_right = tm_walk_value(&walk, value) && tm_put_finish(encoding);
	zval_ptr_dtor(&walk.numbers);
	zval_ptr_dtor(&walk.held);
	return is_right && !EG(exception);
}
