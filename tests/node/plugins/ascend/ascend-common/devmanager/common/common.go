// Package common stands in for ascend-common's: the types that the plugin reads.
package common

// DeviceType names a unit of a chip.
type DeviceType int32

// AICore is the unit that computes.
const AICore DeviceType = 2

// ChipInfo describes a chip.
type ChipInfo struct{ Type, Name, Version string }

// MemoryInfo is the memory of a chip.
type MemoryInfo struct{ MemorySize, MemoryAvailable uint64 }

// CgoVDevQueryInfo describes a vNPU.
type CgoVDevQueryInfo struct {
	Name                    string
	Status, IsContainerUsed uint32
}

// CgoVDevQueryStru is a vNPU.
type CgoVDevQueryStru struct {
	VDevID    uint32
	QueryInfo CgoVDevQueryInfo
}

// VirtualDevInfo lists the vNPUs of a chip.
type VirtualDevInfo struct{ VDevInfo []CgoVDevQueryStru }
