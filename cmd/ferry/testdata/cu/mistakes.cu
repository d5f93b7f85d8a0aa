// Wrong programs and their correct twins: mistakes NAME, mistakes NAME right. The test looks for the lines
// with marks in the reports.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define OK(call)                                                                                      \
	do {                                                                                              \
		cudaError_t code = (call);                                                                    \
		if (code != cudaSuccess) {                                                                    \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorName(code));    \
			exit(1);                                                                                  \
		}                                                                                             \
	} while (0)

const int n = 1024;
const size_t bytes = n * sizeof(int);

static int *device, *other, *host;
static cudaStream_t stream, second;

// want ends the program if the CPU has read a wrong value.
static void want(int got, int value) {
	if (got != value) {
		fprintf(stderr, "the value is %d, want %d\n", got, value);
		exit(1);
	}
}

__global__ void fill(int *p, int count, int with) {
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < count)
		p[i] = with; // fill
}

__global__ void add(int *to, const int *from, int count) {
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < count)
		to[i] += from[i]; // add
}

// The CPU reads mapped memory that the kernel may not have written yet.
static void no_synchronization(bool right) {
	int *mapped;
	OK(cudaHostGetDevicePointer(&mapped, host, 0));
	host[0] = 1;
	fill<<<n / 256, 256, 0, stream>>>(mapped, n, 7); // no_synchronization 1
	if (right)
		OK(cudaStreamSynchronize(stream));
	want(host[0], 7); // no_synchronization 2
}

// The CPU reads the destination of a copy that is still to come.
static void stale_read(bool right) {
	host[0] = 1;
	fill<<<n / 256, 256, 0, stream>>>(device, n, 8);
	OK(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream)); // stale_read 1
	if (right)
		OK(cudaStreamSynchronize(stream));
	want(host[0], 8); // stale_read 2
}

// A kernel of another stream may still write what the CPU reads.
static void wrong_stream_synchronized(bool right) {
	host[0] = 1;
	fill<<<n / 256, 256, 0, stream>>>(device, n, 9);
	OK(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream)); // wrong_stream_synchronized 1
	OK(cudaStreamSynchronize(right ? stream : second));
	want(host[0], 9); // wrong_stream_synchronized 2
}

// The CPU reads managed memory while a kernel writes it.
static void managed_in_use(bool right) {
	int *managed;
	OK(cudaMallocManaged(&managed, bytes));
	managed[0] = 1;
	fill<<<n / 256, 256>>>(managed, n, 10); // managed_in_use 1
	if (right)
		OK(cudaDeviceSynchronize());
	want(managed[0], 10); // managed_in_use 2
	OK(cudaFree(managed));
}

static void host_memory_freed_in_flight(bool right) {
	int *mine;
	OK(cudaMallocHost(&mine, bytes));
	fill<<<n / 256, 256, 0, stream>>>(device, n, 1);
	OK(cudaMemcpyAsync(mine, device, bytes, cudaMemcpyDeviceToHost, stream)); // host_memory_freed_in_flight 1
	if (right)
		OK(cudaStreamSynchronize(stream));
	OK(cudaFreeHost(mine)); // host_memory_freed_in_flight 2
}

static void unregistered_in_flight(bool right) {
	int *mine = static_cast<int *>(aligned_alloc(4096, bytes));
	memset(mine, 0, bytes);
	OK(cudaHostRegister(mine, bytes, cudaHostRegisterDefault));
	OK(cudaMemcpyAsync(device, mine, bytes, cudaMemcpyHostToDevice, stream)); // unregistered_in_flight 1
	if (right)
		OK(cudaStreamSynchronize(stream));
	OK(cudaHostUnregister(mine)); // unregistered_in_flight 2
	OK(cudaStreamSynchronize(stream));
	free(mine);
}

static void device_memory_freed_in_flight(bool right) {
	int *mine;
	OK(cudaMalloc(&mine, bytes));
	fill<<<n / 256, 256, 0, stream>>>(mine, n, 1); // device_memory_freed_in_flight 1
	if (right)
		OK(cudaStreamSynchronize(stream));
	OK(cudaFree(mine)); // device_memory_freed_in_flight 2
}

static void used_after_free(bool right) {
	int *mine;
	OK(cudaMalloc(&mine, bytes));
	if (!right)
		OK(cudaFree(mine)); // used_after_free 1
	cudaMemcpy(mine, host, bytes, cudaMemcpyHostToDevice); // used_after_free 2
	if (right)
		OK(cudaFree(mine));
}

