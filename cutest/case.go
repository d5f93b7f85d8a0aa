package cutest

import "slices"

// Case is one rule of the suite.
type Case struct {
	ID     string   // "group/name", unique, and the name of the subtest
	Rule   string   // the rule in a sentence
	Source string   // the place in NVIDIA's manuals
	Needs  []string // capabilities that a device must have; the case skips without them

	// Surprise is what an H200 does where the manual says otherwise or is silent. It is
	// "" where hardware does as the manual says.
	Surprise string
}

// check is a case with its body.
type check struct {
	id, rule, source string
	needs            need
	run              func(c *trial)
}

// Cases lists every case in the order in which [Run] runs them.
func Cases() []Case {
	checks := allChecks()
	list := make([]Case, len(checks))
	for i, k := range checks {
		list[i] = Case{k.id, k.rule, k.source, k.needs.words(), surprises[k.id]}
	}
	return list
}

// allChecks lists first the cases that must run before a context exists, and last the
// faults, which on hardware can affect later cases.
func allChecks() []check {
	return slices.Concat(
		primaryChecks,
		deviceChecks, contextChecks, limitChecks,
		pinnedChecks, pinnedMisuseChecks, mappedChecks,
		registerChecks, registerOverlapChecks, registerMisuseChecks,
		pointerChecks,
		deviceMemoryChecks, deviceMemoryMisuseChecks,
		memsetChecks, copyChecks, copyMisuseChecks, copy2DChecks, copy3DChecks,
		managedChecks, managedAdviceChecks, managedPlacesChecks, managedAttachChecks, managedExclusiveChecks,
		poolChecks, poolOrderChecks, poolAccessChecks,
		virtualChecks, virtualMisuseChecks, shareChecks, ipcChecks, poolShareChecks, dmaBufChecks, hostNUMAChecks,
		streamChecks, streamOrderChecks, defaultStreamChecks, streamMisuseChecks, concurrencyChecks,
		asyncChecks, asyncHostChecks, implicitChecks,
		hostFuncChecks, memOpChecks, valueWaitChecks, peerLinkChecks,
		eventChecks, eventMisuseChecks, batchChecks,
		captureChecks, captureMisuseChecks, captureModeChecks, graphChecks, graphUpdateChecks,
		moduleChecks, loadOptionChecks, linkChecks, functionChecks, launchChecks, launchMisuseChecks,
		occupancyChecks, launchExChecks,
		twoContextChecks, peerSelfChecks, multiDeviceChecks, farPoolChecks, farVirtualChecks,
		faultChecks, virtualFaultChecks, faultLostChecks, stackChecks,
	)
}
