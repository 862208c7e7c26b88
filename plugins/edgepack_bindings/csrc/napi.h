/* Of Node-API (https://nodejs.org/api/n-api.html) what is called here; it is a stable ABI, and no header of Node is needed to compile this. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct napi_env_ *napi_env;
typedef struct napi_value_ *napi_value;
typedef struct napi_callback_info_ *napi_callback_info;
typedef struct napi_deferred_ *napi_deferred;
typedef struct napi_async_work_ *napi_async_work;
typedef int napi_status;
typedef napi_value (*napi_callback)(napi_env, napi_callback_info);
typedef void (*napi_finalize)(napi_env, void *data, void *hint);

enum { UNDEFINED = 0, STRING = 4 };
enum { FLOAT32_ARRAY = 7, UINT32_ARRAY = 6 };

napi_status napi_get_cb_info(napi_env, napi_callback_info, size_t *count, napi_value *words, napi_value *self, void **data);
napi_status napi_create_function(napi_env, const char *name, size_t length, napi_callback, void *data, napi_value *made);
napi_status napi_set_named_property(napi_env, napi_value object, const char *name, napi_value value);
napi_status napi_typeof(napi_env, napi_value, int *type);
napi_status napi_get_value_string_utf8(napi_env, napi_value, char *text, size_t room, size_t *length);
napi_status napi_get_value_int64(napi_env, napi_value, int64_t *number);
napi_status napi_get_value_external(napi_env, napi_value, void **data);
napi_status napi_get_array_length(napi_env, napi_value, uint32_t *count);
napi_status napi_get_element(napi_env, napi_value, uint32_t index, napi_value *element);
napi_status napi_create_external(napi_env, void *data, napi_finalize, void *hint, napi_value *made);
napi_status napi_create_arraybuffer(napi_env, size_t size, void **data, napi_value *made);
napi_status napi_create_typedarray(napi_env, int type, size_t length, napi_value buffer, size_t offset, napi_value *made);
napi_status napi_create_double(napi_env, double, napi_value *made);
napi_status napi_create_string_utf8(napi_env, const char *text, size_t length, napi_value *made);
napi_status napi_create_error(napi_env, napi_value code, napi_value message, napi_value *made);
napi_status napi_throw(napi_env, napi_value error);
napi_status napi_create_promise(napi_env, napi_deferred *, napi_value *promise);
napi_status napi_resolve_deferred(napi_env, napi_deferred, napi_value);
napi_status napi_reject_deferred(napi_env, napi_deferred, napi_value error);
napi_status napi_create_async_work(napi_env, napi_value resource, napi_value name, void (*execute)(napi_env, void *),
                                   void (*complete)(napi_env, napi_status, void *), void *data, napi_async_work *work);
napi_status napi_queue_async_work(napi_env, napi_async_work);
napi_status napi_delete_async_work(napi_env, napi_async_work);
