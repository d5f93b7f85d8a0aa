package cu

import "structs"

// LaunchConfig describes a launch for [Modules].LaunchKernelEx (CUlaunchConfig).
type LaunchConfig struct {
	Grid, Block    Dim3
	SharedMemBytes uint32 // dynamic shared memory per block
	Stream         Stream
	Attrs          []LaunchAttribute
}

// LaunchAttribute is one attribute of a launch (CUlaunchAttribute). Value has the bytes
// of the C union. The functions below fill it in for the usual attributes.
type LaunchAttribute struct {
	_ structs.HostLayout
	_ [0]uint64 // the alignment of the C struct

	ID    LaunchAttributeID
	_     uint32
	Value [16]uint32
}

// LaunchAttributeID names an attribute of a launch (CUlaunchAttributeID).
type LaunchAttributeID uint32

const (
	LaunchAttributeIgnore                            LaunchAttributeID = 0  // CU_LAUNCH_ATTRIBUTE_IGNORE
	LaunchAttributeAccessPolicyWindow                LaunchAttributeID = 1  // CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
	LaunchAttributeCooperative                       LaunchAttributeID = 2  // CU_LAUNCH_ATTRIBUTE_COOPERATIVE: all blocks run at once
	LaunchAttributeClusterDimension                  LaunchAttributeID = 4  // CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION: blocks of a cluster
	LaunchAttributeClusterSchedulingPolicyPreference LaunchAttributeID = 5  // CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE
	LaunchAttributeProgrammaticStreamSerialization   LaunchAttributeID = 6  // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION: may begin before the kernel before it has ended
	LaunchAttributeProgrammaticEvent                 LaunchAttributeID = 7  // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT
	LaunchAttributePriority                          LaunchAttributeID = 8  // CU_LAUNCH_ATTRIBUTE_PRIORITY
	LaunchAttributeMemSyncDomainMap                  LaunchAttributeID = 9  // CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP
	LaunchAttributeMemSyncDomain                     LaunchAttributeID = 10 // CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN
	LaunchAttributePreferredSharedMemoryCarveout     LaunchAttributeID = 14 // CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
)

// CooperativeLaunch returns the attribute of a cooperative launch: all blocks of the grid
// run at once, so that they can wait for each other.
func CooperativeLaunch() LaunchAttribute {
	return LaunchAttribute{ID: LaunchAttributeCooperative, Value: [16]uint32{1}}
}

// ProgrammaticLaunch returns the attribute with which a kernel may begin before the
// kernel before it in the stream has ended, if that kernel allows it.
func ProgrammaticLaunch() LaunchAttribute {
	return LaunchAttribute{ID: LaunchAttributeProgrammaticStreamSerialization, Value: [16]uint32{1}}
}

// ClusterLaunch returns the attribute that groups blocks in clusters of d blocks.
func ClusterLaunch(d Dim3) LaunchAttribute {
	return LaunchAttribute{ID: LaunchAttributeClusterDimension, Value: [16]uint32{d.X, d.Y, d.Z}}
}

// LaunchPriority returns the attribute with the priority of the launch.
func LaunchPriority(priority int32) LaunchAttribute {
	return LaunchAttribute{ID: LaunchAttributePriority, Value: [16]uint32{uint32(priority)}}
}
