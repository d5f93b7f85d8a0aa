#include <stdlib.h>

struct Node {
	int value;
	Node *next;
};

// lists makes a list of n numbers in each thread, adds them, and frees the list.
extern "C" __global__ void lists(int *out, int n)
{
	Node *head = nullptr;
	for (int i = 0; i < n; i++) {
		Node *x = (Node *)malloc(sizeof(Node));
		if (!x) return;
		x->value = i * threadIdx.x;
		x->next = head;
		head = x;
	}
	int sum = 0;
	while (head) {
		Node *x = head;
		sum += x->value;
		head = x->next;
		free(x);
	}
	out[threadIdx.x] = sum;
}

struct Shape {
	virtual __device__ ~Shape() {}
	virtual __device__ int area() { return 1; }
};
struct Square : Shape {
	int side;
	__device__ Square(int side) : side(side) {}
	__device__ int area() override { return side * side; }
};

__host__ __device__ int sum(int n)
{
	int *a = new int[n], s = 0;
	for (int i = 0; i < n; i++) a[i] = i;
	for (int i = 0; i < n; i++) s += a[i];
	delete[] a;
	return s;
}

// objects makes objects of two classes with new, and an array.
extern "C" __global__ void objects(int *out, int n)
{
	Shape *s = threadIdx.x & 1 ? new Shape : new Square(threadIdx.x);
	out[threadIdx.x] = s->area() + sum(n);
	delete s;
}
