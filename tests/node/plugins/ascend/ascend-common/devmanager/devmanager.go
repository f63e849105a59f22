// Package devmanager stands in for ascend-common's: healthy chips from the environment.
//
// STANDIN_CHIPS is the name of the chips, and the identifier of each, with spaces between.
package devmanager

import (
	"fmt"
	"os"
	"strings"

	"ascend-common/devmanager/common"
	"ascend-common/devmanager/dcmi"
)

// DeviceInterface is what the plugin asks.
type DeviceInterface interface {
	GetValidChipInfo() (common.ChipInfo, error)
	GetDeviceList() (int32, []int32, error)
	GetPhysicIDFromLogicID(int32) (int32, error)
	GetCardIDDeviceID(int32) (int32, int32, error)
	GetDieID(int32, dcmi.DieType) (string, error)
	GetDeviceHealth(int32) (uint32, error)
	GetVirtualDeviceInfo(int32) (common.VirtualDevInfo, error)
	DestroyVirtualDevice(int32, uint32) error
}

type chips []string

// AutoInit returns the chips.
func AutoInit(string, int) (DeviceInterface, error) {
	words := strings.Fields(os.Getenv("STANDIN_CHIPS"))
	if len(words) < 2 {
		return nil, fmt.Errorf("STANDIN_CHIPS names no chips")
	}
	return chips(words), nil
}

func (c chips) GetValidChipInfo() (common.ChipInfo, error) {
	return common.ChipInfo{Type: "Ascend", Name: c[0], Version: "V1"}, nil
}

func (c chips) GetDeviceList() (int32, []int32, error) {
	var ids []int32
	for id := range c[1:] {
		ids = append(ids, int32(id))
	}
	return int32(len(ids)), ids, nil
}

func (c chips) GetDieID(id int32, _ dcmi.DieType) (string, error) { return c[id+1], nil }

func (chips) GetPhysicIDFromLogicID(id int32) (int32, error)   { return id, nil }
func (chips) GetCardIDDeviceID(id int32) (int32, int32, error) { return id, 0, nil }
func (chips) GetDeviceHealth(int32) (uint32, error)            { return 0, nil }
func (chips) DestroyVirtualDevice(int32, uint32) error         { return nil }

func (chips) GetVirtualDeviceInfo(int32) (common.VirtualDevInfo, error) {
	return common.VirtualDevInfo{}, nil
}
