// A producer and a consumer of DLPack tensors, which stand for another library. The structs are
// those of DLPack 1.3; the test compares their layout with that of package dlpack.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
	void *data;
	int32_t device_type, device_id;
	int32_t ndim;
	uint8_t code, bits;
	uint16_t lanes;
	int64_t *shape, *strides;
	uint64_t byte_offset;
} tensor;

typedef struct managed {
	uint32_t major, minor;
	void *context;
	void (*deleter)(struct managed *);
	uint64_t flags;
	tensor t;
} managed;

// Where each field is, in the order of the test; the last is the size.
static const size_t layout[] = {
	offsetof(managed, major), offsetof(managed, minor), offsetof(managed, context), offsetof(managed, deleter), offsetof(managed, flags),
	offsetof(managed, t.data), offsetof(managed, t.device_type), offsetof(managed, t.device_id), offsetof(managed, t.ndim), offsetof(managed, t.code),
	offsetof(managed, t.shape), offsetof(managed, t.strides), offsetof(managed, t.byte_offset), sizeof(managed),
};

int64_t peer_layout(int64_t i) { return layout[i]; }

// The producer.

static atomic_int deleted;

int64_t peer_deleted(void) { return atomic_load(&deleted); }

typedef struct {
	managed m; // first, so that both have one address
	int64_t numbers[8];
	int own; // the data is of malloc
} made;

static void delete_made(managed *m) {
	made *x = (made *)m;
	if (x->own) {
		uint8_t *p = m->t.data;
		for (int64_t i = 0; i < x->numbers[7]; i++)
			p[i] = 0xdd;
		free(p);
	}
	free(x);
	atomic_fetch_add(&deleted, 1);
}

// peer_make makes a tensor of one dimension over memory, or over memory of its own if data is 0.
managed *peer_make(void *data, int64_t n, int64_t type, int64_t device_type, int64_t device_id) {
	made *x = calloc(1, sizeof *x);
	int64_t bytes = n * ((type >> 8 & 0xff) / 8) * (type >> 16);
	x->numbers[7] = bytes;
	if (!data) {
		x->own = 1;
		data = aligned_alloc(64, (bytes + 63) / 64 * 64);
	}
	x->numbers[0] = n;
	x->numbers[4] = 1;
	x->m = (managed){1, 0, NULL, delete_made, 0,
		{data, (int32_t)device_type, (int32_t)device_id, 1, type & 0xff, type >> 8 & 0xff, type >> 16, x->numbers, x->numbers + 4, 0}};
	return &x->m;
}

// peer_set changes a field, so that a test has a tensor of another shape, or a bad one.
void peer_set(managed *m, int64_t field, int64_t value) {
	switch (field) {
	case 0: m->major = value; break;
	case 1: m->minor = value; break;
	case 3: m->deleter = (void (*)(managed *))value; break;
	case 4: m->flags = value; break;
	case 5: m->t.data = (void *)value; break;
	case 6: m->t.device_type = value; break;
	case 7: m->t.device_id = value; break;
	case 8: m->t.ndim = value; break;
	case 9: m->t.code = value, m->t.bits = value >> 8, m->t.lanes = value >> 16; break;
	case 10: m->t.shape = (int64_t *)value; break;
	case 11: m->t.strides = (int64_t *)value; break;
	case 12: m->t.byte_offset = value; break;
	}
}

int64_t peer_get(managed *m, int64_t field) {
	switch (field) {
	case 0: return m->major;
	case 1: return m->minor;
	case 3: return (int64_t)m->deleter;
	case 4: return m->flags;
	case 5: return (int64_t)m->t.data;
	case 6: return m->t.device_type;
	case 7: return m->t.device_id;
	case 8: return m->t.ndim;
	case 9: return m->t.code | m->t.bits << 8 | m->t.lanes << 16;
	case 12: return m->t.byte_offset;
	}
	return -1;
}

void peer_set_dim(managed *m, int64_t i, int64_t size, int64_t stride) { m->t.shape[i] = size, m->t.strides[i] = stride; }

int64_t peer_dim(managed *m, int64_t i) { return m->t.shape[i]; }

int64_t peer_stride(managed *m, int64_t i) { return m->t.strides[i]; }

// The consumer.

// peer_axpb is the work of the library: x = x * a + b, for floats at the CPU's addresses. It returns
// how many elements it has changed.
int64_t peer_axpb(managed *m, int64_t a, int64_t b) {
	float *x = (float *)((char *)m->t.data + m->t.byte_offset);
	int64_t n = 1;
	for (int32_t i = 0; i < m->t.ndim; i++)
		n *= m->t.shape[i];
	for (int64_t i = 0; i < n; i++)
		x[i] = x[i] * a + b;
	return n;
}

void peer_delete(managed *m) {
	if (m->deleter)
		m->deleter(m);
}

static void *delete_on_thread(void *m) {
	peer_delete(m);
	return NULL;
}

// peer_delete_on_thread deletes a tensor on a thread that Go has never seen.
int64_t peer_delete_on_thread(managed *m) {
	pthread_t t;
	int failed = pthread_create(&t, NULL, delete_on_thread, m);
	return failed ? failed : pthread_join(t, NULL);
}

// peer_delete_all deletes n tensors on as many threads at once.
int64_t peer_delete_all(managed **all, int64_t n) {
	pthread_t threads[64];
	int failed = 0;
	for (int64_t i = 0; i < n; i++)
		failed |= pthread_create(&threads[i], NULL, delete_on_thread, all[i]);
	for (int64_t i = 0; i < n; i++)
		failed |= pthread_join(threads[i], NULL);
	return failed;
}

// size_after returns the number behind size=" of the last line of malloc_info that has a text.
static int64_t size_after(const char *info, const char *text) {
	const char *last = NULL, *p = info;
	while ((p = strstr(p, text)))
		last = p++;
	last = last ? strstr(last, "size=\"") : NULL;
	return last ? strtoll(last + 6, NULL, 10) : 0;
}

// peer_heap returns how many bytes of C's heap are in use, in all of its arenas.
int64_t peer_heap(void) {
	char *info = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&info, &n);
	malloc_info(0, f);
	fclose(f);
	int64_t used = size_after(info, "<system type=\"current\"") - size_after(info, "<total type=\"fast\"") - size_after(info, "<total type=\"rest\"");
	free(info);
	return used;
}
