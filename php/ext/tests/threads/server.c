/* A server with threads, as far as an extension sees one: each thread serves requests of PHP, and
 * a thread that ends is followed by another. For a PHP with threads and `--enable-embed`.
 *
 *     server REQUEST.PHP THREADS REQUESTS GENERATIONS
 *
 * Prints what the requests print, and each map that it has of the file TABLE where no thread of a
 * request is left. */
/* First: its settings are those for the headers of the system, too. */
#include <sapi/embed/php_embed.h>
#include <pthread.h>

#define THREADS 256

static char *code;
static int requests;

static void leave(const char *why)
{
	fprintf(stderr, "%s\n", why);
	exit(2);
}

static char *text_of(const char *path)
{
	size_t room = 1 << 16;
	FILE *file = fopen(path, "rb");
	char *text = calloc(1, room);
	if (!file || !text || fread(text, 1, room - 1, file) == 0) {
		leave("the code of the request cannot be read");
	}
	fclose(file);
	return text;
}

static void *serve(void *number)
{
	ts_resource(0);
	for (int at = 0; at < requests; ++at) {
		if (php_request_startup() == FAILURE) {
			leave("a request does not start");
		}
		zend_first_try {
			zval value;
			ZVAL_LONG(&value, (zend_long)(intptr_t)number * requests + at);
			zend_hash_str_update(&EG(symbol_table), "number", sizeof("number") - 1, &value);
			zend_eval_string_ex(code, NULL, "request", true);
		} zend_end_try();
		php_request_shutdown(NULL);
	}
	ts_free_thread();
	return NULL;
}

static void print_maps_of(const char *file)
{
	char line[4096];
	FILE *maps = fopen("/proc/self/maps", "r");
	if (!maps || !file) {
		leave("no maps, or no file is named");
	}
	while (fgets(line, sizeof(line), maps)) {
		if (strstr(line, file)) {
			printf("map of a thread that has ended: %s", line);
		}
	}
	fclose(maps);
}

int main(int count, char **words)
{
	if (count != 5) {
		leave("usage: server REQUEST.PHP THREADS REQUESTS GENERATIONS");
	}
	int threads = MIN(atoi(words[2]), THREADS), generations = atoi(words[4]);
	code     = text_of(words[1]);
	requests = atoi(words[3]);
	if (php_embed_init(count, words) == FAILURE) {
		leave("PHP does not start");
	}
	for (int generation = 0; generation < generations; ++generation) {
		pthread_t running[THREADS];
		for (int at = 0; at < threads; ++at) {
			intptr_t number = (intptr_t)generation * threads + at;
			if (pthread_create(&running[at], NULL, serve, (void *)number)) {
				leave("a thread does not start");
			}
		}
		for (int at = 0; at < threads; ++at) {
			pthread_join(running[at], NULL);
		}
		print_maps_of(getenv("TABLE"));
	}
	php_embed_shutdown();
	return 0;
}
