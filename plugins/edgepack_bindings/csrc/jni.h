/* Of JNI (https://docs.oracle.com/en/java/javase/17/docs/specs/jni/functions.html) what is called here: functions by their number in the
 * table that the specification lists, which never changes. No JDK is needed to compile this. */
#include <stdint.h>

typedef void *Object;
typedef void **const *Env;

enum {
    FIND_CLASS = 6,
    THROW = 13,
    DELETE_LOCAL_REF = 23,
    NEW_OBJECT = 28,
    GET_METHOD_ID = 33,
    GET_ARRAY_LENGTH = 171,
    GET_OBJECT_ARRAY_ELEMENT = 173,
    NEW_BYTE_ARRAY = 176,
    NEW_INT_ARRAY = 179,
    GET_BYTE_ARRAY_REGION = 200,
    GET_LONG_ARRAY_REGION = 204,
    SET_BYTE_ARRAY_REGION = 208,
    SET_INT_ARRAY_REGION = 211,
    SET_FLOAT_ARRAY_REGION = 213
};

#define CALL(env, number, type, ...) ((type(*)(__VA_ARGS__))(*(env))[number])

static inline int32_t length_of(Env env, Object array) { return CALL(env, GET_ARRAY_LENGTH, int32_t, Env, Object)(env, array); }
static inline Object element_of(Env env, Object array, int32_t at) {
    return CALL(env, GET_OBJECT_ARRAY_ELEMENT, Object, Env, Object, int32_t)(env, array, at);
}
static inline void drop(Env env, Object object) { CALL(env, DELETE_LOCAL_REF, void, Env, Object)(env, object); }
static inline void get_bytes(Env env, Object array, int32_t count, void *bytes) {
    CALL(env, GET_BYTE_ARRAY_REGION, void, Env, Object, int32_t, int32_t, void *)(env, array, 0, count, bytes);
}
static inline void get_longs(Env env, Object array, int32_t count, int64_t *numbers) {
    CALL(env, GET_LONG_ARRAY_REGION, void, Env, Object, int32_t, int32_t, int64_t *)(env, array, 0, count, numbers);
}
static inline void set_floats(Env env, Object array, int32_t count, const float *numbers) {
    CALL(env, SET_FLOAT_ARRAY_REGION, void, Env, Object, int32_t, int32_t, const float *)(env, array, 0, count, numbers);
}
static inline Object new_ints(Env env, int32_t count, const void *numbers) {
    Object made = CALL(env, NEW_INT_ARRAY, Object, Env, int32_t)(env, count);
    if (made) CALL(env, SET_INT_ARRAY_REGION, void, Env, Object, int32_t, int32_t, const void *)(env, made, 0, count, numbers);
    return made;
}
static inline Object new_bytes(Env env, int32_t count, const void *bytes) {
    Object made = CALL(env, NEW_BYTE_ARRAY, Object, Env, int32_t)(env, count);
    if (made) CALL(env, SET_BYTE_ARRAY_REGION, void, Env, Object, int32_t, int32_t, const void *)(env, made, 0, count, bytes);
    return made;
}
