/* SPDX-License-Identifier: MIT */
/*
 * On what the conformance suite runs: one line per driver and profile. A new
 * driver adds its line to BACKENDS(); what its devices can't do follows from their
 * capabilities, and what they should do but don't is listed in xfail.h.
 *
 * X(fixture, name, driver, part, caps, timeline): part is the text of option
 * simnpu_part; caps and timeline are what the fake driver is to report.
 */
#ifndef SELFTESTS_HAL_BACKENDS_H
#define SELFTESTS_HAL_BACKENDS_H

#define FAKE_BARE (NPU_CAP_STREAM | NPU_CAP_MEM)
#define FAKE_LAUNCH (FAKE_BARE | NPU_CAP_LAUNCH)

#define BACKENDS(X, f)							\
	X(f, null, "null", NULL, 0, true)				\
	X(f, fake, "fake", NULL, ~0ull, true)				\
	X(f, fake_no_timeline, "fake", NULL, ~0ull, false)		\
	X(f, fake_bare, "fake", NULL, FAKE_BARE, true)			\
	X(f, fake_mem, "fake", NULL, NPU_CAP_MEM, true)			\
	X(f, fake_launch, "fake", NULL, FAKE_LAUNCH, true)		\
	X(f, fake_timing, "fake", NULL, FAKE_LAUNCH | NPU_CAP_EVENT_TIMING, true)	\
	X(f, fake_callback, "fake", NULL, FAKE_BARE | NPU_CAP_CALLBACK, true)	\
	X(f, fake_host, "fake", NULL, FAKE_BARE | NPU_CAP_HOST_TASK | NPU_CAP_ABORT, true)	\
	X(f, fake_vmm, "fake", NULL, FAKE_LAUNCH | NPU_CAP_VMM, true)	\
	X(f, simnpu_generic, "simnpu", "generic", 0, true)		\
	X(f, simnpu_910b, "simnpu", "910b", 0, true)			\
	X(f, simnpu_310p, "simnpu", "310p", 0, true)			\
	X(f, simnpu_310b, "simnpu", "310b", 0, true)

#endif /* SELFTESTS_HAL_BACKENDS_H */