static void freed_twice(bool right) {
	int *mine;
	OK(cudaMalloc(&mine, bytes));
	OK(cudaFree(mine)); // freed_twice 1
	if (!right)
		cudaFree(mine); // freed_twice 2
}

static void never_freed(bool right) {
	int *mine;
	OK(cudaMalloc(&mine, bytes)); // never_freed 1
	if (right)
		OK(cudaFree(mine));
}

// The size of a copy is in bytes, and here in elements of another type.
static void copy_past_the_end(bool right) {
	int *mine;
	OK(cudaMalloc(&mine, bytes / 2)); // copy_past_the_end 1
	cudaMemcpy(mine, host, n / 2 * (right ? sizeof(int) : sizeof(double)), cudaMemcpyHostToDevice); // copy_past_the_end 2
	OK(cudaFree(mine));
}

// The size of a copy is in bytes, and here the number of elements: the kernel reads what nothing wrote.
static void copy_too_small(bool right) {
	int *mine;
	OK(cudaMalloc(&mine, bytes));
	OK(cudaMemcpy(mine, host, right ? bytes : n, cudaMemcpyHostToDevice));
	add<<<n / 256, 256>>>(device, mine, n); // copy_too_small 1
	OK(cudaDeviceSynchronize());
	OK(cudaFree(mine));
}

static void never_written(bool right) {
	int *mine;
	OK(cudaMalloc(&mine, bytes)); // never_written 1
	if (right)
		OK(cudaMemset(mine, 0, bytes));
	OK(cudaMemcpy(host, mine, bytes, cudaMemcpyDeviceToHost)); // never_written 2
	OK(cudaFree(mine));
}

static void no_order_of_streams(bool right) {
	fill<<<n / 256, 256, 0, stream>>>(device, n, 1); // no_order_of_streams 1
	if (right) {
		cudaEvent_t event;
		OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
		OK(cudaEventRecord(event, stream));
		OK(cudaStreamWaitEvent(second, event, 0));
		OK(cudaEventDestroy(event));
	}
	add<<<n / 256, 256, 0, second>>>(other, device, n); // no_order_of_streams 2
}

// A wait for an event that was never recorded waits for nothing.
static void event_never_recorded(bool right) {
	cudaEvent_t event;
	OK(cudaEventCreate(&event));
	OK(cudaMemsetAsync(device, 1, bytes, stream)); // event_never_recorded 1
	if (right)
		OK(cudaEventRecord(event, stream));
	OK(cudaStreamWaitEvent(second, event, 0));
	OK(cudaMemcpyAsync(other, device, bytes, cudaMemcpyDeviceToDevice, second)); // event_never_recorded 2
	OK(cudaEventDestroy(event));
}

// A non-blocking stream does not follow the default stream.
static void default_stream_assumed(bool right) {
	cudaStream_t mine;
	OK(cudaStreamCreateWithFlags(&mine, right ? cudaStreamDefault : cudaStreamNonBlocking));
	fill<<<n / 256, 256>>>(device, n, 3); // default_stream_assumed 1
	OK(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, mine)); // default_stream_assumed 2
	OK(cudaDeviceSynchronize());
	OK(cudaStreamDestroy(mine));
}

// A copy from pageable memory returns before its bytes are on the device.
static void pageable_copy_assumed_done(bool right) {
	int *pageable = static_cast<int *>(calloc(n, sizeof(int)));
	OK(cudaMemcpyAsync(device, pageable, bytes, cudaMemcpyHostToDevice, stream)); // pageable_copy_assumed_done 1
	if (right)
		OK(cudaStreamSynchronize(stream));
	OK(cudaMemcpyAsync(other, device, bytes, cudaMemcpyDeviceToDevice, second)); // pageable_copy_assumed_done 2
	OK(cudaDeviceSynchronize());
	free(pageable);
}

static void source_changed(bool right) {
	OK(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream)); // source_changed 1
	if (right)
		OK(cudaStreamSynchronize(stream));
	for (int i = 0; i < n; i++)
		host[i] = 77; // source_changed 2
	OK(cudaStreamSynchronize(stream));
}

static void used_before_its_allocation(bool right) {
	int *mine;
	OK(cudaMallocAsync(&mine, bytes, stream)); // used_before_its_allocation 1
	OK(cudaMemsetAsync(mine, 1, bytes, right ? stream : second)); // used_before_its_allocation 2
	OK(cudaDeviceSynchronize());
	OK(cudaFree(mine));
}

