// Package dcmi stands in for ascend-common's, which only the plugin's monitor asks: there is nothing to measure.
package dcmi

import (
	"errors"

	"ascend-common/devmanager/common"
)

// DieType names an identifier of a chip.
type DieType int32

// VDIE is the identifier that the plugin registers.
const VDIE DieType = 1

var errNone = errors.New("no hardware")

// DcManager answers that there is no hardware.
type DcManager struct{}

// DcInit fails, and so do the others.
func (*DcManager) DcInit() error { return errNone }

// DcGetLogicIDList fails.
func (*DcManager) DcGetLogicIDList() (int32, []int32, error) { return 0, nil, errNone }

// DcGetCardIDDeviceID fails.
func (*DcManager) DcGetCardIDDeviceID(int32) (int32, int32, error) { return 0, 0, errNone }

// DcGetDieID fails.
func (*DcManager) DcGetDieID(int32, int32, DieType) (string, error) { return "", errNone }

// DcGetProductType fails.
func (*DcManager) DcGetProductType(int32, int32) (string, error) { return "", errNone }

// DcGetMemoryInfo fails.
func (*DcManager) DcGetMemoryInfo(int32, int32) (*common.MemoryInfo, error) { return nil, errNone }

// DcGetDeviceUtilizationRate fails.
func (*DcManager) DcGetDeviceUtilizationRate(int32, int32, common.DeviceType) (int32, error) {
	return 0, errNone
}
