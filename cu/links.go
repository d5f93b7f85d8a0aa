package cu

// P2PAttribute is a property of the link between two devices (CUdevice_P2PAttribute).
//
// https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html
type P2PAttribute uint32

const (
	P2PAttributePerformanceRank                  P2PAttribute = 1 // CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK: smaller is faster
	P2PAttributeAccessSupported                  P2PAttribute = 2 // CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED: as DeviceCanAccessPeer
	P2PAttributeNativeAtomicSupported            P2PAttribute = 3 // CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED: 1 if the link carries all atomic operations
	P2PAttributeCUDAArrayAccessSupported         P2PAttribute = 4 // CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED
	P2PAttributeOnlyPartialNativeAtomicSupported P2PAttribute = 5 // CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED: since CUDA 13.0
)

// AtomicOperation is an atomic operation on memory (CUatomicOperation).
//
// https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html
type AtomicOperation uint32

const (
	AtomicIntegerAdd       AtomicOperation = 0  // CU_ATOMIC_OPERATION_INTEGER_ADD
	AtomicIntegerMin       AtomicOperation = 1  // CU_ATOMIC_OPERATION_INTEGER_MIN
	AtomicIntegerMax       AtomicOperation = 2  // CU_ATOMIC_OPERATION_INTEGER_MAX
	AtomicIntegerIncrement AtomicOperation = 3  // CU_ATOMIC_OPERATION_INTEGER_INCREMENT
	AtomicIntegerDecrement AtomicOperation = 4  // CU_ATOMIC_OPERATION_INTEGER_DECREMENT
	AtomicAnd              AtomicOperation = 5  // CU_ATOMIC_OPERATION_AND
	AtomicOr               AtomicOperation = 6  // CU_ATOMIC_OPERATION_OR
	AtomicXor              AtomicOperation = 7  // CU_ATOMIC_OPERATION_XOR
	AtomicExchange         AtomicOperation = 8  // CU_ATOMIC_OPERATION_EXCHANGE
	AtomicCompareAndSwap   AtomicOperation = 9  // CU_ATOMIC_OPERATION_CAS
	AtomicFloatAdd         AtomicOperation = 10 // CU_ATOMIC_OPERATION_FLOAT_ADD
	AtomicFloatMin         AtomicOperation = 11 // CU_ATOMIC_OPERATION_FLOAT_MIN
	AtomicFloatMax         AtomicOperation = 12 // CU_ATOMIC_OPERATION_FLOAT_MAX
)

// AtomicCapabilities are the forms of an atomic operation that a link carries natively
// (CUatomicOperationCapability), as bits.
//
// https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html
type AtomicCapabilities uint32

const (
	AtomicSigned     AtomicCapabilities = 0x1  // CU_ATOMIC_CAPABILITY_SIGNED
	AtomicUnsigned   AtomicCapabilities = 0x2  // CU_ATOMIC_CAPABILITY_UNSIGNED
	AtomicReduction  AtomicCapabilities = 0x4  // CU_ATOMIC_CAPABILITY_REDUCTION: without a result
	AtomicScalar32   AtomicCapabilities = 0x8  // CU_ATOMIC_CAPABILITY_SCALAR_32
	AtomicScalar64   AtomicCapabilities = 0x10 // CU_ATOMIC_CAPABILITY_SCALAR_64
	AtomicScalar128  AtomicCapabilities = 0x20 // CU_ATOMIC_CAPABILITY_SCALAR_128
	AtomicVector32x4 AtomicCapabilities = 0x40 // CU_ATOMIC_CAPABILITY_VECTOR_32x4
)

// String returns CUDA's names of the forms, joined by "|". 0 is "0".
func (c AtomicCapabilities) String() string { return flagText(uint32(c), atomicCapabilityNames) }

var atomicCapabilityNames = []flagName{
	{uint32(AtomicSigned), "CU_ATOMIC_CAPABILITY_SIGNED"},
	{uint32(AtomicUnsigned), "CU_ATOMIC_CAPABILITY_UNSIGNED"},
	{uint32(AtomicReduction), "CU_ATOMIC_CAPABILITY_REDUCTION"},
	{uint32(AtomicScalar32), "CU_ATOMIC_CAPABILITY_SCALAR_32"},
	{uint32(AtomicScalar64), "CU_ATOMIC_CAPABILITY_SCALAR_64"},
	{uint32(AtomicScalar128), "CU_ATOMIC_CAPABILITY_SCALAR_128"},
	{uint32(AtomicVector32x4), "CU_ATOMIC_CAPABILITY_VECTOR_32x4"},
}