static cudaError_t said;

static void CUDART_CB calls_cuda(void *) {
	said = cudaStreamQuery(second);
}

static void CUDART_CB calls_nothing(void *) {}

static void callback_calls_cuda(bool right) {
	OK(cudaLaunchHostFunc(stream, right ? calls_nothing : calls_cuda, nullptr));
	OK(cudaStreamSynchronize(stream));
	OK(said); // callback_calls_cuda 1
}

__global__ void count(int *counter, bool atomic) {
	if (threadIdx.x > 0)
		return;
	if (atomic)
		atomicAdd(counter, 1);
	else
		*counter += 1; // race_of_blocks 1
}

static void race_of_blocks(bool right) {
	OK(cudaMemset(device, 0, bytes));
	count<<<8, 32>>>(device, right); // race_of_blocks 2
}

__global__ void reverse(int *values, bool right) {
	__shared__ int copy[256];
	copy[threadIdx.x] = values[threadIdx.x]; // no_barrier 1
	if (right)
		__syncthreads();
	values[threadIdx.x] = copy[255 - threadIdx.x]; // no_barrier 2
}

static void no_barrier(bool right) {
	reverse<<<1, 256>>>(device, right); // no_barrier 3
}

__global__ void neighbour(int *values, int count) {
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < count)
		values[i + 1] = i; // kernel_past_the_end 1
}

static void kernel_past_the_end(bool right) {
	int *mine;
	OK(cudaMalloc(&mine, bytes));
	neighbour<<<n / 256, 256>>>(mine, right ? n - 1 : n);
	OK(cudaDeviceSynchronize());
	OK(cudaFree(mine));
}

__global__ void four(int *values) {
	reinterpret_cast<int4 *>(values)[threadIdx.x] = make_int4(1, 2, 3, 4); // misaligned 1
}

static void misaligned(bool right) {
	four<<<1, 32>>>(device + (right ? 4 : 1));
	OK(cudaDeviceSynchronize());
}

static const struct {
	const char *name;
	void (*run)(bool right);
} programs[] = {
	{"no_synchronization", no_synchronization}, {"stale_read", stale_read}, {"wrong_stream_synchronized", wrong_stream_synchronized},
	{"managed_in_use", managed_in_use}, {"host_memory_freed_in_flight", host_memory_freed_in_flight},
	{"unregistered_in_flight", unregistered_in_flight}, {"device_memory_freed_in_flight", device_memory_freed_in_flight},
	{"used_after_free", used_after_free}, {"freed_twice", freed_twice}, {"never_freed", never_freed},
	{"copy_past_the_end", copy_past_the_end}, {"copy_too_small", copy_too_small}, {"never_written", never_written},
	{"no_order_of_streams", no_order_of_streams}, {"event_never_recorded", event_never_recorded},
	{"default_stream_assumed", default_stream_assumed}, {"pageable_copy_assumed_done", pageable_copy_assumed_done},
	{"source_changed", source_changed}, {"used_before_its_allocation", used_before_its_allocation},
	{"callback_calls_cuda", callback_calls_cuda}, {"race_of_blocks", race_of_blocks}, {"no_barrier", no_barrier},
	{"kernel_past_the_end", kernel_past_the_end}, {"misaligned", misaligned},
};

static void prepare() {
	OK(cudaMalloc(&device, bytes));
	OK(cudaMalloc(&other, bytes));
	OK(cudaMallocHost(&host, bytes));
	memset(host, 0, bytes);
	OK(cudaMemset(device, 0, bytes));
	OK(cudaMemset(other, 0, bytes));
	OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	OK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
	OK(cudaDeviceSynchronize());
}

static void finish() {
	OK(cudaDeviceSynchronize());
	OK(cudaFree(device));
	OK(cudaFree(other));
	OK(cudaFreeHost(host));
	OK(cudaStreamDestroy(stream));
	OK(cudaStreamDestroy(second));
	OK(cudaDeviceReset());
}

// The arguments are a name, or "all", and "right" for the correct programs.
int main(int argc, char **argv) {
	int ran = 0;
	for (auto &p : programs) {
		if (argc < 2 || (strcmp(p.name, argv[1]) != 0 && strcmp("all", argv[1]) != 0))
			continue;
		prepare();
		p.run(argc > 2);
		finish();
		ran++;
	}
	if (ran == 0)
		fprintf(stderr, "no such program\n");
	if (ran > 1)
		printf("%d programs ran\n", ran);
	return ran == 0 ? 2 : 0;
}
