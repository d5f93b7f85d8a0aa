package doctor

// Manager is NVML, or a stand-in of a test.
type Manager interface {
	// Driver returns the version of the driver: "580.159.04".
	Driver() (string, error)

	// Facts returns what is known of the GPU with a PCI address, such as 0000:1b:00.0.
	Facts(address string) (*Facts, error)
}

// Facts are what NVML says of a GPU. Nil is what it does not say.
type Facts struct {
	Name                        string // "" if unknown
	Generation, MaxGeneration   *int   // of PCI Express, now and at most in this slot
	GPUGeneration               *int   // the newest that the GPU itself can
	Width, MaxWidth             *int   // lanes, now and at most in this slot
	Replays                     *int   // of PCI Express packets, since the driver was loaded
	BAR1, Memory                *uint64
	Busy                        *int  // per cent of time with a kernel, in the last second or less
	Persistence                 *bool // whether the driver stays with an unused GPU
	ECC                         *bool
	CorrectedErrors, LostErrors *uint64 // of memory, since the driver was loaded
	EverLost                    *uint64 // errors that were not corrected, in the GPU's life
	RemapPending, RemapFailed   *bool   // of rows of memory
	MIG                         *bool   // whether the GPU is divided into instances
	Confidential                *bool   // whether the system is in confidential computing mode
	Processes                   []Process
	ProcessesKnown              bool
	Replaying                   bool // replays grew between two looks
}

// Process is a process that uses a GPU for computing.
type Process struct {
	ID     int
	Memory uint64 // on the GPU in bytes; 0 if unknown
}
