/*
 * For LD_PRELOAD: ends the process before its KILL_ATth change of a name of the store, as a kill
 * between two of them does.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void count(const char *path)
{
	static int changes;
	const char *at = getenv("KILL_AT");

	if (at && strstr(path, "store.sqlite") && ++changes == atoi(at))
		kill(getpid(), SIGKILL);
}

int unlink(const char *path)
{
	int (*next)(const char *) = dlsym(RTLD_NEXT, "unlink");

	count(path);
	return next(path);
}

int rename(const char *from, const char *to)
{
	int (*next)(const char *, const char *) = dlsym(RTLD_NEXT, "rename");

	count(from);
	return next(from, to);
}
