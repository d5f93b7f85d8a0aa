package cu

// JITOptions are the options of the driver's compiler and linker, for
// [Modules.ModuleLoadDataEx] and [Modules.LinkCreate]. The zero value has the defaults
// of the driver. See CUjit_option in the manual.
type JITOptions struct {
	MaxRegisters      uint32  // most registers of a thread (CU_JIT_MAX_REGISTERS); 0 for no bound
	OptimizationLevel *uint32 // 0 to 4 (CU_JIT_OPTIMIZATION_LEVEL); nil for the default, 4
	DebugInfo         bool    // CU_JIT_GENERATE_DEBUG_INFO
	LineInfo          bool    // CU_JIT_GENERATE_LINE_INFO
	Verbose           bool    // log what each kernel needs (CU_JIT_LOG_VERBOSE)

	// Bytes of the buffers of the two logs, with a zero byte at the end; 0 for
	// DefaultLogBytes. Longer logs are cut (CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
	// CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES).
	InfoLogBytes, ErrorLogBytes uint32
}

// DefaultLogBytes is the size of the buffer of a log of the compiler, if the caller
// asks for no other.
const DefaultLogBytes = 16 << 10

// JITOption is the number of an option of the compiler and linker (CUjit_option).
type JITOption uint32

// Options of the compiler and linker that this package uses.
const (
	JITMaxRegisters            JITOption = 0
	JITInfoLogBuffer           JITOption = 3
	JITInfoLogBufferSizeBytes  JITOption = 4
	JITErrorLogBuffer          JITOption = 5
	JITErrorLogBufferSizeBytes JITOption = 6
	JITOptimizationLevel       JITOption = 7
	JITGenerateDebugInfo       JITOption = 11
	JITLogVerbose              JITOption = 12
	JITGenerateLineInfo        JITOption = 13
)

// MaxOptimizationLevel is the highest level of optimization, and the default.
const MaxOptimizationLevel = 4

// JITInputType is the kind of an input of the linker (CUjitInputType).
type JITInputType uint32

// Kinds of inputs of the linker.
const (
	JITInputCubin     JITInputType = 0 // machine code for one architecture
	JITInputPTX       JITInputType = 1
	JITInputFatbinary JITInputType = 2 // PTX and cubins
	JITInputObject    JITInputType = 3 // a host object with device code in it
	JITInputLibrary   JITInputType = 4 // an archive of host objects
)
