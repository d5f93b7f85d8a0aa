package cutest

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/ferrygpu/ferry/cu"
)

const lostDoc = faultDoc + "CUDA_ERROR_ILLEGAL_ADDRESS (the process must be terminated and relaunched)"

// newProcessCase is the case that shows that the device works in a new process.
const newProcessCase = "memory/keeps-bytes"

// loseDevice lets a kernel of the case's context fault, and waits for the error.
func (c *trial) loseDevice() {
	c.launchFaulty(0, 0x10)
	c.want(c.waitForFault(0), "wait", cu.ErrorIllegalAddress)
}

// faultLostChecks test what a fault makes unusable: everything of the device, until there
// is a new process or, for an emulated device, a new driver.
var faultLostChecks = []check{
	{"fault/other-contexts", "a fault makes the other contexts of the device unusable",
		lostDoc, needIsolation, func(c *trial) {
			o := c.foreign(c.dev)
			p := c.deviceIn(o.ctx, 64)
			c.loseDevice()
			c.want(c.d.CtxSynchronize(o.ctx), "synchronize the other context", cu.ErrorIllegalAddress)
			_, err := c.d.MemAlloc(o.ctx, 64)
			c.want(err, "allocate in the other context", cu.ErrorIllegalAddress)
			b := c.pageable(64)
			c.want(c.d.MemcpyDtoH(o.ctx, pointerTo(b), p, 64), "copy in the other context", cu.ErrorIllegalAddress)
			c.want(c.tryLaunch(o.ctx, o.stream, "store", 1, p, uint32(4), uint32(1)), "launch in the other context", cu.ErrorIllegalAddress)
		}},
	{"fault/no-new-context", "after a fault no context can be created on the device",
		lostDoc, needIsolation, func(c *trial) {
			c.loseDevice()
			ctx, err := c.d.CtxCreate(cu.CtxMapHost, c.dev)
			c.want(err, "create", cu.ErrorIllegalAddress)
			if err == nil {
				_ = c.d.CtxDestroy(ctx)
			}
		}},
	{"fault/destroy-is-no-way-out", "a faulted context can be destroyed, but destroying it, or all contexts, does not recover the device",
		lostDoc + "; cuCtxDestroy", needIsolation | needOwnContext, func(c *trial) {
			o := c.foreign(c.dev)
			c.loseDevice()
			c.ok(c.d.CtxDestroy(c.ctx), "destroy the faulted context")
			c.ok(c.d.CtxDestroy(o.ctx), "destroy the other context")
			delete(c.suite.programs, c.ctx)
			c.ctx = 0
			ctx, err := c.d.CtxCreate(cu.CtxMapHost, c.dev)
			c.want(err, "create a context after both are destroyed", cu.ErrorIllegalAddress)
			if err == nil {
				_ = c.d.CtxDestroy(ctx)
			}
		}},
	{"fault/reset-is-no-way-out", "the primary context can be reset after a fault, but not retained again",
		lostDoc + "; cuDevicePrimaryCtxReset", needIsolation, func(c *trial) {
			c.loseDevice()
			c.ok(c.d.DevicePrimaryCtxReset(c.dev), "reset")
			c.primaryActive(0)
			c.suite.forget(c.dev)
			c.ctx = 0
			_, err := c.d.DevicePrimaryCtxRetain(c.dev)
			c.want(err, "retain after the reset", cu.ErrorIllegalAddress)
		}},
	{"fault/questions-about-the-device", "the properties of a lost device can still be read",
		lostDoc, needIsolation, func(c *trial) {
			c.loseDevice()
			_, err := c.d.DeviceGetName(c.dev)
			c.ok(err, "name")
			_, err = c.d.DeviceGetAttribute(cu.DeviceAttributeWarpSize, c.dev)
			c.ok(err, "attribute")
			_, err = c.d.DeviceTotalMem(c.dev)
			c.ok(err, "total memory")
			n, err := c.d.DeviceGetCount()
			c.ok(err, "count")
			c.check(int(n) == len(c.suite.devices), "%d devices, want %d", n, len(c.suite.devices))
		}},
	{"fault/new-start", "in a new process, or with a new driver of an emulated device, the device works while the faulted process still runs",
		lostDoc, needIsolation, func(c *trial) {
			c.loseDevice()
			if reopens(c.d) {
				s := isolatedSuite(c.suite.open, c.suite.times, c.suite.parent)
				s.start(c.tb)
				for _, k := range deviceMemoryChecks {
					if k.id == newProcessCase {
						fresh := s.runCase(c.tb, k)
						c.check(len(fresh.failures) == 0, "a new driver: %s", fresh.firstFailure())
					}
				}
				return
			}
			path := filepath.Join(c.folder(), "result.json")
			out, ended := c.child(check{id: newProcessCase}, path, nil, nil)
			data, err := os.ReadFile(path)
			if err != nil {
				c.fatal("a new process ended without a result: %v\n%.4000s", ended, out)
			}
			var doc document
			c.ok(json.Unmarshal(data, &doc), "result of a new process")
			c.check(len(doc.Cases) == 1 && doc.Cases[0].Result == "pass", "in a new process: %+v", doc.Cases)
		}},
	{"fault/other-device", "a fault makes the other devices of the process unusable",
		lostDoc + " (silent)", needIsolation | needTwoDevices, func(c *trial) {
			_, ctx := c.second()
			c.loseDevice()
			c.want(c.d.CtxSynchronize(ctx), "synchronize the second device", cu.ErrorIllegalAddress)
			_, err := c.d.MemAlloc(ctx, 64)
			c.want(err, "allocate on the second device", cu.ErrorIllegalAddress)
		}},
}
